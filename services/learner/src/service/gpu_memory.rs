//! Memory of the GPU after each step: its metrics, and a line in the log when the peak has grown.

use std::collections::BTreeMap;

use evenkeel_model::GpuMemory;
use evenkeel_run::metric::table::PEAK_MEMORY;

use crate::memory::{MeasuredMemory, MemoryPlan};

/// The share by which the peak must grow to be logged again.
const GROWTH: f64 = 0.02;

/// The last peak logged.
#[derive(Default)]
pub(super) struct MemoryWatch {
    logged_peak: u64,
    warned: bool,
}

/// Whether a peak is worth a line in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PeakChange {
    Nothing,
    Grown,
    AboveThePlan,
}

impl MemoryWatch {
    /// Records the memory after a step, and adds the peak to what the step reports, under verl's name. Does nothing on
    /// a CPU.
    pub(super) fn step_done(
        &mut self,
        plan: Option<&MemoryPlan>,
        memory: Option<GpuMemory>,
        report: &mut BTreeMap<String, f64>,
    ) {
        let Some(memory) = memory else { return };
        metrics::gauge!("evenkeel_learner_device_free_bytes").set(memory.free as f64);
        let Some(measured) = plan.and_then(|plan| MeasuredMemory::of(plan, memory)) else { return };
        metrics::gauge!("evenkeel_learner_device_peak_bytes").set(measured.peak as f64);
        metrics::gauge!("evenkeel_learner_device_planned_bytes").set(measured.planned as f64);
        report.insert(PEAK_MEMORY.name.to_owned(), measured.peak as f64 / f64::from(1 << 30));
        match self.change(&measured) {
            PeakChange::Nothing => {}
            PeakChange::Grown => tracing::info!("memory of the GPU: {measured}"),
            PeakChange::AboveThePlan => tracing::warn!(
                "memory of the GPU: {measured}; more than `evenkeel gpu plan` estimated; please report this as a bug"
            ),
        }
    }

    fn change(&mut self, measured: &MeasuredMemory) -> PeakChange {
        let exceeds = measured.exceeds_plan();
        if (measured.peak as f64) <= self.logged_peak as f64 * (1.0 + GROWTH) && (self.warned || !exceeds) {
            return PeakChange::Nothing;
        }
        self.logged_peak = measured.peak;
        if std::mem::replace(&mut self.warned, exceeds) || !exceeds {
            PeakChange::Grown
        } else {
            PeakChange::AboveThePlan
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_logged_when_it_grows_and_once_when_it_exceeds_the_plan() {
        let mut watch = MemoryWatch::default();
        let peaks = [500, 500, 505, 900, 1000, 1001, 1002, 1300];
        let changes = peaks.map(|peak| watch.change(&MeasuredMemory { planned: 1000, peak }));
        let nothing = PeakChange::Nothing;
        let grown = PeakChange::Grown;
        let above = PeakChange::AboveThePlan;
        assert_eq!(changes, [grown, nothing, nothing, grown, grown, above, nothing, grown]);
    }

    #[test]
    fn a_step_on_a_gpu_reports_its_peak_and_one_on_a_cpu_does_not() {
        let config = crate::test_model::config();
        let plan = MemoryPlan::of(&config, &crate::TrainingSettings::default(), 8).unwrap();
        let memory = GpuMemory { total: 8 << 30, free: 4 << 30, held: 1 << 30, peak: 3 << 30 };
        let reported = |plan: Option<&MemoryPlan>, memory| {
            let mut report = BTreeMap::new();
            MemoryWatch::default().step_done(plan, memory, &mut report);
            report.get("perf/max_memory_reserved_gb").copied()
        };
        assert_eq!(reported(Some(&plan), Some(memory)), Some(3.0));
        assert_eq!(reported(None, Some(memory)), None, "a model that was not opened from a folder has no plan");
        assert_eq!(reported(None, None), None);
    }
}
