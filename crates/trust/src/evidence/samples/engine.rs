//! What is known of one engine's samples: the evidence of every check.

use evenkeel_statistics::evidence::{
    CopyEvidence, EventBets, PREFERENCE_BETS, Preference, REDRAWN_BET, ShareBets, SignBets, SurpriseBets, Wealth,
    importance_weight, self_normalized,
};

use super::check::SamplerCheck;
use super::noise::SampleNoise;
use super::rows::RowBets;
use super::token::{AuditedToken, RARE};
use super::tolerances::Tolerances;

/// Share of tokens that may be outside of what the learner would draw.
const TOLERATED_SHARE: f64 = 0.01;

/// Gaps of a response up to this root mean square, in nats, are the noise of f32: no limit is lower.
pub(crate) const F32_GAP: f64 = 1e-4;

/// Log-probabilities in thousandths, of those between these limits: as far from a whole number as this, the engine's is
/// taken for rounded where the learner's is far from one. One in fifty is by chance, and so many are tolerated.
const ROUNDED: f64 = 0.01;
const NOT_ROUNDED: f64 = 0.05;
const ROUNDABLE: std::ops::Range<f64> = 0.02..16.0;
const TOLERATED_ROUND: f64 = 0.03;

/// Answers that are this many times further off than any usual one, of which fewer are tolerated: a fault of a few
/// answers shows in these.
const FAR: f64 = 2.0;

/// How an answer is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drawing {
    /// As the samples of the run's steps are.
    Sampled,
    /// From a distribution that is cut though that of the run is not, so that learner and engine may cut elsewhere.
    Cut,
    /// Each token is the likeliest.
    Likeliest,
}

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
    /// Tokens inside, of samples of steps; what follows is summed over these.
    pub(crate) inside: u64,
    /// log p + H.
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
    /// Tokens after which answers are shorter, likelier, and among the longest: how many were expected, and how many
    /// came.
    pub(crate) shorter: (f64, f64),
    pub(crate) likelier: (f64, f64),
    pub(crate) longest: (f64, f64),
    /// Audited answers of evaluations that are not sampled as those of steps are, and their tokens; and how many of them
    /// have a token that is not the likeliest, though it should be.
    pub(crate) other_sequences: u64,
    pub(crate) other_tokens: u64,
    pub(crate) not_likeliest: u64,
}

/// The evidence against one engine.
#[derive(Debug, Clone)]
pub(crate) struct EngineChecks {
    tolerances: Tolerances,
    noise: Option<SampleNoise>,
    temperature: SurpriseBets,
    likeliest: ShareBets,
    rare: [EventBets; RARE],
    outside: ShareBets,
    end: EventBets,
    gap: ShareBets,
    far: ShareBets,
    beginning: ShareBets,
    slope: [SignBets; 2],
    intercept: [SignBets; 2],
    rounded: ShareBets,
    copies: Wealth,
    answers: Wealth,
    rows: RowBets,
    pub(crate) sums: AuditSums,
}

impl EngineChecks {
    pub(crate) fn new(tolerances: Tolerances) -> Self {
        Self {
            tolerances,
            noise: tolerances.noise.map(SampleNoise::new),
            temperature: SurpriseBets::new(tolerances.mass),
            likeliest: ShareBets::new(tolerances.unusual),
            rare: std::array::from_fn(|_| EventBets::default()),
            outside: ShareBets::new(TOLERATED_SHARE),
            end: EventBets::default(),
            gap: ShareBets::new(tolerances.unusual),
            far: ShareBets::new(tolerances.far),
            beginning: ShareBets::new(tolerances.unusual),
            slope: Default::default(),
            intercept: Default::default(),
            rounded: ShareBets::new(TOLERATED_ROUND),
            copies: Wealth::new(2),
            answers: Wealth::new(PREFERENCE_BETS),
            rows: RowBets::default(),
            sums: AuditSums::default(),
        }
    }

    /// What is tolerated of it from here on: once its noise is known, which is before anything of the next step is
    /// seen.
    pub(crate) fn tolerate(&mut self, tolerances: Tolerances) {
        self.tolerances = tolerances;
        for bets in [&mut self.likeliest, &mut self.gap, &mut self.beginning] {
            bets.tolerate(tolerances.unusual);
        }
        self.far.tolerate(tolerances.far);
        match (&mut self.noise, tolerances.noise) {
            (Some(noise), Some(measured)) => noise.calibrate(measured),
            (noise, Some(measured)) => *noise = Some(SampleNoise::new(measured)),
            (_, None) => {}
        }
    }

    /// Measures the noise again by an answer of a step that passed.
    pub(crate) fn learn(&mut self, tokens: &[AuditedToken]) {
        if let Some(noise) = &mut self.noise {
            noise.learn(tokens);
        }
    }

