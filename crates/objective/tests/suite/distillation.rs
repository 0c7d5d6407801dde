//! On-policy distillation: laws by enumeration over a vocabulary of 16, and the formulas of two other trainers.

use evenkeel_objective::{Correction, Distillation, Error, ResponseTokens, Settings, TermStats, response_distillation};
use proptest::prelude::*;
use serde_json::Value;

use crate::support::{Holes, Owned, Rewards, close, steps};

const VOCABULARY: usize = 16;

/// Logits of a token, each after the first shifted by what stands before it.
type Logits = [f64; VOCABULARY];

fn log_softmax(logits: &Logits) -> Logits {
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = logits.iter().map(|logit| (logit - most).exp()).sum();
    logits.map(|logit| logit - most - total.ln())
}

fn kl(own: &Logits, other: &Logits) -> f64 {
    let (own, other) = (log_softmax(own), log_softmax(other));
    own.iter().zip(&other).map(|(own, other)| own.exp() * (own - other)).sum()
}

/// A policy over responses of two tokens: logits of the first, and of the second after each first.
#[derive(Clone)]
struct Policy(Vec<Logits>);

impl Policy {
    fn of_seed(seed: u64) -> Self {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            4.0 * ((state >> 11) as f64 / (1u64 << 53) as f64) - 2.0
        };
        Self((0..=VOCABULARY).map(|_| std::array::from_fn(|_| next())).collect())
    }

    /// The rows that give the log-probabilities of a response's tokens.
    fn rows(response: [usize; 2]) -> [usize; 2] {
        [0, 1 + response[0]]
    }

    fn logp(&self, response: [usize; 2]) -> [f64; 2] {
        let rows = Self::rows(response);
        std::array::from_fn(|token| log_softmax(&self.0[rows[token]])[response[token]])
    }

    fn probability(&self, response: [usize; 2]) -> f64 {
        self.logp(response).iter().sum::<f64>().exp()
    }

    fn first(&self) -> Logits {
        log_softmax(&self.0[0]).map(f64::exp)
    }
}

fn responses() -> impl Iterator<Item = [usize; 2]> {
    (0..VOCABULARY).flat_map(|first| (0..VOCABULARY).map(move |second| [first, second]))
}

fn term(settings: &Settings, distillation: Distillation, owned: &Owned, weight: f64, grad: &mut [f64]) -> TermStats {
    response_distillation(settings, distillation, weight, &owned.tokens(), &owned.reference_logp, grad).unwrap()
}

/// Loss, and its gradient by every logit of the policy, expected over the responses of a sampler.
fn expected(
    settings: &Settings,
    distillation: Distillation,
    [policy, sampler, teacher]: [&Policy; 3],
) -> (f64, Vec<Logits>) {
    let mut loss = 0.0;
    let mut gradient = vec![[0.0; VOCABULARY]; policy.0.len()];
    for response in responses() {
        let probability = sampler.probability(response);
        let logp = policy.logp(response).to_vec();
        let owned = Owned {
            old_logp: logp.clone(),
            logp,
            rollout_logp: sampler.logp(response).to_vec(),
            reference_logp: teacher.logp(response).to_vec(),
            ..Owned::on_policy(0.0, 2)
        };
        let mut by_logp = [0.0; 2];
        loss += probability * term(settings, distillation, &owned, 0.5, &mut by_logp).loss;
        for (token, row) in Policy::rows(response).into_iter().enumerate() {
            let chances = log_softmax(&policy.0[row]).map(f64::exp);
            for (logit, chance) in chances.iter().enumerate() {
                let own = if logit == response[token] { 1.0 } else { 0.0 };
                gradient[row][logit] += probability * by_logp[token] * (own - chance);
            }
        }
    }
    (loss, gradient)
}

/// Half of: the KL of the first token, that of the second at prefixes of a policy that stays, and `discount` times that
/// of the second, as it is, at prefixes of the policy that moves.
fn wanted(policy: &Policy, from: &Policy, teacher: &Policy, discount: f64) -> f64 {
    let second = |policy: &Policy, first: usize| kl(&policy.0[1 + first], &teacher.0[1 + first]);
    let stays = from.first();
    let moves = policy.first();
    let later: f64 = (0..VOCABULARY)
        .map(|first| stays[first] * second(policy, first) + discount * moves[first] * second(from, first))
        .sum();
    0.5 * (kl(&policy.0[0], &teacher.0[0]) + later)
}

