//! Policy steps, independent of how they are split.

use crate::support::{bits, groups, host, learner, settings, update_difference, weights, without_signal};
use candle_core::Device;
use evenkeel_config::Settings;
use evenkeel_learner::{
    BatchShape, Example, OldLogp, ResponseGroup, RewardPart, StepReport, SupervisedReport, TrainingSettings,
};
use evenkeel_objective::{Advantage, Aggregation, Correction, PolicyTerm};

fn trained(settings: TrainingSettings, groups: Vec<ResponseGroup>) -> (StepReport, Vec<f32>) {
    let mut learner = learner(settings);
    let report = learner.train(groups).unwrap();
    (report, weights(&learner))
}

/// A rule with what it needs.
fn under(settings: &mut TrainingSettings, aggregation: Aggregation) {
    settings.objective.aggregation = aggregation;
    settings.objective.max_tokens = 30;
    if aggregation == Aggregation::Luspo {
        settings.objective.policy = PolicyTerm::Gspo;
    }
}

fn assert_same_update(a: &[f32], b: &[f32]) {
    let origin = weights(&learner(settings()));
    let difference = update_difference(a, b, &origin);
    assert!(difference < 1e-4, "updates differ by {difference:e}");
}

/// An optimizer whose update is proportional to the gradient, so that comparing weights compares gradients.
fn linear() -> TrainingSettings {
    let mut settings = settings();
    settings.optimizer.epsilon = 1e3;
    settings.optimizer.learning_rate = 10.0;
    settings.optimizer.weight_decay = 0.0;
    settings.optimizer.max_grad_norm = None;
    settings
}

/// The step's whole gradient: with a first decay rate of 0 the first moment is nothing else.
fn gradient(mut settings: TrainingSettings, groups: Vec<ResponseGroup>) -> Vec<f32> {
    settings.optimizer.betas[0] = 0.0;
    settings.optimizer.max_grad_norm = None;
    let mut learner = learner(settings);
    learner.train(groups).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    learner.save_checkpoint(&path, b"").unwrap();
    let moments = candle_core::safetensors::load(path.join("moments.safetensors"), &Device::Cpu).unwrap();
    let specs = learner.parameters().specs().iter();
    specs.flat_map(|spec| host(&moments[&format!("first.{}", spec.name)])).collect()
}

#[test]
fn three_token_budgets_give_the_same_gradient_to_the_bit_under_every_aggregation() {
    for aggregation in Aggregation::ALL {
        let run = |tokens| {
            let mut settings = settings();
            under(&mut settings, *aggregation);
            settings.compute.micro_batch_tokens = tokens;
            gradient(settings, groups(1, 6))
        };
        let reference = run(100_000);
        for tokens in [40, 150] {
            assert!(run(tokens) == reference, "{aggregation} at {tokens} tokens");
        }
    }
}

/// A supervised step, and two policy steps of `groups` groups of which one has no gradient: the bits of everything, and
/// the reports.
fn run_of(settings: TrainingSettings, count: usize, announced: bool) -> (Vec<u32>, Vec<StepReport>, SupervisedReport) {
    let mut learner = learner(settings);
    let examples: Vec<Example> = groups(8, 5)
        .into_iter()
        .flat_map(|group| {
            let ResponseGroup { prompt, responses, .. } = group;
            responses.into_iter().map(move |response| Example { prompt: prompt.clone(), response: response.tokens })
        })
        .collect();
    let supervised = learner.supervised_step(&examples).unwrap();
    let reports = [9, 10].map(|seed| {
        let mut groups = groups(seed, count as u64 - 1);
        groups.insert(count / 2, without_signal(seed));
        let mut step = if announced { learner.step_of(count) } else { learner.step() };
        groups.into_iter().for_each(|group| step.add(group).unwrap());
        step.finish().unwrap()
    });
    (bits(&learner), reports.to_vec(), supervised)
}

