//! The gradients of all aggregation rules on one batch.

use crate::support::{bits, groups, learner, settings, without_signal};
use evenkeel_config::Settings;
use evenkeel_learner::{
    ComputeType, GradientProbe, Learner, OldLogp, ProbeSettings, ResponseGroup, RuleDetail, SideDial, StepReport,
    TrainingSettings,
};
use evenkeel_objective::{Aggregation, SideRatio};

/// Settings in which the rules have different gradients and every one is computed.
fn eager() -> TrainingSettings {
    let mut settings = settings();
    settings.compute.micro_batch_tokens = 8;
    settings.optimizer.learning_rate = 1e-2;
    settings.objective.max_tokens = 40;
    settings
}

fn with(change: impl FnOnce(&mut TrainingSettings)) -> TrainingSettings {
    let mut settings = eager();
    change(&mut settings);
    settings
}

fn step(learner: &mut Learner, groups: &[ResponseGroup], is_probed: bool) -> StepReport {
    let mut step = learner.step_of(groups.len());
    if is_probed {
        step = step.with_probe().unwrap();
    }
    groups.iter().for_each(|group| step.add(group.clone()).unwrap());
    step.finish().unwrap()
}

fn probe(settings: TrainingSettings, groups: &[ResponseGroup]) -> (GradientProbe, StepReport) {
    let mut report = step(&mut learner(settings), groups, true);
    (report.probe.take().unwrap(), report)
}

fn close(a: f64, b: f64) -> bool {
    within(1e-4, a, b)
}

fn within(part: f64, a: f64, b: f64) -> bool {
    (a - b).abs() <= part * a.abs().max(b.abs())
}

#[test]
fn a_run_has_the_same_bits_with_and_without_it() {
    let cases = [
        eager(),
        with(|settings| settings.compute.threads = 1),
        with(|settings| (settings.mini_batch_groups, settings.epochs, settings.shuffle) = (2, 2, true)),
        with(|settings| (settings.mini_batch_groups, settings.old_logp) = (2, OldLogp::Rollout)),
        with(|settings| {
            settings.mini_batch_groups = 2;
            settings.objective.kl_coefficient = 0.1;
            settings.objective.entropy_coefficient = 0.01;
            settings.objective.aggregation = Aggregation::BatchToken;
        }),
        // The other kernels of a CPU.
        with(|settings| {
            settings.mini_batch_groups = 3;
            settings.compute.dtype = ComputeType::Bf16;
        }),
    ];
    for settings in cases {
        let trained = |is_probed: bool| {
            let mut learner = learner(settings.clone());
            let mut reports = Vec::new();
            for seed in [60, 61] {
                let mut groups = groups(seed, 6);
                groups[2] = without_signal(seed);
                reports.push(StepReport { probe: None, ..step(&mut learner, &groups, is_probed) });
            }
            (reports, bits(&learner), learner.version())
        };
        assert_eq!(trained(true), trained(false), "{settings:?}");
    }
}

#[test]
fn the_norm_of_every_rule_is_the_one_that_a_step_with_it_reports() {
    let groups = groups(62, 5);
    for regularized in [false, true] {
        for dtype in [ComputeType::F32, ComputeType::Bf16] {
            let with_rule = |rule| {
                with(|settings| {
                    settings.objective.aggregation = rule;
                    settings.compute.dtype = dtype;
                    if regularized {
                        settings.objective.kl_coefficient = 0.1;
                        settings.objective.entropy_coefficient = 0.02;
                    }
                })
            };
            let (probe, _) = probe(with_rule(Aggregation::Balanced), &groups);
            assert_eq!(
                probe.rules.len(),
                Aggregation::ALL.len() - 2,
                "all but luspo, which is sequence-sum at another scale, and sides, which is not in use"
            );
            for of_rule in &probe.rules {
                let rule = of_rule.aggregation;
                let reported = learner(with_rule(rule)).train(groups.clone()).unwrap().updates[0].grad_norm;
                // Micro-batches differ, and bfloat16 rounds each of them.
                let part = if dtype == ComputeType::F32 { 1e-5 } else { 0.03 };
                assert!(within(part, of_rule.norm, reported), "{rule}, {dtype:?}: {} and {reported}", of_rule.norm);
            }
        }
    }
}

