//! What a run shows to the outside: the series that it is documented to have, and traces from a prompt to its gradient
//! step.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use evenkeel_host::hex;
use evenkeel_telemetry::{PROCESS_SERIES, Series, SeriesKind, TraceContext, Values};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

use crate::support::{Processes, small, summary, wait_for, written_model};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The tables of docs/reference/series.md by heading, as the services describe their series.
fn tables() -> Vec<(&'static str, Vec<&'static Series>)> {
    let orchestrator = evenkeel_orchestrator::series().into_iter().flat_map(|series| series.iter()).collect();
    vec![
        ("Every process", PROCESS_SERIES.iter().collect()),
        ("Every gRPC server", evenkeel_rpc::series::SERVER_SERIES.iter().collect()),
        ("Servers of items: generation, reward, gateway, learner", evenkeel_rpc::series::ITEM_SERIES.iter().collect()),
        ("Their clients: orchestrator, gateway", evenkeel_rpc::series::DISPATCH_SERIES.iter().collect()),
        ("Orchestrator", orchestrator),
        ("Generation", evenkeel_generation::SERIES.iter().collect()),
        ("Engine", evenkeel_engine::SERIES.iter().collect()),
        ("Reward", evenkeel_reward::SERIES.iter().collect()),
        ("Learner", evenkeel_learner::SERIES.iter().collect()),
        ("Environment", evenkeel_environment_service::SERIES.iter().collect()),
        ("Agent of weights", evenkeel_weights_agent::SERIES.iter().collect()),
    ]
}

/// A table as the page has it.
fn written(series: &[&Series]) -> String {
    let mut table = "| series | kind | labels | what it is |\n|---|---|---|---|\n".to_owned();
    for series in series {
        let label = |(name, values): &(&str, Values)| match values {
            Values::Of(values) => {
                let values: Vec<_> = values.iter().map(|value| format!("`{value}`")).collect();
                format!("`{name}`: {}", values.join(", "))
            }
            Values::Few(what) => format!("`{name}`: {what}"),
        };
        let labels: Vec<_> = series.labels.iter().map(label).collect();
        let only = match series.only {
            "" => String::new(),
            only => format!(" (only with {only})"),
        };
        let name = series.name;
        let kind = series.kind.label();
        let help = series.help;
        table += &format!("| `{name}` | {kind} | {} | {help}{only} |\n", labels.join("; "));
    }
    table
}

const PAGE: &str = "docs/reference/series.md";
const TITLE: &str = "# Series for Prometheus

<!-- Written by a test: EVENKEEL_GENERATE=1 cargo test --release --workspace --test suite observed::the_page -->

What `/metrics` of each process has ([observability](../observability.md)). Counters and histograms begin at zero where their labels are \
known. Buckets of times go from 50 µs to an hour. Every run emits every name, unless the table says what it needs. An *item* is one request of \
a stream: a sample to generate, an answer to verify, a sequence to score.
";

#[test]
fn the_page_lists_every_series_as_the_services_describe_it() {
    let mut expected = TITLE.to_owned();
    for (heading, series) in tables() {
        expected += &format!("\n## {heading}\n\n{}", written(&series));
    }
    let path = root().join(PAGE);
    if std::env::var_os("EVENKEEL_GENERATE").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap() == expected,
        "{PAGE} differs: EVENKEEL_GENERATE=1 with this test writes it"
    );
}

#[test]
fn names_end_in_their_unit_and_counters_in_total() {
    let mut names = BTreeSet::new();
    for series in tables().into_iter().flat_map(|(_, series)| series) {
        let name = series.name;
        assert!(names.insert(name), "{name} is listed twice");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'), "{name}");
        assert_eq!(name.ends_with("_total"), series.kind == SeriesKind::Counter, "{name}");
        assert!(series.kind != SeriesKind::Histogram || name.ends_with("_seconds"), "{name} has no buckets");
        assert!(!series.help.is_empty() && !series.help.ends_with('.') && !series.help.contains('|'), "{name}");
    }
}

/// What is within a parenthesis that was just opened.
fn until_closed(text: &str) -> &str {
    let mut open = 1;
    let closed = text.find(|c| {
        open += i32::from(c == '(') - i32::from(c == ')');
        open == 0
    });
    &text[..closed.unwrap_or(text.len())]
}

/// Every place in the sources that records a series: its name and the labels in their order.
fn recorded() -> Vec<(String, Vec<String>, PathBuf)> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = ["crates", "services"].iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("tests") && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]").next().unwrap();
                for call in ["counter!(", "gauge!(", "histogram!("] {
                    for (at, _) in code.match_indices(call) {
                        let inside = until_closed(&code[at + call.len()..]);
                        let Some((name, rest)) = inside.trim_start().strip_prefix('"').and_then(|s| s.split_once('"'))
                        else {
                            continue;
                        };
                        let labels = rest.match_indices("\" =>").map(|(at, _)| {
                            let before = &rest[..at];
                            before[before.rfind('"').unwrap() + 1..].to_owned()
                        });
                        found.push((name.to_owned(), labels.collect(), path.clone()));
                    }
                }
            }
        }
    }
    found
}

#[test]
fn whatever_is_recorded_is_described_with_its_labels_in_their_order() {
    let described: BTreeMap<&str, Vec<&str>> = tables()
        .into_iter()
        .flat_map(|(_, series)| series)
        .map(|series| (series.name, series.labels.iter().map(|(name, _)| *name).collect()))
        .collect();
    let recorded = recorded();
    assert!(recorded.len() > 60, "{} places were found", recorded.len());
    for (name, labels, path) in recorded.iter().filter(|(name, ..)| name.starts_with("evenkeel_")) {
        let Some(described) = described.get(name.as_str()) else {
            panic!("{path:?} records {name}, nothing describes it")
        };
        assert_eq!(labels, described, "{path:?}: labels of {name}");
    }
}

#[test]
fn every_alert_has_a_runbook_on_the_page_and_a_test_of_its_firing_and_of_its_silence() {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).unwrap();
    let rules = read("deploy/observe/rules.yml");
    let page = read("docs/observability.md");
    let tests = read("deploy/observe/rules_test.yml");
    let mut alerts = 0;
    let headings: BTreeSet<String> =
        page.lines().filter_map(|line| line.strip_prefix("### ")).map(str::to_lowercase).collect();
    for rule in rules.split("- alert: ").skip(1) {
        alerts += 1;
        let name = rule.lines().next().unwrap();
        let anchor = rule.split("runbook: docs/observability.md#").nth(1).unwrap().lines().next().unwrap();
        assert_eq!(anchor, name.to_lowercase());
        assert!(headings.contains(anchor), "no section of the page is {name}");
        assert!(
            ["page", "ticket", "info"].iter().any(|severity| rule.contains(&format!("severity: {severity} }}"))),
            "{name}"
        );
        // Either on one line, or with the alerts that are expected on those that follow.
        let silent = format!("alertname: {name}, exp_alerts: [] }}");
        let fires = format!("alertname: {name}\n        exp_alerts:\n          - exp_labels:");
        assert!(tests.contains(&fires), "no test has {name} fire");
        assert!(tests.contains(&silent), "no test has {name} silent");
    }
    assert!(alerts >= 20, "{alerts} alerts were found");
}

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
