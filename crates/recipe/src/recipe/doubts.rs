//! Settings that are allowed and that hardly anybody means: runs that can never learn, and those whose gradient is
//! biased.

use evenkeel_engine::EngineSettings;
use evenkeel_objective::PolicyTerm;
use evenkeel_orchestrator::VerifierSettings;

use super::Recipe;

/// From here on a learning rate is hardly meant.
const LARGE_RATE: f64 = 0.02;

/// What the user should know about them before the run starts.
pub(super) fn notes(recipe: &Recipe) -> Vec<String> {
    let sampling = &recipe.sampling;
    let mut notes = Vec::new();
    if recipe.run.steps == 0 {
        notes.push("run.steps = 0: nothing is learned from rewards".to_owned());
    }
    let has_teacher = recipe.learner.distillation.is_some();
    if recipe.run.steps > 0 && sampling.group_size == 1 && !has_teacher {
        let advantage = recipe.learner.objective.advantage;
        notes.push(format!(
            "sampling.group_size = 1 with learner.objective.advantage = {advantage}: a sample is compared with its \
             group, so every advantage is 0 and nothing is learned"
        ));
    }
    let equal = match (sampling.top_k, sampling.min_p) {
        (1, _) => Some("sampling.top_k = 1"),
        (_, 1.0) => Some("sampling.min_p = 1"),
        _ => None,
    };
    if let Some(setting) = equal.filter(|_| !has_teacher) {
        notes.push(format!(
            "{setting}: only the most probable token is ever drawn, so all samples of a group are equal and nothing \
             is learned"
        ));
    } else {
        let truncating = [
            (sampling.top_p < 1.0, format!("sampling.top_p = {}", sampling.top_p)),
            (sampling.top_k > 0, format!("sampling.top_k = {}", sampling.top_k)),
            (sampling.min_p > 0.0, format!("sampling.min_p = {}", sampling.min_p)),
        ];
        let set: Vec<String> = truncating.into_iter().filter(|(is_set, _)| *is_set).map(|(_, text)| text).collect();
        if !set.is_empty() {
            notes.push(format!(
                "{}: engines sample from a part of the policy and renormalize its probabilities, but the learner does \
                 not: training is biased, and rollout corrections correct for that as well",
                set.join(", ")
            ));
        }
    }
    if !sampling.seeded {
        notes.push(
            "sampling.seeded = false: engines use their own random numbers, so this run cannot be repeated, and no check \
             can draw a token again"
                .to_owned(),
        );
    }
    let objective = &recipe.learner.objective;
    let usual = &evenkeel_objective::Settings::default();
    let policy = objective.policy;
    let is_sapo = policy == PolicyTerm::Sapo;
    for (field, value, usual, is_used, used_by) in [
        ("dual_clip", objective.dual_clip, usual.dual_clip, policy.uses_dual_clip(), "dual-clip or aspo"),
        ("clip_low", objective.clip_low, usual.clip_low, policy.uses_clip(), "ppo"),
        ("clip_high", objective.clip_high, usual.clip_high, policy.uses_clip(), "ppo"),
        ("sapo_tau_pos", objective.sapo_tau_pos, usual.sapo_tau_pos, is_sapo, "sapo"),
        ("sapo_tau_neg", objective.sapo_tau_neg, usual.sapo_tau_neg, is_sapo, "sapo"),
    ] {
        if !is_used && value != usual {
            notes.push(format!(
                "learner.objective.{field} = {value} has no effect with policy = {policy} (policy = {used_by} has it)"
            ));
        }
    }
    let rate = recipe.learner.optimizer.learning_rate;
    if rate >= LARGE_RATE {
        notes.push(format!(
            "learner.optimizer.learning_rate = {rate}: usual values are 1e-7 to 1e-4; with more, a model forgets what \
             it knows"
        ));
    }
    notes.extend(recipe.data.verifiers.iter().filter_map(|(name, verifier)| of_accuracy(name, verifier)));
    notes
}

/// Reward functions without a rule of which answers are correct, where accuracy is not what one might expect.
fn of_accuracy(name: &str, verifier: &VerifierSettings) -> Option<String> {
    if verifier.path.is_none() || verifier.correct.is_some() {
        return None;
    }
    let functions: Vec<&str> = verifier.functions.keys().map(String::as_str).collect();
    match (verifier.range, &functions[..]) {
        (None, _) => Some(format!(
            "data.verifiers.{name}: no accuracy is shown, because it is not known which rewards are correct; set \
             `range = [0.0, 1.0]` if its functions give these rewards, or set `correct` (see docs/verifiers.md)"
        )),
        (Some([_, highest]), [first, _, ..]) => Some(format!(
            "data.verifiers.{name}: an answer is correct only if each of {} gives {highest:?}; \
             `correct = {{ component = \"{first}\" }}` would judge by one of them alone",
            functions.join(", ")
        )),
        _ => None,
    }
}

