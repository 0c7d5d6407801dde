//! Streams of server-sent events: a browser connects again by itself.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use evenkeel_run_report::{RenderedPage, event};
use futures_util::stream;

/// How often a stream looks whether there is anything new.
const TICK: Duration = Duration::from_millis(500);
/// Silence after which a comment is sent, so that a lost connection is noticed.
const SILENCE: Duration = Duration::from_secs(10);
/// How long a browser waits before it connects again, in milliseconds.
const RETRY: u32 = 2000;

/// What a stream sends: called repeatedly, for one reader.
pub(super) trait EventSource: Send + 'static {
    /// What is new since the last call; empty for nothing. `None` ends the stream.
    fn next(&mut self) -> impl Future<Output = Option<Vec<Bytes>>> + Send;
}

/// The answer with the stream of a source. It begins with `hello`, after which a browser discards what it had.
pub(super) fn respond(source: impl EventSource) -> Response {
    let hello = Bytes::from(format!("retry: {RETRY}\n\n{}", event("hello", &env!("CARGO_PKG_VERSION"))));
    let begin = (source, vec![hello], None::<Instant>);
    let chunks = stream::unfold(begin, |(mut source, mut ready, mut last)| async move {
        loop {
            if !ready.is_empty() {
                let chunk = ready.remove(0);
                return Some((Ok::<_, Infallible>(chunk), (source, ready, Some(Instant::now()))));
            }
            // The first look is at once.
            if last.is_some_and(|last| last.elapsed() < TICK) {
                tokio::time::sleep(TICK).await;
            }
            ready = source.next().await?;
            if ready.is_empty() {
                if last.is_none_or(|last| last.elapsed() >= SILENCE) {
                    ready.push(Bytes::from_static(b": still here\n\n"));
                } else {
                    tokio::time::sleep(TICK).await;
                }
            } else {
                last = Some(Instant::now());
            }
        }
    });
    ([(CONTENT_TYPE, "text/event-stream")], Body::from_stream(chunks)).into_response()
}

/// Which sections a reader has.
#[derive(Debug, Default)]
pub(super) struct Sent(HashMap<&'static str, u64>);

impl Sent {
    /// The events for those that it does not have.
    pub(super) fn missing(&mut self, rendered: &RenderedPage) -> Vec<Bytes> {
        let changed = rendered
            .sections
            .iter()
            .filter(|section| self.0.insert(section.id, section.digest) != Some(section.digest));
        changed.map(|section| Bytes::from_owner(SharedText(Arc::clone(&section.event)))).collect()
    }
}

/// A text that several answers share.
struct SharedText(Arc<str>);

impl AsRef<[u8]> for SharedText {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_charts::{Html, Page, Section};

    use super::*;

    #[test]
    fn a_reader_gets_a_section_once_until_it_changes() {
        let rendered = |text: &str| {
            let sections = vec![Section::new("a", "A", Html::text(text)), Section::new("b", "", Html::new())];
            RenderedPage::of(Page { sections, ..Page::default() })
        };
        let mut sent = Sent::default();
        assert_eq!(sent.missing(&rendered("1")).len(), 2);
        assert!(sent.missing(&rendered("1")).is_empty());
        let changed = sent.missing(&rendered("2"));
        assert_eq!(changed, [Bytes::from("event: section\ndata: {\"id\":\"a\",\"html\":\"<h2>A</h2>2\"}\n\n")]);
    }
}
