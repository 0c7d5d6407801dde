//! Statistics of a distribution at the token that was drawn from it, from which it can be told whether tokens come from
//! it.

use super::draw::{NotFinite, Sampler, finite};
use super::normalizer::Normalizer;
use super::truncate::{Truncation, keep, nth_largest};
use super::weights::exponentials;

/// Bound of the surprise, in nats.
pub const SURPRISE_BOUND: f64 = 4.0;
/// Tokens beyond each of these places have their mass in [`TokenStatistics::beyond_rank`].
pub const COMMON_RANKS: [usize; 2] = [5, 50];
/// Tokens below each of these shares of the largest probability have their mass in [`TokenStatistics::below_floor`].
pub const FLOORS: [f32; 2] = [0.01, 0.05];

const LANES: usize = 8;

/// The distribution that a token was drawn from.
#[derive(Debug, Clone, Copy)]
pub struct SampledFrom<'a> {
    /// Divides the logits; above 0.
    pub temperature: f32,
    /// Which tokens were too unlikely to be drawn.
    pub truncation: Truncation,
    /// Distinct ids whose joint mass is wanted, and which some tokens were drawn without.
    pub end_tokens: &'a [u32],
}

/// What is known of the draw of a token.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TokenDraw {
    /// The random number in [0, 1) that the token was drawn with, so that it can be drawn again.
    pub number: Option<f64>,
    /// Whether end tokens were excluded from the draw.
    pub cannot_end: bool,
}

/// Statistics of the distribution p at the token x. Logarithms are natural, masses are probabilities. Tokens are
/// ordered by p, most likely first, equally likely ones by their ids.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TokenStatistics {
    /// log p(x); minus infinity outside the support.
    pub log_probability: f64,
    /// H, the entropy of p.
    pub entropy: f64,
    /// Variance of log p under p.
    pub variance: f64,
    /// log p(x) + H, bounded to ±[`SURPRISE_BOUND`], minus the mean of this over p.
    pub surprise: f64,
    /// Mass of the tokens that are less likely than x.
    pub less_likely: f64,
    /// Mass of the tokens that are as likely as x, x included.
    pub equally_likely: f64,
    /// Place of x in the order, from 1; outside the support one more than its size.
    pub rank: u32,
    /// Mass of the tokens whose place is above each of [`COMMON_RANKS`].
    pub beyond_rank: [f64; COMMON_RANKS.len()],
    /// log p of the most likely token.
    pub largest_log_probability: f64,
    /// Mass of the tokens whose p is below each of [`FLOORS`] times the largest.
    pub below_floor: [f64; FLOORS.len()],
    /// Mass of the end tokens.
    pub end_probability: f64,
}

/// A token under the whole distribution, and its statistics under the one that was sampled from.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SampledToken {
    /// Log-probability at the temperature, without truncation.
    pub logp: f32,
    /// Entropy at the temperature, without truncation.
    pub entropy: f32,
    /// Statistics of the distribution with truncation.
    pub statistics: TokenStatistics,
    /// The token that a random number draws, if one is given.
    pub drawn: Option<u32>,
}

impl Sampler {
    /// Statistics of the distribution that `row`, a row of logits divided by the temperature, gives, at `target`. The
    /// support and the log-probability are, to the bit, those of [`draw`](Self::draw) from the same row.
    ///
    /// # Errors
    /// Logits with a NaN or plus infinity, or none above minus infinity.
    pub fn statistics(&mut self, row: &[f32], target: u32, from: SampledFrom<'_>) -> Result<SampledToken, NotFinite> {
        let (_, top) = finite(row)?;
        exponentials(row, top, &mut self.weights, &mut self.blocks);
        let all = Support { logits: row, weights: &self.weights, top };
        let moments = all.moments();
        let logit = row[target as usize];
        let logp = Normalizer::of_all(row).log_probability(logit);
        let statistics = if from.truncation.bind(row.len()) {
            keep(row, &self.weights, from.truncation, &mut self.kept);
            self.kept.sort_unstable();
            let gather = |from: &[f32]| self.kept.iter().map(|&id| from[id as usize]).collect::<Vec<_>>();
            let logits = gather(row);
            let weights = gather(&self.weights);
            let kept = Support { logits: &logits, weights: &weights, top };
            let place = |id| self.kept.binary_search(&id).ok();
            let log_probability = Normalizer::of_kept(top, &self.weights, &self.kept).log_probability(logit);
            kept.statistics(kept.moments(), (logit, log_probability), place, target, from.end_tokens)
        } else {
            all.statistics(moments, (logit, logp), |id| Some(id as usize), target, from.end_tokens)
        };
        Ok(SampledToken { logp, entropy: moments.entropy() as f32, statistics, drawn: None })
    }
}

