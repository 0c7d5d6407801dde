//! How long a model's answers to rows are: sixteen of them are sampled.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use tokio::time::timeout;

use crate::local_model::{self, Asked, LocalModel};

/// How many answers are sampled.
pub(super) const SAMPLED: usize = 16;
/// The longest of them, in tokens.
const LONGEST: u64 = 512;
/// How long sampling may take; what has not ended by then counts as the longest.
const LIMIT: Duration = Duration::from_secs(60);

/// The share of answers that are to fit.
const QUANTILE: f64 = 0.95;
/// Lengths are multiples of this.
const ROUNDED_TO: u64 = 8;

/// How answers are marked.
const MARKS: [&str; 2] = ["\\boxed{", "####"];

/// What was found about answers.
pub(super) struct AnswerLengths {
    /// The share of answers that are marked, as the verifier of mathematics reads them.
    pub(super) marked: f64,
    /// The 95th percentile, in tokens.
    pub(super) usual: u64,
    /// That, rounded up to a multiple of 8, as far as there is room.
    pub(super) most: u64,
    /// Answers that were cut off, or had not ended in time.
    pub(super) unfinished: usize,
    /// How long they could be.
    pub(super) longest: u64,
}

/// Samples an answer to each of these prompts. `context` is what the model takes at once.
pub(super) async fn sample(
    model: &Path,
    prompts: Vec<Vec<u32>>,
    temperature: f32,
    context: u64,
) -> Result<AnswerLengths> {
    let longest_prompt = prompts.iter().map(Vec::len).max().unwrap_or(0) as u64;
    let most = LONGEST.min(context.saturating_sub(longest_prompt)).max(1);
    let needed = (longest_prompt + most) as usize;
    let mut answering = LocalModel::start(model, needed, context as usize).await?;
    let asked = |(seed, prompt)| Asked { prompt, temperature, max_tokens: most as u32, seed };
    let mut answers = Vec::new();
    let wanted = prompts.len();
    let asking = answering.ask((0..).zip(prompts).map(asked).collect(), |rollout| {
        answers.push(local_model::tokens(&rollout));
    });
    if let Ok(asked) = timeout(LIMIT, asking).await {
        asked?;
    }
    let mut marked = 0;
    for answer in &answers {
        let text = answering.tokenizer.decode(answer)?;
        marked += usize::from(MARKS.iter().any(|mark| text.contains(mark)));
    }
    let mut lengths: Vec<u64> = answers.iter().map(|answer| answer.len() as u64).collect();
    lengths.resize(wanted, most);
    let unfinished = lengths.iter().filter(|length| **length >= most).count();
    let marked = marked as f64 / wanted.max(1) as f64;
    let room = context.saturating_sub(longest_prompt);
    Ok(AnswerLengths { marked, unfinished, longest: most, ..AnswerLengths::of(lengths, room) })
}

impl AnswerLengths {
    /// Where the length is from, as a sentence.
    pub(super) fn origin(&self) -> String {
        match self.unfinished {
            0 => format!("the 95th percentile of {SAMPLED} sampled answers is {}", self.usual),
            cut => {
                format!("{cut} of {SAMPLED} sampled answers had not ended after {} tokens or a minute", self.longest)
            }
        }
    }

    /// From answers of these lengths, of which at most `room` tokens fit.
    fn of(mut lengths: Vec<u64>, room: u64) -> Self {
        lengths.sort_unstable();
        let last = lengths.len().saturating_sub(1);
        let place = QUANTILE * last as f64;
        let length = |index: usize| lengths.get(index.min(last)).copied().unwrap_or(1) as f64;
        let below = length(place as usize);
        let usual = below + place.fract() * (length(place as usize + 1) - below);
        let most = (usual.ceil() as u64).next_multiple_of(ROUNDED_TO).min(room).max(1);
        Self { marked: 0.0, usual: usual.round() as u64, most, unfinished: 0, longest: room }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_a_twentieth_of_answers_fit() {
        let lengths = AnswerLengths::of((1..=16).map(|length| length * 10).collect(), 1000);
        // Between the fifteenth and the sixteenth.
        assert_eq!((lengths.usual, lengths.most), (153, 160));
        assert_eq!(AnswerLengths::of(vec![500; 16], 300).most, 300, "no more than there is room for");
        assert_eq!(AnswerLengths::of(vec![1], 300).most, 8);
    }

    #[test]
    fn a_percentile_is_named_only_where_all_answers_ended() {
        let ended = AnswerLengths::of(vec![60; 16], 1000);
        assert_eq!(ended.origin(), "the 95th percentile of 16 sampled answers is 60");
        let cut = AnswerLengths { unfinished: 5, longest: 512, ..AnswerLengths::of(vec![512; 16], 1000) };
        assert_eq!(cut.origin(), "5 of 16 sampled answers had not ended after 512 tokens or a minute");
    }
}