fn assert_is_gradient(gradient: &[Logits], policy: &Policy, value: impl Fn(&Policy) -> f64) {
    let step = 1e-5;
    for (row, of_row) in gradient.iter().enumerate() {
        for (logit, slope) in of_row.iter().enumerate() {
            let value_moved_by = |by: f64| {
                let mut moved = policy.clone();
                moved.0[row][logit] += by;
                value(&moved)
            };
            let quotient = (value_moved_by(step) - value_moved_by(-step)) / (2.0 * step);
            assert!((quotient - slope).abs() < 1e-9, "row {row}, logit {logit}: {quotient} and {slope}");
        }
    }
}

#[test]
fn the_expected_gradient_is_that_of_the_kl_at_visited_prefixes_and_with_a_discount_that_of_later_tokens_too() {
    let (policy, teacher) = (Policy::of_seed(1), Policy::of_seed(2));
    for discount in [0.0, 0.5, 1.0] {
        let distillation = Distillation { discount, ..Distillation::default() };
        let (loss, gradient) = expected(&Settings::default(), distillation, [&policy, &policy, &teacher]);
        assert!(close(loss, wanted(&policy, &policy, &teacher, discount)), "{discount}");
        assert_is_gradient(&gradient, &policy, |moved| wanted(moved, &policy, &teacher, discount));
    }
}

#[test]
fn with_a_discount_of_one_it_is_the_gradient_of_the_kl_of_whole_responses() {
    let (policy, teacher) = (Policy::of_seed(3), Policy::of_seed(4));
    let distillation = Distillation { discount: 1.0, ..Distillation::default() };
    let (_, gradient) = expected(&Settings::default(), distillation, [&policy, &policy, &teacher]);
    let distance = |policy: &Policy, response| {
        let [own, other] = [policy, &teacher].map(|policy| policy.logp(response).iter().sum::<f64>());
        own.exp() * (own - other)
    };
    let whole = |policy: &Policy| 0.5 * responses().map(|response| distance(policy, response)).sum::<f64>();
    assert_is_gradient(&gradient, &policy, whole);
}

#[test]
fn a_correction_that_bounds_nothing_makes_any_sampler_as_good_as_the_policy() {
    let [policy, sampler, teacher] = [5, 6, 7].map(Policy::of_seed);
    let settings = Settings { correction: Correction::SequenceTruncate, correction_high: 1e6, ..Settings::default() };
    let distillation = Distillation { discount: 1.0, ..Distillation::default() };
    let (loss, gradient) = expected(&settings, distillation, [&policy, &sampler, &teacher]);
    let (own_loss, own_gradient) = expected(&Settings::default(), distillation, [&policy, &policy, &teacher]);
    assert!(close(loss, own_loss));
    let pairs = gradient.iter().flatten().zip(own_gradient.iter().flatten());
    pairs.for_each(|(corrected, own)| assert!((corrected - own).abs() < 1e-12, "{corrected} and {own}"));
    let (_, uncorrected) = expected(&Settings::default(), distillation, [&policy, &sampler, &teacher]);
    assert!(uncorrected.iter().flatten().zip(own_gradient.iter().flatten()).any(|(a, b)| (a - b).abs() > 1e-3));
}

#[test]
fn a_teacher_that_is_the_policy_gives_exactly_zero_for_every_response() {
    let policy = Policy::of_seed(8);
    for discount in [0.0, 0.5, 1.0] {
        let distillation = Distillation { discount, ..Distillation::default() };
        let (loss, gradient) = expected(&Settings::default(), distillation, [&policy, &policy, &policy]);
        assert_eq!(loss, 0.0);
        assert!(gradient.iter().flatten().all(|slope| *slope == 0.0));
    }
}

#[test]
fn d_is_bounded_in_both_directions_counted_and_reported_as_it_was() {
    let owned = Owned {
        reference_logp: vec![-13.0, -1.0, 11.5, -2.0, f64::NAN],
        mask: vec![true, true, true, true, false],
        ..Owned::on_policy(0.0, 5)
    };
    let mut grad = [0.0; 5];
    let stats = term(&Settings::default(), Distillation::default(), &owned, 0.25, &mut grad);
    assert_eq!(grad, [2.5, 0.0, -2.5, 0.25, 0.0]);
    assert_eq!(stats, TermStats { loss: 0.25, sum: 12.0 - 12.5 + 1.0, tokens: 4, bounded: 2 });
}