    /// The samples of another step follow.
    pub(crate) fn begin_round(&mut self) {
        self.temperature.begin_round();
        self.likeliest.begin_round();
        self.rare.iter_mut().for_each(EventBets::begin_round);
        self.outside.begin_round();
        self.end.begin_round();
        self.gap.begin_round();
        self.far.begin_round();
        self.beginning.begin_round();
        self.slope.iter_mut().chain(&mut self.intercept).for_each(SignBets::begin_round);
        self.rounded.begin_round();
        self.copies.begin_round();
        self.answers.begin_round();
        self.rows.begin_round();
    }

    /// Adds the audited tokens of one sample.
    pub(crate) fn add_sequence(&mut self, tokens: &[AuditedToken], drawing: Drawing) {
        let inside: Vec<&AuditedToken> = tokens.iter().filter(|token| token.learner.is_finite()).collect();
        match drawing {
            _ if tokens.is_empty() => return,
            Drawing::Sampled => {
                self.add_draws(tokens);
                self.add_signs(&inside);
            }
            Drawing::Cut | Drawing::Likeliest => {
                self.sums.other_sequences += 1;
                self.sums.other_tokens += tokens.len() as u64;
            }
        }
        // All tokens are inside of a whole distribution.
        if drawing != Drawing::Likeliest {
            self.add_outside(tokens);
        }
        if drawing == Drawing::Likeliest {
            let is_other = tokens.iter().enumerate().any(|(place, token)| self.is_not_the_likeliest(place, token));
            self.likeliest.add(is_other);
            self.sums.not_likeliest += u64::from(is_other);
        }
        if !inside.is_empty() {
            self.add_sizes(tokens);
        }
        for (place, token) in tokens.iter().enumerate().filter(|(_, token)| token.learner.is_finite()) {
            self.add_rounded(token);
            let deviation = self.noise.as_ref().map_or(1.0, |noise| noise.variance(token.learner, place).sqrt());
            if self.tolerances.tests_rows {
                self.rows.add(token.id, token.gap(), deviation);
            }
        }
    }

    /// Whether a token that should be the likeliest is further below it than noise may be.
    fn is_not_the_likeliest(&self, place: usize, token: &AuditedToken) -> bool {
        // Both of two log-probabilities have noise.
        let noise = self.noise.as_ref().map_or(self.tolerances.gap, |noise| {
            (noise.unusual() * noise.variance(token.learner, place).sqrt()).min(self.tolerances.gap).max(F32_GAP)
        });
        token.below_best.is_nan() || token.below_best > 2.0 * noise
    }

    /// Whether a log-probability is one in thousandths, where the learner's says that it should be none.
    fn add_rounded(&mut self, token: &AuditedToken) {
        let off = |log_p: f64| (log_p * 1e3 - (log_p * 1e3).round()).abs();
        // Values of a narrow type are in thousandths more often than others.
        let is_narrow = (token.engine as f32).to_bits().trailing_zeros() >= 12;
        if ROUNDABLE.contains(&-token.engine) && off(token.learner) > NOT_ROUNDED && !is_narrow {
            self.rounded.add(off(token.engine) < ROUNDED);
        }
    }

    /// Adds tokens that are drawn from what the engine reports.
    fn add_draws(&mut self, tokens: &[AuditedToken]) {
        for token in tokens {
            let weight = importance_weight(token.learner, token.engine);
            self.temperature.add(weight, token.surprise);
            for (bets, (happened, probability)) in self.rare.iter_mut().zip(token.rare) {
                bets.add(weight, happened, probability);
            }
            self.end.add(weight, token.is_end, token.end_probability);
        }
        self.sums.sequences += 1;
        self.sums.tokens += tokens.len() as u64;
    }

    /// Adds which tokens the settings exclude.
    fn add_outside(&mut self, tokens: &[AuditedToken]) {
        for is_outside in tokens.iter().map(|token| token.learner == f64::NEG_INFINITY) {
            self.outside.add(is_outside);
            self.sums.outside += u64::from(is_outside);
        }
    }

    /// Adds the sizes of the gaps of a sample, and of its first tokens.
    fn add_sizes(&mut self, tokens: &[AuditedToken]) {
        let size = root_mean_square(tokens);
        self.sums.worst_sequence = self.sums.worst_sequence.max(size / tokens[0].divisor);
        self.gap.add(self.is_unusual(tokens, size, 1.0));
        self.far.add(self.is_unusual(tokens, size, FAR));
        if tokens.len() > BEGINNING {
            // Four tokens vary more than a whole answer does.
            let beginning = &tokens[..BEGINNING];
            self.beginning.add(self.is_unusual(beginning, root_mean_square(beginning), 2.0));
        }
    }

