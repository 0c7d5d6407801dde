//! What is known of one engine's samples: the evidence of every check.

use evenkeel_statistics::evidence::{
    CopyEvidence, EventBets, ShareBets, SignBets, SurpriseBets, Wealth, importance_weight, self_normalized,
};

use super::check::SamplerCheck;
use super::token::{AuditedToken, RARE};
use super::tolerances::Tolerances;

/// Share of sequences whose gap may be above the limit, and of tokens that may be outside of what the learner would
/// draw.
const TOLERATED_SHARE: f64 = 0.01;

/// Tokens at the beginning of an answer that are also looked at by themselves: a token that is missing there changes
/// little of a long answer.
const BEGINNING: usize = 4;

/// Sums over everything that was audited of an engine.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct AuditSums {
    pub(crate) sequences: u64,
    pub(crate) tokens: u64,
    /// Tokens outside of what the learner would draw.
    pub(crate) outside: u64,
    /// log p + H, over the tokens inside.
    pub(crate) surprise: f64,
    pub(crate) variance: f64,
    /// Gap and its square.
    pub(crate) gap: f64,
    pub(crate) squared_gap: f64,
    /// Products for the slope of the gap on the surprise.
    pub(crate) gap_by_surprise: f64,
    pub(crate) squared_surprise: f64,
    /// Largest root mean square of a sequence's gaps.
    pub(crate) worst_sequence: f64,
    pub(crate) copies: u64,
    pub(crate) expected_copies: f64,
}

/// The evidence against one engine.
#[derive(Debug, Clone)]
pub(crate) struct EngineChecks {
    tolerances: Tolerances,
    temperature: SurpriseBets,
    rare: [EventBets; RARE],
    outside: ShareBets,
    end: EventBets,
    gap: ShareBets,
    beginning: ShareBets,
    slope: [SignBets; 2],
    intercept: [SignBets; 2],
    copies: Wealth,
    pub(crate) sums: AuditSums,
}

impl EngineChecks {
    pub(crate) fn new(tolerances: Tolerances) -> Self {
        Self {
            tolerances,
            temperature: SurpriseBets::new(tolerances.mass),
            rare: std::array::from_fn(|_| EventBets::default()),
            outside: ShareBets::new(TOLERATED_SHARE),
            end: EventBets::default(),
            gap: ShareBets::new(TOLERATED_SHARE),
            beginning: ShareBets::new(TOLERATED_SHARE),
            slope: Default::default(),
            intercept: Default::default(),
            copies: Wealth::new(2),
            sums: AuditSums::default(),
        }
    }

    /// What is tolerated of it from here on: once its noise is known, which is before anything of the next step is
    /// seen.
    pub(crate) fn tolerate(&mut self, tolerances: Tolerances) {
        self.tolerances = tolerances;
    }

    /// The samples of another step follow.
    pub(crate) fn begin_round(&mut self) {
        self.temperature.begin_round();
        self.rare.iter_mut().for_each(EventBets::begin_round);
        self.outside.begin_round();
        self.end.begin_round();
        self.gap.begin_round();
        self.beginning.begin_round();
        self.slope.iter_mut().chain(&mut self.intercept).for_each(SignBets::begin_round);
        self.copies.begin_round();
    }

    /// Adds the audited tokens of one sample.
    pub(crate) fn add_sequence(&mut self, tokens: &[AuditedToken]) {
        if tokens.is_empty() {
            return;
        }
        for token in tokens {
            let weight = importance_weight(token.learner, token.engine);
            self.temperature.add(weight, token.surprise);
            for (bets, (happened, probability)) in self.rare.iter_mut().zip(token.rare) {
                bets.add(weight, happened, probability);
            }
            self.end.add(weight, token.is_end, token.end_probability);
            self.outside.add(token.learner == f64::NEG_INFINITY);
        }
        self.add_gaps(tokens);
        self.sums.sequences += 1;
        self.sums.tokens += tokens.len() as u64;
    }

