//! Lies of engines without the learner's bits, on answers like those of the `arithmetic` recipe after its warm start:
//! each is found within 10,000 audited tokens in 19 of 20 runs, and honest engines are not accused.
//!
//! An answer works out a sum, mostly hesitates once or twice, and ends with a result that may be wrong; one token is
//! one character, and most are nearly certain.

use evenkeel_seeds::{RngCore, Stream, rng};
use evenkeel_statistics::evidence::{copies, preferences};

use super::policy::Policy;
use super::*;
use crate::evidence::weights::{CalibratedNoise, EngineEvidence};

/// Groups of a step, their answers, and how many answers of a step are audited, as the recipe has them.
const GROUPS: usize = 16;
const ANSWERS: usize = 16;
const AUDITED: usize = 8;
/// Audited tokens within which a lie is found, runs, and how many of them find it.
const WITHIN: u64 = 10_000;
const RUNS: u64 = 20;
const FOUND: usize = 19;
/// For the first engine of a run.
const ALPHA: f64 = 4e-4;

/// Tokens: ten digits, and these.
const PLUS: usize = 10;
const EQUALS: usize = 11;
const SPACE: usize = 12;
const STOP: usize = 13;
const HESITATES: usize = 14;
const MUMBLES: usize = 15;
const ASKS: usize = 16;
const NO: usize = 17;
const BOX: usize = 18;
const CLOSE: usize = 19;
const END: usize = 23;
const VOCABULARY: usize = END + 1;

/// What an engine computes instead of the learner's policy, from which it draws and which it reports.
type Computes = fn(&Policy, &mut dyn FnMut() -> f64) -> Policy;
/// What it draws from, of what it computes, without reporting it.
type DrawsFrom = fn(&Policy) -> Policy;
type Reports = fn(f64) -> f64;

/// Which answers it returns.
#[derive(Clone, Copy, PartialEq)]
enum Returns {
    Each,
    LikelierOfTwo,
    ShorterOfTwo,
    /// The longest eighth of a step is drawn again; of equally long answers those of the last groups, or any.
    LongestAgain,
    AnyLongestAgain,
}

#[derive(Clone, Copy)]
struct Engine {
    computes: Computes,
    /// In the answers of that share.
    lies: Computes,
    lying: f64,
    draws_from: DrawsFrom,
    reports: Reports,
    returns: Returns,
}

const F32: Computes = |policy, _| policy.clone();
const NARROW: Computes = |policy, uniform| policy.noisy(0.05, &mut || uniform());

const HONEST: Engine = Engine {
    computes: F32,
    lies: F32,
    lying: 0.0,
    draws_from: Policy::clone,
    reports: |log_p| log_p,
    returns: Returns::Each,
};

/// The head's row of a token, scaled: logits are about ten above the logarithms of these probabilities.
fn scaled(policy: &Policy, token: usize, by: f64) -> Policy {
    let logit = |(id, p): (usize, &f64)| {
        let logit = p.max(1e-12).ln() + 10.0;
        if id == token { by * logit } else { logit }
    };
    Policy::of(policy.0.iter().enumerate().map(logit).collect::<Vec<_>>())
}

/// A token that was drawn: the learner's policy, the id, and the log-probability that was reported.
type Drawn = (Policy, usize, f64);

/// One answer being drawn.
struct Speaker<'a> {
    engine: &'a Engine,
    computes: Computes,
    uniform: &'a mut dyn FnMut() -> f64,
    /// Equal prompts and tokens have equal policies.
    key: u64,
    said: Vec<Drawn>,
}

