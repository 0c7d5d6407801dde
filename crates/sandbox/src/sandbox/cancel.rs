//! Taking work back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set once by whoever no longer waits for a verdict.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<Flag>);

#[derive(Debug, Default)]
struct Flag {
    set: AtomicBool,
    /// Cancels this as well.
    parent: Option<Cancel>,
}

impl Cancel {
    /// A flag that is not set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A flag that is set with this one, and can be set alone.
    pub(crate) fn child(&self) -> Self {
        Self(Arc::new(Flag { set: AtomicBool::new(false), parent: Some(self.clone()) }))
    }

    /// Sets it; a running program ends at the next tick.
    pub fn cancel(&self) {
        self.0.set.store(true, Ordering::Relaxed);
    }

    /// Whether it was set.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.set.load(Ordering::Relaxed) || self.0.parent.as_ref().is_some_and(Self::is_cancelled)
    }
}
