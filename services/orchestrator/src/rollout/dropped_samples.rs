//! Samples that a step or an evaluation drops since they failed or have no verdict, and how many it may drop.

use super::sample::{Sample, SampleStatus};
use crate::error::RunError;
use crate::settings::ServicesSettings;

/// Samples whose tasks are over, and those among them that are left out.
#[derive(Debug, Clone, Default)]
pub(crate) struct DroppedSamples {
    samples: usize,
    /// Samples that took too long.
    late: usize,
    /// Samples that were generated and have no verdict, for another reason.
    invalid: usize,
    /// Samples that could not be generated, for another reason.
    failed: usize,
    /// Why one of these two kinds was left out last; empty where none was.
    last_invalid: String,
    /// Why one was left out last; empty where none was.
    last_failure: String,
}

impl DroppedSamples {
    pub(crate) fn add(&mut self, sample: &Sample) {
        self.samples += 1;
        self.late += usize::from(sample.is_late());
        let count = match &sample.status {
            SampleStatus::Invalid { late: false, .. } => Some(&mut self.invalid),
            SampleStatus::Failed { late: false, .. } => Some(&mut self.failed),
            _ => None,
        };
        if let (Some(count), Some(reason)) = (count, sample.failure_in_full()) {
            *count += 1;
            reason.clone_into(&mut self.last_invalid);
        }
        if let Some(failure) = sample.failure_in_full() {
            failure.clone_into(&mut self.last_failure);
        }
    }

    /// Refuses what was sampled for `what` where more samples took too long than may be left out.
    ///
    /// # Errors
    /// [`RunError::Late`].
    pub(crate) fn check_late(&self, what: &str, settings: &ServicesSettings) -> Result<(), RunError> {
        let Self { samples, late, .. } = *self;
        let allowed = settings.max_late_share;
        if self.may_lack(late, allowed) {
            return Ok(());
        }
        Err(RunError::Late { what: what.to_owned(), late, samples, allowed, last: self.last_failure.clone() })
    }

    /// Refuses what was sampled for `what` where more samples could not be generated or have no verdict, for another
    /// reason than time, than may be left out. Both count together: either way the step would be trained on a remainder
    /// that nobody has chosen.
    ///
    /// # Errors
    /// [`RunError::Invalid`].
    pub(crate) fn check_invalid(&self, what: &str, settings: &ServicesSettings) -> Result<(), RunError> {
        let Self { samples, invalid, failed, .. } = *self;
        let allowed = settings.max_invalid_share;
        if self.may_lack(invalid + failed, allowed) {
            return Ok(());
        }
        let last = self.last_invalid.clone();
        Err(RunError::Invalid { what: what.to_owned(), invalid, failed, samples, allowed, last })
    }

    fn may_lack(&self, samples: usize, share: f64) -> bool {
        samples as f64 <= share * self.samples as f64
    }

    /// Why a sample was left out last; empty where none was.
    pub(crate) fn last_failure(&self) -> &str {
        &self.last_failure
    }
}

impl<'a> FromIterator<&'a Sample> for DroppedSamples {
    fn from_iter<I: IntoIterator<Item = &'a Sample>>(samples: I) -> Self {
        let mut all = Self::default();
        samples.into_iter().for_each(|sample| all.add(sample));
        all
    }
}
