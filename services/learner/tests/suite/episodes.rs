//! Episodes whose turns have prompts of their own: however many sequences carry one, it is one response.

use evenkeel_learner::{OldLogp, Response, ResponseGroup, StepReport, TrainingSettings};
use evenkeel_objective::{Advantage, Aggregation, Correction, PolicyTerm};

use crate::support::{groups, learner, settings, update_difference, weights};

/// Splits a response into a sequence for each part, each after all that was before it: the probabilities are equal.
fn divided(prompt: &[u32], response: Response, parts: usize) -> Response {
    let tokens = response.tokens.len();
    // A sequence begins with a token that was sampled.
    let firsts = (1..parts).map(|part| part * tokens / parts).filter(|&first| first > 0 && response.mask[first]);
    let mut contexts: Vec<_> = firsts.map(|first| (first, [prompt, &response.tokens[..first]].concat())).collect();
    contexts.dedup();
    Response { contexts, ..response }
}

fn all_divided(groups: Vec<ResponseGroup>, parts: usize) -> Vec<ResponseGroup> {
    let of_group = |group: ResponseGroup| {
        let ResponseGroup { id, prompt, hinted_prompt, responses } = group;
        // Some episodes have one turn.
        let parts = |number: usize| if number == 1 { 1 } else { parts + number % 2 };
        let responses = responses.into_iter().enumerate();
        let responses = responses.map(|(number, response)| divided(&prompt, response, parts(number))).collect();
        ResponseGroup { id, prompt, hinted_prompt, responses }
    };
    groups.into_iter().map(of_group).collect()
}

fn trained(settings: TrainingSettings, groups: Vec<ResponseGroup>) -> (StepReport, Vec<f32>) {
    let mut learner = learner(settings);
    let report = learner.train(groups).unwrap();
    (report, weights(&learner))
}

#[test]
fn dividing_an_episode_among_sequences_changes_no_weight_under_any_rule() {
    let origin = weights(&learner(settings()));
    for &aggregation in Aggregation::ALL {
        for policy in [PolicyTerm::Ppo, PolicyTerm::Gspo] {
            if aggregation == Aggregation::Luspo && policy != PolicyTerm::Gspo {
                continue;
            }
            let mut settings = settings();
            settings.objective.aggregation = aggregation;
            settings.objective.policy = policy;
            settings.objective.max_tokens = 30;
            // Several updates, so that ratios are not 1, and terms of whole responses.
            settings.mini_batch_groups = 2;
            settings.old_logp = OldLogp::Recompute;
            settings.objective.correction = Correction::SequenceTruncate;
            let (whole, in_one) = trained(settings.clone(), groups(3, 4));
            for parts in [2, 4] {
                let (report, in_several) = trained(settings.clone(), all_divided(groups(3, 4), parts));
                let what = format!("{aggregation} {policy} {parts}");
                assert_eq!(report.response_reports.len(), whole.response_reports.len());
                for (one, several) in whole.response_reports.iter().zip(&report.response_reports) {
                    assert_eq!(one.advantage, several.advantage, "{what}");
                    assert_eq!(one.weight, several.weight, "{what}");
                    let close = |a: Option<f64>, b: Option<f64>| match (a, b) {
                        (Some(a), Some(b)) => (a - b).abs() < 1e-4,
                        (a, b) => a == b,
                    };
                    assert!(close(one.logp, several.logp), "{what}: {one:?} {several:?}");
                    assert!(close(one.ratio, several.ratio), "{what}: {one:?} {several:?}");
                }
                let difference = update_difference(&in_several, &in_one, &origin);
                assert!(difference < 2e-3, "{what}: updates differ by {difference:e}");
            }
        }
    }
}

#[test]
fn advantages_are_those_of_episodes_and_not_of_their_sequences() {
    let mut settings = settings();
    settings.objective.advantage = Advantage::Rloo;
    let (whole, _) = trained(settings.clone(), groups(5, 2));
    let (divided, _) = trained(settings, all_divided(groups(5, 2), 6));
    let advantages = |report: &StepReport| report.response_reports.iter().map(|of| of.advantage).collect::<Vec<_>>();
    assert_eq!(advantages(&divided), advantages(&whole));
}

#[test]
fn a_turn_is_trained_on_after_its_own_prompt() {
    let with = |context: u32| {
        let mut groups = groups(7, 1);
        let response = &mut groups[0].responses[0];
        response.tokens = vec![3, 4, 5, 6];
        response.mask = vec![true; 4];
        response.rollout_logp = vec![-3.0; 4];
        response.contexts = vec![(2, vec![context, 9])];
        trained(settings(), groups)
    };
    let one = with(11);
    let other = with(12);
    let logp = |report: &StepReport| report.response_reports[0].logp.unwrap();
    assert_ne!(logp(&one.0), logp(&other.0), "it depends on what was seen");
    assert_ne!(one.1, other.1);
}

#[test]
fn contexts_out_of_place_are_refused_by_name() {
    let refused = |contexts: Vec<(usize, Vec<u32>)>| {
        let mut groups = groups(7, 1);
        let response = &mut groups[0].responses[0];
        (response.tokens, response.mask, response.rollout_logp) = (vec![3; 4], vec![true; 4], vec![-3.0; 4]);
        response.contexts = contexts;
        learner(settings()).train(groups).unwrap_err().to_string()
    };
    for (contexts, words) in [
        (vec![(4, vec![1])], "groups[0].responses[0].contexts[0] is 4"),
        (vec![(2, vec![1]), (1, vec![1])], "groups[0].responses[0].contexts[1] is 1"),
        (vec![(2, vec![999])], "groups[0].responses[0].contexts[0][0] is 999"),
        (vec![(2, vec![1; 63])], "groups[0].responses[0].contexts[0] is 65 tokens with its prompt"),
        (vec![(2, vec![])], "groups[0].responses[0].contexts[0] is empty"),
    ] {
        let error = refused(contexts);
        assert!(error.contains(words), "{error}");
    }
}
