//! Which settings allow training on samples of older versions.

use evenkeel_objective::Correction;
use evenkeel_proto::FieldError;

use super::{OldLogp, TrainingSettings};

/// How the samples of a step divide among versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMix {
    /// All are of one.
    One,
    /// The groups of a step before this one, in data order, are of one and the others of another; 1 or more.
    SplitAt(usize),
    /// Any token may be of any of them, by the setting that it names.
    Any(&'static str),
}

/// Which versions sample a run's batches, as far as its settings determine it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledVersions {
    /// How many versions behind the step's weights a sample may be.
    pub max_lag: u32,
    /// How a step divides among them.
    pub mix: VersionMix,
}

impl TrainingSettings {
    /// Refuses samples of versions that these settings cannot train on. Everything is allowed where `max_lag` is 0.
    ///
    /// # Errors
    /// `old_logp` or `objective.correction`, with its value and what is allowed.
    pub fn validate_versions(&self, versions: SampledVersions) -> Result<(), FieldError> {
        let SampledVersions { max_lag, mix } = versions;
        if max_lag == 0 {
            return Ok(());
        }
        if self.old_logp == OldLogp::Recompute {
            let allowed = format!(
                "proximal or rollout with pipeline.max_lag = {max_lag}: the sampling weights are no longer in memory"
            );
            return Err(FieldError::new("old_logp", self.old_logp.name(), allowed));
        }
        let is_corrected = self.old_logp == OldLogp::Rollout || self.objective.correction != Correction::None;
        if !is_corrected && self.straddles(mix) {
            let allowed = format!(
                "a correction, or learner.old_logp = rollout, where mini-batches (learner.mini_batch_groups = {}) take \
                 samples of several versions: {}",
                self.mini_batch_groups,
                match mix {
                    VersionMix::One => String::new(),
                    VersionMix::SplitAt(first) => format!("pipeline.split divides a step after {first} groups"),
                    VersionMix::Any(setting) => format!("{setting} mixes them"),
                }
            );
            return Err(FieldError::new("objective.correction", self.objective.correction, allowed));
        }
        Ok(())
    }

    /// Whether a mini-batch may have samples of several versions.
    fn straddles(&self, mix: VersionMix) -> bool {
        match mix {
            VersionMix::One => false,
            VersionMix::Any(_) => true,
            VersionMix::SplitAt(first) => {
                let size = self.mini_batch_groups;
                size == 0 || self.shuffle || !first.is_multiple_of(size)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(settings: &TrainingSettings, max_lag: u32, mix: VersionMix) -> Option<String> {
        settings.validate_versions(SampledVersions { max_lag, mix }).err().map(|error| error.to_string())
    }

    fn with(old_logp: OldLogp, correction: Correction) -> TrainingSettings {
        let mut settings = TrainingSettings { old_logp, mini_batch_groups: 4, ..TrainingSettings::default() };
        settings.objective.correction = correction;
        settings
    }

    #[test]
    fn recomputing_with_weights_that_are_gone_is_refused() {
        let settings = with(OldLogp::Recompute, Correction::TokenMask);
        assert_eq!(refused(&settings, 0, VersionMix::Any("pipeline.partial")), None);
        let error = refused(&settings, 2, VersionMix::One).unwrap();
        let words = "old_logp is recompute, allowed: proximal or rollout with pipeline.max_lag = 2";
        assert!(error.starts_with(words), "{error}");
        for old_logp in [OldLogp::Proximal, OldLogp::Rollout] {
            assert_eq!(refused(&with(old_logp, Correction::None), 2, VersionMix::One), None);
        }
    }

    #[test]
    fn mini_batches_of_several_versions_need_a_correction() {
        let bare = with(OldLogp::Proximal, Correction::None);
        for (mix, straddles) in [
            (VersionMix::One, false),
            (VersionMix::SplitAt(8), false),
            (VersionMix::SplitAt(6), true),
            (VersionMix::Any("pipeline.partial"), true),
        ] {
            assert_eq!(refused(&bare, 1, mix).is_some(), straddles, "{mix:?}");
            assert_eq!(refused(&with(OldLogp::Proximal, Correction::SequenceMask), 1, mix), None);
            assert_eq!(refused(&with(OldLogp::Rollout, Correction::None), 1, mix), None);
        }
        for other in [
            TrainingSettings { mini_batch_groups: 0, ..bare.clone() },
            TrainingSettings { shuffle: true, ..bare.clone() },
        ] {
            assert!(refused(&other, 1, VersionMix::SplitAt(8)).is_some());
        }
        let error = refused(&bare, 1, VersionMix::SplitAt(6)).unwrap();
        assert!(error.starts_with("objective.correction is none, allowed: a correction"), "{error}");
        assert!(error.contains("learner.mini_batch_groups = 4") && error.contains("pipeline.split"), "{error}");
    }
}
