//! The named checks of one engine, and what they have seen of it.

use evenkeel_statistics::evidence::{
    CopyEvidence, EventBets, ShareBets, SignBets, SurpriseBets, Wealth, importance_weight, self_normalized,
};

use crate::run::proof::CalibratedNoise;

/// Share of sequences whose gap may be above the limit, and of tokens that may be outside of what the learner would
/// draw.
const TOLERATED_SHARE: f64 = 0.01;

/// Tolerance of the proof where learner, published weights and engine all have f32, or less.
const EXACT: f64 = 0.01;

/// A sequence further off than this many times what is usual of an engine with the right weights has other tokens, or
/// other numbers.
const UNUSUAL: f64 = 3.0;

/// Tokens at the beginning of an answer that are also looked at by themselves: a token that is missing there changes
/// little of a long answer.
const BEGINNING: usize = 4;

/// What is tested of an engine's samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::run) enum Check {
    /// Tokens are as likely as the policy says.
    Temperature,
    /// Unlikely tokens come as often as they should.
    Truncation,
    /// Answers end as often as they should.
    EndToken,
    /// The engine's log-probabilities of its tokens are the learner's, but for noise.
    LogProbabilities,
    /// Equal answers to a prompt are as rare as their probability says.
    Copies,
}

impl Check {
    pub(in crate::run) const ALL: [Self; 5] =
        [Self::Temperature, Self::Truncation, Self::EndToken, Self::LogProbabilities, Self::Copies];

    /// The name in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Temperature => "temperature",
            Self::Truncation => "truncation",
            Self::EndToken => "end token",
            Self::LogProbabilities => "log-probabilities",
            Self::Copies => "copies",
        }
    }

    /// The name in metrics.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::EndToken => "end_token",
            Self::LogProbabilities => "log_probabilities",
            other => other.name(),
        }
    }
}

/// How far an honest engine may be from the learner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tolerances {
    /// Probability, a token, of what engine and learner disagree about by more than a factor of two.
    pub(super) mass: f64,
    /// Root mean square of a sequence's gaps, in nats.
    pub(super) gap: f64,
    /// Slope of the gap on log p + H: the relative error of a temperature.
    pub(super) slope: f64,
    /// Mean of the gap, in nats.
    pub(super) intercept: f64,
}

impl Tolerances {
    /// `tolerance` is that of the proof of weights, the mean gap in nats. `is_truncated`: near the cut of a truncated
    /// distribution engine and learner may keep different tokens.
    pub(super) fn new(tolerance: f64, is_truncated: bool) -> Self {
        Self {
            mass: if is_truncated { 2e-3 } else { 1e-4 },
            // With f32 on both sides sums in another order are a thousandth of the tolerance apart.
            gap: if tolerance <= EXACT { tolerance / 10.0 } else { tolerance },
            slope: tolerance / 25.0,
            intercept: tolerance / 50.0,
        }
    }

    /// No wider than what an engine needs whose noise with the right weights is known.
    pub(super) fn calibrated(tolerance: f64, is_truncated: bool, noise: CalibratedNoise) -> Self {
        let least = Self::new(tolerance.min(EXACT), is_truncated);
        let own = if noise.is_exact { least } else { Self::new(tolerance, is_truncated) };
        Self { gap: own.gap.min(UNUSUAL * noise.usual_sequence).max(least.gap), ..own }
    }
}

/// One sampled token as engine and learner see it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Token {
    /// Log-probabilities under the distribution as sampled; the learner's is minus infinity outside of what it would
    /// draw.
    pub(super) learner: f64,
    pub(super) engine: f64,
    /// log p + H, bounded, less its mean.
    pub(super) surprise: f64,
    pub(super) entropy: f64,
    /// Of log p.
    pub(super) variance: f64,
    /// Rare events: whether each happened, and its probability.
    pub(super) rare: [(bool, f64); RARE],
    pub(super) is_end: bool,
    pub(super) end_probability: f64,
}

