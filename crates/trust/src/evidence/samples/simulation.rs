//! Honest runs of 500 steps, audited: how many are accused.
//!
//! ```text
//! cargo test --release -p evenkeel-trust --lib -- --ignored --nocapture a_hundred_thousand_audited_runs
//! ```
//!
//! `EVENKEEL_AUDITED_RUNS` sets another number of runs.
//!
//! An engine draws from what it reports: the learner's policy, or that with the noise of a narrow type. Policies and
//! what the learner says of each of their tokens are drawn once; runs draw answers, token by token until one ends, from
//! them.

use std::thread;

use evenkeel_seeds::{RngCore, rng};
use evenkeel_statistics::evidence::{copies, preferences};

use super::*;

/// Steps of a run, audited samples of a step, and answers of a group, of which a step has one.
const STEPS: usize = 500;
const SAMPLES: usize = 8;
const ANSWERS: usize = 8;
/// Tokens after which an answer is cut off: of those that are audited, and of those that are only compared.
const LONGEST: usize = 24;
const ANSWERED: usize = 6;
/// Policies of each kind of engine.
const POLICIES: usize = 256;
/// The budget of a run.
const ALPHA: f64 = 4e-4;

/// A policy as it is drawn from, with the learner's view of each of its tokens.
struct Drawable {
    /// What engines draw from: cumulated.
    below: Vec<f64>,
    tokens: Vec<AuditedToken>,
    /// For each token the probability of less likely ones, and of equally likely ones.
    ranks: Vec<(f64, f64)>,
}

/// A kind of honest engine.
struct HonestEngine {
    name: &'static str,
    tolerances: Tolerances,
    policies: Vec<Drawable>,
}

impl Drawable {
    fn new(policy: &Policy, reported: &Policy) -> Self {
        Self::drawn_from(policy, reported, reported)
    }

    /// What is drawn from one distribution and reported with the probabilities of another.
    fn drawn_from(policy: &Policy, drawn_from: &Policy, reported: &Policy) -> Self {
        let mut sum = 0.0;
        let below = drawn_from.0.iter().map(|p| {
            sum += p;
            sum
        });
        let tokens = (0..reported.0.len()).map(|token| policy.token(token, reported.0[token].max(1e-30).ln(), 0.0));
        let ranks = policy.0.iter().map(|&p| (policy.mass(|_, other| other < p), policy.mass(|_, other| other == p)));
        Self { below: below.collect(), tokens: tokens.collect(), ranks: ranks.collect() }
    }

    fn draw(&self, uniform: f64, tie: f64) -> AuditedToken {
        let sum = self.below[self.below.len() - 1];
        let at = self.below.partition_point(|below| *below <= uniform * sum).min(self.below.len() - 1);
        let (less, equal) = self.ranks[at];
        let mut token = self.tokens[at];
        token.rare[0].0 = less + tie * equal < 0.01;
        token.rare[1].0 = less + tie * equal < 0.05;
        token
    }
}

/// xorshift64*.
struct Quick(u64);