#[test]
fn any_number_of_threads_and_any_token_budget_give_the_same_bits_and_reports() {
    let plain = settings();
    let mut regularized = settings();
    regularized.objective.kl_coefficient = 0.1;
    regularized.objective.entropy_coefficient = 0.01;
    (regularized.mini_batch_groups, regularized.epochs, regularized.shuffle) = (5, 2, true);
    let mut one_block = settings();
    one_block.compute.gradient_blocks = 1;
    // Fewer groups than blocks, as many, and more.
    for (settings, counts) in [(plain, &[3, 8, 13][..]), (regularized, &[10]), (one_block, &[7])] {
        for &count in counts {
            let step_with = |threads, tokens, announced| {
                let mut settings = settings.clone();
                (settings.compute.threads, settings.compute.micro_batch_tokens) = (threads, tokens);
                run_of(settings, count, announced)
            };
            let alone = step_with(1, 0, true);
            for (threads, tokens) in [(1, 8), (2, 100_000), (2, 8), (3, 40), (4, 0), (8, 8), (8, 300)] {
                for announced in [true, false] {
                    let found = step_with(threads, tokens, announced);
                    assert!(found.0 == alone.0, "{count} groups: other bits with {threads} threads at {tokens} tokens");
                    assert_eq!((&found.1, &found.2), (&alone.1, &alone.2), "{threads} threads, {tokens} tokens");
                }
            }
        }
    }
}

#[test]
fn the_number_of_blocks_changes_no_more_than_rounding_and_is_part_of_what_both_sides_agree_on() {
    let trained_in = |blocks| {
        let mut settings = linear();
        settings.compute.gradient_blocks = blocks;
        (settings.hash(), gradient(settings, groups(2, 9)))
    };
    let (hash, eight) = trained_in(8);
    let zeros = vec![0.0; eight.len()];
    for blocks in [1, 2, 16] {
        let (other_hash, other) = trained_in(blocks);
        let difference = update_difference(&other, &eight, &zeros);
        assert!(difference > 0.0 && difference < 1e-5, "{blocks} blocks: {difference:e}");
        assert_ne!(other_hash, hash);
    }
}

#[test]
fn the_order_of_groups_and_of_responses_changes_nothing() {
    let (_, reference) = trained(linear(), groups(2, 5));
    let mut turned = groups(2, 5);
    turned.reverse();
    turned.iter_mut().for_each(|group| group.responses.reverse());
    assert_same_update(&trained(linear(), turned).1, &reference);
}

#[test]
fn the_same_step_gives_the_same_bits() {
    let run = || {
        let mut learner = learner(settings());
        learner.train(groups(3, 4)).unwrap();
        learner.train(groups(4, 4)).unwrap();
        bits(&learner)
    };
    assert_eq!(run(), run());
}

#[test]
fn groups_without_signal_cost_no_pass_and_count_in_the_mean_over_groups() {
    let mut mixed = groups(5, 2);
    mixed.extend([without_signal(90), without_signal(91)]);
    let (report, _) = trained(settings(), mixed);
    let (alone, _) = trained(settings(), groups(5, 2));
    assert_eq!((report.groups, report.groups_with_signal, report.trained_responses), (4, 2, alone.trained_responses));
    let half = report.updates[0].grad_norm;
    let whole = alone.updates[0].grad_norm;
    assert!((half / whole - 0.5).abs() < 1e-6, "{half} for half of {whole}");
}

#[test]
fn a_step_without_any_signal_passes_nothing_and_only_decays() {
    let mut settings = settings();
    settings.optimizer.weight_decay = 0.0;
    let before = weights(&learner(settings.clone()));
    let (report, after) = trained(settings, vec![without_signal(1), without_signal(2)]);
    assert_eq!((report.trained_responses, report.updates[0].grad_norm, report.version), (0, 0.0, 1));
    assert_eq!(before, after);
}