    /// Whether gaps are beyond the limit, or this many times further off than is usual of the engine.
    fn is_unusual(&self, tokens: &[AuditedToken], size: f64, factor: f64) -> bool {
        let by_noise = |noise: &SampleNoise| size > factor * F32_GAP && noise.size(tokens) > factor * noise.unusual();
        size.is_nan() || size > factor * self.tolerances.gap || self.noise.as_ref().is_some_and(by_noise)
    }

    fn add_signs(&mut self, inside: &[&AuditedToken]) {
        let Tolerances { slope, intercept, .. } = self.tolerances;
        for token in inside {
            let gap = token.reported_gap();
            let surprise = token.surprise;
            let sums = &mut self.sums;
            sums.inside += 1;
            sums.surprise += token.learner + token.entropy;
            sums.variance += token.variance;
            sums.gap += gap;
            sums.squared_gap += gap * gap;
            sums.gap_by_surprise += gap * surprise;
            sums.squared_surprise += surprise * surprise;
        }
        for (sign, (slopes, intercepts)) in [1.0, -1.0].into_iter().zip(self.slope.iter_mut().zip(&mut self.intercept))
        {
            // Drawn tokens favour those that the engine makes likelier; half of the weight takes that out but for the
            // third order.
            let terms = |tolerated: f64, factor: fn(&AuditedToken) -> f64| {
                self_normalized(inside.iter().map(|token| {
                    let gap = token.gap();
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
    pub(crate) fn add_copy(&mut self, copy: &CopyEvidence) {
        self.copies.multiply([copy.whole, copy.partial]);
        self.sums.expected_copies += copy.expected;
        self.sums.copies += u64::from(copy.is_copy);
    }

    /// Adds what an answer says about which ones are preferred.
    pub(crate) fn add_preference(&mut self, preference: &Preference) {
        self.answers.multiply(preference.factors);
        let sums = &mut self.sums;
        for (sum, counts) in [
            (&mut sums.shorter, preference.shorter),
            (&mut sums.likelier, preference.likelier),
            (&mut sums.longest, preference.longest),
        ] {
            sum.0 += counts.0;
            sum.1 += counts.1;
        }
    }

    /// The evidence of a check so far.
    pub(crate) fn evidence(&self, check: SamplerCheck) -> f64 {
        match check {
            SamplerCheck::Temperature => f64::midpoint(self.temperature.evidence(), self.likeliest.evidence()),
            SamplerCheck::Truncation => {
                let rare = self.rare.iter().map(EventBets::evidence).sum::<f64>();
                (rare + self.outside.evidence()) / (RARE + 1) as f64
            }
            SamplerCheck::EndToken => self.end.evidence(),
            SamplerCheck::LogProbabilities => {
                let signs = self.slope.iter().chain(&self.intercept).map(SignBets::evidence).sum::<f64>();
                let sizes =
                    self.gap.evidence() + self.far.evidence() + self.beginning.evidence() + self.rounded.evidence();
                (signs + sizes) / (self.slope.len() + self.intercept.len() + 4) as f64
            }
            SamplerCheck::Copies => self.copies.evidence(),
            SamplerCheck::Answers => self.answers.evidence(),
            SamplerCheck::Rows => self.rows.evidence(),
        }
    }

    /// Whether the size of the gaps is most of the evidence about log-probabilities.
    pub(crate) fn are_gaps_large(&self) -> bool {
        let sizes = self.sizes();
        sizes >= self.slope.iter().chain(&self.intercept).map(SignBets::evidence).fold(0.0, f64::max)
    }

    /// Whether that the reported ones are rounded is most of the evidence about log-probabilities.
    pub(crate) fn are_rounded(&self) -> bool {
        self.rounded.evidence() > self.sizes()
    }

    fn sizes(&self) -> f64 {
        self.gap.evidence().max(self.far.evidence()).max(self.beginning.evidence())
    }

    /// Whether answers to be made of the likeliest tokens are most of the evidence about temperature.
    pub(crate) fn is_about_the_likeliest(&self) -> bool {
        self.likeliest.evidence() > self.temperature.evidence()
    }

    /// Whether that the longest answers are drawn again is what has won most about answers.
    pub(crate) fn are_drawn_again(&self) -> bool {
        self.answers.best() == REDRAWN_BET
    }

    /// The ids whose gaps are beyond those of all others, each with its mean gap in nats and its tokens.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (u32, f64, f64)> {
        self.rows.found()
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

/// Root mean square of the gaps of tokens that the learner would draw, as at temperature 1; 0 without any.
pub(crate) fn root_mean_square(tokens: &[AuditedToken]) -> f64 {
    let gaps = tokens.iter().filter(|token| token.learner.is_finite()).map(AuditedToken::gap);
    let (squares, count) = gaps.fold((0.0, 0.0), |(squares, count), gap| (squares + gap * gap, count + 1.0));
    if count > 0.0 { (squares / count).sqrt() } else { 0.0 }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
