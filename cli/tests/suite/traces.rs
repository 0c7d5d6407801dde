//! Traces from a prompt to its gradient step reach a collector.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use evenkeel_host::hex;
use evenkeel_telemetry::TraceContext;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

use crate::support::{Processes, small, summary, wait_for, written_model};

#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<(String, Span)>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut spans = self.0.lock().unwrap();
        for of_resource in request.into_inner().resource_spans {
            let attributes = of_resource.resource.unwrap().attributes;
            let name = attributes.iter().find(|pair| pair.key == "service.name").unwrap();
            let service = format!("{:?}", name.value);
            let service = service.split("evenkeel-").nth(1).unwrap().split('"').next().unwrap().to_owned();
            let found = of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            spans.extend(found.map(|span| (service.clone(), span)));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// Trace and span, as in a `traceparent`.
fn id(trace: &[u8], span: &[u8]) -> String {
    format!("00-{}-{}-01", hex(trace), hex(span))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trace_leads_from_a_prompt_over_its_samples_and_verdicts_to_the_gradient_that_used_it() {
    let collector = Collector::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let serving = tonic::transport::Server::builder().add_service(TraceServiceServer::new(collector.clone()));
    tokio::spawn(serving.serve_with_incoming(TcpListenerStream::new(listener)));

    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().to_owned();
    tokio::task::spawn_blocking(move || {
        let model = written_model(&folder);
        let processes = Processes::start(&folder, &small(), &model, &["--traces", &endpoint]);
        let run = folder.join("runs/small");
        wait_for("the run's end", || summary(&run).is_some_and(|summary| summary["state"] == "completed"));
        // They send what they still have.
        processes.stop();
    })
    .await
    .unwrap();

    let spans = collector.0.lock().unwrap();
    let own = |span: &Span| id(&span.trace_id, &span.span_id);
    let parent = |span: &Span| id(&span.trace_id, &span.parent_span_id);
    let named = |service: &'static str, name: &'static str| {
        spans.iter().filter(move |(from, span)| from == service && span.name == name).map(|(_, span)| span)
    };
    let within = |service, name, of: &str| -> Vec<&Span> {
        let mut found: Vec<&Span> = named(service, name).filter(|span| parent(span) == of).collect();
        found.sort_by_key(|span| span.start_time_unix_nano);
        found
    };
    // Whatever has a parent has one that was sent, too.
    let all: BTreeSet<String> = spans.iter().map(|(_, span)| own(span)).collect();
    for (service, span) in spans.iter().filter(|(_, span)| !span.parent_span_id.is_empty()) {
        assert!(all.contains(&parent(span)), "the parent of {} from {service} is missing", span.name);
    }
    for step in 1..=6 {
        let root = TraceContext::for_id("small", &format!("step/{step}")).to_string();
        let steps: Vec<_> = named("orchestrator", "step").filter(|span| own(span) == root).collect();
        assert_eq!(steps.len(), 1, "step {step} has one span");
        let train = within("learner", "train", &root);
        assert_eq!(train.len(), 1, "the learner trained in it once");
        assert_eq!(within("learner", "evenkeel.v1.Learner/Publish", &root).len(), 1);
        assert_eq!(within("generation", "evenkeel.v1.Generation/UpdateWeights", &root).len(), 1);
        let gradients = within("learner", "gradient", &own(train[0]));
        let used: BTreeSet<String> = gradients
            .iter()
            .flat_map(|gradient| &gradient.links)
            .map(|link| id(&link.trace_id, &link.span_id))
            .collect();
        let prompts: Vec<_> = named("orchestrator", "prompt")
            .filter(|span| span.links.iter().any(|link| id(&link.trace_id, &link.span_id) == root))
            .collect();
        assert_eq!(prompts.len(), 4, "prompts that lead to step {step}");
        let all: BTreeSet<String> = prompts.iter().map(|prompt| own(prompt)).collect();
        assert!(used.is_subset(&all), "a gradient leads back to prompts of its step");
        for prompt in prompts {
            let samples = within("orchestrator", "sample", &own(prompt));
            assert_eq!(samples.len(), 8, "samples of a prompt");
            let mut rewards = BTreeSet::new();
            for sample in samples {
                let generated = within("generation", "generate", &own(sample));
                assert_eq!(generated.len(), 1, "each was generated once");
                assert_eq!(within("engine", "completion", &own(generated[0])).len(), 1, "by one engine");
                assert_eq!(within("reward", "verify", &own(sample)).len(), 1, "and verified once");
                let reward = sample.attributes.iter().find(|pair| pair.key == "reward").unwrap();
                rewards.insert(format!("{:?}", reward.value));
            }
            // Samples with equal rewards have no gradient.
            assert_eq!(used.contains(&own(prompt)), rewards.len() > 1, "its gradient links to it");
        }
    }
}
