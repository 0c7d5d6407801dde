//! Measured memory compared with the plan.

use std::fmt;

use evenkeel_model::GpuMemory;

use super::{MemoryPlan, gibibytes};

/// The peak of the learner's memory pool on a GPU and the plan for it, both without the driver and its libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredMemory {
    /// Planned bytes: full micro-batches of the longest sequences.
    pub planned: u64,
    /// Measured peak in bytes.
    pub peak: u64,
}

impl MeasuredMemory {
    /// The least share of a plan, which is an upper bound, that a step with full micro-batches of the longest sequences
    /// takes.
    pub const LEAST: f64 = 0.9;

    /// What a device has measured; `None` on a device without a memory pool.
    pub fn of(plan: &MemoryPlan, memory: GpuMemory) -> Option<Self> {
        (memory.peak > 0).then(|| Self { planned: plan.pooled(), peak: memory.peak })
    }

    /// The peak as a part of the plan.
    pub fn ratio(&self) -> f64 {
        self.peak as f64 / self.planned as f64
    }

    /// Whether the peak exceeds the plan. It may be far below the plan if sequences are short.
    pub fn exceeds_plan(&self) -> bool {
        self.peak > self.planned
    }
}

impl fmt::Display for MeasuredMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peak = gibibytes(self.peak);
        let planned = gibibytes(self.planned);
        write!(f, "{peak} GiB at the peak, {planned} GiB planned ({:.0} %)", 100.0 * self.ratio())
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_model::kernels::cuda::{Counter, Cuda, DeviceCounts, DeviceProperties};
    use evenkeel_model::{Network, Recompute};

    use super::super::MemoryUse;
    use super::*;
    use crate::test_model::{config, learner_with, parameters};
    use crate::{Response, ResponseGroup, TrainingSettings};

    const CHIP: DeviceProperties = DeviceProperties { multiprocessors: 132 };
    /// Input tokens of each sequence, and sequences of a micro-batch.
    const LONGEST: usize = 15;
    const SEQUENCES: usize = 4;

    /// Groups of an update: one for each block.
    const GROUPS: u32 = 8;

    /// As many groups as a step takes, whose responses fill a micro-batch each with sequences of the longest kind.
    fn full_groups(settings: &TrainingSettings) -> Vec<ResponseGroup> {
        let response = |number: u32| Response {
            tokens: (0..10).map(|at| 2 + (at + number) % 8).collect(),
            mask: vec![true; 10],
            rollout_logp: vec![-2.0; 10],
            raw_reward: f64::from(number % 2),
            reward: f64::from(number % 2),
            valid: true,
            ..Response::default()
        };
        let group = |number: u32| ResponseGroup {
            id: number.to_string(),
            prompt: vec![3; LONGEST + 1 - 10],
            hinted_prompt: None,
            responses: (0..SEQUENCES as u32).map(response).collect(),
        };
        let updates = if settings.mini_batch_groups > 0 { 2 } else { 1 };
        (0..updates * GROUPS).map(group).collect()
    }

    /// What a device that only counts was given in a step.
    fn counted_step(settings: &TrainingSettings) -> DeviceCounts {
        let counter = Counter::new(CHIP);
        let kernels = Cuda::new(counter.clone(), settings.compute.dtype.into()).unwrap();
        let network = Network::new(config(), parameters(), kernels, settings.compute.network_options()).unwrap();
        let mut learner = learner_with(Box::new(network), settings.clone());
        counter.take();
        learner.train(full_groups(settings)).unwrap();
        counter.take()
    }

    /// The peak of a step on a device that counts allocations, and the parts of the plan that it is compared with.
    fn peak_and_plan(settings: &TrainingSettings) -> (u64, u64) {
        let counts = counted_step(settings);
        let plan = MemoryPlan::of(&config(), settings, LONGEST).unwrap();
        let counted =
            plan.parts.iter().filter(|part| matches!(part.what, MemoryUse::Gradients | MemoryUse::Activations));
        (counts.peak, counted.map(|part| part.bytes).sum())
    }

    fn settings(recompute: Recompute) -> TrainingSettings {
        let mut settings = TrainingSettings::default();
        settings.compute.device = "cuda".into();
        // The last token of each is scored, and no input.
        settings.compute.micro_batch_tokens = (LONGEST + 1) * SEQUENCES;
        settings.compute.recompute = recompute;
        settings
    }

    #[test]
    fn a_whole_step_takes_what_is_planned_for_its_passes() {
        let several = |recompute| {
            let mut settings = settings(recompute);
            (settings.epochs, settings.mini_batch_groups, settings.objective.kl_coefficient) =
                (2, GROUPS as usize, 0.1);
            settings
        };
        for settings in Recompute::ALL.into_iter().flat_map(|recompute| [settings(recompute), several(recompute)]) {
            let (peak, planned) = peak_and_plan(&settings);
            let measured = MeasuredMemory { planned, peak };
            assert!((MeasuredMemory::LEAST..=1.0).contains(&measured.ratio()), "{peak} of {planned}: {settings:?}");
        }
    }

    #[test]
    fn a_step_waits_once_for_the_scores_of_each_pass_and_once_for_norm_and_update() {
        let counts = counted_step(&settings(Recompute::None));
        // Micro-batches whose scores are in one copy each.
        let groups = u64::from(GROUPS);
        assert_eq!((counts.waits, counts.downloads.launches), (groups + 1, groups + 1));
        let mut on_host = settings(Recompute::None);
        on_host.optimizer.moments = crate::MomentsLocation::Host;
        // Moments have to be back before anything else may use them.
        assert_eq!(counted_step(&on_host).waits, groups + 2);
    }

    #[test]
    fn more_than_the_plan_is_too_much_and_less_is_not() {
        for (peak, exceeds) in [(50, false), (100, false), (101, true), (112, true)] {
            assert_eq!(MeasuredMemory { planned: 100, peak }.exceeds_plan(), exceeds, "{peak}");
        }
        let measured = MeasuredMemory { planned: 100 << 30, peak: 112 << 30 };
        assert_eq!(measured.to_string(), "112.0 GiB at the peak, 100.0 GiB planned (112 %)");
    }

    #[test]
    fn the_plan_of_the_pool_is_compared_and_a_device_without_a_pool_measures_nothing() {
        let plan = MemoryPlan::of(&config(), &settings(Recompute::None), LONGEST).unwrap();
        let memory = GpuMemory { total: 1 << 40, free: 1 << 39, held: 1000, peak: 2000 };
        let measured = MeasuredMemory::of(&plan, memory).unwrap();
        assert_eq!((measured.peak, measured.planned), (2000, plan.total() - (1 << 30)));
        assert_eq!(MeasuredMemory::of(&plan, GpuMemory { peak: 0, ..memory }), None);
    }
}
