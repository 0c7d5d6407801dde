//! What audited samples say of one engine's weights: the bets of scored text on the log-probabilities that samples came
//! with. An engine may answer requests for scores with other weights than it draws from.

use std::collections::BTreeMap;

use evenkeel_statistics::evidence::{Contrast, SmallnessBets, SuspectedToken, importance_weight};

use super::suspicion::Suspicion;

/// The evidence from samples, suspicion by suspicion.
#[derive(Debug, Default)]
pub(super) struct SampleBets(BTreeMap<Suspicion, (Contrast, SmallnessBets)>);

impl SampleBets {
    /// Adds samples of a step: of each the tokens as a suspicion sees them. Signs count by pieces of so many tokens.
    pub(super) fn add(&mut self, suspicion: &Suspicion, samples: &[Vec<SuspectedToken>], piece: usize, tolerated: f64) {
        let (signs, sizes) = self.0.entry(suspicion.clone()).or_default();
        signs.begin_round();
        sizes.begin_round();
        for sample in samples {
            // Drawn tokens favour those that noise makes likelier.
            let weighted = |token: &SuspectedToken| SuspectedToken {
                weight: token.weight * importance_weight(0.0, token.gap).min(2.0),
                ..*token
            };
            let tokens: Vec<_> = sample.iter().map(weighted).collect();
            tokens.chunks(piece).for_each(|piece| signs.add(piece, tolerated));
            sizes.add(sample, tolerated);
        }
    }

    /// The strongest evidence that a part is stale.
    #[cfg(test)]
    pub(super) fn strongest(&self) -> f64 {
        self.0.values().map(|(signs, _)| signs.stale()).fold(1.0, f64::max)
    }

    /// Evidence that it is stale by less than half.
    pub(super) fn fresh(&self, suspicion: &Suspicion) -> f64 {
        self.0.get(suspicion).map_or(1.0, |(signs, sizes)| f64::midpoint(signs.fresh(), sizes.evidence()))
    }

    /// If any suspicion reaches the limit, the one that explains most of a token's gap, with the share of its prediction
    /// that was found: a stale part is also a share of all that moved, and whose turn came first has most evidence.
    pub(super) fn supported(&self, limit: f64) -> Option<(&Suspicion, f64)> {
        let is_decided = self.0.values().any(|(signs, _)| signs.stale() >= limit);
        let likely = self.0.iter().filter(|(_, (signs, _))| is_decided && signs.stale() >= limit.sqrt());
        let found = likely.filter_map(|(suspicion, (signs, _))| {
            let (share, _) = signs.share()?;
            Some((suspicion, share, share * share * signs.information() / signs.tokens() as f64))
        });
        found.max_by(|a, b| a.2.total_cmp(&b.2)).map(|(suspicion, share, _)| (suspicion, share))
    }

    /// About how many more tokens decide a suspicion.
    pub(super) fn tokens_needed(&self, suspicion: &Suspicion) -> Option<f64> {
        self.0.get(suspicion).and_then(|(signs, _)| signs.tokens_needed())
    }
}