#[test]
fn an_invalid_response_leaves_its_group_as_if_it_had_not_been_sampled() {
    let mut with_invalid = groups(6, 3);
    for group in &mut with_invalid {
        let mut broken = group.responses[0].clone();
        broken.valid = false;
        // None of it is read.
        (broken.reward, broken.rollout_logp[0], broken.tokens[0]) = (f64::NAN, f32::NAN, u32::MAX);
        group.responses.insert(1, broken);
    }
    let (report, found) = trained(settings(), with_invalid);
    let (reference, wanted) = trained(settings(), groups(6, 3));
    assert_eq!(report.invalid, 3);
    assert_eq!(found, wanted);
    assert_eq!(report.updates, reference.updates);
    assert_eq!((report.reward, report.quantities), (reference.reward, reference.quantities));
}

#[test]
fn masked_tokens_are_read_but_not_trained_on() {
    let mut poisoned = groups(7, 3);
    for response in poisoned.iter_mut().flat_map(|group| &mut group.responses) {
        for (logp, mask) in response.rollout_logp.iter_mut().zip(&response.mask) {
            *logp = if *mask { *logp } else { f32::NAN };
        }
    }
    let mut with_ratio = settings();
    with_ratio.old_logp = OldLogp::Rollout;
    assert_eq!(trained(with_ratio.clone(), poisoned).1, trained(with_ratio, groups(7, 3)).1);
}

#[test]
fn recomputed_old_log_probabilities_make_the_first_ratio_one() {
    let (report, _) = trained(settings(), groups(8, 3));
    let update = &report.updates[0];
    assert_eq!((update.largest_ratio, update.policy.clipped), (1.0, 0));
    assert!(update.loss.abs() < 1e-7, "balanced at ratio 1 has loss 0, found {}", update.loss);
}

#[test]
fn mini_batches_never_split_a_group_and_ratios_leave_one_after_the_first() {
    let mut settings = settings();
    (settings.mini_batch_groups, settings.epochs) = (2, 2);
    settings.optimizer.learning_rate = 1e-2;
    let (report, _) = trained(settings, groups(9, 5));
    assert_eq!(report.updates.len(), 6, "2 + 2 + 1 groups, twice");
    assert_eq!(report.updates[0].largest_ratio, 1.0);
    assert!(report.updates[3].largest_ratio > 1.001);
}

#[test]
fn one_mini_batch_of_everything_is_the_single_update() {
    let mut cut = linear();
    cut.mini_batch_groups = 4;
    assert_same_update(&trained(cut, groups(10, 4)).1, &trained(linear(), groups(10, 4)).1);
}

#[test]
fn a_correction_whose_factor_would_always_be_1_is_refused() {
    let mut settings = settings();
    settings.objective.correction = Correction::TokenTruncate;
    settings.validate().unwrap();
    settings.old_logp = OldLogp::Rollout;
    let error = settings.validate().unwrap_err().to_string();
    assert!(error.starts_with("objective.correction is token-truncate") && error.contains("old_logp"), "{error}");
}

#[test]
fn a_clip_that_can_never_act_is_noted() {
    let noted = |change: fn(&mut TrainingSettings)| {
        let mut settings = settings();
        change(&mut settings);
        settings.notes().iter().any(|note| note.contains("the clip of policy = ppo never acts"))
    };
    assert!(noted(|_| {}));
    assert!(!noted(|settings| settings.mini_batch_groups = 2));
    assert!(!noted(|settings| settings.epochs = 2));
    assert!(!noted(|settings| settings.old_logp = OldLogp::Rollout));
}

#[test]
fn a_group_size_or_reward_that_a_step_would_refuse_is_refused_before_any_step() {
    let batch = BatchShape { group_size: 1, largest_reward: 1.0 };
    let error = settings().validate_batch(batch).unwrap_err().to_string();
    assert!(error.contains("group_size") && error.contains("at least 2 with advantage = grpo"), "{error}");
    let mut lone = settings();
    lone.objective.advantage = Advantage::Rloo;
    lone.validate_batch(batch).unwrap();
    let error = lone.validate_batch(BatchShape { largest_reward: 1e300, ..batch }).unwrap_err().to_string();
    assert!(error.contains("largest_reward"), "{error}");
}