    fn add_gaps(&mut self, tokens: &[AuditedToken]) {
        let Tolerances { gap: limit, slope, intercept, .. } = self.tolerances;
        let inside: Vec<&AuditedToken> = tokens.iter().filter(|token| token.learner.is_finite()).collect();
        let mut squares = 0.0;
        for token in &inside {
            let gap = token.engine - token.learner;
            let surprise = token.surprise;
            squares += gap * gap;
            let sums = &mut self.sums;
            sums.surprise += token.learner + token.entropy;
            sums.variance += token.variance;
            sums.gap += gap;
            sums.squared_gap += gap * gap;
            sums.gap_by_surprise += gap * surprise;
            sums.squared_surprise += surprise * surprise;
        }
        self.sums.outside += (tokens.len() - inside.len()) as u64;
        if inside.is_empty() {
            return;
        }
        let size = (squares / inside.len() as f64).sqrt();
        self.sums.worst_sequence = self.sums.worst_sequence.max(size);
        self.gap.add(size > limit || size.is_nan());
        if tokens.len() > BEGINNING {
            let gaps = tokens[..BEGINNING].iter().map(|token| token.engine - token.learner);
            let squares: f64 = gaps.filter(|gap| gap.is_finite()).map(|gap| gap * gap).sum();
            // Four tokens vary more than a whole answer does.
            self.beginning.add((squares / BEGINNING as f64).sqrt() > 2.0 * limit);
        }
        for (sign, (slopes, intercepts)) in [1.0, -1.0].into_iter().zip(self.slope.iter_mut().zip(&mut self.intercept))
        {
            // Drawn tokens favour those that the engine makes likelier; half of the weight takes that out but for the
            // third order.
            let terms = |tolerated: f64, factor: fn(&AuditedToken) -> f64| {
                self_normalized(inside.iter().map(|token| {
                    let gap = token.engine - token.learner;
                    let factor = factor(token);
                    let weight = importance_weight(token.learner, token.engine).min(4.0).sqrt();
                    weight * factor * (sign * gap - tolerated * factor)
                }))
            };
            slopes.add(terms(slope, |token| token.surprise));
            intercepts.add(terms(intercept, |_| 1.0));
        }
    }

    /// Adds what an answer says about copies.
    pub(crate) fn add_copy(&mut self, evidence: &CopyEvidence) {
        self.copies.multiply([evidence.whole, evidence.partial]);
        self.sums.expected_copies += evidence.expected;
        self.sums.copies += u64::from(evidence.is_copy);
    }

    /// The evidence of a check so far.
    pub(crate) fn evidence(&self, check: SamplerCheck) -> f64 {
        match check {
            SamplerCheck::Temperature => self.temperature.evidence(),
            SamplerCheck::Truncation => {
                let rare = self.rare.iter().map(EventBets::evidence).sum::<f64>();
                (rare + self.outside.evidence()) / (RARE + 1) as f64
            }
            SamplerCheck::EndToken => self.end.evidence(),
            SamplerCheck::LogProbabilities => {
                let signs = self.slope.iter().chain(&self.intercept).map(SignBets::evidence).sum::<f64>();
                let sizes = self.gap.evidence() + self.beginning.evidence();
                (signs + sizes) / (self.slope.len() + self.intercept.len() + 2) as f64
            }
            SamplerCheck::Copies => self.copies.evidence(),
        }
    }

    /// Whether the size of the gaps is most of the evidence about log-probabilities.
    pub(crate) fn are_gaps_large(&self) -> bool {
        let sizes = self.gap.evidence().max(self.beginning.evidence());
        sizes >= self.slope.iter().chain(&self.intercept).map(SignBets::evidence).fold(0.0, f64::max)
    }

    /// Whether tokens are too likely, by the temperature's evidence.
    pub(crate) fn are_tokens_too_likely(&self) -> bool {
        self.temperature.are_too_likely()
    }

    /// How often answers should have ended, and did.
    pub(crate) fn ends(&self) -> (f64, f64) {
        self.end.counts()
    }

    /// How often each rare event should have happened, and did.
    pub(crate) fn rare(&self) -> impl Iterator<Item = (f64, f64)> {
        self.rare.iter().map(EventBets::counts)
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