/// Settings that have no effect where all services are in this process.
pub(super) fn without_effect(recipe: &Recipe) -> Vec<String> {
    let usual = Recipe::default();
    let mut keys = Vec::new();
    let engine = EngineSettings {
        listen: recipe.engine.listen.clone(),
        model: recipe.engine.model.clone(),
        ..usual.engine.clone()
    };
    keys.extend((engine.listen != usual.engine.listen).then_some("engine.listen"));
    keys.extend((engine.model != usual.engine.model).then_some("engine.model"));
    keys.extend((recipe.reward.server != usual.reward.server).then_some("reward.server"));
    keys.extend((recipe.environment.server != usual.environment.server).then_some("environment.server"));
    keys.extend((recipe.generation.server != usual.generation.server).then_some("generation.server"));
    let named = !recipe.generation.endpoints.is_empty();
    let ours = EngineSettings {
        listen: usual.engine.listen.clone(),
        model: usual.engine.model.clone(),
        seed: usual.engine.seed,
        ..recipe.engine.clone()
    };
    let mut notes = Vec::new();
    if !keys.is_empty() {
        notes.push(format!("no effect, since this process starts its services itself: {}", keys.join(", ")));
    }
    if named && ours != usual.engine {
        notes.push("section engine has no effect: generation.endpoints names other engines".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests {
    use evenkeel_orchestrator::CorrectRule;

    use super::*;

    fn found(change: impl Fn(&mut Recipe)) -> Vec<String> {
        let mut recipe = Recipe::default();
        change(&mut recipe);
        notes(&recipe)
    }

    #[test]
    fn a_group_of_one_and_equal_samples_can_never_learn() {
        assert_eq!(found(|_| ()), [""; 0]);
        assert!(found(|recipe| recipe.run.steps = 0)[0].starts_with("run.steps = 0: "));
        assert!(found(|recipe| recipe.sampling.group_size = 1)[0].contains("every advantage is 0"));
        assert!(found(|recipe| recipe.sampling.top_k = 1)[0].contains("all samples of a group are equal"));
        assert!(found(|recipe| recipe.sampling.min_p = 1.0)[0].contains("all samples of a group are equal"));
    }

    #[test]
    fn settings_without_effect_and_rates_that_nobody_means_are_said() {
        assert!(found(|recipe| recipe.learner.objective.dual_clip = 5.0)[0].contains("dual_clip = 5 has no effect"));
        let doubts = |policy| {
            found(|recipe| {
                let objective = &mut recipe.learner.objective;
                (objective.policy, objective.dual_clip, objective.clip_low) = (policy, 5.0, 0.1);
            })
        };
        assert_eq!(doubts(PolicyTerm::Aspo), [""; 0]);
        assert_eq!(doubts(PolicyTerm::Sapo).len(), 2, "its gate has neither");
        assert!(doubts(PolicyTerm::DppoTv)[0].contains("dual_clip") && doubts(PolicyTerm::DppoTv).len() == 1);
        assert!(found(|recipe| recipe.learner.optimizer.learning_rate = 1.0)[0].contains("learning_rate = 1:"));
        let mut recipe = Recipe::default();
        assert_eq!(without_effect(&recipe), [""; 0]);
        recipe.engine.listen = "127.0.0.1:9".to_owned();
        recipe.reward.server.listen = "127.0.0.1:9".to_owned();
        assert!(without_effect(&recipe)[0].ends_with("itself: engine.listen, reward.server"));
        recipe.generation.endpoints = vec!["http://127.0.0.1:1".to_owned()];
        recipe.engine.max_sequences = 3;
        assert!(without_effect(&recipe)[1].starts_with("section engine has no effect"));
    }

    #[test]
    fn what_accuracy_counts_is_said_where_several_functions_or_none_could_decide_it() {
        let doubts = |range, functions: &[&str], correct: Option<CorrectRule>| {
            found(|recipe| {
                let functions = functions.iter().map(|&name| (name.to_owned(), 1.0)).collect();
                let path = Some("a.py".into());
                let verifier = VerifierSettings {
                    path,
                    range,
                    functions,
                    correct: correct.clone(),
                    ..VerifierSettings::default()
                };
                recipe.data.verifiers.insert("a".to_owned(), verifier);
            })
        };
        let unit = Some([0.0, 1.0]);
        assert!(doubts(None, &[], None)[0].contains("no accuracy is shown"));
        assert!(doubts(unit, &["right", "short"], None)[0].contains("correct only if each of right, short gives 1.0"));
        assert_eq!(doubts(unit, &["right"], None), [""; 0]);
        assert_eq!(doubts(unit, &["right", "short"], Some(CorrectRule::Reward(0.5))), [""; 0]);
    }

    #[test]
    fn sampling_from_a_part_of_the_policy_is_said_to_bias_training() {
        assert!(found(|recipe| recipe.sampling.seeded = false)[0].contains("this run cannot be repeated"));
        let said = found(|recipe| (recipe.sampling.top_p, recipe.sampling.min_p) = (0.7, 0.25));
        assert!(
            said[0].starts_with("sampling.top_p = 0.7, sampling.min_p = 0.25: engines sample from a part"),
            "{said:?}"
        );
        assert!(found(|recipe| recipe.sampling.top_k = 20)[0].contains("training is biased"));
    }
}