#[test]
fn a_discount_reaches_over_masked_tokens_as_if_they_were_absent() {
    let with_hole = Owned {
        reference_logp: vec![-2.0, 7.0, -3.0, -1.5],
        mask: vec![true, false, true, true],
        ..Owned::on_policy(0.0, 4)
    };
    let distillation = Distillation { discount: 0.5, ..Distillation::default() };
    let mut grad = [0.0; 4];
    term(&Settings::default(), distillation, &with_hole, 1.0, &mut grad);
    assert_eq!(grad, [1.0 + 0.5 * (2.0 + 0.5 * 0.5), 0.0, 2.0 + 0.5 * 0.5, 0.5]);
}

#[test]
fn numbers_out_of_range_and_slices_of_other_lengths_are_refused_by_name() {
    let refused = |bound, discount| Distillation { bound, discount }.validate().unwrap_err().to_string();
    assert_eq!(refused(0.0, 0.0), "bound is 0, allowed: a finite number above 0");
    assert_eq!(refused(f64::INFINITY, 0.0), "bound is inf, allowed: a finite number above 0");
    assert_eq!(refused(10.0, 1.5), "discount is 1.5, allowed: 0 to 1");
    assert_eq!(refused(10.0, f64::NAN), "discount is NaN, allowed: 0 to 1");
    let owned = Owned::on_policy(0.0, 3);
    let term_stats =
        |settings: &Settings, tokens: &ResponseTokens<'_, f64>, teacher: &[f64]| -> Result<TermStats, Error> {
            response_distillation(settings, Distillation::default(), 1.0, tokens, teacher, &mut [0.0; 3])
        };
    let error = term_stats(&Settings::default(), &owned.tokens(), &[0.0; 2]).unwrap_err().to_string();
    assert_eq!(error, "length of teacher_logp is 2, allowed: 3, the length of mask");
    let without = ResponseTokens { rollout_logp: None, ..owned.tokens() };
    let corrected = Settings { correction: Correction::TokenMask, ..Settings::default() };
    assert!(term_stats(&corrected, &without, &[0.0; 3]).unwrap_err().to_string().starts_with("rollout_logp is absent"));
}

fn any_distillation() -> impl Strategy<Value = (Settings, Distillation)> {
    let correction = prop::sample::select(Correction::ALL);
    (correction, 0.5..12.0, prop_oneof![Just(0.0), 0.0..1.0, Just(1.0)]).prop_map(|(correction, bound, discount)| {
        (Settings { correction, ..Settings::default() }, Distillation { bound, discount })
    })
}

proptest! {
    #[test]
    fn an_identical_teacher_changes_no_bit(
        step in steps(Rewards::Any, Holes::Some),
        (settings, distillation) in any_distillation(),
    ) {
        for owned in step.into_iter().flatten() {
            let owned = Owned { reference_logp: owned.old_logp.clone(), ..owned };
            let mut grad = vec![0.75; owned.mask.len()];
            let stats = term(&settings, distillation, &owned, 0.5, &mut grad);
            prop_assert_eq!((stats.loss, stats.sum, stats.bounded), (0.0, 0.0, 0));
            prop_assert!(grad.iter().all(|slope| slope.to_bits() == 0.75f64.to_bits()));
        }
    }

    #[test]
    fn the_gradient_is_the_difference_quotient_of_the_loss(
        step in steps(Rewards::Any, Holes::Some),
        (settings, distillation) in any_distillation(),
    ) {
        let owned = &step[0][0];
        let mut grad = vec![0.0; owned.mask.len()];
        term(&settings, distillation, owned, 0.5, &mut grad);
        for (token, grad) in grad.iter().enumerate() {
            let loss_moved_by = |by: f64| {
                let mut moved = owned.clone();
                moved.logp[token] += by;
                term(&settings, distillation, &moved, 0.5, &mut vec![0.0; owned.mask.len()]).loss
            };
            let quotient = (loss_moved_by(1e-6) - loss_moved_by(-1e-6)) / 2e-6;
            prop_assert!((quotient - grad).abs() <= 1e-6 * (1.0 + grad.abs()), "{quotient} {grad}");
        }
    }

    #[test]
    fn responses_in_any_batches_have_one_loss_and_gradient(
        step in steps(Rewards::Any, Holes::Some),
        (settings, distillation) in any_distillation(),
        cut in 0usize..30,
    ) {
        let responses: Vec<_> = step.into_iter().flatten().filter(|response| response.valid).collect();
        let tokens: usize = responses.iter().map(Owned::trainable).sum();
        let weight = 1.0 / tokens.max(1) as f64;
        let stats_and_grads = |part: &[Owned]| {
            let mut stats = TermStats::default();
            let of_response = |response: &Owned| {
                let mut grad = vec![0.0; response.mask.len()];
                stats.add(&term(&settings, distillation, response, weight, &mut grad));
                grad
            };
            let grads: Vec<_> = part.iter().map(of_response).collect();
            (stats, grads)
        };
        let (first, second) = responses.split_at(cut.min(responses.len()));
        let ((mut sum, mut grads), (other, other_grads)) = (stats_and_grads(first), stats_and_grads(second));
        sum.add(&other);
        grads.extend(other_grads);
        let (whole, whole_grads) = stats_and_grads(&responses);
        prop_assert!(close(sum.loss, whole.loss) && (sum.tokens, sum.bounded) == (whole.tokens, whole.bounded));
        prop_assert_eq!(grads, whole_grads);
    }
}

