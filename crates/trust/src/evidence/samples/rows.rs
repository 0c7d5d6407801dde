//! Gaps that sit on few token ids: rows of the head or of the embeddings that differ in every version, also when an
//! engine's noise was measured. Such a fault looks like noise as long as nobody asks which tokens have it.

use std::collections::BTreeMap;

use evenkeel_statistics::evidence::Wealth;

/// Most ids that are told apart, by the order in which they appear: the frequent ones are among them.
const MOST_IDS: usize = 1024;
/// Ids that are bet on in a step, and tokens that one must have had before.
const CANDIDATES: usize = 4;
const LEAST_TOKENS: f64 = 4.0;
/// How far the mean gap of a candidate is beyond the gaps of all other ids, in their root mean squares.
const BEYOND: f64 = 1.5;
/// A gap counts as at most so many standard deviations: where a scaled row is not the token that was drawn, a rare other
/// one is far off, and would hide it.
const MOST: f64 = 4.0;
/// A gap up to here, in nats, is rounding, of which nearly certain tokens have always the same.
const ROUNDING: f64 = 3e-5;
/// Share of gaps beyond the others that has the expected direction, at most, where noise has none or a slight one;
/// supposed are these shares.
const HONEST: f64 = 0.6;
const SUPPOSED: [f64; 2] = [0.8, 0.97];

/// The gaps of one id, each by its noise.
#[derive(Debug, Clone, Copy, Default)]
struct IdGaps {
    tokens: f64,
    sum: f64,
    squares: f64,
    nats: f64,
}

/// An id that is bet on: the sign that its gaps should have, and the size that they should be beyond.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    sign: f64,
    beyond: f64,
}

/// Bets that the gaps of few ids lie beyond those of all others, on one side.
#[derive(Debug, Clone)]
pub(crate) struct RowBets {
    wealth: Wealth,
    by_id: BTreeMap<u32, IdGaps>,
    all: IdGaps,
    candidates: BTreeMap<u32, Candidate>,
}

impl Default for RowBets {
    fn default() -> Self {
        let wealth = Wealth::new(SUPPOSED.len());
        Self { wealth, by_id: BTreeMap::new(), all: IdGaps::default(), candidates: BTreeMap::new() }
    }
}

impl RowBets {
    /// The samples of another step follow: what is bet on is chosen by all before.
    pub(crate) fn begin_round(&mut self) {
        self.wealth.begin_round();
        let mut found: Vec<(f64, u32, Candidate)> =
            self.by_id.iter().filter_map(|(id, gaps)| self.candidate(gaps).map(|(far, one)| (far, *id, one))).collect();
        found.sort_by(|one, other| other.0.total_cmp(&one.0));
        self.candidates = found.into_iter().take(CANDIDATES).map(|(_, id, candidate)| (id, candidate)).collect();
    }

    fn candidate(&self, gaps: &IdGaps) -> Option<(f64, Candidate)> {
        if gaps.tokens < LEAST_TOKENS {
            return None;
        }
        let others = self.others(gaps);
        let mean = gaps.sum / gaps.tokens;
        let far = mean.abs() / others;
        (far > BEYOND).then_some((far, Candidate { sign: mean.signum(), beyond: others }))
    }

    /// Root mean square over all other ids.
    fn others(&self, gaps: &IdGaps) -> f64 {
        ((self.all.squares - gaps.squares).max(0.0) / (self.all.tokens - gaps.tokens).max(1.0)).sqrt()
    }

    /// Adds a token: its gap in nats, and the standard deviation of that.
    pub(crate) fn add(&mut self, id: u32, gap: f64, deviation: f64) {
        let size = (gap / deviation).clamp(-MOST, MOST);
        if size.is_nan() {
            return;
        }
        let candidate = self.candidates.get(&id).filter(|one| size.abs() > one.beyond && gap.abs() > ROUNDING);
        if let Some(Candidate { sign, .. }) = candidate {
            let is_expected = sign * size > 0.0;
            self.wealth.multiply(
                SUPPOSED.map(
                    |supposed| {
                        if is_expected { supposed / HONEST } else { (1.0 - supposed) / (1.0 - HONEST) }
                    },
                ),
            );
        }
        let is_full = self.by_id.len() >= MOST_IDS;
        let of_id = if is_full { self.by_id.get_mut(&id) } else { Some(self.by_id.entry(id).or_default()) };
        for gaps in of_id.into_iter().chain([&mut self.all]) {
            gaps.tokens += 1.0;
            gaps.sum += size;
            gaps.squares += size * size;
            gaps.nats += gap;
        }
    }

    pub(crate) fn evidence(&self) -> f64 {
        self.wealth.evidence()
    }

    /// The ids that are bet on, each with its mean gap in nats and its tokens.
    pub(crate) fn found(&self) -> impl Iterator<Item = (u32, f64, f64)> {
        let of_id = |id: &u32| self.by_id.get(id).map(|gaps| (*id, gaps.nats / gaps.tokens, gaps.tokens));
        self.candidates.keys().filter_map(of_id)
    }
}
