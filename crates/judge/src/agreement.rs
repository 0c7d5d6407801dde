//! How a judge compares with labels that people gave, and with itself.

use std::collections::BTreeMap;

use evenkeel_proto::{JudgeFailure, Label};

use crate::judge::Judgement;

/// An answer with a label, and what the judge said of it when it was asked twice.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledScore {
    /// The score that a person gave, 0 to 1.
    pub label: f64,
    /// The judge's first and second judgement of the answer, without a record between them.
    pub judgements: [Judgement; 2],
}

/// The agreement over several answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Agreement {
    /// Labelled answers that were judged.
    pub rows: usize,
    /// Answers with a score, the first one.
    pub scored: usize,
    /// Answers among them whose score and label are both at least 0.5, or both below.
    pub same_side: usize,
    /// Mean of |score - label| over scored answers; 0 without any.
    pub mean_difference: f64,
    /// Mean of score - label; above 0 the judge is more generous than the labels.
    pub bias: f64,
    /// Answers with two scores.
    pub repeated: usize,
    /// Answers among them whose two scores have the same bits.
    pub repeated_equal: usize,
    /// Mean of |first - second| over them; 0 without any.
    pub mean_repeated_difference: f64,
    /// Judgements without a verdict, of both times, by reason code.
    pub failures: BTreeMap<&'static str, usize>,
}

impl Agreement {
    /// The agreement over these answers.
    pub fn of(rows: &[LabelledScore]) -> Self {
        let score = |judgement: &Judgement| judgement.as_ref().ok().map(|judged| judged.score);
        let scored: Vec<(f64, f64)> =
            rows.iter().filter_map(|row| Some((row.label, score(&row.judgements[0])?))).collect();
        let repeated: Vec<(f64, f64)> =
            rows.iter().filter_map(|row| Some((score(&row.judgements[0])?, score(&row.judgements[1])?))).collect();
        let mut failures = BTreeMap::new();
        for none in rows.iter().flat_map(|row| &row.judgements).filter_map(|judgement| judgement.as_ref().err()) {
            *failures.entry(JudgeFailure::label(none.failure)).or_default() += 1;
        }
        let is_high = |score: f64| score >= 0.5;
        Self {
            rows: rows.len(),
            scored: scored.len(),
            same_side: scored.iter().filter(|(label, score)| is_high(*label) == is_high(*score)).count(),
            mean_difference: mean(scored.iter().map(|(label, score)| (score - label).abs())),
            bias: mean(scored.iter().map(|(label, score)| score - label)),
            repeated: repeated.len(),
            repeated_equal: repeated.iter().filter(|(first, second)| first.to_bits() == second.to_bits()).count(),
            mean_repeated_difference: mean(repeated.iter().map(|(first, second)| (first - second).abs())),
            failures,
        }
    }
}

/// The mean; 0 of nothing.
fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len();
    if count == 0 { 0.0 } else { values.sum::<f64>() / count as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::{Judged, NoVerdict};

    fn scored(score: f64) -> Judgement {
        Ok(Judged { score, criteria: BTreeMap::new(), is_recorded: false })
    }

    fn failed() -> Judgement {
        Err(NoVerdict { failure: JudgeFailure::WrongFormat, detail: String::new() })
    }

    #[test]
    fn labels_and_repetitions_are_compared_over_the_answers_that_have_scores() {
        let row = |label, first, second| LabelledScore { label, judgements: [first, second] };
        let found = Agreement::of(&[
            row(1.0, scored(0.75), scored(0.75)),
            row(0.0, scored(0.5), scored(0.25)),
            row(1.0, failed(), scored(1.0)),
            row(0.0, scored(0.0), failed()),
        ]);
        assert_eq!((found.rows, found.scored, found.same_side), (4, 3, 2));
        assert_eq!((found.mean_difference, found.bias), (0.25, 0.25 / 3.0));
        assert_eq!((found.repeated, found.repeated_equal, found.mean_repeated_difference), (2, 1, 0.125));
        assert_eq!(found.failures, BTreeMap::from([("judge_wrong_format", 2)]));
        let none = Agreement::of(&[]);
        assert_eq!((none.rows, none.mean_difference), (0, 0.0));
    }
}
