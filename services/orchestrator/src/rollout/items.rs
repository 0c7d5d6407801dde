//! Samples and answers as messages.

use evenkeel_proto::SamplingSettings;
use evenkeel_proto::v1::{GenerateItem, Rollout, VerifyItem, WeightsRef, verify_item};
use evenkeel_telemetry::TraceContext;

use super::group::{Plan, Shaping};
use crate::clients::Services;
use crate::error::RunError;
use crate::text::Tokenizer;

/// What all samples of a pump share.
pub(crate) struct PumpSettings<'a> {
    pub(crate) services: &'a Services,
    pub(crate) tokenizer: &'a Tokenizer,
    pub(crate) run_id: &'a str,
    pub(crate) run_seed: u64,
    /// Samples for each prompt.
    pub(crate) group_size: u32,
    pub(crate) sampling: SamplingSettings,
    /// The weights that must sample.
    pub(crate) weights: &'a WeightsRef,
    pub(crate) vocabulary_size: u32,
    pub(crate) shaping: Shaping,
    /// Samples are trained on, not only looked at.
    pub(crate) trained: bool,
}

impl PumpSettings<'_> {
    /// One sample of a group.
    pub(super) fn generate_item(&self, plan: &Plan, sample: u32) -> GenerateItem {
        let id = plan.id.sample(sample);
        let sampling = SamplingSettings { seed: id.seed(self.run_seed), ..self.sampling.clone() };
        GenerateItem {
            sample_id: id.to_string(),
            group_id: plan.id.to_string(),
            prompt_token_ids: plan.prompt_token_ids.to_vec(),
            sampling: Some(sampling.into()),
            engine_deadline_ms: Some(self.services.settings.rollout_deadline_ms),
            policy_version: Some(self.weights.version),
            traceparent: self.traceparent(plan),
            ..GenerateItem::default()
        }
    }

    /// Its answer, for the verifier.
    pub(super) fn verify_item(&self, plan: &Plan, rollout: &Rollout) -> Result<VerifyItem, RunError> {
        let ids: Vec<u32> = rollout.segments.iter().flat_map(|segment| segment.token_ids.iter().copied()).collect();
        let answer = verify_item::Answer::Completion(self.tokenizer.decode(&ids)?);
        Ok(VerifyItem {
            deadline_ms: Some(self.services.settings.verify_deadline_ms),
            traceparent: self.traceparent(plan),
            ..plan.task.verify_item(&rollout.sample_id, answer)
        })
    }

    /// The same for all samples of a prompt, from here to the optimizer step.
    fn traceparent(&self, plan: &Plan) -> String {
        TraceContext::for_id(self.run_id, &plan.id.to_string()).to_string()
    }
}
