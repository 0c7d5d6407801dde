//! Laws of the rule `sides`, and what its settings refuse.

use evenkeel_objective::{
    Aggregation, BatchLoss, Constants, MiniBatchCounts, PolicyTerm, Settings, SideDial, SideRatio, group_weights,
};
use proptest::prelude::*;

use crate::support::{Holes, Owned, Rewards, Step, all_close, close, compute, flat, steps};

fn sides(exponent: f64, ratio: f64) -> Settings {
    Settings {
        aggregation: Aggregation::Sides,
        length_exponent: Some(exponent),
        side_ratio: Some(SideRatio::Constant(ratio)),
        ..Settings::default()
    }
}

/// The weights of the responses with an advantage; `sequence` also weighs those without.
fn weights_with_advantage(batch: &BatchLoss<f64>) -> Vec<f64> {
    let all = batch.weights.concat().into_iter().zip(batch.advantages.concat());
    all.filter(|(_, advantage)| *advantage != 0.0).map(|(weight, _)| weight).collect()
}

/// Steps with groups of one side, advantages of 0 and responses of one token.
fn hard_steps() -> impl Strategy<Value = Step> {
    let short = |mut step: Step| {
        for response in step.iter_mut().flatten().step_by(3) {
            for values in
                [&mut response.logp, &mut response.old_logp, &mut response.rollout_logp, &mut response.reference_logp]
            {
                values.truncate(1);
            }
            response.mask.truncate(1);
        }
        // Without a trainable token the side of wrong answers is empty.
        for response in step[0].iter_mut().filter(|response| response.reward < 0.5) {
            response.mask.fill(false);
        }
        step
    };
    prop_oneof![steps(Rewards::Any, Holes::Some), steps(Rewards::Binary, Holes::Some)].prop_map(short)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn an_exponent_of_1_is_balanced_and_of_0_sequence(
        step in hard_steps(),
        policy in prop::sample::select(PolicyTerm::ALL),
    ) {
        for (exponent, aggregation) in [(1.0, Aggregation::Balanced), (0.0, Aggregation::Sequence)] {
            let ours = compute(&Settings { policy, ..sides(exponent, 1.0) }, &step);
            let other = compute(&Settings { policy, aggregation, ..Settings::default() }, &step);
            prop_assert!(all_close(&weights_with_advantage(&ours), &weights_with_advantage(&other)), "{aggregation}");
            prop_assert!(close(ours.loss, other.loss), "{aggregation}: {} and {}", ours.loss, other.loss);
            prop_assert!(all_close(&flat(&ours), &flat(&other)), "{aggregation}");
        }
    }

    #[test]
    fn a_side_s_pull_is_its_mass_whatever_the_exponent(
        step in hard_steps(),
        exponent in 0.0..=1.0,
        ratio in 0.0..3.0,
    ) {
        let batch = compute(&sides(exponent, ratio), &step);
        for (g, group) in step.iter().enumerate() {
            let counted = group.iter().filter(|r| r.trainable() > 0).count() as f64;
            for (sign, factor) in [(1.0, ratio), (-1.0, 1.0)] {
                let members: Vec<usize> = (0..group.len())
                    .filter(|&i| group[i].trainable() > 0 && batch.advantages[g][i] * sign > 0.0)
                    .collect();
                let advantage = |i: usize| batch.advantages[g][i].abs();
                let pull = |&i: &usize| batch.weights[g][i] * advantage(i) * group[i].trainable() as f64;
                let mass: f64 = members.iter().map(|&i| advantage(i)).sum();
                let expected = if members.is_empty() { 0.0 } else { factor * mass / (batch.counts.groups as f64 * counted) };
                prop_assert!(close(members.iter().map(pull).sum(), expected), "{sign}");
            }
        }
    }

    #[test]
    fn the_ratio_multiplies_the_positive_side_and_nothing_else(
        step in hard_steps(),
        exponent in 0.0..=1.0,
        ratio in 0.0..3.0,
    ) {
        let plain = compute(&sides(exponent, 1.0), &step);
        let without = compute(&Settings { side_ratio: None, ..sides(exponent, 1.0) }, &step);
        prop_assert_eq!(&plain, &without);
        let scaled = compute(&sides(exponent, ratio), &step);
        for (g, advantages) in plain.advantages.iter().enumerate() {
            for (i, &advantage) in advantages.iter().enumerate() {
                if advantage > 0.0 {
                    prop_assert!(close(scaled.weights[g][i], ratio * plain.weights[g][i]));
                } else {
                    prop_assert_eq!(scaled.weights[g][i], plain.weights[g][i]);
                }
            }
        }
    }

    #[test]
    fn at_a_ratio_of_0_right_answers_have_no_gradient(step in hard_steps(), exponent in 0.0..=1.0) {
        let batch = compute(&sides(exponent, 0.0), &step);
        for (g, advantages) in batch.advantages.iter().enumerate() {
            for (i, _) in advantages.iter().enumerate().filter(|(_, advantage)| **advantage > 0.0) {
                prop_assert!(batch.gradients[g][i].iter().all(|slope| *slope == 0.0));
            }
            // A group without wrong answers then has none at all.
            if !advantages.iter().any(|advantage| *advantage < 0.0) {
                prop_assert!(batch.gradients[g].iter().flatten().all(|slope| *slope == 0.0));
            }
        }
    }

    #[test]
    fn inside_a_side_lengths_count_as_under_vl_norm_with_1_minus_the_exponent(
        lengths in prop::collection::vec(1_usize..20_000, 2..9),
        exponent in 0.0..=1.0,
    ) {
        let advantages = vec![0.5; lengths.len()];
        let weigh = |aggregation| {
            let sides = Some(SideDial { length_exponent: exponent, ratio: 1.0 });
            let constants = Constants { max_tokens: 1, vl_norm_alpha: 1.0 - exponent, sides };
            let mut weights = vec![0.0; lengths.len()];
            group_weights(aggregation, &advantages, &lengths, constants, &mut weights).unwrap();
            weights.iter().map(|weight| weight / weights[0]).collect::<Vec<f64>>()
        };
        prop_assert!(all_close(&weigh(Aggregation::Sides), &weigh(Aggregation::VlNorm)));
    }

    #[test]
    fn between_two_steps_the_ratio_follows_a_straight_line(
        from in 1_u64..1_000, span in 1_u64..1_000, part in 0.0..=1.0, low in 0.0..2.0, high in 0.0..2.0,
    ) {
        let ratio = SideRatio::Steps(vec![(from, low), (from + span, high)]);
        let step = from + (part * span as f64) as u64;
        let expected = low + (high - low) * (step - from) as f64 / span as f64;
        prop_assert!(close(ratio.at(step), expected), "{}", ratio.at(step));
        prop_assert_eq!(ratio.at(from - 1), low);
        prop_assert_eq!(ratio.at(from + span + 7), high);
    }
}