impl Speaker<'_> {
    /// Draws a token where these are likely, and some others are possible. Returns the first likely one if it is another.
    fn say(&mut self, likely: &[(usize, f64)]) -> usize {
        let mut random = rng(self.key, Stream::Tokens);
        let mut number = || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let rest = 0.02 * number().powi(3);
        let mut weights: Vec<f64> = (0..VOCABULARY).map(|_| number().powi(4) + 1e-6).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight *= rest / sum);
        // How likely they are depends a little on what is before.
        likely.iter().for_each(|(token, weight)| weights[*token] += weight * (0.8 + 0.4 * number()));
        let policy = Policy::of(weights.iter().map(|weight| weight.ln()).collect::<Vec<_>>());
        let computed = (self.computes)(&policy, &mut *self.uniform);
        let token = (self.engine.draws_from)(&computed).draw((self.uniform)());
        let reported = (self.engine.reports)(computed.0[token].max(1e-30).ln());
        self.said.push((policy, token, reported));
        self.key = self.key.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) ^ token as u64;
        if likely.iter().any(|(id, _)| *id == token) { token } else { likely[0].0 }
    }

    fn certain(&mut self, tokens: &[usize]) {
        for token in tokens {
            self.say(&[(*token, 1.0)]);
        }
    }

    fn digit(&mut self, right: usize, share: f64) {
        self.say(&[(right, share), ((right + 1) % 10, (1.0 - share) / 2.0), ((right + 9) % 10, (1.0 - share) / 2.0)]);
    }

    fn answer(&mut self, a: usize, b: usize) {
        let (units, tens) = (a % 10 + b % 10, a / 10 + b / 10);
        self.certain(&[a % 10, PLUS, b % 10, EQUALS]);
        self.digit(units % 10, 0.95);
        self.certain(&[SPACE, a / 10, PLUS, b / 10, PLUS, units / 10, EQUALS]);
        self.digit((tens + units / 10) % 10, 0.95);
        self.certain(&[STOP, SPACE]);
        let mut hesitations = 0;
        let mut next = self.say(&[(HESITATES, 0.92), (BOX, 0.08)]);
        while next == HESITATES {
            hesitations += 1;
            self.certain(&[MUMBLES, MUMBLES, SPACE, a % 10, PLUS, b % 10, EQUALS, units % 10, ASKS, SPACE]);
            next = if hesitations == 1 { self.say(&[(HESITATES, 0.5), (NO, 0.5)]) } else { self.say(&[(NO, 1.0)]) };
        }
        if hesitations > 0 {
            self.certain(&[NO, STOP, SPACE, BOX]);
        }
        self.certain(&[BOX; 6]);
        let share = if hesitations > 0 { 0.6 } else { 0.95 };
        self.digit((tens + units / 10) % 10, share);
        self.digit(units % 10, share);
        self.certain(&[CLOSE, END]);
    }
}

fn answer(engine: &Engine, sum: (usize, usize), uniform: &mut dyn FnMut() -> f64) -> Vec<Drawn> {
    let computes = if uniform() < engine.lying { engine.lies } else { engine.computes };
    let key = (100 * sum.0 + sum.1) as u64;
    let mut speaker = Speaker { engine, computes, uniform, key, said: Vec::new() };
    speaker.answer(sum.0, sum.1);
    speaker.said
}

/// What the engine returns as an answer.
fn returned(engine: &Engine, sum: (usize, usize), uniform: &mut dyn FnMut() -> f64) -> Vec<Drawn> {
    let one = answer(engine, sum, uniform);
    if !matches!(engine.returns, Returns::LikelierOfTwo | Returns::ShorterOfTwo) {
        return one;
    }
    let other = answer(engine, sum, uniform);
    let log_p = |answer: &[Drawn]| answer.iter().map(|token| token.2).sum::<f64>();
    let is_other = match engine.returns {
        Returns::LikelierOfTwo => log_p(&other) > log_p(&one),
        _ => other.len() < one.len(),
    };
    if is_other { other } else { one }
}

