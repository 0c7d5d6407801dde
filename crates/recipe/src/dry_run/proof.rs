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
        return "proof of weights: off (proof.every is 0), so the engine weights are not verified".to_owned();
    }
    // The embedded engine computes in f32 whatever the type of the weights.
    let is_exact = recipe.generation.endpoints.is_empty();
    if is_exact && has_the_learners_bits(recipe) {
        return "proof of weights: engine and learner compute the same bits, so each trained token is compared with the \
            learner's own log-probability; this costs nothing, and wrong weights show before their samples are \
            trained on"
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
    // A gap above the noise of f32 triggers tests of every suspicion at once.
    let turn = match (is_exact, proof.contrasts) {
        (true, _) => Some(1),
        (false, 0) => None,
        (false, contrasts) => Some(IN_TURN.div_ceil(contrasts.into())),
    };
    let steps = recipe.run.steps;
    let forecast = |name: &str, found: Option<u64>| match found.map(|found| found * proof.every) {
        Some(found) if found <= steps => format!("{name} by step {found}"),
        Some(found) => format!("{name} not within the run (about {found} steps)"),
        None => format!("{name} not"),
    };
    let parts: Vec<String> =
        std::iter::once(forecast("nothing loaded", foresight.steps(1.0, 1)))
            .chain(PARTS.map(|(name, share)| {
                forecast(&format!("old {name}"), turn.and_then(|turn| foresight.steps(share, turn)))
            }))
            .collect();
    let engines = if is_exact { "f32" } else { "bf16" };
    let rounded = if recipe.model.publish_type == PublishType::F32 && proof.engine_type.is_none() {
        ""
    } else {
        "; rounded weights move less at first, or not at all while a change is below the resolution of their type; \
         what has not moved stays undecided"
    };
    format!(
        "proof of weights: with {} tokens a proof, engines in {engines} and a learning rate of {learning_rate:e}, \
         faults are expected to show as follows: {}{rounded}; {}",
        foresight.tokens,
        parts.join(", "),
        cost(recipe)
    )
}

/// What proofs and audits of engines without the learner's bits cost.
fn cost(recipe: &Recipe) -> String {
    let adapters = u32::from(recipe.learner.lora.is_some());
    // Under the right weights, those of the beginning and of the version before, and those of groups in turn.
    let passes = 3 + adapters + recipe.proof.contrasts;
    let proof = format!("a proof costs the engines one forward pass over these tokens, and the learner about {passes}");
    if recipe.sampler_audit.mode == AuditMode::Off {
        return proof;
    }
    let samples = u64::from(recipe.sampling.prompts_per_step) * u64::from(recipe.sampling.group_size);
    let audited = u64::from(recipe.sampler_audit.sequences).min(samples);
    let further = recipe.proof.contrasts.max(1);
    format!(
        "{proof}; the audit costs the learner one over {audited} of the {samples} samples of a step, and until their \
         weights are verified {further} more on average"
    )
}

/// Whether every token of the embedded engine is compared, by the rules of the orchestrator and the learner: the weights
/// of its step have drawn it, and the learner scores it before its first update.
fn has_the_learners_bits(recipe: &Recipe) -> bool {
    let is_scored = recipe.learner.is_single_update() || recipe.learner.old_logp.is_learners();
    is_scored
        && recipe.pipeline.max_lag == 0
        && recipe.loop_settings().compares_tokens()
        && recipe.learner_service().arithmetic().is_some()
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
    fn tokens_are_compared_only_where_orchestrator_and_learner_would() {
        for set in [
            &["sampler_audit.mode=warn"][..],
            &["pipeline.max_lag=1", "learner.old_logp=proximal"],
            &["sampling.top_p=0.9"],
            &["model.publish_type=bf16"],
        ] {
            let sentence = sentence(set);
            assert!(!sentence.contains("each trained token is compared"), "{set:?}: {sentence}");
        }
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
        assert!(slow.contains("one forward pass over these tokens, and the learner about 5; the audit"), "{slow}");
        assert!(slow.contains("one over 8 of the 256 samples of a step, and until"), "{slow}");
        assert!(slow.ends_with("their weights are verified 2 more on average"), "{slow}");
        let unaudited = sentence(&[engines, "sampler_audit.mode=off"]);
        assert!(unaudited.ends_with("and the learner about 5"), "{unaudited}");
        let still = sentence(&[engines, "learner.optimizer.learning_rate=0.0"]);
        assert!(still.contains("nothing loaded not, old MLP not"), "{still}");
    }

    #[test]
    fn a_proof_that_is_off_is_said_to_be() {
        assert!(sentence(&["proof.every=0"]).contains("off"));
    }
}
