//! Trace contexts as W3C Trace Context writes them: one trace id from a prompt to the optimizer step that it led to.
//!
//! Calls carry it in the `traceparent` header, items of a stream in a field of their own. Within a process it travels with the
//! task that [`TraceContext::scope`] runs.

use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::num::{NonZeroU64, NonZeroU128};
use std::str::FromStr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Name of the header and of the items' field.
pub const TRACEPARENT: &str = "traceparent";

tokio::task_local! {
    static CURRENT: TraceContext;
}

/// A place in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    pub(super) trace: NonZeroU128,
    pub(super) span: NonZeroU64,
    sampled: bool,
}

impl TraceContext {
    /// The beginning of a new trace. Ids of traces decide nothing, so that they need not be the same in two runs.
    pub fn root() -> Self {
        let trace = NonZeroU128::from(fresh()).saturating_mul(NonZeroU128::from(fresh()));
        Self { trace, span: fresh(), sampled: true }
    }

    /// The beginning of the trace of something with an id, the same in every process that knows the id.
    pub fn for_id(run_id: &str, id: &str) -> Self {
        let high = fnv(run_id.bytes().chain([0]).chain(id.bytes()), 0xcbf2_9ce4_8422_2325);
        let low = fnv(id.bytes().chain([0]).chain(run_id.bytes()), high);
        let trace = NonZeroU128::new(u128::from(high) << 64 | u128::from(low)).unwrap_or(NonZeroU128::MIN);
        Self { trace, span: NonZeroU64::new(low).unwrap_or(NonZeroU64::MIN), sampled: true }
    }

    /// A step further in the same trace.
    #[must_use]
    pub fn child(self) -> Self {
        Self { span: fresh(), ..self }
    }

    /// The trace as it is written in logs: 32 hex digits.
    pub fn trace_id(self) -> String {
        format!("{:032x}", self.trace)
    }

    /// Where the running task is. `None` outside of [`TraceContext::scope`].
    pub fn current() -> Option<Self> {
        CURRENT.try_with(|context| *context).ok()
    }

    /// Runs the future at this place of the trace. Tasks that it spawns begin without one.
    pub async fn scope<F: Future>(self, future: F) -> F::Output {
        CURRENT.scope(self, future).await
    }
}

/// An id that no other of this process has and others hardly.
fn fresh() -> NonZeroU64 {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static COUNT: AtomicU64 = AtomicU64::new(0);
    NonZeroU64::new(KEYS.hash_one(COUNT.fetch_add(1, Ordering::Relaxed))).unwrap_or(NonZeroU64::MIN)
}

/// FNV-1a from a chosen offset.
fn fnv(bytes: impl Iterator<Item = u8>, offset: u64) -> u64 {
    bytes.fold(offset, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
}

/// A text that is no traceparent. Whoever gets one begins a new trace; it is never an error of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a traceparent")]
pub struct NotATraceparent;

impl FromStr for TraceContext {
    type Err = NotATraceparent;

    fn from_str(text: &str) -> Result<Self, NotATraceparent> {
        let hex = |part: &str| part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let mut parts = text.split('-');
        let (Some(version), Some(trace), Some(span), Some(flags)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(NotATraceparent);
        };
        let lengths = (version.len(), trace.len(), span.len(), flags.len());
        if lengths != (2, 32, 16, 2) || ![version, trace, span, flags].into_iter().all(hex) || version == "ff" {
            return Err(NotATraceparent);
        }
        // Later versions may add parts; this one may not.
        if version == "00" && parts.next().is_some() {
            return Err(NotATraceparent);
        }
        let trace = u128::from_str_radix(trace, 16).ok().and_then(NonZeroU128::new).ok_or(NotATraceparent)?;
        let span = u64::from_str_radix(span, 16).ok().and_then(NonZeroU64::new).ok_or(NotATraceparent)?;
        let flags = u8::from_str_radix(flags, 16).map_err(|_| NotATraceparent)?;
        Ok(Self { trace, span, sampled: flags & 1 == 1 })
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