/// All answers of a step, by group.
fn step(engine: &Engine, uniform: &mut dyn FnMut() -> f64) -> Vec<Vec<Vec<Drawn>>> {
    let mut operand = || 10 + (90.0 * uniform()) as usize;
    // Where each answer is returned, those that are not audited say nothing about this lie.
    let groups = if engine.returns == Returns::Each { 1 } else { GROUPS };
    let sums: Vec<(usize, usize)> = (0..groups).map(|_| (operand(), operand())).collect();
    let mut groups: Vec<Vec<Vec<Drawn>>> =
        sums.iter().map(|sum| (0..ANSWERS).map(|_| returned(engine, *sum, uniform)).collect()).collect();
    if matches!(engine.returns, Returns::LongestAgain | Returns::AnyLongestAgain) {
        let mut order = |at: usize| match engine.returns {
            Returns::LongestAgain => at,
            _ => (1e9 * uniform()) as usize,
        };
        let mut all: Vec<(usize, usize, usize)> =
            (0..GROUPS * ANSWERS).map(|at| (groups[at / ANSWERS][at % ANSWERS].len(), order(at), at)).collect();
        all.sort_by(|one, other| other.cmp(one));
        for (_, _, at) in all.into_iter().take(GROUPS * ANSWERS / 8) {
            groups[at / ANSWERS][at % ANSWERS] = answer(engine, sums[at / ANSWERS], uniform);
        }
    }
    groups
}

/// The noise that a proof measures of the engine: it scores text of the run, and lies there as in samples if it
/// computes other numbers.
fn calibrated(engine: &Engine, uniform: &mut dyn FnMut() -> f64) -> CalibratedNoise {
    let text = Engine { draws_from: Policy::clone, returns: Returns::Each, lying: 0.0, ..*engine };
    let mut learner = Vec::new();
    let mut reported = Vec::new();
    for _ in 0..32 {
        let sum = (10 + (90.0 * uniform()) as usize, 10 + (90.0 * uniform()) as usize);
        let drawn = answer(&text, sum, uniform);
        // Twelve tokens of a text, which may be its last.
        let first = (uniform() * (drawn.len() - 12) as f64) as usize;
        let part = &drawn[first + usize::from(uniform() < 0.5)..][..12.min(drawn.len() - first - 1)];
        learner.push(part.iter().map(|(policy, token, _)| policy.0[*token].ln() as f32).collect());
        reported.push(part.iter().map(|(_, _, reported)| (*reported + 4e-7 * (uniform() - 0.5)) as f32).collect());
    }
    let mut evidence = EngineEvidence::new(0, 4);
    evidence.calibrate(&learner, &reported, None);
    evidence.calibrated().unwrap()
}

/// The check that a run fails first, and after how many audited tokens; none within 10,000.
fn run(engine: &Engine, seed: u64) -> Option<(SamplerCheck, u64)> {
    let mut random = rng(seed, Stream::SamplerAudit { step: 1 });
    let mut uniform = || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    let noise = calibrated(engine, &mut uniform);
    let tolerances = Tolerances::calibrated(0.25, false, noise);
    let mut engines = AuditedEngines::default();
    loop {
        let groups = step(engine, &mut uniform);
        let mut shown = StepEvidence::default();
        for (number, group) in groups.iter().enumerate() {
            let answers: Vec<Vec<(u32, f64)>> =
                group.iter().map(|answer| answer.iter().map(|(_, id, log_p)| (*id as u32, *log_p)).collect()).collect();
            let found = copies(&answers).into_iter().zip(preferences(&answers));
            let of_group = found.map(|(copy, preference)| AnswerEvidence { engine: String::new(), copy, preference });
            shown.answers.insert(number as u64, of_group.collect());
        }
        for _ in 0..AUDITED {
            let at = (uniform() * (groups.len() * ANSWERS) as f64) as usize;
            let drawn = &groups[at / ANSWERS][at % ANSWERS];
            let token = |(policy, id, reported): &Drawn| policy.token(*id, *reported, uniform());
            let tokens = drawn.iter().map(token).collect();
            shown.sequences.push(AuditedSequence { engine: String::new(), tokens, drawing: Drawing::Sampled });
        }
        engines.add(&shown, |_| tolerances);
        engines.add_preferences(&shown, |_| tolerances);
        let tokens = engines.checks().map(|checks| checks.sums.tokens).sum();
        if let Some(failed) = engines.failed(ALPHA).next() {
            return Some((failed.check, tokens));
        }
        if tokens > WITHIN {
            return None;
        }
        engines.learn(&shown, ALPHA);
    }
}

