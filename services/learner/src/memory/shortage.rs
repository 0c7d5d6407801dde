//! Memory errors: what is short, and what to change.

use std::fmt;

use evenkeel_model::{GpuMemory, ModelError};

use super::{Advice, MemoryPart, MemoryPlan, gibibytes};
use crate::settings::TrainingSettings;

/// What the learner was doing when an allocation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryPhase {
    /// Weights, or moments of zeros.
    Loading,
    /// Forward passes.
    Scoring,
    /// Forward and backward passes.
    Training,
    /// Clipping and AdamW.
    Updating,
    /// Keeping weights and moments, to go back to if the step fails.
    Snapshotting,
    /// A checkpoint.
    Restoring,
}

impl fmt::Display for MemoryPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loading => "while loading the model",
            Self::Scoring => "during a forward pass",
            Self::Training => "during a forward and backward pass",
            Self::Updating => "during an update",
            Self::Snapshotting => "while copying the state before a step of several updates",
            Self::Restoring => "while restoring a checkpoint",
        })
    }
}

/// Place of memory: the device's or the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// On the device that trains, free.
    Device,
    /// On the device that trains, whoever holds it.
    WholeDevice,
    /// In the host's memory.
    Host,
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Device | Self::WholeDevice => "compute.device",
            Self::Host => "the host",
        })
    }
}

/// The driver alone holds less than this.
const LEAST_NAMED: u64 = 2 << 30;

/// Less free memory than training needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotEnoughMemory {
    /// Place where memory is short.
    pub place: MemoryKind,
    /// Memory that can be had there, in bytes.
    pub free: u64,
    /// Memory that other processes and the driver hold there, in bytes; 0 if that is not known.
    pub others: u64,
    /// What needs memory there.
    pub parts: Vec<MemoryPart>,
    /// Settings to change.
    pub advice: Vec<Advice>,
}

impl NotEnoughMemory {
    /// Says also what others than this process hold of a device.
    pub(crate) fn on(self, GpuMemory { total, free, held, .. }: GpuMemory) -> Self {
        let others = match self.place {
            MemoryKind::Device => total.saturating_sub(free + held),
            MemoryKind::WholeDevice | MemoryKind::Host => 0,
        };
        Self { others, ..self }
    }
}

impl std::error::Error for NotEnoughMemory {}

impl fmt::Display for NotEnoughMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.parts.iter().map(|part| part.bytes).sum();
        let kind = if self.place == MemoryKind::WholeDevice { "memory" } else { "free memory" };
        write!(f, "{} has {} GiB of {kind}", self.place, gibibytes(self.free))?;
        if self.others > LEAST_NAMED {
            write!(f, " (other processes hold {} GiB)", gibibytes(self.others))?;
        }
        write!(f, ", needed: {} GiB for ", gibibytes(total))?;
        let parts = self.parts.iter().map(|part| format!("{} GiB {}", gibibytes(part.bytes), part.what));
        write!(f, "{}; to reduce memory, {}", list(parts, ", "), list(&self.advice, ", or "))
    }
}

/// An allocation that failed during training.
#[derive(Debug)]
pub struct OutOfMemory {
    /// What the learner was doing.
    pub phase: MemoryPhase,
    /// Bytes that the memory plan has for the device; absent for a model that was not loaded from a folder.
    pub planned: Option<u64>,
    /// Settings to change.
    pub advice: Vec<Advice>,
    /// What was requested.
    pub source: Box<ModelError>,
}

impl OutOfMemory {
    /// Whether an error is one of memory. Candle's own operations report the driver's error as a text.
    pub(crate) fn is(error: &ModelError) -> bool {
        match error {
            ModelError::OutOfMemory { .. } => true,
            ModelError::Candle(error) => error.to_string().contains("CUDA_ERROR_OUT_OF_MEMORY"),
            _ => false,
        }
    }

    pub(crate) fn new(
        phase: MemoryPhase,
        plan: Option<&MemoryPlan>,
        settings: &TrainingSettings,
        source: ModelError,
    ) -> Self {
        let advice = Advice::for_device(settings);
        Self { phase, planned: plan.map(MemoryPlan::total), advice, source: Box::new(source) }
    }
}

impl std::error::Error for OutOfMemory {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.source)
    }
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}; planned: ", self.source, self.phase)?;
        match self.planned {
            Some(bytes) => write!(f, "{} GiB for all of training", gibibytes(bytes))?,
            None => f.write_str("nothing, since the model was not loaded from a folder")?,
        }
        write!(f, "; to reduce memory, {}", list(&self.advice, ", or "))
    }
}

