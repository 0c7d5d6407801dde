//! Steps that take their groups as they arrive, with several updates.

use crate::support::{bits, groups, learner, settings, without_signal};
use std::time::SystemTime;

use evenkeel_learner::{
    Learner, OldLogp, Pass, PassKind, PolicyStep, ResponseGroup, StepPhase, StepReport, TrainingSettings,
};
use evenkeel_objective::Aggregation;

/// Settings under which nearly every group is worth a pass.
fn eager() -> TrainingSettings {
    let mut settings = settings();
    settings.compute.threads = 1;
    settings.compute.micro_batch_tokens = 8;
    settings.optimizer.learning_rate = 1e-2;
    settings
}

fn with(change: impl FnOnce(&mut TrainingSettings)) -> TrainingSettings {
    let mut settings = eager();
    change(&mut settings);
    settings
}

fn fill<'a>(mut step: PolicyStep<'a>, groups: &[ResponseGroup]) -> PolicyStep<'a> {
    groups.iter().for_each(|group| step.add(group.clone()).unwrap());
    step
}

/// Two steps, so that the second has the moments of the first.
fn trained(settings: TrainingSettings, announced: bool) -> (Vec<StepReport>, Vec<u32>) {
    let mut learner = learner(settings);
    let mut reports = Vec::new();
    for seed in [30, 31] {
        let mut groups = groups(seed, 7);
        groups.insert(2, without_signal(seed));
        let step = if announced { learner.step_of(groups.len()) } else { learner.step() };
        reports.push(fill(step, &groups).finish().unwrap());
    }
    let bits = bits(&learner);
    (reports, bits)
}

#[test]
fn a_step_that_waits_for_its_last_group_has_the_bits_of_one_that_does_not() {
    let shuffled = |settings: &mut TrainingSettings| (settings.shuffle, settings.mini_batch_groups) = (true, 2);
    let regularized = |settings: &mut TrainingSettings| {
        shuffled(settings);
        settings.objective.kl_coefficient = 0.1;
        settings.objective.entropy_coefficient = 0.01;
        settings.epochs = 2;
    };
    let cases = [
        with(shuffled),
        with(|settings| {
            shuffled(settings);
            settings.old_logp = OldLogp::Rollout;
        }),
        with(regularized),
        with(|settings| {
            regularized(settings);
            settings.objective.aggregation = Aggregation::BatchToken;
        }),
        // These do not wait in either case.
        with(|settings| (settings.mini_batch_groups, settings.epochs) = (2, 2)),
        with(|settings| settings.epochs = 3),
    ];
    for settings in cases {
        let (streamed, bits) = trained(settings.clone(), true);
        assert_eq!(trained(settings.clone(), false), (streamed, bits), "{settings:?}");
    }
}

#[test]
fn gradients_of_the_first_update_are_summed_before_the_last_group_arrives() {
    for (shuffle, size, wanted) in [(false, 3, 3), (true, 3, 3), (false, 0, 8)] {
        let mut learner = learner(with(|settings| (settings.shuffle, settings.mini_batch_groups) = (shuffle, size)));
        let mut step = learner.step_of(9);
        for group in groups(32, 9) {
            step.add(group).unwrap();
        }
        let before = step.progress().groups;
        // A last group of few tokens may still wait for company.
        assert!((wanted - 1..=wanted + 1).contains(&before), "{before} with {size}, shuffled: {shuffle}");
    }
}

#[test]
fn old_log_probabilities_and_the_first_update_precede_the_last_group_and_later_passes_follow_the_update_before_them() {
    let mut learner = learner(with(|settings| settings.mini_batch_groups = 3));
    let mut groups = groups(42, 9);
    let last = groups.pop().unwrap();
    let mut step = fill(learner.step_of(9), &groups);
    let arrived = SystemTime::now();
    step.add(last).unwrap();
    step.finish().unwrap();
    let passes = learner.take_passes();
    let (early, late): (Vec<_>, Vec<_>) = passes.iter().partition(|pass| pass.ended <= arrived);
    let groups_of = |kind| early.iter().filter(move |pass| pass.kind == kind).flat_map(|pass| &pass.groups);
    // All of the first update, and what later ones are scored for; a group of few tokens may still wait for company.
    assert!(
        groups_of(PassKind::Gradient).all(|&group| group < 3) && groups_of(PassKind::Gradient).count() >= 2,
        "{early:?}"
    );
    assert!(
        groups_of(PassKind::Scoring).all(|&group| group >= 3) && groups_of(PassKind::Scoring).count() >= 4,
        "{early:?}"
    );
    assert!(early.iter().all(|pass| pass.kind != PassKind::Update), "{early:?}");
    let updates = |passes: &[&Pass]| passes.iter().filter(|pass| pass.kind == PassKind::Update).count();
    assert_eq!(updates(&late), 3);
    for (at, pass) in late.iter().enumerate().filter(|(_, pass)| pass.kind == PassKind::Gradient) {
        let update = pass.groups.iter().max().unwrap() / 3;
        assert_eq!(updates(&late[..at]), update, "{pass:?} of update {update} in {late:?}");
    }
}