/// Asserts that a lie is found as the page on proofs says: in 19 of 20 runs.
fn is_found(name: &str, engine: &Engine) {
    let mut found: Vec<(u64, SamplerCheck)> =
        (0..RUNS).filter_map(|seed| run(engine, seed)).map(|(check, tokens)| (tokens, check)).collect();
    found.sort_unstable();
    let tokens: Vec<u64> = found.iter().map(|(tokens, _)| *tokens).collect();
    let median = found.get(RUNS as usize / 2);
    assert!(found.len() >= FOUND, "{name}: found in {} of {RUNS} runs, after {tokens:?} tokens", found.len());
    #[allow(clippy::print_stdout, reason = "shown with --nocapture, for the page on proofs")]
    if let Some((tokens_of_median, check)) = median {
        let within = tokens.get(FOUND - 1);
        println!("{name}: {check:?}, median {tokens_of_median}, 19 of 20 within {within:?}");
    }
}

#[test]
fn honest_engines_are_not_accused() {
    for (name, computes) in [("f32", F32), ("narrow", NARROW)] {
        for seed in 0..RUNS {
            assert_eq!(run(&Engine { computes, ..HONEST }, 100 + seed), None, "{name}, seed {seed}");
        }
    }
}

#[test]
fn answers_that_are_chosen_after_they_are_drawn_are_found() {
    for (name, returns) in [
        ("the likelier of two draws", Returns::LikelierOfTwo),
        ("the shorter of two draws", Returns::ShorterOfTwo),
        ("the longest eighth drawn again", Returns::LongestAgain),
        ("the longest eighth drawn again, any of equally long ones", Returns::AnyLongestAgain),
    ] {
        is_found(name, &Engine { returns, ..HONEST });
    }
}

#[test]
fn unlikely_tokens_that_are_never_drawn_are_found() {
    let least: DrawsFrom = |policy| {
        let least = 0.01 * policy.0.iter().copied().fold(0.0, f64::max);
        policy.without(|_, p| p < least)
    };
    is_found("min-p 0.01, hidden", &Engine { draws_from: least, ..HONEST });
    let likeliest: DrawsFrom = |policy| policy.without(|_, p| policy.0.iter().filter(|more| **more > p).count() >= 5);
    is_found("top-k 5, hidden", &Engine { draws_from: likeliest, ..HONEST });
}

#[test]
fn rounded_log_probabilities_are_found() {
    let reports: Reports = |log_p| (log_p * 1e3).round() / 1e3;
    is_found("three decimals", &Engine { reports, ..HONEST });
    is_found("three decimals, narrow type", &Engine { reports, computes: NARROW, ..HONEST });
}

#[test]
fn a_scaled_row_of_the_head_is_found_though_it_was_there_at_calibration() {
    is_found("row of the end x 0.9", &Engine { computes: |policy, _| scaled(policy, END, 0.9), ..HONEST });
    is_found("row of a character x 1.02", &Engine { computes: |policy, _| scaled(policy, SPACE, 1.02), ..HONEST });
    let computes: Computes = |policy, uniform| scaled(&policy.noisy(0.05, &mut || uniform()), END, 0.9);
    is_found("row of the end x 0.9, narrow type", &Engine { computes, ..HONEST });
}

#[test]
fn a_few_answers_after_another_first_token_are_found() {
    let lies: Computes = |policy, uniform| policy.noisy(0.8, &mut || uniform());
    is_found("5 % after another first token", &Engine { lies, lying: 0.05, ..HONEST });
    is_found("5 % after another first token, narrow type", &Engine { lies, lying: 0.05, computes: NARROW, ..HONEST });
}
