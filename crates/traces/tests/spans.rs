//! Spans reach a collector unchanged.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use evenkeel_host::hex;
use evenkeel_telemetry::{Span, TraceContext, record_span, spans_are_wanted};
use evenkeel_traces::export_spans;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().unwrap().push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_reach_the_collector_and_the_last_ones_before_the_end() {
    assert!(!spans_are_wanted());
    let refused = export_spans("test", "collector:4317").unwrap_err().to_string();
    assert!(refused.contains("`collector:4317` (allowed: http://HOST:PORT"), "{refused}");

    // The exporter sends none of these, and the error may be logged.
    for endpoint in ["http://user:s3cret@collector:4317", "http://s3cret@collector:4317", "user:s3cret@collector:4317"]
    {
        let refused = export_spans("test", endpoint).unwrap_err();
        assert!(!format!("{refused} {refused:?}").contains("s3cret"), "{refused}");
        assert!(refused.to_string().contains("OTEL_EXPORTER_OTLP_HEADERS"), "{refused}");
    }

    let collector = Collector::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let serving = tonic::transport::Server::builder().add_service(TraceServiceServer::new(collector.clone()));
    tokio::spawn(serving.serve_with_incoming(TcpListenerStream::new(listener)));

    let guard = export_spans("test", &endpoint).unwrap();
    let parent = TraceContext::for_id("run", "step/3");
    let context = parent.child();
    let ended = SystemTime::now();
    let prompt = TraceContext::for_id("run", "train/3/1");
    let span = Span::new("sample", context, ended - Duration::from_millis(20), ended).within(parent);
    record_span(span.with("tokens", 7_i64).linked([prompt]).failed(Some("ENGINES_FAILED".into())));
    tokio::task::spawn_blocking(move || drop(guard)).await.unwrap();

    let requests = collector.0.lock().unwrap();
    let found = &requests[0].resource_spans[0];
    let service = &found.resource.as_ref().unwrap().attributes;
    assert!(service.iter().any(|pair| pair.key == "service.name" && format!("{pair:?}").contains("evenkeel-test")));
    let span = &found.scope_spans[0].spans[0];
    assert_eq!(span.name, "sample");
    let said = format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id));
    assert_eq!(said, context.to_string(), "the ids are those that services send each other");
    assert!(parent.to_string().contains(&hex(&span.parent_span_id)));
    let link = &span.links[0];
    assert_eq!(format!("00-{}-{}-01", hex(&link.trace_id), hex(&link.span_id)), prompt.to_string());
    assert_eq!(span.end_time_unix_nano - span.start_time_unix_nano, 20_000_000);
    assert_eq!(
        (span.attributes[0].key.as_str(), span.status.as_ref().unwrap().message.as_str()),
        ("tokens", "ENGINES_FAILED")
    );
}
