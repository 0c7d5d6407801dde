//! How the learner of a run computes.

use std::sync::{Arc, Mutex, PoisonError};

/// The name that the learner reports for its bits. Clones share it; it is empty until the learner was asked, and where
/// no engine has its bits.
#[derive(Debug, Clone, Default)]
pub struct LearnerArithmetic(Arc<Mutex<String>>);

impl LearnerArithmetic {
    /// What the learner reports now, which another one may have taken the place of.
    pub fn set(&self, name: &str) {
        name.clone_into(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Arithmetic that the learner reported last.
    pub fn get(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