#[test]
fn the_weights_are_those_worked_out_by_hand() {
    // Right answers of 1, 4 and 9 tokens with advantages 1, 2 and 1 at e = 1/2: the sum of abs(A) T^e is 1 + 4 + 3, the
    // mass 4; T^(e - 1) is 1, 1/2 and 1/3. The wrong one of 16 tokens: mass and sum 4 and 16. G = 4, r = 1/2.
    let constants = Constants { sides: Some(SideDial { length_exponent: 0.5, ratio: 0.5 }), ..any_constants() };
    let mut weights = [0.0; 6];
    let lengths = [1, 4, 9, 16, 0, 0];
    let advantages = [1.0, 2.0, 1.0, -4.0, 0.0, 3.0];
    let counts = group_weights(Aggregation::Sides, &advantages, &lengths, constants, &mut weights).unwrap();
    let scale = MiniBatchCounts::from_iter([counts]).normalizer(Aggregation::Sides);
    for (weight, known) in weights.into_iter().zip([1.0 / 16.0, 1.0 / 32.0, 1.0 / 48.0, 1.0 / 64.0, 0.0, 0.0]) {
        assert!(close(weight * scale, known), "{} and not {known}", weight * scale);
    }
}

fn any_constants() -> Constants {
    Settings::default().constants()
}

#[test]
fn lengths_and_advantages_at_their_limits_give_finite_weights() {
    for exponent in [0.0, 0.3, 1.0] {
        for advantage in [1e30, 1e-300] {
            let constants =
                Constants { sides: Some(SideDial { length_exponent: exponent, ratio: 1.0 }), ..any_constants() };
            let mut weights = [0.0; 3];
            let advantages = [advantage, advantage, -advantage];
            group_weights(Aggregation::Sides, &advantages, &[1, 1 << 24, 3], constants, &mut weights).unwrap();
            assert!(weights.iter().all(|weight| weight.is_finite() && *weight > 0.0), "{exponent}: {weights:?}");
        }
    }
}