#[test]
fn shuffling_is_seeded() {
    let run = |seed| {
        let mut settings = settings();
        (settings.shuffle, settings.mini_batch_groups, settings.seed) = (true, 1, seed);
        trained(settings, groups(11, 4)).1
    };
    assert_eq!(run(1), run(1));
    assert!((2..6).any(|seed| run(seed) != run(1)), "four seeds in a row give the same order of four groups");
}

#[test]
fn kl_and_entropy_terms_reach_groups_without_signal_under_every_aggregation() {
    for aggregation in [Aggregation::Balanced, Aggregation::BatchToken] {
        let run = |tokens| {
            let mut settings = linear();
            settings.objective.aggregation = aggregation;
            settings.objective.entropy_coefficient = 0.01;
            settings.objective.kl_coefficient = 0.1;
            settings.compute.micro_batch_tokens = tokens;
            let mut all = groups(12, 2);
            all.push(without_signal(5));
            trained(settings, all)
        };
        let (report, found) = run(40);
        let (_, wanted) = run(10_000);
        assert_eq!(report.trained_responses, 14);
        let update = &report.updates[0];
        assert!(update.entropy_loss < 0.0 && update.term_losses[0].abs() < 1e-9, "{update:?}");
        // -0.01 times the mean over groups of the mean entropy, which is below ln 29.
        assert!((-0.01 * 29f64.ln()..-0.02).contains(&update.entropy_loss), "{}", update.entropy_loss);
        assert_same_update(&found, &wanted);
    }
}

#[test]
fn the_kl_term_measures_the_way_from_the_first_weights() {
    let mut settings = settings();
    settings.objective.kl_coefficient = 1e-3;
    settings.optimizer.learning_rate = 1e-2;
    let mut learner = learner(settings);
    let kl: Vec<f64> =
        (0..3).map(|step| learner.train(groups(20 + step, 4)).unwrap().updates[0].terms[0].mean().unwrap()).collect();
    assert!(kl[0].abs() < 1e-6 && kl[1] > 1e-4 && kl[2] > kl[1], "{kl:?}");
}

#[test]
fn corrections_weigh_the_gap_between_engine_and_learner() {
    let run = |correction| {
        let mut settings = settings();
        settings.objective.correction = correction;
        settings.objective.policy = PolicyTerm::DualClip;
        trained(settings, groups(13, 3)).0.updates[0].policy
    };
    assert_eq!(run(Correction::None).correction_bounded, 0);
    assert!(run(Correction::TokenTruncate).correction_bounded > 0);
}

/// Groups whose rewards have a second component, of this size.
fn with_components(scale: f64) -> Vec<ResponseGroup> {
    let mut groups = groups(14, 4);
    for (number, response) in groups.iter_mut().flat_map(|group| &mut group.responses).enumerate() {
        let part = |weight, value| RewardPart { weight, value };
        let second = scale * [0.25, 1.0, 0.5][number % 3];
        response.components =
            [("right".to_owned(), part(1.0, response.reward)), ("short".to_owned(), part(0.5, second))].into();
        response.reward += 0.5 * second;
    }
    groups
}

#[test]
fn gdpo_normalises_each_component_whatever_its_size() {
    for kl in [0.0, 0.1] {
        let run = |scale| {
            let mut settings = linear();
            settings.objective.advantage = Advantage::Gdpo;
            settings.objective.kl_coefficient = kl;
            trained(settings, with_components(scale))
        };
        let (report, plain) = run(1.0);
        let (_, larger) = run(100.0);
        assert_same_update(&plain, &larger);
        let mut alone = with_components(1.0);
        alone.iter_mut().flat_map(|group| &mut group.responses).for_each(|response| response.components.clear());
        let mut settings = linear();
        settings.objective.advantage = Advantage::Gdpo;
        settings.objective.kl_coefficient = kl;
        let (_, of_sums) = trained(settings, alone);
        assert!(update_difference(&plain, &of_sums, &weights(&learner(linear()))) > 0.01, "sums are another reward");
        // The factor of the mini-batch is in the weights: reported advantages are those before it.
        let scaled: Vec<f64> = report.response_reports.iter().map(|of| of.weight * of.advantage).collect();
        assert!(scaled.iter().all(|pull| pull.is_finite()) && scaled.iter().any(|pull| *pull != 0.0));
    }
}