/// The gradient is linear in the weights: that of each rule is the sum of the responses' own gradients, each times its
/// weight. With one response on either side of a single group this gives every cosine from three norms alone.
#[test]
fn cosines_follow_from_the_gradients_of_single_responses() {
    let mut pair = groups(63, 1);
    pair[0].responses.truncate(2);
    let lengths: Vec<f64> = pair[0].responses.iter().map(|response| response.trainable() as f64).collect();
    // The norm of the summed gradient under weights a and b of the two responses' tokens, for three choices of them: g
    // = a u + b v.
    let (found, report) = probe(eager(), &pair);
    let norm = |rule| found.of(rule).unwrap().norm;
    let weights = |rule: Aggregation| {
        let one = lengths[0];
        let two = lengths[1];
        match rule {
            Aggregation::Sequence => (0.5 / one, 0.5 / two),
            _ => (1.0 / (one + two), 1.0 / (one + two)),
        }
    };
    // The wrong response alone, masked in the other's tokens, keeps its advantage: a reward counts even where no token
    // is trained.
    let mut alone = pair.clone();
    alone[0].responses[0].mask.fill(false);
    let (only, _) = probe(with(|settings| settings.objective.aggregation = Aggregation::SequenceSum), &alone);
    let v = only.of(Aggregation::SequenceSum).unwrap().norm * 40.0;
    alone = pair.clone();
    alone[0].responses[1].mask.fill(false);
    let (only, _) = probe(with(|settings| settings.objective.aggregation = Aggregation::SequenceSum), &alone);
    let u = only.of(Aggregation::SequenceSum).unwrap().norm * 40.0;
    let (a, b) = weights(Aggregation::Token);
    let uv = (norm(Aggregation::Token).powi(2) - (a * u).powi(2) - (b * v).powi(2)) / (2.0 * a * b);
    let (c, d) = weights(Aggregation::Sequence);
    let length = ((c * u).powi(2) + (d * v).powi(2) + 2.0 * c * d * uv).sqrt();
    assert!(close(norm(Aggregation::Sequence), length), "{} and {length}", norm(Aggregation::Sequence));
    let inner = a * c * u * u + b * d * v * v + (a * d + b * c) * uv;
    let expected = inner / (norm(Aggregation::Token) * length);
    let place = |rule| found.rules.iter().position(|of_rule| of_rule.aggregation == rule).unwrap();
    let cosine = found.of(Aggregation::Token).unwrap().cosines[place(Aggregation::Sequence)].unwrap();
    assert!((cosine - expected).abs() < 1e-4, "{cosine} and {expected}");
    assert!(cosine < 0.9999 && report.updates[0].skipped.is_none());
    // With one response on each side balanced is sequence.
    let same = found.of(Aggregation::Balanced).unwrap().cosines[place(Aggregation::Sequence)].unwrap();
    assert!((same - 1.0).abs() < 1e-6);
}

/// A detailed probe over groups under `settings`.
fn detailed(settings: TrainingSettings, groups: &[ResponseGroup], dials: &[SideDial]) -> (GradientProbe, StepReport) {
    let mut learner = learner(settings);
    let mut step = learner.step_of(groups.len()).with_detailed_probe(dials.to_vec()).unwrap();
    groups.iter().for_each(|group| step.add(group.clone()).unwrap());
    let mut report = step.finish().unwrap();
    (report.probe.take().unwrap(), report)
}

#[test]
fn the_gradients_of_the_sides_add_up_to_that_of_the_rule_and_dials_tie_to_their_rules() {
    let groups = groups(69, 5);
    let dials = [0.0, 1.0].map(|length_exponent| SideDial { length_exponent, ratio: 1.0 });
    let silent = SideDial { length_exponent: 1.0, ratio: 0.0 };
    let (probe, report) = detailed(eager(), &groups, &[&dials[..], &[silent]].concat());
    assert_eq!(probe.details.len(), probe.rules.len());
    for (rule, detail) in probe.rules.iter().zip(&probe.details) {
        let RuleDetail { positive_norm: a, negative_norm: b, cosine, .. } = *detail;
        let sum = (a * a + b * b + 2.0 * a * b * cosine.unwrap_or(0.0)).sqrt();
        assert!(close(sum, rule.norm), "{}: {sum} and {}", rule.aggregation, rule.norm);
    }
    let place = |rule| probe.rules.iter().position(|of_rule| of_rule.aggregation == rule).unwrap();
    let first_dial = probe.rules.len() - 3;
    for (place_of_dial, rule) in [(first_dial, Aggregation::Sequence), (first_dial + 1, Aggregation::Balanced)] {
        assert!(close(probe.rules[place_of_dial].norm, probe.rules[place(rule)].norm), "{rule}");
        let one = &probe.details[place_of_dial];
        let other = &probe.details[place(rule)];
        assert!(close(one.positive_norm, other.positive_norm) && close(one.negative_norm, other.negative_norm));
        let (one, other) = (one.pull.unwrap(), other.pull.unwrap());
        assert!(close(one.positive, other.positive) && close(one.negative, other.negative));
    }
    let none = probe.details.last().unwrap();
    assert_eq!((none.dial, none.positive_norm, none.cosine), (Some(silent), 0.0, None));
    assert!(close(probe.rules.last().unwrap().norm, none.negative_norm));
    assert_eq!(report.sides, None, "the run's own rule is another");
}

