//! What a log line of a server says about the item that it is about.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod support;

use std::sync::Arc;

use evenkeel_proto::v1::VerifyRequest;
use support::{Setup, bounded, item};
use tracing_subscriber::fmt;

/// The runtime has one thread, so that the subscriber of this thread hears everything.
#[tokio::test]
async fn a_line_from_a_handler_names_the_sample_and_its_trace() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let writer = Arc::new(log.reopen().unwrap());
    let subscriber = fmt::Subscriber::builder().json().flatten_event(true).with_writer(writer).finish();
    let _default = tracing::subscriber::set_default(subscriber);
    bounded(async {
        let worker = Setup::default().start("worker").await;
        let requests = tokio_stream::once(VerifyRequest::from(item("train/3/17/2", "warn")));
        let mut verdicts = worker.client().await.verify(requests).await.unwrap().into_inner();
        assert_eq!(verdicts.message().await.unwrap().unwrap().id, "train/3/17/2");
    })
    .await;
    let log = std::fs::read_to_string(log.path()).unwrap();
    let line = log.lines().find(|line| line.contains("as scripted")).unwrap();
    assert!(line.contains("\"sample\":\"train/3/17/2\"") && line.contains("\"trace_id\":\""), "{line}");
}
