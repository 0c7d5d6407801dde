//! What to lower where memory is short.

use std::fmt;

use evenkeel_model::ModelError;

use super::{MemoryPlan, gibibytes};
use crate::error::LearnerError;
use crate::settings::{LearnerSettings, MomentsLocation, Recompute};

/// What a learner was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Weights, or moments of zeros.
    Opening,
    /// Forward passes.
    Scoring,
    /// Forward and backward passes.
    Training,
    /// Clipping and AdamW.
    Updating,
    /// Keeping weights and moments, to go back to if the step fails.
    Keeping,
    /// A checkpoint.
    Restoring,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Opening => "opening the model",
            Self::Scoring => "a forward pass",
            Self::Training => "a forward and backward pass",
            Self::Updating => "an update",
            Self::Keeping => "keeping the state before a step of several updates",
            Self::Restoring => "restoring a checkpoint",
        })
    }
}

/// What makes a learner need less of its device.
pub(super) fn device(settings: &LearnerSettings) -> Vec<String> {
    let compute = &settings.compute;
    let mut advice = vec![format!("lower compute.micro_batch_tokens (now {})", compute.resolved_micro_batch_tokens())];
    match compute.recompute {
        Recompute::None => advice.push("set compute.recompute = selective or full".into()),
        Recompute::Selective => advice.push("set compute.recompute = full".into()),
        Recompute::Full => {}
    }
    if settings.optimizer.moments == MomentsLocation::Device {
        advice.push("set optimizer.moments = host".into());
    }
    advice.extend(fewer_updates(settings));
    advice
}

/// What makes it need less of the host.
pub(super) fn host(settings: &LearnerSettings) -> Vec<String> {
    let mut advice = vec!["set optimizer.moments = device".to_owned()];
    advice.extend(fewer_updates(settings));
    advice
}

fn fewer_updates(settings: &LearnerSettings) -> Option<String> {
    let several = !settings.is_single_update();
    several.then(|| "take one update for each batch (mini_batch_groups = 0, epochs = 1)".into())
}

/// Candle's own operations report the driver's error as a text.
fn is_of_memory(error: &ModelError) -> bool {
    match error {
        ModelError::OutOfMemory { .. } => true,
        ModelError::Candle(error) => error.to_string().contains("CUDA_ERROR_OUT_OF_MEMORY"),
        _ => false,
    }
}

impl MemoryPlan {
    /// An error of a phase, in which memory that was refused is said with what had been planned and what to lower.
    pub(crate) fn explain(
        plan: Option<&Self>,
        settings: &LearnerSettings,
        phase: Phase,
        error: LearnerError,
    ) -> LearnerError {
        let source = match error {
            LearnerError::Model(source) if is_of_memory(&source) => Box::new(source),
            other => return other,
        };
        let planned = match plan {
            Some(plan) => format!("{} GiB for all of training", gibibytes(plan.total())),
            None => "nothing, since the model was not opened from a folder".to_owned(),
        };
        LearnerError::OutOfMemory { phase: phase.to_string(), planned, advice: device(settings).join(", or "), source }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::DType;
    use evenkeel_model::Network;
    use evenkeel_model::kernels::cuda::{Counter, Cuda, DeviceProperties};

    use super::*;
    use crate::test_model::{config, groups, learner_with, parameters};
    use crate::{Learner, LearnerSettings};

    fn settings() -> LearnerSettings {
        let mut settings = LearnerSettings::default();
        settings.compute.threads = 1;
        settings.compute.micro_batch_tokens = 64;
        settings
    }

    fn learner(counter: &Counter, settings: LearnerSettings) -> Learner {
        let kernels = Cuda::new(counter.clone(), DType::F32).unwrap();
        let network = Network::new(config(), parameters(), kernels, settings.compute.network_options()).unwrap();
        let plan = MemoryPlan::of(&config(), &settings, 16).unwrap();
        let mut learner = learner_with(Box::new(network), settings);
        learner.trainer_mut().set_plan(Some(plan));
        learner
    }

    /// What a step says on a device without the last byte that it needs.
    fn refusal(settings: &LearnerSettings) -> String {
        let counter = Counter::new(DeviceProperties { multiprocessors: 4 });
        learner(&counter, settings.clone()).train(groups()).unwrap();
        let needed = counter.take().peak;
        let enough = Counter::new(DeviceProperties { multiprocessors: 4 }).with_memory(needed);
        learner(&enough, settings.clone()).train(groups()).unwrap();
        let short = Counter::new(DeviceProperties { multiprocessors: 4 }).with_memory(needed - 1);
        learner(&short, settings.clone()).train(groups()).unwrap_err().to_string()
    }

    #[test]
    fn a_pass_that_is_out_of_memory_says_what_was_asked_what_was_planned_and_what_to_lower() {
        let said = refusal(&settings());
        for words in [
            "out of memory of the device: ",
            " requested (",
            "in a forward and backward pass; the plan had said 1.0 GiB for all of training; to need less, ",
            "lower compute.micro_batch_tokens (now 64), or set compute.recompute = selective or full, or set optimizer.moments = host",
        ] {
            assert!(said.contains(words), "{words}: {said}");
        }
    }

    #[test]
    fn what_is_in_force_is_not_advised() {
        let mut settings = settings();
        settings.compute.recompute = Recompute::Full;
        settings.epochs = 2;
        let said = refusal(&settings);
        let advice = "(now 64), or set optimizer.moments = host, or take one update for each batch (mini_batch_groups = 0, epochs = 1)";
        assert!(said.ends_with(advice), "{said}");
        settings.optimizer.moments = MomentsLocation::Host;
        settings.epochs = 1;
        let said = refusal(&settings);
        assert!(said.ends_with("to need less, lower compute.micro_batch_tokens (now 64)"), "{said}");
    }

    #[test]
    fn an_update_that_is_out_of_memory_is_named_as_one() {
        // As much as an opened model takes: the rotation's table.
        let counter = Counter::new(DeviceProperties { multiprocessors: 4 });
        let opened = learner(&counter, settings());
        let live = counter.take().live;
        drop(opened);
        let mut learner = learner(&counter.with_memory(live), settings());
        let error = learner.trainer_mut().commit(crate::optimizer::Phase::Policy, false, |trainer| {
            trainer.update(crate::optimizer::Phase::Policy, crate::trainer::Gradient::Zero, 1.0, true)
        });
        let said = error.err().unwrap().to_string();
        assert!(said.contains(" in an update; the plan had said "), "{said}");
    }

    #[test]
    fn other_errors_stay_as_they_are() {
        let error = LearnerError::input("tokens", 0, "1 or more");
        let said = MemoryPlan::explain(None, &settings(), Phase::Training, error).to_string();
        assert_eq!(said, "tokens is 0, allowed: 1 or more");
    }
}