/// The tokens that can be drawn, in the order of their ids.
#[derive(Clone, Copy)]
struct Support<'a> {
    /// Divided by the temperature.
    logits: &'a [f32],
    /// Weights of the tokens, exp(logit - top).
    weights: &'a [f32],
    /// The largest logit, which is always in the support.
    top: f32,
}

/// Moments of the logits less the largest.
#[derive(Clone, Copy)]
struct Moments {
    total: f64,
    log_total: f64,
    mean: f64,
}

impl Moments {
    fn entropy(self) -> f64 {
        self.log_total - self.mean
    }
}

/// Sums over the support, relative to a token and to the tokens at the places [`COMMON_RANKS`].
#[derive(Clone, Copy, Default)]
struct Sums {
    squares: f64,
    bounded: f64,
    less: f64,
    equal: f64,
    below_floor: [f64; FLOORS.len()],
    rare: [f64; COMMON_RANKS.len()],
}

impl Support<'_> {
    /// Sums in lanes, so that they are fast and in one order.
    fn moments(&self) -> Moments {
        let mut totals = [0f64; LANES];
        let mut firsts = [0f64; LANES];
        for (logits, weights) in self.logits.chunks(LANES).zip(self.weights.chunks(LANES)) {
            for (lane, (&logit, &weight)) in logits.iter().zip(weights).enumerate() {
                totals[lane] += f64::from(weight);
                firsts[lane] += self.weighted(logit, weight);
            }
        }
        let total: f64 = totals.iter().sum();
        Moments { total, log_total: libm::log(total), mean: firsts.iter().sum::<f64>() / total }
    }

    /// weight × (logit - top); 0 where the weight is 0, also for a logit of minus infinity.
    fn weighted(&self, logit: f32, weight: f32) -> f64 {
        if weight > 0.0 { f64::from(weight) * (f64::from(logit) - f64::from(self.top)) } else { 0.0 }
    }

    fn sums(&self, mean: f64, logit_of_target: f32, rare_below: [f32; COMMON_RANKS.len()]) -> Sums {
        let mut lanes = [Sums::default(); LANES];
        for (logits, weights) in self.logits.chunks(LANES).zip(self.weights.chunks(LANES)) {
            for (lane, (&logit, &weight)) in logits.iter().zip(weights).enumerate() {
                let sums = &mut lanes[lane];
                let mass = f64::from(weight);
                let mass_if = |condition: bool| if condition { mass } else { 0.0 };
                // Also of a logit of minus infinity, which has no mass.
                let surprise = (f64::from(logit) - f64::from(self.top) - mean).max(-1e3);
                sums.squares += mass * surprise * surprise;
                sums.bounded += mass * surprise.clamp(-SURPRISE_BOUND, SURPRISE_BOUND);
                sums.less += mass_if(logit < logit_of_target);
                sums.equal += mass_if(logit == logit_of_target);
                for (sum, floor) in sums.below_floor.iter_mut().zip(FLOORS) {
                    *sum += mass_if(weight < floor);
                }
                for (sum, below) in sums.rare.iter_mut().zip(rare_below) {
                    *sum += mass_if(logit < below);
                }
            }
        }
        lanes.iter().fold(Sums::default(), |a, b| Sums {
            squares: a.squares + b.squares,
            bounded: a.bounded + b.bounded,
            less: a.less + b.less,
            equal: a.equal + b.equal,
            below_floor: std::array::from_fn(|at| a.below_floor[at] + b.below_floor[at]),
            rare: std::array::from_fn(|at| a.rare[at] + b.rare[at]),
        })
    }

    /// At the token `target` of that logit and log-probability; `place` is that of an id in the support.
    fn statistics(
        &self,
        moments: Moments,
        (logit, log_probability): (f32, f32),
        place: impl Fn(u32) -> Option<usize>,
        target: u32,
        end_tokens: &[u32],
    ) -> TokenStatistics {
        let Moments { total, log_total, mean } = moments;
        // The last of the common ones. With fewer tokens it is minus infinity, and none is rare.
        let common = COMMON_RANKS.map(|ranks| nth_largest(self.logits.iter().copied(), ranks));
        let sums = self.sums(mean, logit, common);
        let count = |condition: &dyn Fn(f32) -> bool| self.logits.iter().filter(|&&other| condition(other)).count();
        // Tokens as likely as the last common one are common as well, the first by their ids.
        let tied = |ranks: usize, common: f32| {
            let is_rare = common > f32::NEG_INFINITY;
            let beyond = if is_rare { count(&|other| other >= common).saturating_sub(ranks) } else { 0 };
            let of_common = || self.logits.iter().position(|&other| other == common).map(|at| self.weights[at]);
            if beyond > 0 { f64::from(of_common().unwrap_or(0.0)) * beyond as f64 } else { 0.0 }
        };
        let place_of_target = place(target);
        let (log_probability, surprise, rank) = match place_of_target {
            Some(at) => {
                let before = self.logits[..at].iter().filter(|&&other| other == logit).count();
                let surprise = f64::from(logit) - f64::from(self.top) - mean;
                (f64::from(log_probability), surprise, count(&|other| other > logit) + before + 1)
            }
            None => (f64::NEG_INFINITY, f64::NEG_INFINITY, self.logits.len() + 1),
        };
        let end: f64 = end_tokens.iter().filter_map(|&id| place(id)).map(|at| f64::from(self.weights[at])).sum();
        TokenStatistics {
            log_probability,
            entropy: moments.entropy(),
            variance: sums.squares / total,
            surprise: surprise.clamp(-SURPRISE_BOUND, SURPRISE_BOUND) - sums.bounded / total,
            less_likely: sums.less / total,
            equally_likely: sums.equal / total,
            rank: rank as u32,
            beyond_rank: std::array::from_fn(|at| (sums.rare[at] + tied(COMMON_RANKS[at], common[at])) / total),
            largest_log_probability: -log_total,
            below_floor: sums.below_floor.map(|mass| mass / total),
            end_probability: end / total,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{DrawOptions, LogprobsMode, LogprobsRequest};
    use super::*;

    /// Every statistic from a list of all probabilities in f64, straight from the definitions.
    fn dense(row: &[f32], target: usize, support: &[usize], end_tokens: &[u32]) -> TokenStatistics {
        let sum: f64 = support.iter().map(|&id| f64::from(row[id]).exp()).sum();
        let p = |id: usize| f64::from(row[id]).exp() / sum;
        let mean = |of: &dyn Fn(usize) -> f64| support.iter().map(|&id| p(id) * of(id)).sum::<f64>();
        let mass = |of: &dyn Fn(usize) -> bool| mean(&|id| f64::from(u8::from(of(id))));
        let entropy = -mean(&|id| p(id).ln());
        let bounded = |log: f64| (log + entropy).clamp(-4.0, 4.0);
        let mut order = support.to_vec();
        order.sort_by(|&a, &b| row[b].total_cmp(&row[a]).then(a.cmp(&b)));
        let rank = |id: usize| order.iter().position(|&other| other == id).unwrap_or(order.len()) + 1;
        let log_probability = if support.contains(&target) { p(target).ln() } else { f64::NEG_INFINITY };
        let largest = p(order[0]);
        TokenStatistics {
            log_probability,
            entropy,
            variance: mean(&|id| (p(id).ln() + entropy).powi(2)),
            surprise: bounded(log_probability) - mean(&|id| bounded(p(id).ln())),
            less_likely: mass(&|id| row[id] < row[target]),
            equally_likely: mass(&|id| row[id] == row[target]),
            rank: rank(target) as u32,
            beyond_rank: [mass(&|id| rank(id) > 5), mass(&|id| rank(id) > 50)],
            largest_log_probability: largest.ln(),
            below_floor: [mass(&|id| p(id) < 0.01 * largest), mass(&|id| p(id) < 0.05 * largest)],
            end_probability: mass(&|id| end_tokens.contains(&(id as u32))),
        }
    }

    fn assert_close(found: &TokenStatistics, wanted: &TokenStatistics) -> Result<(), TestCaseError> {
        let list = |s: &TokenStatistics| {
            [
                s.log_probability,
                s.entropy,
                s.variance,
                s.surprise,
                s.less_likely,
                s.equally_likely,
                s.beyond_rank[0],
                s.beyond_rank[1],
                s.largest_log_probability,
                s.below_floor[0],
                s.below_floor[1],
                s.end_probability,
            ]
        };
        for (number, (found, wanted)) in list(found).into_iter().zip(list(wanted)).enumerate() {
            let close = found == wanted || (found - wanted).abs() <= 2e-6 * wanted.abs().max(1.0);
            prop_assert!(close, "statistic {number}: {found} is not {wanted}");
        }
        prop_assert_eq!(found.rank, wanted.rank);
        Ok(())
    }

    /// The ids that can be drawn, by the draw itself.
    fn support(row: &[f32], temperature: f32, truncation: Truncation) -> Vec<usize> {
        let logprobs = Some(LogprobsRequest { mode: LogprobsMode::ProcessedLogprobs, alternatives: row.len() });
        let mut top = Vec::new();
        let options = DrawOptions { temperature, truncation, excluded: &[], logprobs };
        Sampler::default().draw(&mut row.to_vec(), options, 0.3, &mut top).unwrap();
        top.iter().filter(|(_, logp)| *logp > f32::NEG_INFINITY).map(|&(id, _)| id as usize).collect()
    }

    fn truncation() -> impl Strategy<Value = Truncation> {
        let k = prop_oneof![Just(0usize), 1..90usize];
        let p = prop_oneof![Just(1f32), 0.05..1f32];
        (k, p, prop_oneof![Just(0f32), 0.0..0.5f32]).prop_map(|(top_k, top_p, min_p)| Truncation {
            top_k,
            top_p,
            min_p,
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// Coarse logits tie often, as those of identical rows of a head.
        #[test]
        fn every_statistic_is_that_of_a_dense_computation_over_the_support_of_the_draw(
            row in prop::collection::vec(prop_oneof![-12f32..9.0, (-8i8..8).prop_map(f32::from)], 1..150),
            target: prop::sample::Index, truncation in truncation(),
            temperature in prop::sample::select(vec![1f32, 0.5, 1.3]),
            end_tokens in prop::collection::btree_set(0u32..150, 0..4),
        ) {
            let target = target.index(row.len());
            let end_tokens: Vec<u32> = end_tokens.into_iter().filter(|&id| (id as usize) < row.len()).collect();
            let support = support(&row, temperature, truncation);
            let from = SampledFrom { temperature, truncation, end_tokens: &end_tokens };
            let scaled: Vec<f32> = row.iter().map(|x| x / temperature).collect();
            let found = Sampler::default().statistics(&scaled, target as u32, from).unwrap();
            assert_close(&found.statistics, &dense(&scaled, target, &support, &end_tokens))?;
            let all: Vec<usize> = (0..row.len()).collect();
            let whole = dense(&scaled, target, &all, &[]);
            prop_assert!((f64::from(found.logp) - whole.log_probability).abs() < 1e-5);
            prop_assert!((f64::from(found.entropy) - whole.entropy).abs() < 1e-5);
        }

        /// What bets on samples rely on.
        #[test]
        fn means_over_the_distribution_are_exact(
            row in prop::collection::vec(prop_oneof![-12f32..9.0, (-8i8..8).prop_map(f32::from)], 2..120),
            truncation in truncation(),
        ) {
            let from = SampledFrom { temperature: 1.0, truncation, end_tokens: &[0] };
            let statistics_at = |id: usize| Sampler::default().statistics(&row, id as u32, from).unwrap().statistics;
            let all: Vec<(f64, TokenStatistics)> =
                (0..row.len()).map(statistics_at).map(|found| (found.log_probability.exp(), found)).collect();
            let mean = |of: &dyn Fn(&TokenStatistics) -> f64| all.iter().map(|(p, at)| p * of(at)).sum::<f64>();
            let event = |of: &dyn Fn(&TokenStatistics) -> bool| mean(&|at| f64::from(u8::from(of(at))));
            let first = all[0].1;
            prop_assert!((mean(&|_| 1.0) - 1.0).abs() < 1e-5);
            prop_assert!(mean(&|at| at.surprise).abs() < 2e-5);
            for (ranks, mass) in COMMON_RANKS.into_iter().zip(first.beyond_rank) {
                prop_assert!((event(&|at| at.rank as usize > ranks) - mass).abs() < 1e-5);
            }
            for (floor, mass) in FLOORS.map(f64::from).into_iter().zip(first.below_floor) {
                let below = |at: &TokenStatistics| at.log_probability < at.largest_log_probability + floor.ln();
                prop_assert!((event(&below) - mass).abs() < 1e-5);
            }
            // less likely + u × equally likely is uniform: its mean is a half.
            prop_assert!((mean(&|at| at.less_likely + at.equally_likely / 2.0) - 0.5).abs() < 1e-5);
        }
    }

    #[test]
    fn logits_that_are_not_finite_are_refused_and_minus_infinity_is_a_token_without_mass() {
        let from = SampledFrom { temperature: 1.0, truncation: Truncation::NONE, end_tokens: &[] };
        for broken in [f32::NAN, f32::INFINITY] {
            assert_eq!(Sampler::default().statistics(&[0.0, broken], 0, from), Err(NotFinite));
        }
        let found = Sampler::default().statistics(&[0.0, f32::NEG_INFINITY], 1, from).unwrap().statistics;
        assert_eq!((found.log_probability, found.entropy, found.surprise), (f64::NEG_INFINITY, 0.0, -4.0));
    }
}
