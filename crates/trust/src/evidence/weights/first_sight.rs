//! What scores say at first sight, before any bet: weights that have blown up, an engine that computes another model.

use evenkeel_errors::engine_advice::COMPUTE_TYPE;

use super::engine::EXACT;
use super::gap::{ScoreGap, slope, towards};
use super::scored_text::ScoredText;
use super::suspicion::{ProofVersions, Suspicion};
use crate::fault::WeightsFault;
use crate::scorer::{EngineScores, TokenScores};

/// A mean log-probability of tokens that no model has which computes anything: even random tokens have more than a
/// tenth of it.
const BLOWN_UP: f64 = -200.0;

/// From here on the scores are those of another model, in nats: rounding does not add up to this.
const ANOTHER_MODEL: f64 = 1.0;

/// Refuses weights that have blown up: what the learner itself says of the text is no language model's any more.
pub(crate) fn check_finite(version: u64, learner: &TokenScores) -> Result<(), WeightsFault> {
    let scores = || learner.iter().flatten().map(|score| f64::from(*score));
    let mean = scores().sum::<f64>() / scores().count().max(1) as f64;
    if mean.is_finite() && mean > BLOWN_UP { Ok(()) } else { Err(WeightsFault::Diverged { version, mean }) }
}

/// Refuses an engine whose scores are those of another model: noise does not add up to this.
pub(crate) fn check_model(
    versions: ProofVersions,
    text: &ScoredText,
    engines: &[EngineScores],
    tolerance: f64,
) -> Result<(), WeightsFault> {
    for EngineScores { engine, scores, .. } in engines {
        let gap = ScoreGap::between(&text.learner, scores);
        if gap.mean > tolerance || gap.mean.is_nan() {
            let message =
                by_adapter(text, scores, tolerance, versions.anchor).unwrap_or_else(|| another_model(gap, tolerance));
            return Err(WeightsFault::Unproven { engine: engine.clone(), version: versions.current, message });
        }
    }
    Ok(())
}

/// Refuses an engine that says that it computes in f32 and is further off than that allows: what is off in every version,
/// also in the first one, is not taken for noise.
pub(crate) fn check_f32(
    versions: ProofVersions,
    text: &ScoredText,
    engines: &[EngineScores],
) -> Result<(), WeightsFault> {
    for EngineScores { engine, scores, .. } in engines.iter().filter(|engine| engine.is_f32) {
        let gap = ScoreGap::between(&text.learner, scores).root_mean_square;
        if gap > EXACT {
            let message = format!(
                "it says that it computes in f32, and its log-probabilities of the same tokens are {gap:.1e} nats (root \
                 mean square) from the learner's, allowed: {EXACT:.0e}; some of its tensors are others, as with a row of \
                 the head that is scaled, or it holds them in a narrower type"
            );
            return Err(WeightsFault::Unproven { engine: engine.clone(), version: versions.current, message });
        }
    }
    Ok(())
}

/// What is wrong with an engine that is far off, where nothing is but how much of the adapter it adds.
fn by_adapter(text: &ScoredText, engine: &TokenScores, tolerance: f64, anchor: u64) -> Option<String> {
    let base = text.supposed.get(&Suspicion::Base)?;
    let share = slope(&text.learner, engine, base);
    let rest = ScoreGap::between(&towards(&text.learner, base, share), engine);
    let suspicion = if share > 0.0 { Suspicion::Base } else { Suspicion::Excess };
    // What an adapter does is not proportional to how much of it is added: three quarters of the squared gap are
    // enough.
    let most = ScoreGap::between(&text.learner, engine).root_mean_square / 2.0;
    let is_all = rest.mean <= tolerance || rest.root_mean_square <= most;
    is_all.then(|| suspicion.explain(share.abs(), anchor))
}

/// Why a gap is that of another model.
fn another_model(gap: ScoreGap, tolerance: f64) -> String {
    let look = if gap.mean >= ANOTHER_MODEL || gap.mean.is_nan() {
        "it computes another model: compare the folder that it loads, tie_word_embeddings and lm_head.weight (a tied \
         head must be tied on both sides), and whether an adapter that it needs has arrived"
            .to_owned()
    } else {
        format!(
            "it may compute in a narrower type, or quantized ({COMPUTE_TYPE}), or with another attention scale or rope; \
             where its type is meant, raise proof.tolerance"
        )
    };
    format!(
        "its log-probabilities of the same tokens are {:.3} nats from the learner's on average, allowed: {tolerance} \
        (proof.tolerance); {look}",
        gap.mean
    )
}
