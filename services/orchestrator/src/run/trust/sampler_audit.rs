//! The sampler audit of a run, by its settings.

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_trust::{AuditedSampling, SampledDistribution, SamplerAudit};

use super::{RunProof, remarks};
use crate::data::Prompts;
use crate::run::run_context::RunContext;

/// Most end tokens that the learner is asked about.
const MOST_ENDS: usize = 64;

/// The audit of a run's samples. `first_update`: groups of the first update of a step, `None` for all.
pub(in crate::run) fn sampler_audit(
    context: &RunContext,
    first_update: Option<u32>,
    prompts: &Prompts,
    proof: &RunProof,
) -> Arc<SamplerAudit> {
    let settings = &context.settings;
    let sampling = &settings.sampling;
    let groups = sampling.prompts_per_step;
    // Those that an engine excludes before `min_tokens`.
    let ends: BTreeSet<u32> = context.tokenizer.ends().iter().chain(&sampling.stop_token_ids).copied().collect();
    let audited = AuditedSampling {
        seed: settings.run.seed,
        samples_ahead: settings.pipeline.max_lag > 0,
        groups,
        first_update: first_update.unwrap_or(groups).clamp(1, groups.max(1)),
        group_size: sampling.group_size,
        grows: sampling.dynamic || prompts.train.iter().any(|prompt| prompt.environment.is_some()),
        min_tokens: sampling.min_tokens,
        distribution: SampledDistribution {
            temperature: sampling.temperature,
            top_p: sampling.top_p,
            top_k: sampling.top_k,
            min_p: sampling.min_p,
            end_token_ids: ends.into_iter().take(MOST_ENDS).collect(),
        },
        arithmetic: proof.equality().learner(),
    };
    SamplerAudit::new(settings.sampler_audit.clone(), audited, proof.shared(), remarks(context.services.events()))
}
