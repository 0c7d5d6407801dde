//! The embedded engine's log-probabilities beside the learner's, token by token.

use std::path::Path;

use evenkeel_learner::{Learner, TrainingSettings};
use evenkeel_run::read_rollouts;

use crate::support::{lines, succeed, train};

/// Supervised steps before the first version that samples.
const WARM_START: u64 = 60;

/// Scores all that was sampled in a step with the published weights that sampled it. Returns how many tokens were
/// compared.
fn compare(run: &Path, step: u64, temperature: f32) -> usize {
    let weights = run.join("weights").join(format!("step-{}", WARM_START + step - 1));
    let learner = Learner::open(&weights, TrainingSettings { temperature, ..TrainingSettings::default() }).unwrap();
    let mut tokens = 0;
    for rollout in read_rollouts(run, step).unwrap() {
        let (prompt, response) = (rollout.prompt_token_ids.unwrap(), rollout.token_ids.unwrap());
        let scored = learner.score(&[(&prompt, &response)], temperature).unwrap();
        let bits: Vec<u32> = scored[0].logp.iter().map(|value| value.to_bits()).collect();
        let sampled = rollout.token_log_probabilities.unwrap().into_iter().map(|value| value.unwrap().to_bits());
        let sampled: Vec<u32> = sampled.collect();
        assert_eq!(bits, sampled, "sample {} of prompt {} in step {step}", rollout.sample, rollout.group);
        tokens += bits.len();
    }
    tokens
}

#[test]
fn every_sampled_token_has_the_learners_log_probability_to_the_bit_in_groups_without_a_signal_as_well() {
    for (temperature, threads) in [("1", "1"), ("0.7", "3")] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("run");
        let mut command = train(&out);
        let settings = [
            format!("sampling.temperature={temperature}"),
            format!("learner.compute.threads={threads}"),
            "run.steps=3".to_owned(),
            "checkpoint.keep_weights=0".to_owned(),
            "evaluation.problems=0".to_owned(),
        ];
        command.args(settings.iter().flat_map(|setting| ["--set", setting]));
        succeed(command);
        let number = |name: &str| lines(&out).iter().filter_map(|line| line.get(name)?.as_f64()).sum::<f64>();
        assert!(number("actor/groups_without_signal") > 0.0, "{temperature}");
        let tokens: usize = (1..=3).map(|step| compare(&out, step, temperature.parse().unwrap())).sum();
        assert!(tokens > 3 * 32, "{tokens}");
    }
}