#[test]
fn a_shuffled_step_of_an_unknown_number_of_groups_waits() {
    let mut learner = learner(with(|settings| (settings.shuffle, settings.mini_batch_groups) = (true, 3)));
    let step = fill(learner.step(), &groups(32, 9));
    assert_eq!(step.progress().groups, 0);
    assert_eq!(step.finish().unwrap().updates.len(), 3);
}

#[test]
fn progress_tells_phases_and_counts_each_group_once() {
    let mut learner = learner(with(|settings| (settings.mini_batch_groups, settings.epochs) = (2, 2)));
    let all = groups(33, 4);
    let tokens: usize = all.iter().flat_map(|group| &group.responses).map(|response| response.trainable()).sum();
    let mut seen = Vec::new();
    fill(learner.step_of(4), &all).finish_with(|phase, at| seen.push((phase, at))).unwrap();
    let updates = seen.iter().filter(|(phase, _)| *phase == StepPhase::Updating).count();
    assert_eq!(updates, 4);
    assert!(seen.windows(2).all(|pair| pair[0].1.groups <= pair[1].1.groups), "{seen:?}");
    let (phase, last) = *seen.last().unwrap();
    assert_eq!((phase, last.groups, last.trainable_tokens), (StepPhase::Updating, 4, tokens));
}

#[test]
fn the_first_update_is_taken_at_a_ratio_of_exactly_1() {
    for epochs in [1, 2] {
        let settings = with(|settings| (settings.mini_batch_groups, settings.epochs) = (2, epochs));
        let report = learner(settings).train(groups(34, 6)).unwrap();
        assert_eq!((report.updates[0].largest_ratio, report.updates[0].policy.clipped), (1.0, 0));
        assert!(report.updates[1..].iter().all(|update| update.largest_ratio > 1.001), "{:?}", report.updates);
    }
}

#[test]
fn every_ratio_is_taken_against_the_weights_before_the_first_update() {
    // Weights that do not move: every ratio of every epoch is 1, whichever pass gave the old log-probabilities.
    let frozen = |size| {
        with(|settings| {
            (settings.mini_batch_groups, settings.epochs, settings.shuffle) = (size, 3, true);
            settings.optimizer.learning_rate = 0.0;
        })
    };
    for size in [0, 2] {
        let report = learner(frozen(size)).train(groups(35, 6)).unwrap();
        assert_eq!(report.updates.len(), if size == 0 { 3 } else { 9 });
        for update in report.updates {
            assert!((update.largest_ratio - 1.0).abs() < 1e-5, "{}", update.largest_ratio);
        }
    }
}

#[test]
fn the_size_of_passes_changes_no_more_than_rounding() {
    let origin = crate::support::weights(&learner(eager()));
    let run = |tokens| {
        let mut learner = learner(with(|settings| {
            (settings.mini_batch_groups, settings.epochs, settings.compute.micro_batch_tokens) = (2, 2, tokens);
            // Proportional to the gradient, so that comparing weights compares gradients.
            (settings.optimizer.epsilon, settings.optimizer.learning_rate) = (1e3, 10.0);
        }));
        learner.train(groups(36, 6)).unwrap();
        crate::support::weights(&learner)
    };
    let reference = run(100_000);
    for tokens in [8, 60] {
        let difference = crate::support::update_difference(&run(tokens), &reference, &origin);
        assert!(difference < 1e-4, "{tokens}: {difference:e}");
    }
}

#[test]
fn a_dropped_step_of_several_updates_changes_nothing() {
    let settings = || with(|settings| (settings.mini_batch_groups, settings.shuffle) = (2, true));
    let mut first = learner(settings());
    drop(fill(first.step_of(6), &groups(37, 6)));
    drop(fill(first.step_of(6), &groups(38, 5)));
    first.train(groups(39, 6)).unwrap();
    let mut second = learner(settings());
    second.train(groups(39, 6)).unwrap();
    assert_eq!(bits(&first), bits(&second));
}

#[test]
fn a_step_of_another_number_of_groups_than_expected_is_refused_and_changes_nothing() {
    let mut learner: Learner = learner(eager());
    let before = bits(&learner);
    let error = fill(learner.step_of(3), &groups(40, 2)).finish().unwrap_err().to_string();
    assert_eq!(error, "groups is a list of 2, allowed: 3, the number given in the header");
    let mut step = fill(learner.step_of(2), &groups(40, 2));
    let error = step.add(groups(41, 1).remove(0)).unwrap_err().to_string();
    assert_eq!(error, "groups is a list of 3, allowed: 2, the number given in the header");
    drop(step);
    assert!(learner.step_of(0).finish().is_err());
    assert_eq!((bits(&learner), learner.version()), (before, 0));
}

#[test]
fn mini_batches_that_do_not_divide_the_groups_of_a_run_are_refused() {
    let settings = with(|settings| settings.mini_batch_groups = 4);
    settings.validate_groups(12).unwrap();
    eager().validate_groups(7).unwrap();
    for groups in [2, 6] {
        let error = settings.validate_groups(groups).unwrap_err().to_string();
        let wanted = format!("mini_batch_groups is 4, allowed: a divisor of the {groups} groups of a step");
        assert!(error.starts_with(&wanted), "{error}");
    }
}