#[test]
fn a_probe_by_side_measures_what_one_of_whole_rules_does() {
    let groups = groups(73, 5);
    for entropy_coefficient in [0.0, 0.01] {
        let settings = || with(|settings| settings.objective.entropy_coefficient = entropy_coefficient);
        let (by_side, _) = detailed(settings(), &groups, &[]);
        let (whole, _) = probe(settings(), &groups);
        assert_eq!(by_side.rules.len(), whole.rules.len());
        for (one, other) in by_side.rules.iter().zip(&whole.rules) {
            assert_eq!(one.aggregation, other.aggregation);
            assert!((one.loss - other.loss).abs() < 1e-6, "{}: {} and {}", one.aggregation, one.loss, other.loss);
            assert!(close(one.norm, other.norm), "{}: {} and {}", one.aggregation, one.norm, other.norm);
            for (one, other) in one.cosines.iter().zip(&other.cosines) {
                assert!((one.unwrap() - other.unwrap()).abs() < 1e-5);
            }
        }
    }
}

#[test]
fn other_rules_have_their_gradients_where_the_runs_own_weighs_right_answers_by_nothing() {
    let groups = groups(72, 4);
    let silent = with(|settings| {
        settings.objective.aggregation = Aggregation::Sides;
        settings.objective.side_ratio = Some(SideRatio::Constant(0.0));
    });
    let (of_silent, _) = detailed(silent.clone(), &groups, &[]);
    let (of_balanced, _) =
        detailed(with(|settings| settings.objective.aggregation = Aggregation::Balanced), &groups, &[]);
    let balanced = |probe: &GradientProbe| {
        let place = probe.rules.iter().position(|rule| rule.aggregation == Aggregation::Balanced).unwrap();
        (probe.rules[place].norm, probe.details[place].positive_norm)
    };
    assert_eq!(balanced(&of_silent), balanced(&of_balanced));
    assert!(balanced(&of_silent).1 > 0.0);
    // The step itself passes over the wrong answers alone, probed or not.
    let mut learner = learner(silent.clone());
    let mut probed = learner.step_of(groups.len()).with_probe().unwrap();
    groups.iter().for_each(|group| probed.add(group.clone()).unwrap());
    let probed = StepReport { probe: None, ..probed.finish().unwrap() };
    assert_eq!(probed, self::learner(silent).train(groups).unwrap());
}

#[test]
fn a_step_has_the_ratio_of_its_number_and_reports_it() {
    let groups = groups(70, 4);
    let with_ratio = |ratio| {
        with(|settings| {
            settings.objective.aggregation = Aggregation::Sides;
            settings.objective.side_ratio = Some(ratio);
        })
    };
    let schedule = SideRatio::Steps(vec![(1, 1.0), (11, 0.0)]);
    let trained = |settings, number| {
        let mut learner = learner(settings);
        let mut step = learner.step_of(groups.len()).numbered(number).unwrap();
        groups.iter().for_each(|group| step.add(group.clone()).unwrap());
        let report = step.finish().unwrap();
        (bits(&learner), report)
    };
    for (number, ratio) in [(1, 1.0), (6, 0.5), (11, 0.0), (40, 0.0)] {
        let (scheduled, report) = trained(with_ratio(schedule.clone()), number);
        let (constant, of_constant) = trained(with_ratio(SideRatio::Constant(ratio)), 1);
        assert_eq!(report.sides.unwrap().ratio, ratio);
        assert!(scheduled == constant && report == of_constant, "step {number}");
        let pull = report.quantities.pulls[&Aggregation::Sides];
        assert!(close(pull.positive, ratio * of_constant.quantities.pulls[&Aggregation::Balanced].positive));
    }
    // Without a number it is the next version of the weights.
    let mut learner = learner(with_ratio(schedule));
    assert_eq!(learner.train(groups.clone()).unwrap().sides.unwrap().ratio, 1.0);
    assert_eq!(learner.train(groups.clone()).unwrap().sides.unwrap().ratio, 0.9);
}

