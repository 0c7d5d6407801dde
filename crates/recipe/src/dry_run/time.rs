//! How long a step and a run will take, from a short trial of the same services.

use std::fmt;

use serde::Serialize;

use crate::recipe::Recipe;

/// What a trial has measured on this machine, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MeasuredTimes {
    /// Seconds until the services are started.
    pub start: f64,
    /// A supervised step; 0 without a warm start.
    pub supervised_step: f64,
    /// The mean length of a demonstration, in tokens; 0 without a warm start.
    pub demonstration_tokens: f64,
    /// Sampling and judging all answers of a step.
    pub sampling: f64,
    /// Gradients of a step.
    pub training: f64,
    /// An update of the optimizer, whatever the size of the step.
    pub update: f64,
    /// The part of a step that does not depend on its size: weights are published, loaded and verified.
    pub other: f64,
    /// Samples of the measured step.
    pub samples: f64,
    /// Mean length of the measured prompts, in tokens.
    pub prompt_tokens: f64,
    pub answer_tokens: f64,
    /// Whether answers were cut off earlier than the run's will be.
    pub is_cut: bool,
}

/// How long a run will take.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum RunTime {
    /// Estimate in seconds of wall-clock time.
    Estimated {
        step_seconds: f64,
        run_seconds: f64,
        /// What a step takes whatever its size.
        #[serde(skip)]
        fixed_seconds: f64,
    },
    /// Why nothing is known.
    Unknown { unknown: String },
}

/// What a core computes in a second, in floating-point operations, where nothing was measured.
const CORE: f64 = 150e9;

impl RunTime {
    /// The time that steps of a number of floating-point operations each take on the cores of this machine.
    pub fn guessed(step_flops: f64, steps: u64) -> Self {
        let step_seconds = step_flops / (CORE * cores());
        Self::Estimated { step_seconds, run_seconds: steps as f64 * step_seconds, fixed_seconds: 0.0 }
    }

    pub(super) fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown { unknown: why.into() }
    }

    /// The time of a run of a recipe, with that many evaluations of that many samples each.
    pub(super) fn of(recipe: &Recipe, measured: &MeasuredTimes, evaluations: u64, evaluated: u64) -> Self {
        let warm_steps = recipe.warm_start.steps;
        let answer = match warm_steps {
            // As long as those that are imitated.
            1.. => measured.demonstration_tokens,
            0 if measured.is_cut => f64::from(recipe.sampling.max_tokens) / 2.0,
            0 => measured.answer_tokens,
        };
        let samples = f64::from(recipe.sampling.prompts_per_step) * f64::from(recipe.sampling.group_size);
        // A prompt is computed once for its samples, however long they are.
        let prompt = measured.prompt_tokens / f64::from(recipe.sampling.group_size);
        let longer = (prompt + answer) / (prompt + measured.answer_tokens);
        let of_sampling = measured.sampling / measured.samples * longer;
        let of_training = measured.training / measured.samples * longer;
        let fixed = measured.other + recipe.updates_per_step() as f64 * measured.update;
        let step_seconds = samples * (of_sampling + of_training) + fixed;
        let evaluation = evaluated as f64 * of_sampling;
        let run_seconds = measured.start
            + warm_steps as f64 * measured.supervised_step
            + recipe.run.steps as f64 * step_seconds
            + evaluations as f64 * evaluation;
        Self::Estimated { step_seconds, run_seconds, fixed_seconds: fixed }
    }
}

fn cores() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64)
}

impl fmt::Display for RunTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Estimated { step_seconds, run_seconds, .. } => {
                write!(f, "about {} a step, {} in total, as measured here", span(*step_seconds), span(*run_seconds))
            }
            Self::Unknown { unknown } => write!(f, "unknown: {unknown}"),
        }
    }
}

/// Seconds for a person: no more digits than an estimate has.
fn span(seconds: f64) -> String {
    match seconds {
        _ if seconds < 10.0 => format!("{seconds:.1} s"),
        _ if seconds < 100.0 => format!("{seconds:.0} s"),
        _ if seconds < 100.0 * 60.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.0} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURED: MeasuredTimes = MeasuredTimes {
        start: 2.0,
        supervised_step: 0.1,
        demonstration_tokens: 20.0,
        sampling: 4.0,
        training: 6.0,
        update: 0.0,
        other: 1.0,
        samples: 8.0,
        prompt_tokens: 40.0,
        answer_tokens: 40.0,
        is_cut: false,
    };

    #[test]
    fn a_run_is_its_steps_with_answers_as_long_as_they_will_be_and_its_evaluations() {
        let mut recipe = Recipe::default();
        (recipe.run.steps, recipe.warm_start.steps) = (10, 0);
        (recipe.sampling.prompts_per_step, recipe.sampling.group_size) = (4, 4);
        let time = RunTime::of(&recipe, &MEASURED, 2, 8);
        let run_seconds = 2.0 + 210.0 + 2.0 * 4.0;
        assert_eq!(time, RunTime::Estimated { step_seconds: 21.0, run_seconds, fixed_seconds: 1.0 });
        assert_eq!(time.to_string(), "about 21 s a step, 4 min in total, as measured here");
        recipe.warm_start.steps = 5;
        // Half as long: 30 of 50 tokens sampled and trained.
        let step_seconds = 4.8 + 7.2 + 1.0;
        let time = RunTime::of(&recipe, &MEASURED, 0, 8);
        let run_seconds = 2.0 + 0.5 + 10.0 * step_seconds;
        assert_eq!(time, RunTime::Estimated { step_seconds, run_seconds, fixed_seconds: 1.0 });
        // Cut off after 40 tokens, of up to 240.
        (recipe.warm_start.steps, recipe.sampling.max_tokens) = (0, 240);
        let cut = MeasuredTimes { is_cut: true, ..MEASURED };
        let RunTime::Estimated { step_seconds, .. } = RunTime::of(&recipe, &cut, 0, 8) else { panic!("{cut:?}") };
        assert!((step_seconds - (130.0 / 50.0 * (8.0 + 12.0) + 1.0)).abs() < 1e-9, "{step_seconds}");
        let unknown = RunTime::unknown("engines of other machines");
        assert_eq!(unknown.to_string(), "unknown: engines of other machines");
    }

    #[test]
    fn an_update_takes_as_long_however_many_samples_there_are_and_however_long_they_are() {
        let step = |update: f64, change: fn(&mut Recipe)| {
            let mut recipe = Recipe::default();
            recipe.warm_start.steps = 0;
            change(&mut recipe);
            let measured = MeasuredTimes { update, is_cut: true, ..MEASURED };
            let RunTime::Estimated { step_seconds, .. } = RunTime::of(&recipe, &measured, 0, 8) else { panic!() };
            step_seconds
        };
        type Change = fn(&mut Recipe);
        let changes: [(Change, f64); 3] = [
            (|recipe| recipe.sampling.max_tokens = 400, 1.0),
            (|recipe| (recipe.sampling.prompts_per_step, recipe.learner.mini_batch_groups) = (64, 0), 1.0),
            (|recipe| (recipe.sampling.prompts_per_step, recipe.learner.mini_batch_groups) = (64, 16), 4.0),
        ];
        for (change, updates) in changes {
            let longer = step(3.0, change) - step(0.0, change);
            assert!((longer - updates * 3.0).abs() < 1e-9, "{longer}");
        }
    }
}
