//! Settings as they are deserialized, before the name of the aggregation is resolved: one alias also sets `max_tokens`.

use serde::Deserialize;

use super::Settings;
use crate::{Advantage, Aggregation, Correction, Error, KlEstimator, PolicyTerm};

/// The fields of [`Settings`] with the aggregation as a name.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields, rename = "Settings")]
pub(super) struct RawSettings {
    advantage: Advantage,
    aggregation: String,
    policy: PolicyTerm,
    clip_low: f64,
    clip_high: f64,
    dual_clip: f64,
    gmpo_clip: f64,
    correction: Correction,
    correction_low: f64,
    correction_high: f64,
    max_tokens: usize,
    vl_norm_alpha: f64,
    kl_coefficient: f64,
    kl_estimator: KlEstimator,
    entropy_coefficient: f64,
}

impl Default for RawSettings {
    fn default() -> Self {
        let Settings {
            advantage,
            aggregation,
            policy,
            clip_low,
            clip_high,
            dual_clip,
            gmpo_clip,
            correction,
            correction_low,
            correction_high,
            max_tokens,
            vl_norm_alpha,
            kl_coefficient,
            kl_estimator,
            entropy_coefficient,
        } = Settings::default();
        Self {
            advantage,
            aggregation: aggregation.name().to_owned(),
            policy,
            clip_low,
            clip_high,
            dual_clip,
            gmpo_clip,
            correction,
            correction_low,
            correction_high,
            max_tokens,
            vl_norm_alpha,
            kl_coefficient,
            kl_estimator,
            entropy_coefficient,
        }
    }
}

impl TryFrom<RawSettings> for Settings {
    type Error = Error;

    fn try_from(raw: RawSettings) -> Result<Self, Error> {
        let (aggregation, implied) = Aggregation::with_implied_max_tokens(&raw.aggregation)?;
        let max_tokens = match (implied, raw.max_tokens) {
            (None, max_tokens) => max_tokens,
            (Some(implied), 0) => implied,
            (Some(implied), max_tokens) if max_tokens == implied => implied,
            (Some(implied), max_tokens) => {
                let allowed = format!("{implied} with {}, or another with sequence-sum", raw.aggregation);
                return Err(Error::refused("max_tokens", max_tokens, allowed));
            }
        };
        Ok(Self {
            advantage: raw.advantage,
            aggregation,
            policy: raw.policy,
            clip_low: raw.clip_low,
            clip_high: raw.clip_high,
            dual_clip: raw.dual_clip,
            gmpo_clip: raw.gmpo_clip,
            correction: raw.correction,
            correction_low: raw.correction_low,
            correction_high: raw.correction_high,
            max_tokens,
            vl_norm_alpha: raw.vl_norm_alpha,
            kl_coefficient: raw.kl_coefficient,
            kl_estimator: raw.kl_estimator,
            entropy_coefficient: raw.entropy_coefficient,
        })
    }
}