impl Quick {
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn kinds() -> Vec<HonestEngine> {
    let mut quick = Quick(77);
    let mut policies = |noise: f64, cut: Option<f64>, spread: f64| -> Vec<Drawable> {
        (0..POLICIES)
            .map(|_| {
                let scale = spread * (1.0 + 3.0 * quick.uniform());
                let mut logits: Vec<f64> = (0..64).map(|_| scale * (quick.uniform() - 0.5)).collect();
                // Answers of a dozen tokens or so.
                logits[63] += 1.0;
                let policy = Policy::of(logits);
                let reported = policy.noisy(noise, &mut || quick.uniform());
                match cut {
                    Some(mass) => Drawable::new(&policy.top_p(mass), &reported.top_p(mass)),
                    None => Drawable::new(&policy, &reported),
                }
            })
            .collect()
    };
    let narrow = CalibratedNoise::even(false, 0.04, 0.06);
    let exact = CalibratedNoise::even(true, 1e-6, 2e-6);
    vec![
        HonestEngine {
            name: "f32",
            tolerances: Tolerances::calibrated(0.25, false, exact),
            policies: policies(1e-6, None, 2.0),
        },
        HonestEngine {
            name: "narrow",
            tolerances: Tolerances::calibrated(0.25, false, narrow),
            policies: policies(0.04, None, 2.0),
        },
        HonestEngine {
            name: "narrow, certain",
            tolerances: Tolerances::calibrated(0.25, false, narrow),
            policies: policies(0.04, None, 8.0),
        },
        HonestEngine {
            name: "f32, top-p 0.9",
            tolerances: Tolerances::calibrated(0.25, true, exact),
            policies: policies(0.0, Some(0.9), 2.0),
        },
    ]
}

/// Policies from flat to certain, for answers of one to six tokens of which many are alike, each cumulated and with its
/// log-probabilities. The last token of a policy ends an answer.
fn answering() -> Vec<(Vec<f64>, Vec<f64>)> {
    let mut quick = Quick(5);
    let policy = |_| {
        let scale = 2.0 + 16.0 * quick.uniform();
        let policy = Policy::of((0..16).map(|_| scale * (quick.uniform() - 0.5)).collect::<Vec<_>>());
        let mut sum = 0.0;
        let below = policy.0.iter().map(|p| {
            sum += p;
            sum
        });
        (below.collect(), policy.0.iter().map(|p| p.ln()).collect())
    };
    (0..POLICIES).map(policy).collect()
}

/// What the answers of an honest group say about copies and about preferred ones.
fn answered(policies: &[(Vec<f64>, Vec<f64>)], quick: &mut Quick) -> Vec<(CopyEvidence, Preference)> {
    let first = (quick.uniform() * (POLICIES - ANSWERED) as f64) as usize;
    let mut answer = |_| {
        let mut answer = Vec::new();
        for (below, log_p) in &policies[first..first + ANSWERED] {
            let uniform = quick.uniform() * below[below.len() - 1];
            let at = below.partition_point(|below| *below <= uniform).min(below.len() - 1);
            answer.push((at as u32, log_p[at]));
            if at == below.len() - 1 {
                break;
            }
        }
        answer
    };
    let answers: Vec<Vec<(u32, f64)>> = (0..ANSWERS).map(&mut answer).collect();
    copies(&answers).into_iter().zip(preferences(&answers)).collect()
}

/// The highest share of its threshold that a check of a run's engine reached, and which.
fn highest(kind: &HonestEngine, answering: &[(Vec<f64>, Vec<f64>)], seed: u64) -> (f64, SamplerCheck) {
    let mut quick = Quick(rng(seed, Stream::SamplerAudit { step: 0 }).next_u64() | 1);
    let mut checks = EngineChecks::new(kind.tolerances);
    let threshold = 2.0 * SamplerCheck::ALL.len() as f64 / ALPHA;
    let mut highest = (0.0, SamplerCheck::Temperature);
    let mut answer = Vec::with_capacity(LONGEST);
    for _ in 0..STEPS {
        checks.begin_round();
        for (copy, preference) in answered(answering, &mut quick) {
            checks.add_copy(&copy);
            checks.add_preference(&preference);
        }
        for _ in 0..SAMPLES {
            answer.clear();
            while answer.len() < LONGEST && !answer.last().is_some_and(|token: &AuditedToken| token.is_end) {
                let policy = &kind.policies[(quick.uniform() * POLICIES as f64) as usize];
                answer.push(policy.draw(quick.uniform(), quick.uniform()));
            }
            checks.add_sequence(&answer, Drawing::Sampled);
            checks.learn(&answer);
        }
        for check in SamplerCheck::ALL {
            let share = checks.evidence(check) / threshold;
            if share > highest.0 {
                highest = (share, check);
            }
        }
    }
    highest
}

/// For each kind of engine: runs, those that were accused, and the highest share of a threshold.
fn simulate(runs: u64) -> Vec<(&'static str, u64, u64, f64, SamplerCheck)> {
    let kinds = kinds();
    let answering = answering();
    let parts = thread::available_parallelism().map_or(1, usize::from) as u64;
    let of_kind = |kind: &HonestEngine, first: u64, count: u64| {
        let part = |part: u64| (first..first + count).filter(move |run| run % parts == part);
        let found: Vec<(f64, SamplerCheck)> = thread::scope(|scope| {
            let answering = &answering;
            let start = |number| {
                scope.spawn(move || part(number).map(|seed| highest(kind, answering, seed)).collect::<Vec<_>>())
            };
            let started: Vec<_> = (0..parts).map(start).collect();
            started.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let accused = found.iter().filter(|(share, _)| *share >= 1.0).count() as u64;
        let most = found.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
        (kind.name, count, accused, most.0, most.1)
    };
    let each = runs / kinds.len() as u64;
    kinds.iter().enumerate().map(|(at, kind)| of_kind(kind, at as u64 * each, each)).collect()
}

/// How many tokens 19 of 20 runs take until they find an engine that draws like this and reports the policy.
fn tokens_of_19_in_20(policies: &[Policy], lie: impl Fn(&Policy) -> Policy, most: usize) -> Option<usize> {
    let lying: Vec<Drawable> =
        policies.iter().map(|policy| Drawable::drawn_from(policy, &lie(policy), policy)).collect();
    let tolerances = Tolerances::calibrated(0.25, false, CalibratedNoise::even(true, 1e-6, 2e-6));
    let found = |seed: u64| {
        let mut quick = Quick(rng(seed, Stream::SamplerAudit { step: 7 }).next_u64() | 1);
        let mut checks = EngineChecks::new(tolerances);
        (0..most).step_by(SAMPLES * LONGEST).find_map(|tokens| {
            checks.begin_round();
            for _ in 0..SAMPLES {
                let mut token = || {
                    let policy = &lying[(quick.uniform() * lying.len() as f64) as usize];
                    policy.draw(quick.uniform(), quick.uniform())
                };
                let answer: Vec<AuditedToken> = (0..LONGEST).map(|_| token()).collect();
                checks.add_sequence(&answer, Drawing::Sampled);
            }
            let is_found = SamplerCheck::ALL.iter().any(|check| checks.evidence(*check) >= THRESHOLD);
            is_found.then_some(tokens + SAMPLES * LONGEST)
        })
    };
    let mut tokens: Vec<usize> = (0..20).filter_map(found).collect();
    tokens.sort_unstable();
    tokens.get(18).copied()
}

#[test]
fn hidden_temperatures_and_cuts_are_found_within_the_tokens_of_their_formulas() {
    let mut quick = Quick(78);
    let mut policy = || {
        let scale = 2.0 * (1.0 + 3.0 * quick.uniform());
        Policy::of((0..64).map(|_| scale * (quick.uniform() - 0.5)).collect::<Vec<_>>())
    };
    let policies: Vec<Policy> = (0..POLICIES).map(|_| policy()).collect();
    let mean = |of: &dyn Fn(&Policy) -> f64| policies.iter().map(of).sum::<f64>() / POLICIES as f64;
    let million = 1e6_f64.ln();
    let variance = mean(&|policy| policy.view(0).variance);
    for temperature in [1.02, 0.98] {
        let most = 2.5 * 2.0 * million / (variance * 0.02 * 0.02);
        let found = tokens_of_19_in_20(&policies, |policy| policy.at_temperature(temperature), most as usize);
        assert!(found.is_some(), "temperature x {temperature} within {most:.0} tokens");
        report(&format!("temperature x {temperature}"), found, most);
    }
    type Cut = fn(&Policy) -> Policy;
    let cuts: [(&str, Cut); 2] = [
        ("min-p 0.01", |policy| {
            let least = 0.01 * policy.0.iter().copied().fold(0.0, f64::max);
            policy.without(|_, p| p < least)
        }),
        ("top-k 5", |policy| policy.without(|_, p| policy.0.iter().filter(|more| **more > p).count() >= 5)),
    ];
    for (name, cut) in cuts {
        let mass = mean(&|policy| {
            let kept = cut(policy);
            policy.mass(|token, _| kept.0[token] == 0.0)
        });
        // Each has an event of its own, which stays away. The tokens of a step are looked at together.
        let most = 2.0 * million / mass + (SAMPLES * LONGEST) as f64;
        let found = tokens_of_19_in_20(&policies, cut, most as usize);
        assert!(found.is_some(), "{name}, a mass of {mass:.4}, within {most:.0} tokens");
        report(&format!("{name}, mass {mass:.4}"), found, most);
    }
}

#[allow(clippy::print_stdout, reason = "shown with --nocapture, for the page on proofs")]
fn report(lie: &str, found: Option<usize>, most: f64) {
    println!("{lie}: {found:?} tokens, formula {most:.0}");
}

#[test]
fn of_a_few_hundred_audited_runs_none_is_accused() {
    for (name, runs, accused, highest, check) in simulate(240) {
        assert_eq!(accused, 0, "{name}: {highest:.2} of the threshold ({check:?}) in {runs} runs");
    }
}

#[test]
#[ignore = "fifty minutes on two cores"]
#[allow(clippy::print_stdout, reason = "its numbers are what it is for")]
fn a_hundred_thousand_audited_runs() {
    let wanted = std::env::var("EVENKEEL_AUDITED_RUNS").map_or(100_000, |runs| runs.parse().unwrap());
    println!("| engine | runs | accused | nearest to its threshold |\n|---|---|---|---|");
    let mut runs = 0;
    let mut accused = 0;
    for (name, count, found, highest, check) in simulate(wanted) {
        println!("| {name} | {count} | {found} | {highest:.2} ({}) |", check.name());
        runs += count;
        accused += found;
    }
    let most = most_expected(accused);
    let share = most / runs as f64;
    println!("| all | {runs} | {accused} | the share of accused runs is below {share:.1e} with 95 % confidence |");
    // The first engine of a run has half of the budget. Few runs cannot show more than that they do not exceed it.
    let least = most_expected(0) / runs as f64;
    assert!(share <= (ALPHA / 2.0).max(least), "{accused} of {runs}");
}

/// The most runs that may be expected where no more than these were seen, with 95 % confidence: of the Poisson
/// distribution, whose chance of so few is then a twentieth.
fn most_expected(seen: u64) -> f64 {
    let chance = |mean: f64| {
        let terms = (1..=seen).scan(1.0, |term, count| {
            *term *= mean / count as f64;
            Some(*term)
        });
        (-mean).exp() * (1.0 + terms.sum::<f64>())
    };
    let (mut low, mut high) = (0.0, 10.0 + 4.0 * seen as f64);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if chance(middle) > 0.05 { low = middle } else { high = middle }
    }
    high
}

#[test]
fn none_of_some_runs_leaves_three_to_be_expected_at_most() {
    assert!((most_expected(0) - 20.0_f64.ln()).abs() < 1e-9);
    // 7.754 for three, from tables.
    assert!((most_expected(3) - 7.753_657).abs() < 1e-5, "{}", most_expected(3));
}
