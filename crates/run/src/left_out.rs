//! Whether the answers without a verdict differ from those with one: failures that select bias what is trained on.

use serde::{Deserialize, Serialize};

use crate::metric::table;
use crate::metrics::Curves;

/// Parts of the longest response by which answers are counted.
pub const LENGTH_BINS: usize = 4;

/// Answers that were generated, by what they look like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerCounts {
    pub answers: u64,
    /// Answers that were cut off.
    pub truncated: u64,
    /// Answers with a mark by which a final answer is found, such as `\boxed{}`.
    pub marked: u64,
    /// Answers by length, in quarters of `sampling.max_tokens`.
    pub lengths: [u64; LENGTH_BINS],
}

/// Answers of training that were left out since they have no verdict, beside those of the same steps that were judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    pub left_out: AnswerCounts,
    pub judged: AnswerCounts,
}

impl AnswerCounts {
    /// Adds an answer with its number of tokens, which is at most `most`.
    pub fn add(&mut self, tokens: usize, most: usize, truncated: bool, marked: bool) {
        self.answers += 1;
        self.truncated += u64::from(truncated);
        self.marked += u64::from(marked);
        let bin = (LENGTH_BINS * tokens.saturating_sub(1)) / most.max(1);
        self.lengths[bin.min(LENGTH_BINS - 1)] += 1;
    }

    /// The counts by the names that lines have.
    pub fn named(&self) -> impl Iterator<Item = (String, u64)> + use<> {
        let of = [("answers", self.answers), ("truncated", self.truncated), ("marked", self.marked)];
        let lengths = (1..).zip(self.lengths).map(|(quarter, count)| (format!("length_q{quarter}"), count));
        of.into_iter().map(|(name, count)| (name.to_owned(), count)).chain(lengths)
    }

    fn of(steps: &Curves, which: &str) -> Self {
        let sum = |name: &str| steps.sum(table::ANSWERS_BY.of([&which, &name]).as_str()) as u64;
        Self {
            answers: sum("answers"),
            truncated: sum("truncated"),
            marked: sum("marked"),
            lengths: [1, 2, 3, 4].map(|quarter| sum(&format!("length_q{quarter}"))),
        }
    }

    /// Each property with how many answers have it.
    pub fn properties(&self) -> [(&'static str, u64); 2 + LENGTH_BINS] {
        let [first, second, third, fourth] = self.lengths;
        [
            ("were cut off", self.truncated),
            ("have no marked answer", self.answers - self.marked),
            ("are of the shortest quarter of lengths", first),
            ("are of the second quarter", second),
            ("are of the third quarter", third),
            ("are of the longest quarter", fourth),
        ]
    }
}

impl LeftOut {
    /// The answers of these steps; `None` where each has a verdict.
    pub fn of(steps: &Curves) -> Option<Self> {
        let all = Self { left_out: AnswerCounts::of(steps, "left_out"), judged: AnswerCounts::of(steps, "judged") };
        (all.left_out.answers > 0).then_some(all)
    }

    /// What distinguishes the answers that were left out most, in a sentence.
    pub fn sentence(&self) -> String {
        let Self { left_out, judged } = self;
        let share = |count: u64, of: &AnswerCounts| count as f64 / of.answers.max(1) as f64;
        let properties = left_out.properties().into_iter().zip(judged.properties());
        let differences =
            properties.map(|((what, count), (_, other))| (what, share(count, left_out), share(other, judged)));
        let most = differences.max_by(|(_, a, b), (_, c, d)| (a - b).abs().total_cmp(&(c - d).abs()));
        let Some((what, found, other)) = most else { return String::new() };
        format!(
            "{:.0} % of the {} answers left out {what}, beside {:.0} % of those judged in the same steps.",
            100.0 * found,
            left_out.answers,
            100.0 * other
        )
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::StepKind;

    use super::*;
    use crate::MetricsLine;

    #[test]
    fn what_distinguishes_the_answers_left_out_is_said() {
        let mut all = LeftOut::default();
        for answer in 0..100 {
            all.judged.add(10 + answer % 3, 40, false, answer % 50 != 0);
        }
        for answer in 0..8 {
            all.left_out.add(40, 40, answer < 2, false);
        }
        assert_eq!((all.judged.lengths, all.left_out.lengths), ([34, 66, 0, 0], [0, 0, 0, 8]));
        let sentence =
            "100 % of the 8 answers left out are of the longest quarter, beside 0 % of those judged in the same steps.";
        assert_eq!(all.sentence(), sentence);
        all.left_out.lengths = [3, 5, 0, 0];
        let sentence =
            "100 % of the 8 answers left out have no marked answer, beside 2 % of those judged in the same steps.";
        assert_eq!(all.sentence(), sentence);
    }

    #[test]
    fn counts_of_lines_add_up() {
        let mut line = MetricsLine::new(StepKind::Train, 1, 1);
        let mut counts = AnswerCounts::default();
        counts.add(3, 40, true, true);
        counts.named().for_each(|(name, count)| line.set(table::ANSWERS_BY.of([&"left_out", &name]), count as f64));
        let found = LeftOut::of(&Curves::of(&[line.clone(), MetricsLine { step: 2, ..line }])).unwrap();
        let expected = AnswerCounts { answers: 2, truncated: 2, marked: 2, lengths: [2, 0, 0, 0] };
        assert_eq!((found.left_out, found.judged), (expected, AnswerCounts::default()));
        assert_eq!(LeftOut::of(&Curves::default()), None);
    }
}
