//! What the proof of weights will be able to see, foreseen from the learning rate, the tokens of a proof and the type
//! of the engines.

use evenkeel_learner::PublishType;
use evenkeel_orchestrator::{AuditMode, ProofSettings};
use evenkeel_statistics::evidence::Foresight;

use crate::recipe::Recipe;

/// Parts of a model with the share of a movement that is theirs, as measured of a model of 135 million weights.
const PARTS: [(&str, f64); 3] = [("MLP", 0.57), ("attention", 0.41), ("norms", 0.02)];
/// Suspicions that take turns: about six groups of tensors and four blocks of layers.
const IN_TURN: u64 = 10;

/// The sentence for this recipe.
pub(super) fn foreseen(recipe: &Recipe) -> String {
    let proof = &recipe.proof;
    if proof.every == 0 {
        return "proof of weights: off (proof.every is 0), so that nothing shows whether engines have the learner's \
            weights"
            .to_owned();
    }
    // The embedded engine computes in f32 whatever the type of the weights.
    let is_exact = recipe.generation.endpoints.is_empty();
    if is_exact && has_the_learners_bits(recipe) {
        return "proof of weights: engine and learner compute the same bits, so each trained token is compared with the \
            learner's own log-probability; it costs nothing, and any other weights show before they are trained on"
            .to_owned();
    }
    let (sequences, each) = if is_exact { ProofSettings::EXACT_SIZE } else { ProofSettings::NARROW_SIZE };
    let sequences = proof.sequences.unwrap_or(sequences);
    let each = proof.tokens.unwrap_or(each);
    let learning_rate = recipe.learner.optimizer.learning_rate;
    let foresight = Foresight {
        first_step: Foresight::first_step(learning_rate),
        noise: if is_exact { Foresight::F32 } else { Foresight::BF16 },
        sequences: sequences.into(),
        tokens: u64::from(sequences) * u64::from(each),
    };
    // A gap above the noise of f32 is looked at for every suspicion at once.
    let turn = match (is_exact, proof.contrasts) {
        (true, _) => Some(1),
        (false, 0) => None,
        (false, contrasts) => Some(IN_TURN.div_ceil(contrasts.into())),
    };
    let steps = recipe.run.steps;
    let of = |name: &str, found: Option<u64>| match found.map(|found| found * proof.every) {
        Some(found) if found <= steps => format!("{name} by step {found}"),
        Some(found) => format!("{name} not within the run (about {found} steps)"),
        None => format!("{name} not"),
    };
    let parts: Vec<String> = std::iter::once(of("nothing loaded", foresight.steps(1.0, 1)))
        .chain(
            PARTS.map(|(name, share)| of(&format!("old {name}"), turn.and_then(|turn| foresight.steps(share, turn)))),
        )
        .collect();
    let engines = if is_exact { "f32" } else { "bf16" };
    let rounded = if recipe.model.publish_type == PublishType::F32 && proof.engine_type.is_none() {
        ""
    } else {
        "; weights that are rounded move less at first, or not at all while a change is below their type's \
             resolution, and what has not moved stays undecided"
    };
    format!(
        "proof of weights: with {} tokens a proof, engines in {engines} and the movement that is usual at a learning \
         rate of {learning_rate:e}, faults would be found as follows: {}{rounded}",
        foresight.tokens,
        parts.join(", ")
    )
}

/// Whether the embedded engine draws each token from the whole distribution of the weights that a step is trained
/// from, and the learner scores each of them before its first update.
fn has_the_learners_bits(recipe: &Recipe) -> bool {
    let is_scored = recipe.learner.is_single_update() || recipe.learner.old_logp.is_learners();
    is_scored
        && recipe.learner.compute.is_fp32_on_cpu()
        && recipe.learner.ranks.is_none()
        && recipe.model.publish_type == PublishType::F32
        && recipe.pipeline.max_lag == 0
        && recipe.sampler_audit.mode == AuditMode::Stop
        && recipe.sampling.draws_from_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(set: &[&str]) -> String {
        let set: Vec<_> = set.iter().map(|&text| text.to_owned()).collect();
        foreseen(&crate::recipe::load(&["arithmetic".to_owned()], &set).unwrap().settings)
    }

    #[test]
    fn an_engine_with_the_learners_bits_needs_no_tokens_of_its_own() {
        let sentence = sentence(&[]);
        assert!(sentence.contains("each trained token is compared"), "{sentence}");
    }

    #[test]
    fn engines_in_f32_show_everything_at_once() {
        let sentence = sentence(&["learner.optimizer.learning_rate=1e-6", "sampling.top_k=50"]);
        assert!(sentence.contains("with 384 tokens a proof, engines in f32"), "{sentence}");
        assert!(sentence.contains("nothing loaded by step 2, old MLP by step 2"), "{sentence}");
        assert!(sentence.contains("old norms by step 2"), "{sentence}");
    }

    #[test]
    fn engines_in_bf16_take_steps_that_depend_on_the_learning_rate() {
        let engines = "generation.endpoints=[\"http://127.0.0.1:1\"]";
        let slow = sentence(&[engines, "learner.optimizer.learning_rate=1e-6", "run.steps=20"]);
        assert!(slow.contains("engines in bf16") && slow.contains("nothing loaded by step "), "{slow}");
        assert!(slow.contains("old norms not within the run"), "{slow}");
        let still = sentence(&[engines, "learner.optimizer.learning_rate=0.0"]);
        assert!(still.contains("nothing loaded not, old MLP not"), "{still}");
    }

    #[test]
    fn a_proof_that_is_off_is_said_to_be() {
        assert!(sentence(&["proof.every=0"]).contains("off"));
    }
}
