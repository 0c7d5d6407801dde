//! What a run's two sides waited for, and what would change it.

use std::time::{Duration, Instant};

/// A side that waits for less than this share of the time is busy.
const BUSY: f64 = 0.1;

/// How long sampling and training waited for each other.
#[derive(Debug, Default)]
pub(super) struct IdleTimes {
    since: Option<Instant>,
    elapsed: Duration,
    steps: u64,
    learner_waited: Duration,
    sampling_waited: Duration,
}

impl IdleTimes {
    /// The first step begins, after a start or a return to a checkpoint.
    pub(super) fn begin(&mut self) {
        self.since = Some(Instant::now());
    }

    /// A step ended: how long the learner waited for its rollouts, and sampling for the weights that sampled it.
    pub(super) fn add(&mut self, learner_waited: Duration, sampling_waited: Duration) {
        let now = Instant::now();
        self.elapsed += self.since.replace(now).map(|since| now - since).unwrap_or_default();
        self.steps += 1;
        self.learner_waited += learner_waited;
        self.sampling_waited += sampling_waited;
    }

    /// One sentence on what to change. `None` before the first step.
    pub(super) fn advice(&self, lag: u32) -> Option<String> {
        let seconds = self.elapsed.as_secs_f64();
        if self.steps == 0 || seconds <= 0.0 {
            return None;
        }
        let share = |waited: Duration| (waited.as_secs_f64() / seconds).min(1.0);
        Some(sentence(share(self.sampling_waited), share(self.learner_waited), lag))
    }
}

fn sentence(engines_idle: f64, learner_idle: f64, lag: u32) -> String {
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let engines = percent(engines_idle);
    let learner = percent(learner_idle);
    match (engines_idle > BUSY, learner_idle > BUSY) {
        (false, false) => {
            format!("balanced: engines waited {engines} of the time for weights, the learner {learner} for rollouts")
        }
        (true, false) => format!(
            "learner-bound: engines waited {engines} of the time for weights; give the learner more compute, or fewer \
            devices to the engines"
        ),
        (false, true) => format!(
            "engine-bound: the learner waited {learner} of the time for rollouts; add engines, or give the learner \
            less compute"
        ),
        (true, true) => {
            let more = lag + 1;
            format!(
                "steps of unequal length: engines waited {engines} of the time for weights and the learner {learner} \
                 for rollouts; raise pipeline.max_lag to {more}"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_names_the_side_that_holds_the_other_up() {
        let cases = [
            ((0.62, 0.05), "learner-bound: engines waited 62 % of the time for weights; give the learner more compute"),
            ((0.02, 0.4), "engine-bound: the learner waited 40 % of the time for rollouts; add engines"),
            ((0.3, 0.2), "raise pipeline.max_lag to 3"),
            ((0.05, 0.1), "balanced: engines waited 5 % of the time for weights, the learner 10 % for rollouts"),
        ];
        for ((engines, learner), words) in cases {
            let said = sentence(engines, learner, 2);
            assert!(said.contains(words), "{said}");
        }
    }

    #[test]
    fn nothing_is_said_of_a_run_without_a_step() {
        let mut idle_times = IdleTimes::default();
        assert_eq!(idle_times.advice(1), None);
        idle_times.begin();
        idle_times.add(Duration::from_secs(9), Duration::ZERO);
        assert!(idle_times.advice(1).unwrap().contains("engine-bound"));
    }
}