#[test]
fn a_component_that_is_no_number_is_refused() {
    let mut groups = with_components(1.0);
    let part = RewardPart { weight: 1.0, value: f64::NAN };
    groups[1].responses[2].components.insert("style".to_owned(), part);
    let error = learner(settings()).train(groups).unwrap_err().to_string();
    assert!(error.contains("groups[1].responses[2].components.style.value is NaN"), "{error}");
}

#[test]
fn a_dropped_step_changes_nothing() {
    let mut first = learner(settings());
    let mut step = first.step();
    for group in groups(16, 4) {
        step.add(group).unwrap();
    }
    drop(step);
    first.train(groups(17, 2)).unwrap();
    let mut second = learner(settings());
    second.train(groups(17, 2)).unwrap();
    assert_eq!(bits(&first), bits(&second));
}

#[test]
fn the_papers_quantities_are_measured_under_every_rule() {
    let (report, _) = trained(settings(), groups(18, 4));
    let quantities = report.quantities;
    let balanced = quantities.pulls[&Aggregation::Balanced];
    assert!((balanced.bias().unwrap() - 1.0).abs() < 1e-6);
    assert!((quantities.pulls[&Aggregation::Token].bias().unwrap() - 1.0).abs() > 1e-3);
    assert!(quantities.length_variation.is_some() && quantities.length_gap.is_some());
}

/// -weight x advantage x ratio of each token, summed over everything that went through the model.
#[test]
fn what_is_reported_of_each_response_adds_up_to_the_policys_loss_under_every_aggregation() {
    for aggregation in Aggregation::ALL {
        let mut settings = settings();
        under(&mut settings, *aggregation);
        settings.objective.correction = Correction::None;
        // Two updates: in the second one the ratios are not 1. The ratio of luspo is the response's, which is not
        // reported.
        settings.mini_batch_groups = if *aggregation == Aggregation::Luspo { 0 } else { 2 };
        let mut groups = groups(3, 3);
        groups.push(without_signal(7));
        groups[0].responses[3].valid = false;
        let report = learner(settings).train(groups.clone()).unwrap();
        let responses: Vec<_> = groups.iter().flat_map(|group| &group.responses).collect();
        assert_eq!(report.response_reports.len(), responses.len());
        let mut loss = 0.0;
        for (response, reported) in responses.iter().zip(&report.response_reports) {
            assert_eq!(reported.trained, reported.ratio.is_some() && reported.logp.is_some_and(|logp| logp < 0.0));
            assert_eq!(reported.trained, reported.advantage * reported.weight != 0.0, "{reported:?}");
            let tokens = response.mask.iter().filter(|mask| **mask).count() as f64;
            loss -= reported.weight * reported.advantage * reported.ratio.unwrap_or(1.0) * tokens;
        }
        let expected: f64 = report.updates.iter().map(|update| update.policy_loss).sum();
        assert!((loss - expected).abs() < 1e-9, "{aggregation}: {loss} is not {expected}");
        let ratios = report.response_reports.iter().filter_map(|reported| reported.ratio);
        let has_second = ratios.clone().any(|ratio| ratio != 1.0);
        assert!(ratios.clone().any(|ratio| ratio == 1.0) && has_second == (*aggregation != Aggregation::Luspo));
        let invalid = &report.response_reports[3];
        assert_eq!((invalid.advantage, invalid.weight, invalid.trained), (0.0, 0.0, false));
    }
}
