//! Trace contexts in the W3C format: one trace id from a prompt to the optimizer step that it led to.
//!
//! Calls carry the context in the `traceparent` header, items of a stream in a field of their own. Within a process it
//! belongs to the task that [`TraceContext::scope`] runs.
//!
//! OpenTelemetry's propagator and tracing-opentelemetry are not used, because three things differ: the trace of a
//! sample follows from its id ([`TraceContext::for_id`]), while a tracer draws random trace ids; a context is a value
//! that crosses threads with its item, not a property of the thread's current span; and a malformed `traceparent` is
//! refused as the standard requires, while the propagator (0.33) accepts ids of any length.

use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::str::FromStr;

use evenkeel_host::{FieldsDigest, hex};

/// Name of the header and of the items' field.
pub const TRACEPARENT: &str = "traceparent";

tokio::task_local! {
    static CURRENT: TraceContext;
}

/// A position in a trace: the trace and the span that further spans belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    trace: [u8; 16],
    span: [u8; 8],
    is_sampled: bool,
}

impl TraceContext {
    /// The root of a new trace. The id is random: no result depends on trace ids.
    pub fn root() -> Self {
        Self { trace: random(), span: random(), is_sampled: true }
    }

    /// The root of the trace of an id, the same in every process: the first 24 bytes of SHA-256 over the length of the
    /// run's id (64 bits, little-endian), the run's id and the id.
    pub fn for_id(run_id: &str, id: &str) -> Self {
        let mut hash = FieldsDigest::new();
        hash.text(run_id).last(id);
        let hash = hash.finish();
        let mut trace = [0; 16];
        let mut span = [0; 8];
        trace.copy_from_slice(&hash[..16]);
        span.copy_from_slice(&hash[16..24]);
        Self { trace, span, is_sampled: true }
    }

    /// A new span in the same trace.
    #[must_use]
    pub fn child(self) -> Self {
        Self { span: random(), ..self }
    }

    /// The trace id as in logs: 32 hex digits.
    pub fn trace_id(self) -> String {
        hex(&self.trace)
    }

    /// The context of the running task. `None` outside of [`TraceContext::scope`].
    pub fn current() -> Option<Self> {
        CURRENT.try_with(|context| *context).ok()
    }

    /// Runs the future with this context as the current one. Tasks that it spawns have none.
    pub async fn scope<F: Future>(self, future: F) -> F::Output {
        CURRENT.scope(self, future).await
    }

    pub fn trace_bytes(self) -> [u8; 16] {
        self.trace
    }

    /// The id of the span.
    pub fn span_bytes(self) -> [u8; 8] {
        self.span
    }

    /// Whether the service that began the trace wants it recorded.
    pub fn is_sampled(self) -> bool {
        self.is_sampled
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", hex(&self.trace), hex(&self.span), u8::from(self.is_sampled))
    }
}

/// Bytes for an id, from the seeds that the standard library draws for its hash tables.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    for part in bytes.chunks_mut(8) {
        part.copy_from_slice(&RandomState::new().hash_one(0_u8).to_ne_bytes()[..part.len()]);
    }
    bytes
}

/// The bytes of hex digits in lower case, as many as there are; `None` for zeros, which are no id.
fn id<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?;
    }
    bytes.iter().any(|byte| *byte != 0).then_some(bytes)
}

/// A text that is not a `traceparent`. The receiver then starts a new trace; a request is never refused for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a traceparent")]
pub struct NotATraceparent;

impl FromStr for TraceContext {
    type Err = NotATraceparent;

    fn from_str(text: &str) -> Result<Self, NotATraceparent> {
        let mut parts = text.split('-');
        let mut hex = |length: usize| {
            let is_hex = |part: &&str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            parts.next().filter(|part| part.len() == length).filter(is_hex).ok_or(NotATraceparent)
        };
        let version = hex(2)?;
        let trace = hex(32)?;
        let span = hex(16)?;
        let flags = hex(2)?;
        // Later versions may add parts; this one may not.
        if version == "ff" || (version == "00" && parts.next().is_some()) {
            return Err(NotATraceparent);
        }
        let flags = u8::from_str_radix(flags, 16).map_err(|_| NotATraceparent)?;
        Ok(Self {
            trace: id(trace).ok_or(NotATraceparent)?,
            span: id(span).ok_or(NotATraceparent)?,
            is_sampled: flags & 1 == 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_context_survives_being_written() {
        let context: TraceContext = TEXT.parse().unwrap();
        assert_eq!(context.to_string(), TEXT);
        assert_eq!(context.trace_id(), "0af7651916cd43dd8448eb211c80319c");
        let root = TraceContext::root();
        assert_eq!(root.to_string().parse(), Ok(root));
    }

    #[test]
    fn a_child_stays_in_the_trace() {
        let context: TraceContext = TEXT.parse().unwrap();
        let child = context.child();
        assert_eq!(child.trace, context.trace);
        assert_ne!(child.span, context.span);
    }

    #[test]
    fn malformed_texts_are_no_context() {
        let zero_trace = format!("00-{}-b7ad6b7169203331-01", "0".repeat(32));
        let zero_span = format!("00-0af7651916cd43dd8448eb211c80319c-{}-01", "0".repeat(16));
        let long = format!("{TEXT}-extra");
        let upper = TEXT.to_uppercase();
        for text in ["", "00-1-2-3", zero_trace.as_str(), &zero_span, &long, &upper, &TEXT.replacen("00", "ff", 1)] {
            assert_eq!(text.parse::<TraceContext>(), Err(NotATraceparent), "{text}");
        }
    }

    #[test]
    fn an_id_has_one_trace_everywhere() {
        // From Python: sha256(struct.pack("<Q", 3) + b"run" + b"train/0/1").hexdigest()
        assert_eq!(
            TraceContext::for_id("run", "train/0/1").to_string(),
            "00-be7b8b28bd4af59a41aab29f6c2c855d-6ce97b21c1a4a48a-01"
        );
        let context = TraceContext::for_id("run", "train/0/1");
        assert_eq!(context, TraceContext::for_id("run", "train/0/1"));
        assert_ne!(context.trace, TraceContext::for_id("run", "train/0/2").trace);
        assert_ne!(context.trace, TraceContext::for_id("run2", "train/0/1").trace);
    }

    #[tokio::test]
    async fn the_scope_of_a_task_is_its_own() {
        let context = TraceContext::root();
        context
            .scope(async {
                assert_eq!(TraceContext::current(), Some(context));
                assert_eq!(tokio::spawn(async { TraceContext::current() }).await.unwrap(), None);
            })
            .await;
        assert_eq!(TraceContext::current(), None);
    }
}
