//! The laws of objectives since the paper: SAPO, DPPO, MaxRL, GDPO and LUSPO.

use evenkeel_objective::{
    Advantage, Aggregation, GroupTerms, MiniBatchCounts, PolicyStats, PolicyTerm, RewardComponent, Settings,
    advantages, batch_loss_of_components, component_advantages, response_loss,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{Holes, Owned, Rewards, all_close, close, compute, flat, on_policy, steps, views};

fn policy(policy: PolicyTerm) -> Settings {
    Settings { policy, ..Settings::default() }
}

fn loss(settings: &Settings, advantage: f64, response: &Owned) -> (PolicyStats, Vec<f64>) {
    let mut grad = vec![f64::NAN; response.mask.len()];
    let stats = response_loss(settings, advantage, 0.01, &response.tokens(), &mut grad).unwrap();
    (stats, grad)
}

fn one_response() -> impl Strategy<Value = Owned> {
    steps(Rewards::Any, Holes::Some).prop_map(|mut step| step.remove(0).remove(0))
}

/// A token of this probability before and after.
fn token(before: f64, after: f64) -> Owned {
    let mut response = Owned::on_policy(0.0, 1);
    (response.old_logp[0], response.logp[0]) = (before.ln(), after.ln());
    response
}

/// (r - mean) / mean, in another order of operations.
fn maxrl_by_hand(rewards: &[f64]) -> Vec<f64> {
    let sum: f64 = rewards.iter().sum();
    let n = rewards.len() as f64;
    rewards.iter().map(|reward| if sum == 0.0 { 0.0 } else { reward * n / sum - 1.0 }).collect()
}

fn of(mode: Advantage, rewards: &[f64]) -> Vec<f64> {
    let mut out = vec![f64::NAN; rewards.len()];
    advantages(mode, rewards, &vec![true; rewards.len()], &mut out).unwrap();
    out
}

fn component(weight: f64, values: &[f64]) -> RewardComponent {
    RewardComponent { weight, values: values.to_vec() }
}

fn of_components(components: &[RewardComponent]) -> Vec<f64> {
    let responses = components[0].values.len();
    let mut out = vec![f64::NAN; responses];
    component_advantages(components, &vec![true; responses], &mut out).unwrap();
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn sapo_pulls_as_without_a_clip_where_policies_are_equal(
        step in steps(Rewards::Any, Holes::Some).prop_map(on_policy),
        tau in 0.1..20.0,
    ) {
        let sapo = Settings { sapo_tau_pos: tau, sapo_tau_neg: 2.0 * tau, ..policy(PolicyTerm::Sapo) };
        prop_assert!(all_close(&flat(&compute(&sapo, &step)), &flat(&compute(&policy(PolicyTerm::Ppo), &step))));
    }

    #[test]
    fn the_gate_of_sapo_is_softer_than_the_ratio_and_sooner_closed_at_a_higher_temperature(
        ratio in 0.02_f64..20.0,
        advantage in prop::sample::select(&[1.0, -1.0][..]),
        tau in 0.2..3.0,
    ) {
        let slope = |tau: f64| {
            let settings = Settings { sapo_tau_pos: tau, sapo_tau_neg: tau, ..policy(PolicyTerm::Sapo) };
            let (stats, grad) = loss(&settings, advantage, &token(0.01, 0.01 * ratio));
            assert_eq!((stats.clipped, stats.clipped_lower), (0, 0));
            (grad[0] / (-0.01 * advantage), stats.loss)
        };
        let (gentle, _) = slope(tau);
        let (strict, _) = slope(2.0 * tau);
        prop_assert!(0.0 <= strict && strict <= gentle && gentle <= ratio * (1.0 + 1e-12), "{strict}, {gentle}, \
            {ratio}");
    }

    #[test]
    fn sapo_takes_one_temperature_for_each_sign(
        response in one_response(),
        positive in 0.2..5.0,
        negative in 0.2..5.0,
    ) {
        let both = |sapo_tau_pos, sapo_tau_neg| Settings { sapo_tau_pos, sapo_tau_neg, ..policy(PolicyTerm::Sapo) };
        let up = loss(&both(positive, negative), 1.0, &response);
        let same_up = loss(&both(positive, 1.0), 1.0, &response);
        prop_assert_eq!(up, same_up);
        let down = loss(&both(positive, negative), -1.0, &response);
        let same_down = loss(&both(1.0, negative), -1.0, &response);
        prop_assert_eq!(down, same_down);
    }

    #[test]
    fn dppo_keeps_the_ratio_or_nothing(
        response in one_response(),
        advantage in -2.0..2.0,
        p in prop::sample::select(&[PolicyTerm::DppoTv, PolicyTerm::DppoKl][..]),
    ) {
        let settings = Settings { clip_low: 0.05, clip_high: 0.1, ..policy(p) };
        let (stats, grad) = loss(&settings, advantage, &response);
        let mut left_out = 0;
        let mut kept = 0.0;
        for t in (0..grad.len()).filter(|t| response.mask[*t]) {
            let logp = response.logp[t];
            let old = response.old_logp[t];
            let pi = logp.exp().min(1.0);
            let mu = old.exp();
            let moved = match p {
                PolicyTerm::DppoTv => (pi - mu).abs(),
                _ => mu * (old - logp.min(0.0)) + (1.0 - mu) * ((1.0 - mu + 1e-8) / (1.0 - pi + 1e-8)).ln(),
            };
            let away = if advantage > 0.0 { logp > old && moved > 0.1 } else { logp < old && moved > 0.05 };
            let expected = if away { 0.0 } else { -0.01 * advantage * (logp - old).exp() };
            prop_assert!(close(grad[t], expected), "token {t}: {} and not {expected}", grad[t]);
            left_out += usize::from(away);
            kept += expected;
        }
        prop_assert_eq!(stats.clipped, if advantage == 0.0 { 0 } else { left_out });
        prop_assert!(close(stats.loss, kept), "the value is the ratio as well");
    }

    #[test]
    fn dppo_without_a_limit_is_the_ratio(response in one_response(), advantage in -2.0..2.0) {
        let open = Settings { clip_low: 1e9, clip_high: 1e9, ..policy(PolicyTerm::DppoKl) };
        prop_assert!(open.validate().is_ok());
        let dppo = open;
        let ppo = Settings { clip_low: 1.0, clip_high: 1e9, ..policy(PolicyTerm::Ppo) };
        let (a, left) = loss(&dppo, advantage, &response);
        let (b, right) = loss(&ppo, advantage, &response);
        prop_assert!(close(a.loss, b.loss) && all_close(&left, &right));
    }

    #[test]
    fn maxrl_divides_by_the_mean_reward(rewards in vec(0.0..5.0_f64, 1..9), scale in 0.01..100.0) {
        let found = of(Advantage::MaxRl, &rewards);
        let expected = if rewards.len() == 1 { vec![0.0] } else { maxrl_by_hand(&rewards) };
        for (found, expected) in found.iter().zip(&expected) {
            prop_assert!((found - expected).abs() < 1e-9, "{found} and not {expected}");
        }
        let scaled: Vec<f64> = rewards.iter().map(|reward| reward * scale).collect();
        prop_assert!(of(Advantage::MaxRl, &scaled).iter().zip(&found).all(|(a, b)| (a - b).abs() < 1e-9), "of any \
            unit");
        prop_assert!(found.iter().sum::<f64>().abs() < 1e-9);
    }

    #[test]
    fn where_k_of_n_are_right_maxrl_averages_the_right_ones(right in 1_usize..8, wrong in 1_usize..8) {
        let rewards: Vec<f64> = [vec![1.0; right], vec![0.0; wrong]].concat();
        let found = of(Advantage::MaxRl, &rewards);
        let n = (right + wrong) as f64;
        // 1/n sum of A_i s_i is the mean of the right s_i minus the mean of all: the paper's estimator with its
        // baseline.
        for (reward, found) in rewards.iter().zip(&found) {
            prop_assert!(close(found / n, reward / right as f64 - 1.0 / n));
        }
    }

    #[test]
    fn gdpo_of_one_component_is_the_sample_deviation_s(rewards in vec(-2.0..2.0_f64, 2..9), weight in 0.1..3.0) {
        let expected: Vec<f64> = of(Advantage::GrpoSample, &rewards).iter().map(|a| a * weight).collect();
        prop_assert!(all_close(&of_components(&[component(weight, &rewards)]), &expected));
        prop_assert!(all_close(&of(Advantage::Gdpo, &rewards), &of(Advantage::GrpoSample, &rewards)));
    }

    #[test]
    fn the_size_of_a_component_does_not_matter_to_gdpo(
        rewards in vec((-2.0..2.0_f64, -2.0..2.0_f64), 2..9),
        scale in 10.0..1000.0,
        shift in -5.0..5.0,
    ) {
        let (a, b): (Vec<f64>, Vec<f64>) = rewards.into_iter().unzip();
        let far = |x: &[f64]| { let (low, high) = x.iter().fold((9.0_f64, -9.0_f64), |(l, h), x| (l.min(*x), h.max(*x))); high - low > 0.1 };
        prop_assume!(far(&a) && far(&b));
        let larger: Vec<f64> = b.iter().map(|value| value * scale + shift).collect();
        let plain = of_components(&[component(1.0, &a), component(0.5, &b)]);
        let scaled = of_components(&[component(1.0, &a), component(0.5, &larger)]);
        prop_assert!(plain.iter().zip(&scaled).all(|(x, y)| (x - y).abs() < 1e-3), "{plain:?} and {scaled:?}");
        prop_assert!(plain.iter().sum::<f64>().abs() < 1e-9, "nothing is left for a mean over the mini-batch");
    }

    #[test]
    fn the_advantages_of_a_mini_batch_have_a_deviation_of_one_under_gdpo(
        step in steps(Rewards::Any, Holes::None).prop_map(on_policy),
        second in vec(-1.0..1.0_f64, 32),
    ) {
        let settings = Settings { advantage: Advantage::Gdpo, aggregation: Aggregation::Sequence, ..Settings::default() };
        let mut drawn = second.iter().copied().cycle();
        let components: Vec<Vec<RewardComponent>> = step.iter().map(|group| {
            let first: Vec<f64> = group.iter().map(|response| response.reward).collect();
            let second: Vec<f64> = group.iter().map(|_| drawn.next().unwrap_or(0.0)).collect();
            vec![component(1.0, &first), component(2.0, &second)]
        }).collect();
        let batch = batch_loss_of_components(&settings, &views(&step), &components).unwrap();
        // Before the first update the pull of a response is w T A: weights carry the factor of the mini-batch.
        let lengths = step.iter().flatten().map(|response| response.trainable() as f64);
        let sizes: Vec<f64> = step.iter().map(|group| (group.len() * step.len()) as f64).collect();
        let sizes = step.iter().zip(&sizes).flat_map(|(group, size)| vec![*size; group.len()]);
        let scaled: Vec<f64> = batch.weights.concat().iter().zip(batch.advantages.concat()).zip(lengths).zip(sizes)
            .map(|(((w, a), t), size)| w * a * t * size).collect();
        let n = scaled.len() as f64;
        let deviation = (scaled.iter().map(|a| a * a).sum::<f64>() / (n - 1.0)).sqrt();
        prop_assert!((deviation - 1.0).abs() < 1e-4, "{deviation}");
    }

    #[test]
    fn luspo_is_gspo_with_each_response_multiplied_by_its_length(step in steps(Rewards::Any, Holes::Some)) {
        let gspo = |aggregation| Settings { aggregation, max_tokens: 1, ..policy(PolicyTerm::Gspo) };
        let luspo = compute(&gspo(Aggregation::Luspo), &step);
        let mean = compute(&gspo(Aggregation::Sequence), &step);
        for ((group, ours), means) in step.iter().zip(&luspo.gradients).zip(&mean.gradients) {
            for ((response, ours), means) in group.iter().zip(ours).zip(means) {
                let length = response.trainable() as f64;
                let multiplied: Vec<f64> = means.iter().map(|slope| slope * length).collect();
                prop_assert!(all_close(ours, &multiplied));
            }
        }
        let sum = compute(&gspo(Aggregation::SequenceSum), &step);
        prop_assert!(close(luspo.loss, sum.loss) && all_close(&flat(&luspo), &flat(&sum)));
    }
}

#[test]
fn a_rare_token_may_move_far_in_ratio_and_a_frequent_one_not_in_probability_under_dppo() {
    let tv = Settings { clip_low: 0.15, clip_high: 0.15, ..policy(PolicyTerm::DppoTv) };
    let is_clipped =
        |settings: &Settings, advantage, before, after| loss(settings, advantage, &token(before, after)).0.clipped == 1;
    assert!(!is_clipped(&tv, 1.0, 1e-5, 1e-3), "a hundred times as likely, and hardly anything has moved");
    assert!(is_clipped(&tv, -1.0, 0.99, 0.8));
    let ppo = policy(PolicyTerm::Ppo);
    assert!(
        is_clipped(&ppo, 1.0, 1e-5, 1e-3) && !is_clipped(&ppo, -1.0, 0.99, 0.8),
        "the clip has it the other way round"
    );
    let kl = Settings { clip_low: 0.05, clip_high: 0.05, ..policy(PolicyTerm::DppoKl) };
    assert!(!is_clipped(&kl, 1.0, 1e-5, 1e-3) && is_clipped(&kl, -1.0, 0.99, 0.8));
    for settings in [tv, kl] {
        assert!(
            !is_clipped(&settings, 1.0, 0.9, 0.1) && !is_clipped(&settings, -1.0, 0.1, 0.9),
            "what comes back is kept"
        );
    }
}

#[test]
fn a_token_that_has_all_but_vanished_is_left_out_by_dppo() {
    let mut gone = Owned::on_policy(0.0, 1);
    gone.logp[0] = -1000.0;
    for p in [PolicyTerm::DppoTv, PolicyTerm::DppoKl] {
        assert_eq!(loss(&policy(p), -1.0, &gone).0.clipped, 1, "{p}");
    }
}

#[test]
fn maxrl_refuses_rewards_below_zero_and_a_group_without_a_right_answer_has_no_advantages() {
    let error = advantages(Advantage::MaxRl, &[1.0, -0.5], &[true; 2], &mut [0.0; 2]).unwrap_err().to_string();
    assert_eq!(error, "response 1: reward is -0.5, allowed: at least 0 with advantage = maxrl");
    assert!(advantages(Advantage::MaxRl, &[1.0, -0.5], &[true, false], &mut [0.0; 2]).is_ok(), "it is not read");
    assert_eq!(of(Advantage::MaxRl, &[0.0; 4]), [0.0; 4]);
    assert_eq!(of(Advantage::MaxRl, &[1.0, 0.0, 0.0, 0.0]), [3.0, -1.0, -1.0, -1.0]);
    let smallest = of(Advantage::MaxRl, &[f64::from_bits(1), 0.0]);
    assert!(smallest.iter().all(|advantage| advantage.is_finite()), "{smallest:?}");
}

#[test]
fn rewards_whose_sums_are_equal_differ_under_gdpo() {
    // Right and long, wrong and short, right and short: the first two have one sum.
    let right = [1.0, 0.0, 1.0, 0.0];
    let short = [0.0, 1.0, 1.0, 1.0];
    let sums: Vec<f64> = right.iter().zip(&short).map(|(a, b)| a + b).collect();
    let added = of(Advantage::GrpoSample, &sums);
    assert_eq!(added[0], added[1]);
    let found = of_components(&[component(1.0, &right), component(1.0, &short)]);
    // Deviations: 1/sqrt(3) and 1/2; deviations from the mean 1/2, -1/2 and -3/4, 1/4.
    let expected = [3.0_f64.sqrt() / 2.0 - 1.5, 0.5 - 3.0_f64.sqrt() / 2.0];
    assert!((found[0] - expected[0]).abs() < 1e-5 && (found[1] - expected[1]).abs() < 1e-5, "{found:?}");
    assert!(found[0] != found[1]);
}

#[test]
fn a_component_that_a_response_does_not_have_is_left_out_for_it() {
    let all = [1.0, 0.0, 1.0];
    let some = [1.0, f64::NAN, 0.0];
    let found = of_components(&[component(1.0, &all), component(1.0, &some)]);
    let alone = of_components(&[component(1.0, &all)]);
    assert_eq!(found[1], alone[1]);
    let pair = of(Advantage::GrpoSample, &[1.0, 0.0]);
    assert!(close(found[0], alone[0] + pair[0]) && close(found[2], alone[2] + pair[1]));
    let one = of_components(&[component(1.0, &all), component(1.0, &[f64::NAN, f64::NAN, 5.0])]);
    assert_eq!(one, alone, "nothing to compare one with");
}

#[test]
fn components_out_of_range_are_refused() {
    let valid = [true, true];
    let refused = |components: &[RewardComponent]| {
        component_advantages(components, &valid, &mut [0.0; 2]).unwrap_err().to_string()
    };
    assert_eq!(refused(&[component(1.0, &[1.0])]), "length of reward component is 1, allowed: 2, the length of valid");
    assert!(refused(&[component(f64::NAN, &[1.0, 2.0])]).starts_with("weight of a reward component is NaN"));
    assert!(refused(&[component(1.0, &[f64::INFINITY, 2.0])]).contains("reward is inf, allowed: a finite number"));
}

#[test]
fn an_invalid_response_is_in_no_component() {
    let valid = [true, true, false];
    let components = [component(1.0, &[1.0, 0.0, 1e30]), component(1.0, &[0.0, 1.0, f64::INFINITY])];
    let settings = Settings { advantage: Advantage::Gdpo, ..Settings::default() };
    let terms = GroupTerms::with_components(&settings, &[1.0, 1.0, f64::NAN], &components, &valid, &[2, 3, 0]).unwrap();
    assert_eq!(terms.advantages, [0.0; 3], "they cancel");
    let mut counts = MiniBatchCounts::default();
    counts.add(terms.counts);
    assert!(counts.policy_scale(settings.aggregation, settings.advantage).is_finite());
}
