//! What the answers of a step look like that were left out, and at how many each reward function or environment failed.

use evenkeel_run::metric::table as metric;
use evenkeel_run::{AnswerCounts, MetricsLine};

use super::function_failures::judged_answers;
use crate::rollout::StepBatch;

/// Adds these values to the line of a step. Answers are counted where one of them is left out.
pub(super) fn left_out_values(line: &mut MetricsLine, batch: &StepBatch, max_tokens: u32) {
    for (judge, judged) in judged_answers(batch) {
        line.set(judge.samples(), judged.samples as f64);
        line.set(judge.failures(), judged.failures as f64);
    }
    let mut judged = AnswerCounts::default();
    let mut left_out = AnswerCounts::default();
    for sample in batch.samples() {
        let Some(answer) = sample.look() else { continue };
        let counts = if sample.rewards().is_some() { &mut judged } else { &mut left_out };
        counts.add(answer.tokens, max_tokens as usize, answer.is_truncated, answer.is_marked);
    }
    if left_out.answers == 0 {
        return;
    }
    for (which, counts) in [("left_out", left_out), ("judged", judged)] {
        for (name, count) in counts.named() {
            line.set(metric::ANSWERS_BY.of([&which, &name]), count as f64);
        }
    }
}
