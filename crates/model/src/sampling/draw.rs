//! Draws one token from a row of logits.

use super::normalizer::Normalizer;
use super::truncate::{keep, likelier};
use super::weights::{exponentials, index_at, largest};
use super::{DrawOptions, LogprobsMode, LogprobsRequest, exclude};

/// A token and its log-probability in the configured mode, if it was requested.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drawn {
    /// Id of the token in the vocabulary.
    pub id: u32,
    /// Log-probability, if it is asked for.
    pub logprob: Option<f32>,
}

/// A token of a prompt under the plain distribution.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Score {
    /// ln of its probability.
    pub logprob: f32,
    /// Place among all tokens by probability, from 1.
    pub rank: u32,
}

/// The model computed NaN or an infinity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the model's logits are not finite")]
pub struct NotFinite;

/// Draws tokens. Reuses its buffers.
#[derive(Debug, Default)]
pub struct Sampler {
    pub(super) weights: Vec<f32>,
    pub(super) blocks: Vec<f64>,
    pub(super) kept: Vec<u32>,
    ranked: Vec<u32>,
}

impl Sampler {
    /// Draws from `row`, a row of logits, which is overwritten, by `uniform` in [0, 1). Appends the requested
    /// alternatives to `top`, most likely first.
    ///
    /// # Errors
    /// Logits with a NaN or plus infinity, or none above minus infinity.
    pub fn draw(
        &mut self,
        row: &mut [f32],
        options: DrawOptions<'_>,
        uniform: f64,
        top: &mut Vec<(u32, f32)>,
    ) -> Result<Drawn, NotFinite> {
        let DrawOptions { temperature, truncation, excluded, logprobs } = options;
        let alternatives = |wanted: LogprobsMode| {
            logprobs.filter(|request| request.mode == wanted).map(|LogprobsRequest { alternatives, .. }| alternatives)
        };
        let raw = match alternatives(LogprobsMode::RawLogprobs) {
            None => None,
            Some(count) => {
                finite(row)?;
                let normalizer = Normalizer::of_all(row);
                self.rank_all(row, count, normalizer, top);
                Some(normalizer)
            }
        };
        let drawn_raw = |id: usize, logit: f32| Drawn {
            id: id as u32,
            logprob: raw.map(|normalizer| normalizer.log_probability(logit)),
        };
        exclude(row, excluded);
        let processed = alternatives(LogprobsMode::ProcessedLogprobs);
        if temperature == 0.0 {
            let (id, highest) = finite(row)?;
            let Some(count) = processed else {
                return Ok(drawn_raw(id, highest));
            };
            let normalizer = Normalizer::of_all(row);
            self.rank_all(row, count, normalizer, top);
            return Ok(Drawn { id: id as u32, logprob: Some(normalizer.log_probability(highest)) });
        }

        if temperature != 1.0 {
            for x in row.iter_mut() {
                *x /= temperature;
            }
        }
        let (_, highest) = finite(row)?;
        exponentials(row, highest, &mut self.weights, &mut self.blocks);
        let is_truncated = truncation.bind(row.len());
        let id = if is_truncated {
            keep(row, &self.weights, truncation, &mut self.kept);
            self.draw_kept(uniform)
        } else {
            let total: f64 = self.blocks.iter().sum();
            index_at(uniform * total, &self.weights, &self.blocks)
        };
        let Some(count) = processed else {
            return Ok(drawn_raw(id, row[id] * temperature));
        };
        let normalizer = if is_truncated {
            self.kept.sort_unstable();
            let normalizer = Normalizer::of_kept(highest, &self.weights, &self.kept);
            self.rank_kept(row, count, normalizer, top);
            normalizer
        } else {
            let normalizer = Normalizer::of_all(row);
            self.rank_all(row, count, normalizer, top);
            normalizer
        };
        Ok(Drawn { id: id as u32, logprob: Some(normalizer.log_probability(row[id])) })
    }

    /// Scores a token by a row of logits, without temperature or truncation.
    ///
    /// # Errors
    /// Logits with a NaN or plus infinity, or none above minus infinity.
    pub fn score(&mut self, row: &[f32], id: u32) -> Result<Score, NotFinite> {
        finite(row)?;
        let logit = row[id as usize];
        let rank = row.iter().filter(|&&other| other >= logit).count() as u32;
        Ok(Score { logprob: Normalizer::of_all(row).log_probability(logit), rank })
    }

    /// Draws a token from `kept`, and returns its index there.
    fn draw_kept(&self, uniform: f64) -> usize {
        let weight = |id: u32| f64::from(self.weights[id as usize]);
        let total: f64 = self.kept.iter().map(|&id| weight(id)).sum();
        let mut target = uniform * total;
        // The most likely one weighs 1, so that one has a weight; rounding may leave the target at the very end.
        let mut last = self.kept[0];
        for &id in &self.kept {
            if weight(id) > 0.0 {
                last = id;
                target -= weight(id);
                if target < 0.0 {
                    break;
                }
            }
        }
        last as usize
    }

    /// Appends the `count` most likely tokens with their log-probabilities.
    fn rank_all(&mut self, row: &[f32], count: usize, normalizer: Normalizer, top: &mut Vec<(u32, f32)>) {
        self.rank(row, count);
        top.extend(self.ranked.iter().map(|&id| (id, normalizer.log_probability(row[id as usize]))));
    }

    /// Puts the `count` most likely tokens into `ranked`.
    fn rank(&mut self, row: &[f32], count: usize) {
        let count = count.min(row.len());
        self.ranked.clear();
        if count == 0 {
            return;
        }
        if count > 64 {
            self.ranked.extend(0..row.len() as u32);
            self.ranked.select_nth_unstable_by(count - 1, |&a, &b| likelier(row, a, b));
            self.ranked.truncate(count);
            self.ranked.sort_unstable_by(|&a, &b| likelier(row, a, b));
            return;
        }
        // Few of many: nearly every token is rejected by the first comparison.
        let mut least = f32::NEG_INFINITY;
        for (id, &x) in row.iter().enumerate() {
            if self.ranked.len() == count && x <= least {
                continue;
            }
            let at = self.ranked.partition_point(|&other| row[other as usize] >= x);
            if self.ranked.len() == count {
                self.ranked.pop();
            }
            self.ranked.insert(at, id as u32);
            least = row[self.ranked[self.ranked.len() - 1] as usize];
        }
    }

    /// The most likely of `kept`, then tokens that could not have been drawn, with a log-probability of minus infinity.
    fn rank_kept(&mut self, row: &[f32], count: usize, normalizer: Normalizer, top: &mut Vec<(u32, f32)>) {
        let count = count.min(row.len());
        self.kept.sort_unstable_by(|&a, &b| likelier(row, a, b));
        let first = top.len();
        top.extend(self.kept.iter().take(count).map(|&id| (id, normalizer.log_probability(row[id as usize]))));
        let missing = count - (top.len() - first);
        let others = (0..row.len() as u32).filter(|id| !self.kept.contains(id));
        top.extend(others.take(missing).map(|id| (id, f32::NEG_INFINITY)));
    }
}

/// The most likely token and its logit.
pub(super) fn finite(row: &[f32]) -> Result<(usize, f32), NotFinite> {
    largest(row).filter(|(_, top)| top.is_finite()).ok_or(NotFinite)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
