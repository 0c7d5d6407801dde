//! Admission: how many sequences may be in the engine, running or waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Too few permits are left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full {
    pub(crate) limit: usize,
}

/// Counts the sequences that are in the engine.
#[derive(Clone)]
pub(crate) struct Admission {
    used: Arc<AtomicUsize>,
    limit: usize,
}

/// Admits one sequence. Dropping it admits another.
pub(crate) struct Permit(Arc<AtomicUsize>);

impl Admission {
    pub(crate) fn new(limit: usize) -> Self {
        Self { used: Arc::default(), limit }
    }

    /// Permits for a whole request, or none.
    pub(crate) fn take(&self, count: usize) -> Result<Vec<Permit>, Full> {
        let more = |used: usize| used.checked_add(count).filter(|&sum| sum <= self.limit);
        match self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, more) {
            Ok(_) => Ok((0..count).map(|_| Permit(self.used.clone())).collect()),
            Err(_) => Err(Full { limit: self.limit }),
        }
    }

    /// Sequences in the engine.
    #[cfg(test)]
    fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_gets_all_its_permits_or_none() {
        let admission = Admission::new(3);
        let two = admission.take(2).ok().unwrap();
        assert_eq!(admission.take(2).err(), Some(Full { limit: 3 }));
        assert_eq!(admission.used(), 2);
        let one = admission.take(1).ok().unwrap();
        assert!(admission.take(1).is_err());
        drop(two);
        assert_eq!(admission.used(), 1);
        assert!(admission.take(2).is_ok());
        drop(one);
        assert_eq!(admission.used(), 0);
        assert!(admission.take(usize::MAX).is_err());
    }
}
