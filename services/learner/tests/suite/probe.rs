//! The gradients of all aggregation rules on one batch.

use crate::support::{bits, groups, learner, settings, without_signal};
use evenkeel_config::Settings;
use evenkeel_learner::{
    ComputeType, GradientProbe, Learner, OldLogp, ProbeSettings, ResponseGroup, StepReport, TrainingSettings,
};
use evenkeel_objective::Aggregation;

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
                Aggregation::ALL.len() - 1,
                "all but luspo, which is sequence-sum at another scale"
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
    let at = |rule| found.rules.iter().position(|of_rule| of_rule.aggregation == rule).unwrap();
    let cosine = found.of(Aggregation::Token).unwrap().cosines[at(Aggregation::Sequence)].unwrap();
    assert!((cosine - expected).abs() < 1e-4, "{cosine} and {expected}");
    assert!(cosine < 0.9999 && report.updates[0].skipped.is_none());
    // With one response on each side balanced is sequence.
    let same = found.of(Aggregation::Balanced).unwrap().cosines[at(Aggregation::Sequence)].unwrap();
    assert!((same - 1.0).abs() < 1e-6);
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