/// The rare events: the lowest hundredth and twentieth of the probability, beyond rank 50, below a twentieth of the
/// likeliest token.
pub(super) const RARE: usize = 4;

/// Sums over everything that was audited of an engine.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sums {
    pub(super) sequences: u64,
    pub(super) tokens: u64,
    /// Tokens outside of what the learner would draw.
    pub(super) outside: u64,
    /// log p + H, over the tokens inside.
    pub(super) surprise: f64,
    pub(super) variance: f64,
    /// Gap and its square.
    pub(super) gap: f64,
    pub(super) squared_gap: f64,
    /// Products for the slope of the gap on the surprise.
    pub(super) gap_by_surprise: f64,
    pub(super) squared_surprise: f64,
    /// Largest root mean square of a sequence's gaps.
    pub(super) worst_sequence: f64,
    pub(super) copies: u64,
    pub(super) expected_copies: f64,
}

/// The evidence against one engine.
#[derive(Debug, Clone)]
pub(super) struct EngineChecks {
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
    pub(super) sums: Sums,
}

impl EngineChecks {
    pub(super) fn new(tolerances: Tolerances) -> Self {
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
            sums: Sums::default(),
        }
    }

    /// What is tolerated of it from here on: once its noise is known, which is before anything of the next step is
    /// seen.
    pub(super) fn tolerate(&mut self, tolerances: Tolerances) {
        self.tolerances = tolerances;
    }

    /// The samples of another step follow.
    pub(super) fn begin_round(&mut self) {
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
    pub(super) fn add_sequence(&mut self, tokens: &[Token]) {
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

    fn add_gaps(&mut self, tokens: &[Token]) {
        let Tolerances { gap: limit, slope, intercept, .. } = self.tolerances;
        let inside: Vec<&Token> = tokens.iter().filter(|token| token.learner.is_finite()).collect();
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
            let terms = |tolerated: f64, factor: fn(&Token) -> f64| {
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
    pub(super) fn add_copy(&mut self, evidence: &CopyEvidence) {
        self.copies.multiply([evidence.whole, evidence.partial]);
        self.sums.expected_copies += evidence.expected;
        self.sums.copies += u64::from(evidence.is_copy);
    }

    /// The evidence of a check so far.
    pub(super) fn evidence(&self, check: Check) -> f64 {
        match check {
            Check::Temperature => self.temperature.evidence(),
            Check::Truncation => {
                let rare = self.rare.iter().map(EventBets::evidence).sum::<f64>();
                (rare + self.outside.evidence()) / (RARE + 1) as f64
            }
            Check::EndToken => self.end.evidence(),
            Check::LogProbabilities => {
                let signs = self.slope.iter().chain(&self.intercept).map(SignBets::evidence).sum::<f64>();
                let sizes = self.gap.evidence() + self.beginning.evidence();
                (signs + sizes) / (self.slope.len() + self.intercept.len() + 2) as f64
            }
            Check::Copies => self.copies.evidence(),
        }
    }

    /// Whether the size of the gaps is most of the evidence about log-probabilities.
    pub(super) fn are_gaps_large(&self) -> bool {
        let sizes = self.gap.evidence().max(self.beginning.evidence());
        sizes >= self.slope.iter().chain(&self.intercept).map(SignBets::evidence).fold(0.0, f64::max)
    }

    /// Whether tokens are too likely, by the temperature's evidence.
    pub(super) fn are_tokens_too_likely(&self) -> bool {
        self.temperature.are_too_likely()
    }

    /// How often answers should have ended, and did.
    pub(super) fn ends(&self) -> (f64, f64) {
        self.end.counts()
    }

    /// How often each rare event should have happened, and did.
    pub(super) fn rare(&self) -> impl Iterator<Item = (f64, f64)> {
        self.rare.iter().map(EventBets::counts)
    }
}

#[cfg(test)]
#[path = "checks_tests.rs"]
mod tests;