#[test]
fn every_other_rule_refuses_the_settings_of_the_dial() {
    for &aggregation in Aggregation::ALL.iter().filter(|rule| **rule != Aggregation::Sides) {
        let policy = if aggregation == Aggregation::Luspo { PolicyTerm::Gspo } else { PolicyTerm::Ppo };
        let plain = Settings { aggregation, policy, max_tokens: 9, ..Settings::default() };
        assert!(plain.validate().is_ok(), "{aggregation}");
        let exponent = Settings { length_exponent: Some(0.5), ..plain.clone() };
        let ratio = Settings { side_ratio: Some(SideRatio::Steps(vec![(1, 1.0), (9, 0.1)])), ..plain };
        for (settings, field) in
            [(exponent, "length_exponent is 0.5"), (ratio, "side_ratio is 1 at step 1, 0.1 at step 9")]
        {
            let error = settings.validate().unwrap_err().to_string();
            let allowed = format!("{field}, allowed: absent with aggregation = {aggregation}; only sides has it");
            assert_eq!(error, allowed);
        }
    }
}

#[test]
fn numbers_that_make_no_dial_are_refused_by_name() {
    let refused = |exponent: f64, ratio: SideRatio| {
        let settings = Settings { side_ratio: Some(ratio), ..sides(exponent, 1.0) };
        settings.validate().unwrap_err().to_string()
    };
    for exponent in [-0.1, 1.1, f64::NAN] {
        let error = refused(exponent, SideRatio::Constant(1.0));
        assert_eq!(error, format!("length_exponent is {exponent}, allowed: 0 to 1"));
    }
    for ratio in [-0.1, f64::INFINITY, f64::NAN] {
        let error = refused(1.0, SideRatio::Constant(ratio));
        assert_eq!(error, format!("side_ratio is {ratio}, allowed: a finite number, at least 0"));
        let error = refused(1.0, SideRatio::Steps(vec![(1, 1.0), (7, ratio)]));
        assert!(error.starts_with(&format!("side_ratio is [7, {ratio}], allowed: a finite number")), "{error}");
    }
    for (points, words) in [
        (vec![], "side_ratio is an empty list"),
        (vec![(0, 1.0)], "side_ratio is [0, 1], allowed: a step of at least 1"),
        (vec![(5, 1.0), (5, 0.5)], "side_ratio is [5, 0.5], allowed: a step of at least 6"),
    ] {
        let error = refused(1.0, SideRatio::Steps(points));
        assert!(error.starts_with(words), "{error}");
    }
}

#[test]
fn the_ratio_is_read_as_a_number_or_a_list_and_written_the_same_way() {
    for (text, ratio) in [
        ("0", SideRatio::Constant(0.0)),
        ("0.1", SideRatio::Constant(0.1)),
        ("[[1,1.0],[200,0.1]]", SideRatio::Steps(vec![(1, 1.0), (200, 0.1)])),
    ] {
        let read: SideRatio = serde_json::from_str(text).unwrap();
        assert_eq!(read, ratio);
        assert_eq!(serde_json::from_value::<SideRatio>(serde_json::to_value(&read).unwrap()).unwrap(), ratio);
    }
    let error = serde_json::from_str::<SideRatio>("\"much\"").unwrap_err().to_string();
    assert!(error.contains("a number, or a list of [step, number]"), "{error}");
    assert!(
        !serde_json::to_string(&Settings::default()).unwrap().contains("side_ratio"),
        "absent where no rule has it"
    );
}

#[test]
fn a_step_has_the_ratio_of_its_place_in_the_schedule() {
    let settings = Settings { side_ratio: Some(SideRatio::Steps(vec![(11, 1.0), (21, 0.0)])), ..sides(0.5, 1.0) };
    assert!(settings.validate().is_ok());
    let ratio = |step| settings.at_step(step).constants().sides.unwrap().ratio;
    assert_eq!([1, 11, 16, 21, 99].map(ratio), [1.0, 1.0, 0.5, 0.0, 0.0]);
    assert_eq!(settings.constants().sides.unwrap().ratio, 1.0, "that of step 1");
    let formula = settings.formula();
    assert!(formula.contains("with e = 0.5, r = 1 at step 11, 0 at step 21 [sides]"), "{formula}");
}

#[test]
fn names_of_the_papers_say_which_dial_they_are() {
    let error = "W-REINFORCE".parse::<Aggregation>().unwrap_err().to_string();
    assert!(error.contains("aggregation = sides with side_ratio = 0 (nsr) or 0.1 (w-reinforce)"), "{error}");
}

#[test]
fn a_response_alone_on_its_side_has_one_weight_at_every_exponent() {
    let step = vec![vec![Owned::on_policy(1.0, 7), Owned::on_policy(0.0, 200)]];
    let weights = [0.0, 0.4, 1.0].map(|exponent| compute(&sides(exponent, 1.0), &step).weights.concat());
    assert!(weights.iter().all(|found| all_close(found, &[0.5 / 7.0, 0.5 / 200.0])), "{weights:?}");
}
