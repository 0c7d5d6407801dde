//! How many checkpoints and published versions of a run exist at a time.

use super::{CheckpointSettings, PipelineSettings, RunSettings, WarmStartSettings};

impl CheckpointSettings {
    /// The most checkpoints and published versions that exist at a time, `None` where all are kept. A new folder is
    /// complete before an old one is removed, and the best one is kept in addition to the newest. With a lag the
    /// newest checkpoint needs the versions that its samples in flight were drawn from.
    pub fn at_once(
        &self,
        run: &RunSettings,
        warm_start: &WarmStartSettings,
        pipeline: &PipelineSettings,
    ) -> [Option<u64>; 2] {
        let best = u64::from(!self.keep_best.is_empty());
        let most = |kept: u32, besides: u64, written: u64| {
            (kept > 0).then(|| (u64::from(kept) + besides + 1).min(written.max(1)))
        };
        let checkpoints = run.steps.div_ceil(self.every.max(1)) + u64::from(warm_start.steps > 0);
        let versions = (run.steps + warm_start.steps).saturating_add(1);
        [most(self.keep, best, checkpoints), most(self.keep_weights, best + u64::from(pipeline.max_lag), versions)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_once(
        change: impl FnOnce(&mut CheckpointSettings, &mut RunSettings, &mut PipelineSettings),
    ) -> [Option<u64>; 2] {
        let (mut kept, mut run, mut pipeline) = Default::default();
        change(&mut kept, &mut run, &mut pipeline);
        kept.at_once(&run, &WarmStartSettings::default(), &pipeline)
    }

    #[test]
    fn a_new_folder_is_written_before_an_old_one_is_removed_and_the_best_stays() {
        assert_eq!(at_once(|_, _, _| {}), [Some(3), Some(3)]);
        assert_eq!(at_once(|kept, _, _| kept.keep_best = "val-core/sums/acc/mean@1".into()), [Some(4), Some(4)]);
        assert_eq!(at_once(|kept, _, _| (kept.keep, kept.keep_weights) = (5, 7)), [Some(6), Some(8)]);
        assert_eq!(at_once(|kept, _, _| (kept.keep, kept.keep_weights) = (0, 0)), [None, None]);
    }

    #[test]
    fn versions_that_samples_in_flight_need_stay_with_the_checkpoint() {
        assert_eq!(at_once(|_, _, pipeline| pipeline.max_lag = 4), [Some(3), Some(7)]);
    }

    #[test]
    fn a_short_run_has_no_more_than_it_writes() {
        assert_eq!(at_once(|_, run, _| run.steps = 1), [Some(1), Some(2)]);
        assert_eq!(at_once(|kept, run, _| (kept.every, run.steps) = (10, 11)), [Some(2), Some(3)]);
        assert_eq!(at_once(|_, run, _| run.steps = 0), [Some(1), Some(1)]);
    }
}