fn goldens(of: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(include_str!("../../../../tests/golden/distillation.json")).unwrap();
    all[of].as_array().unwrap().clone()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

#[test]
fn losses_and_gradients_are_those_of_tinker_cookbook() {
    for case in goldens("tinker") {
        let sampled = numbers(&case["sampled_logprobs"]);
        let owned = Owned {
            mask: numbers(&case["mask"]).iter().map(|kept| *kept != 0.0).collect(),
            logp: numbers(&case["logprobs"]),
            old_logp: sampled.clone(),
            rollout_logp: sampled,
            reference_logp: numbers(&case["teacher_logprobs"]),
            ..Owned::on_policy(0.0, 0)
        };
        let distillation = Distillation { discount: case["discount"].as_f64().unwrap(), ..Distillation::default() };
        let mut grad = vec![0.0; owned.mask.len()];
        let weight = case["coefficient"].as_f64().unwrap();
        let stats = term(&Settings::default(), distillation, &owned, weight, &mut grad);
        assert!(close(stats.loss, case["loss"].as_f64().unwrap()));
        assert!(close(stats.mean().unwrap(), case["kl"].as_f64().unwrap()));
        let wanted = numbers(&case["gradient"]);
        assert!(grad.iter().zip(&wanted).all(|(a, b)| close(*a, *b)), "{grad:?} and {wanted:?}");
    }
}

#[test]
fn the_expectation_over_a_vocabulary_is_the_reverse_kl_of_trl_and_its_gradient() {
    for case in goldens("trl") {
        let temperature = case["temperature"].as_f64().unwrap();
        let rows = |of: &str| -> Vec<Logits> {
            case[of].as_array().unwrap().iter().map(|row| numbers(row).try_into().unwrap()).collect()
        };
        let (student, teacher, wanted) = (rows("student_logits"), rows("teacher_logits"), rows("gradient"));
        let labels = numbers(&case["labels"]);
        let weight = 1.0 / labels.iter().filter(|label| **label >= 0.0).count() as f64;
        let mut loss = 0.0;
        for (at, label) in labels.iter().enumerate() {
            let [own, other] = [student[at], teacher[at]].map(|row| log_softmax(&row.map(|logit| logit / temperature)));
            let mut gradient = [0.0; VOCABULARY];
            for token in 0..VOCABULARY {
                let owned = Owned {
                    mask: vec![*label >= 0.0],
                    logp: vec![own[token]],
                    old_logp: vec![own[token]],
                    reference_logp: vec![other[token]],
                    ..Owned::on_policy(0.0, 1)
                };
                let mut grad = [0.0];
                let chance = own[token].exp();
                loss += chance
                    * term(
                        &Settings::default(),
                        Distillation { bound: 100.0, discount: 0.0 },
                        &owned,
                        weight,
                        &mut grad,
                    )
                    .loss;
                for (logit, slope) in gradient.iter_mut().enumerate() {
                    let is_own = if logit == token { 1.0 } else { 0.0 };
                    *slope += chance * grad[0] * (is_own - own[logit].exp()) / temperature;
                }
            }
            let pairs = gradient.iter().zip(&wanted[at]);
            pairs.for_each(|(own, golden)| assert!((own - golden).abs() < 1e-12, "{own} and {golden}"));
        }
        assert!(close(loss, case["loss"].as_f64().unwrap()));
    }
}
