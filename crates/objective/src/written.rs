//! Settings as they are written in files and on command lines: an alias of the aggregation may bring `max_tokens` with it.

use serde::Deserialize;

use crate::settings::aggregation_by_name;
use crate::{Advantage, Correction, Error, KlEstimator, Policy, Settings};

/// The fields of [`Settings`] with the aggregation still a name.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields, rename = "Settings")]
pub(crate) struct Written {
    advantage: Advantage,
    aggregation: String,
    policy: Policy,
    clip_low: f64,
    clip_high: f64,
    dual_clip: f64,
    gmpo_clip: f64,
    correction: Correction,
    correction_low: f64,
    correction_high: f64,
    max_tokens: usize,
    kl_coefficient: f64,
    kl_estimator: KlEstimator,
    entropy_coefficient: f64,
}

impl Default for Written {
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
            kl_coefficient,
            kl_estimator,
            entropy_coefficient,
        }
    }
}

impl TryFrom<Written> for Settings {
    type Error = Error;

    fn try_from(written: Written) -> Result<Self, Error> {
        let (aggregation, brought) = aggregation_by_name(&written.aggregation)?;
        let max_tokens = match (brought, written.max_tokens) {
            (None, max_tokens) => max_tokens,
            (Some(brought), 0) => brought,
            (Some(brought), max_tokens) if max_tokens == brought => brought,
            (Some(brought), max_tokens) => {
                let allowed = format!("{brought} with {}, or another with sequence-sum", written.aggregation);
                return Err(Error::setting("max_tokens", max_tokens, allowed));
            }
        };
        Ok(Self {
            advantage: written.advantage,
            aggregation,
            policy: written.policy,
            clip_low: written.clip_low,
            clip_high: written.clip_high,
            dual_clip: written.dual_clip,
            gmpo_clip: written.gmpo_clip,
            correction: written.correction,
            correction_low: written.correction_low,
            correction_high: written.correction_high,
            max_tokens,
            kl_coefficient: written.kl_coefficient,
            kl_estimator: written.kl_estimator,
            entropy_coefficient: written.entropy_coefficient,
        })
    }
}
