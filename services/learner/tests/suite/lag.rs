//! Samples of older versions: what the ratio is taken against, and statistics by lag.

use crate::support::{bits, groups, learner, settings};
use evenkeel_learner::{OldLogp, ResponseGroup, StepReport, TrainingSettings};
use evenkeel_objective::{Correction, LagRun};

/// Settings under which the order of updates, epochs and corrections all matter.
fn several_updates(old_logp: OldLogp) -> TrainingSettings {
    let mut settings = TrainingSettings { old_logp, mini_batch_groups: 2, epochs: 2, shuffle: true, ..settings() };
    if old_logp != OldLogp::Rollout {
        settings.objective.correction = Correction::TokenMask;
    }
    settings
}

/// Groups of which each response was begun by a version that is two behind and ended by one that is one behind.
fn of_two_versions(seed: u64, count: u64) -> Vec<ResponseGroup> {
    let mut groups = groups(seed, count);
    for response in groups.iter_mut().flat_map(|group| &mut group.responses) {
        let tokens = response.trainable();
        let first = tokens / 2;
        let runs = [LagRun { lag: 2, tokens: first }, LagRun { lag: 1, tokens: tokens - first }];
        response.lags = runs.into_iter().filter(|run| run.tokens > 0).collect();
    }
    groups
}

fn measured(settings: TrainingSettings, groups: Vec<ResponseGroup>) -> (StepReport, Vec<u32>) {
    let mut learner = learner(settings);
    let mut step = learner.step_of(groups.len()).with_lags().unwrap();
    groups.into_iter().for_each(|group| step.add(group).unwrap());
    let report = step.finish().unwrap();
    (report, bits(&learner))
}

#[test]
fn proximal_is_recompute_to_the_bit() {
    let run = |old_logp| {
        let mut learner = learner(several_updates(old_logp));
        let reports = [learner.train(groups(3, 6)).unwrap(), learner.train(groups(4, 6)).unwrap()];
        (reports.map(|report| report.updates), bits(&learner))
    };
    assert_eq!(run(OldLogp::Proximal), run(OldLogp::Recompute));
    assert_ne!(run(OldLogp::Proximal).1, run(OldLogp::Rollout).1);
}

#[test]
fn statistics_by_lag_change_no_bit_and_are_absent_where_nobody_asked() {
    for old_logp in [OldLogp::Proximal, OldLogp::Rollout] {
        let (report, with) = measured(several_updates(old_logp), of_two_versions(5, 6));
        let mut plain = learner(several_updates(old_logp));
        let without = plain.train(of_two_versions(5, 6)).unwrap();
        assert_eq!((with, report.updates), (bits(&plain), without.updates), "{old_logp:?}");
        assert!(without.lags.is_none() && report.lags.is_some());
    }
}

#[test]
fn every_token_that_goes_through_the_model_is_measured_once_under_its_own_lag() {
    for (mini_batch_groups, epochs) in [(0, 1), (2, 1), (2, 2), (0, 2)] {
        for old_logp in [OldLogp::Proximal, OldLogp::Rollout] {
            let settings = TrainingSettings { mini_batch_groups, epochs, old_logp, ..settings() };
            let groups = of_two_versions(7, 6);
            let mut wanted = [0, 0];
            for group in &groups {
                let rewards: Vec<f64> = group.responses.iter().map(|response| response.reward).collect();
                assert!(rewards.iter().any(|reward| *reward != rewards[0]), "all have an advantage");
                for run in group.responses.iter().flat_map(|response| &response.lags) {
                    wanted[run.lag as usize - 1] += run.tokens;
                }
            }
            let lags = measured(settings, groups).0.lags.unwrap();
            let found: Vec<(u32, usize)> = lags.iter().map(|(lag, of_lag)| (lag, of_lag.tokens())).collect();
            assert_eq!(found, [(1, wanted[0]), (2, wanted[1])], "{mini_batch_groups} {epochs} {old_logp:?}");
        }
    }
}

#[test]
fn the_ratio_is_that_of_the_weights_before_the_first_update_whatever_the_mini_batches() {
    let whole = TrainingSettings { old_logp: OldLogp::Proximal, ..settings() };
    let split = TrainingSettings { mini_batch_groups: 2, ..whole.clone() };
    let kl = |settings| {
        let lags = measured(settings, of_two_versions(8, 6)).0.lags.unwrap();
        lags.iter().map(|(_, of_lag)| of_lag.kl_k1().unwrap()).collect::<Vec<_>>()
    };
    for (one, other) in kl(whole).into_iter().zip(kl(split)) {
        assert!((one - other).abs() < 1e-5 * one.abs(), "{one} {other}");
    }
}

#[test]
fn a_correction_sees_the_tokens_of_all_versions_of_a_response() {
    let bounded = |correction, lags: bool| {
        let mut settings = TrainingSettings { old_logp: OldLogp::Proximal, ..settings() };
        settings.objective.correction = correction;
        // Bounds that some of the random ratios are beyond, those of whole responses too.
        (settings.objective.correction_low, settings.objective.correction_high) = (1e-6, 0.01);
        let groups = if lags { of_two_versions(9, 4) } else { groups(9, 4) };
        let (report, bits) = measured(settings, groups);
        let lags = report.lags.unwrap();
        let share: f64 =
            lags.iter().map(|(_, of_lag)| of_lag.bounded_fraction().unwrap() * of_lag.tokens() as f64).sum();
        assert_eq!(share.round() as usize, report.updates[0].policy.correction_bounded, "{correction}");
        assert!(share > 0.0, "{correction} acts");
        bits
    };
    for correction in
        [Correction::TokenTruncate, Correction::TokenMask, Correction::SequenceTruncate, Correction::SequenceMask]
    {
        // The loss reads log-probabilities, which are those of each token's own version, and no lag.
        assert_eq!(bounded(correction, true), bounded(correction, false), "{correction}");
    }
}

#[test]
fn runs_that_do_not_cover_the_trainable_tokens_are_refused() {
    let mut groups = of_two_versions(1, 1);
    groups[0].responses[1].lags.push(LagRun { lag: 0, tokens: 3 });
    let error = learner(settings()).step().add(groups.remove(0)).unwrap_err().to_string();
    assert!(error.contains("groups[0].responses[1].lags is those of"), "{error}");
}

#[test]
fn the_formula_names_what_the_ratio_is_taken_against() {
    for (old_logp, end) in [
        (OldLogp::Recompute, "old_logp = the learner's before the first update of the step [recompute]"),
        (OldLogp::Proximal, "the learner's before the first update of the step, whichever version sampled [proximal]"),
        (OldLogp::Rollout, "old_logp = rollout_logp, the engine's [rollout]"),
    ] {
        let formula = TrainingSettings { old_logp, ..TrainingSettings::default() }.formula();
        assert!(formula.contains("rho = exp(logp - old_logp)") && formula.ends_with(end), "{formula}");
    }
}
