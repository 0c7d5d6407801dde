//! From a group of samples to the answers that are kept of it.

use evenkeel_run::EvaluationAnswer;

use super::benchmark::Benchmark;
use crate::error::RunError;
use crate::rollout::{Sample, SampledGroup};
use crate::text::Tokenizer;

/// The answers of a group, by number.
///
/// # Errors
/// Tokens that the tokenizer cannot turn into text.
pub(super) fn answers_of(
    benchmark: &Benchmark,
    index: u64,
    group: &SampledGroup,
    tokenizer: &Tokenizer,
) -> Result<Vec<EvaluationAnswer>, RunError> {
    let prompt = tokenizer.decode_all(group.prompt_token_ids())?;
    let gold: Vec<String> = group.task().known_answers();
    let problem = benchmark.problem(index);
    let answer = |(number, sample): (u32, &Sample)| {
        let token_ids: Vec<u32> =
            sample.segments.iter().flat_map(|segment| segment.token_ids.iter().copied()).collect();
        let detail = &sample.verdict_detail;
        Ok(EvaluationAnswer {
            benchmark: benchmark.name.clone(),
            problem: problem.to_owned(),
            index,
            sample: number,
            gold: gold.clone(),
            prompt: prompt.clone(),
            text: sample.text.clone(),
            token_ids,
            finish_reason: sample.finish_reason.into(),
            verdict: sample.verdict().to_owned().into(),
            reason: sample.failure().unwrap_or(&detail.reason).to_owned(),
            detail: detail.detail.clone(),
            score: sample.rewards().map(|rewards| rewards.raw),
            components: sample.several_components(),
            answer: detail.canonical.clone(),
            extracted: detail.extracted.clone(),
            turns: sample.turns().to_vec(),
            used_up: sample.used_up().map(str::to_owned),
        })
    };
    (0..).zip(group.samples()).map(answer).collect()
}