#[test]
fn groups_without_a_wrong_answer_are_counted_where_right_ones_weigh_nothing() {
    let mut groups = groups(71, 3);
    // The wrong answers of the first group have no token to train.
    let mean = |group: &ResponseGroup| {
        group.responses.iter().map(|response| response.reward).sum::<f64>() / group.responses.len() as f64
    };
    let level = mean(&groups[0]);
    let wrong = groups[0].responses.iter_mut().filter(|response| response.reward < level);
    wrong.for_each(|response| response.mask.fill(false));
    let settings = with(|settings| {
        settings.objective.aggregation = Aggregation::Sides;
        settings.objective.side_ratio = Some(SideRatio::Constant(0.0));
    });
    let report = learner(settings).train(groups).unwrap();
    assert_eq!(report.sides.unwrap().silenced_groups, 1);
    assert_eq!(report.groups_with_signal, 2);
    assert!(report.updates[0].skipped.is_none());
}

#[test]
fn the_learning_rate_makes_steps_as_long_as_that_of_the_rule_in_use() {
    let unclipped = with(|settings| settings.optimizer.max_grad_norm = None);
    let (probe, report) = probe(unclipped, &groups(64, 4));
    let rate = report.updates[0].learning_rate;
    let used = probe.of(Aggregation::Balanced).unwrap().norm;
    for of_rule in &probe.rules {
        let equal = probe.learning_rate(of_rule.aggregation, Aggregation::Balanced, rate).unwrap();
        assert!(close(equal * of_rule.norm, rate * used), "{}", of_rule.aggregation);
    }
    // The divisor of `sequence-sum` is a constant, here 40 tokens instead of a dozen.
    let slow = probe.learning_rate(Aggregation::SequenceSum, Aggregation::Balanced, rate).unwrap();
    assert!(slow > 1.5 * rate, "{slow} and {rate}");
}

#[test]
fn gradients_that_are_clipped_to_one_length_take_one_learning_rate() {
    let clipped = with(|settings| settings.optimizer.max_grad_norm = Some(1e-6));
    let (probe, _) = probe(clipped, &groups(64, 4));
    for of_rule in &probe.rules {
        assert_eq!(probe.learning_rate(of_rule.aggregation, Aggregation::Balanced, 0.5), Some(0.5));
    }
}

#[test]
fn a_batch_without_a_signal_has_norms_of_zero_and_no_cosines() {
    let (probe, _) = probe(eager(), &[without_signal(65), without_signal(66)]);
    for of_rule in &probe.rules {
        assert_eq!((of_rule.norm, of_rule.cosines.iter().flatten().count()), (0.0, 0));
        assert_eq!(probe.learning_rate(of_rule.aggregation, Aggregation::Balanced, 0.5), None);
    }
}

#[test]
fn the_rules_may_be_chosen_and_the_one_in_use_is_always_there() {
    let chosen = |rules: &[Aggregation], max_tokens: usize| {
        with(|settings| {
            settings.objective.max_tokens = max_tokens;
            settings.probe_gradients = ProbeSettings { every: 1, rules: rules.to_vec() };
        })
    };
    let rules = |settings: TrainingSettings| {
        let (probe, _) = probe(settings, &groups(67, 2));
        probe.rules.iter().map(|of_rule| of_rule.aggregation).collect::<Vec<_>>()
    };
    assert_eq!(rules(chosen(&[Aggregation::Token], 0)), [Aggregation::Token, Aggregation::Balanced]);
    assert!(!rules(chosen(&[], 0)).contains(&Aggregation::SequenceSum));
    let error = chosen(&[Aggregation::SequenceSum], 0).validate().unwrap_err().to_string();
    assert!(error.contains("probe_gradients.rules") && error.contains("sequence-sum"), "{error}");
    let error = chosen(&[Aggregation::Sides], 0).validate().unwrap_err().to_string();
    assert!(error.contains("probe_gradients.rules is sides, allowed: rules without sides"), "{error}");
}

#[test]
fn it_is_due_from_the_first_step_on_and_no_part_of_what_decides_results() {
    let every = |every| ProbeSettings { every, rules: Vec::new() };
    let due = |settings: ProbeSettings| (1..8).filter(|step| settings.is_due(*step)).collect::<Vec<_>>();
    assert_eq!((due(every(3)), due(every(0))), (vec![1, 4, 7], Vec::new()));
    let asked = TrainingSettings { probe_gradients: every(3), ..settings() };
    assert_eq!((asked.hash(), asked.result_affecting()), (settings().hash(), settings().result_affecting()));
}

#[test]
fn a_step_that_has_a_group_cannot_begin_to_probe() {
    let mut learner = learner(eager());
    let mut step = learner.step();
    step.add(groups(68, 1).remove(0)).unwrap();
    assert!(step.with_probe().is_err());
}
