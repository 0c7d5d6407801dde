//! Settings that are allowed and that hardly anybody means: runs that can never learn, and those whose gradient is biased.

use super::Recipe;

/// What the user should know about them before the run starts.
pub(super) fn notes(recipe: &Recipe) -> Vec<String> {
    let sampling = &recipe.sampling;
    let mut notes = Vec::new();
    if recipe.run.steps > 0 && sampling.group_size == 1 {
        let advantage = recipe.learner.objective.advantage;
        notes.push(format!(
            "sampling.group_size = 1 with learner.objective.advantage = {advantage}: a sample is compared with its group, so that every \
             advantage is 0 and no reward is ever learned from"
        ));
    }
    let equal = match (sampling.top_k, sampling.min_p) {
        (1, _) => Some("sampling.top_k = 1"),
        (_, 1.0) => Some("sampling.min_p = 1"),
        _ => None,
    };
    if let Some(setting) = equal {
        notes.push(format!(
            "{setting}: only the most probable token is ever drawn, so that all samples of a group are equal and nothing is learned"
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
                "{}: tokens are drawn from a part of the policy, whose probabilities engines renormalize and the learner does not, so that \
                 training is biased and rollout corrections correct for that as well",
                set.join(", ")
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(change: impl Fn(&mut Recipe)) -> Vec<String> {
        let mut recipe = Recipe::default();
        change(&mut recipe);
        notes(&recipe)
    }

    #[test]
    fn a_group_of_one_and_equal_samples_can_never_learn() {
        assert_eq!(found(|_| ()), [""; 0]);
        assert!(found(|recipe| recipe.sampling.group_size = 1)[0].contains("every advantage is 0"));
        assert!(found(|recipe| recipe.sampling.top_k = 1)[0].contains("all samples of a group are equal"));
        assert!(found(|recipe| recipe.sampling.min_p = 1.0)[0].contains("all samples of a group are equal"));
    }

    #[test]
    fn sampling_from_a_part_of_the_policy_is_said_to_bias_training() {
        let said = found(|recipe| (recipe.sampling.top_p, recipe.sampling.min_p) = (0.7, 0.25));
        assert!(
            said[0].starts_with("sampling.top_p = 0.7, sampling.min_p = 0.25: tokens are drawn from a part"),
            "{said:?}"
        );
        assert!(found(|recipe| recipe.sampling.top_k = 20)[0].contains("training is biased"));
    }
}