fn list<T: ToString>(items: impl IntoIterator<Item = T>, separator: &str) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use candle_core::DType;
    use evenkeel_model::kernels::cuda::{Counter, Cuda, DeviceProperties};
    use evenkeel_model::{Network, Recompute};

    use super::*;
    use crate::Learner;
    use crate::error::LearnerError;
    use crate::settings::MomentsLocation;
    use crate::test_model::{config, groups, learner_with, parameters};

    fn settings() -> TrainingSettings {
        let mut settings = TrainingSettings::default();
        settings.compute.device = "cuda".into();
        settings.compute.micro_batch_tokens = 64;
        settings
    }

    fn learner(counter: &Counter, settings: TrainingSettings) -> Learner {
        let kernels = Cuda::new(counter.clone(), DType::F32).unwrap();
        let network = Network::new(config(), parameters(), kernels, settings.compute.network_options()).unwrap();
        let plan = MemoryPlan::of(&config(), &settings, 16).unwrap();
        let mut learner = learner_with(Box::new(network), settings);
        learner.trainer_mut().set_plan(Some(plan));
        learner
    }

    /// What a step says on a device without the last byte that it needs.
    fn refusal(settings: &TrainingSettings) -> String {
        let counter = Counter::new(DeviceProperties { multiprocessors: 4 });
        learner(&counter, settings.clone()).train(groups()).unwrap();
        let needed = counter.take().peak;
        let enough = Counter::new(DeviceProperties { multiprocessors: 4 }).with_memory(needed);
        learner(&enough, settings.clone()).train(groups()).unwrap();
        let short = Counter::new(DeviceProperties { multiprocessors: 4 }).with_memory(needed - 1);
        learner(&short, settings.clone()).train(groups()).unwrap_err().to_string()
    }

    #[test]
    fn a_pass_that_is_out_of_memory_reports_what_was_requested_what_was_planned_and_what_to_lower() {
        let message = refusal(&settings());
        for words in [
            "out of memory of the device: ",
            " requested (",
            "during a forward and backward pass; planned: 1.0 GiB for all of training; to reduce memory, ",
            "lower compute.micro_batch_tokens (now 64), or set compute.recompute = selective or full, or set \
            optimizer.moments = host, or lower compute.gradient_blocks (now 8; other last bits)",
        ] {
            assert!(message.contains(words), "{words}: {message}");
        }
    }

    #[test]
    fn a_device_that_another_process_fills_is_refused_with_what_others_hold() {
        let plan = MemoryPlan::of(&config(), &settings(), 16).unwrap();
        let gib = |count: u64| count << 30;
        let refused = |total: u64| {
            let memory = GpuMemory { total, free: 1 << 20, held: 0, peak: 0 };
            plan.validate_opening(memory, false, None, &settings()).unwrap_err().to_string()
        };
        let beside = refused(gib(80) + (1 << 20));
        let words = "compute.device has 0.0 GiB of free memory (other processes hold 80.0 GiB), needed: 1.0 GiB for ";
        assert!(beside.starts_with(words), "{beside}");
        let alone = refused(gib(2));
        assert!(alone.starts_with("compute.device has 0.0 GiB of free memory, needed: "), "{alone}");
    }

    #[test]
    fn what_is_in_force_is_not_advised() {
        let mut settings = settings();
        settings.compute.recompute = Recompute::Full;
        settings.epochs = 2;
        settings.compute.gradient_blocks = 1;
        let message = refusal(&settings);
        let advice = "(now 64), or set optimizer.moments = host, or take one update for each batch (mini_batch_groups \
            = 0, epochs = 1)";
        assert!(message.ends_with(advice), "{message}");
        settings.optimizer.moments = MomentsLocation::Host;
        settings.epochs = 1;
        let message = refusal(&settings);
        assert!(message.ends_with("to reduce memory, lower compute.micro_batch_tokens (now 64)"), "{message}");
    }

    #[test]
    fn an_update_that_is_out_of_memory_is_named_as_one() {
        // As much as an opened model takes: the rotation's table.
        let counter = Counter::new(DeviceProperties { multiprocessors: 4 });
        let opened = learner(&counter, settings());
        let live = counter.take().live;
        drop(opened);
        let mut learner = learner(&counter.with_memory(live), settings());
        let error = learner.trainer_mut().commit(crate::optimizer::TrainingPhase::Policy, false, |trainer| {
            let by = crate::trainer::UpdateBy::settings_of(trainer, crate::optimizer::TrainingPhase::Policy);
            trainer.apply(crate::gradient_sum::GradientSum::default(), &by)
        });
        let message = error.err().unwrap().to_string();
        assert!(message.contains(" during an update; planned: "), "{message}");
    }

    #[test]
    fn other_errors_stay_as_they_are() {
        let error = LearnerError::input("tokens", 0, "1 or more");
        let message = error.during(MemoryPhase::Training, None, &settings()).to_string();
        assert_eq!(message, "tokens is 0, allowed: 1 or more");
    }
}
