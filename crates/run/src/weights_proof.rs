//! What a run has proven of the weights of its engines, from its lines of metrics.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::metrics::{Curves, MetricsLine};

const EQUAL_TOKENS: &str = "proof/equal_tokens";
const UNVERIFIED_ENGINES: &str = "proof/unverified_engines";
const EXCLUDED_BY_SAMPLES: &str = "proof/excluded_by_samples";
const NONCE_IS_FIXED: &str = "sampler_audit/nonce_is_fixed";

/// What is proven of the weights that the engines had: docs/orchestrator.md, "Proof of weights".
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WeightsProof {
    /// Whether all suspicions are excluded.
    pub state: ProofState,
    /// Engines that were asked last.
    pub engines: u64,
    /// Suspicions (failure modes) that were tested.
    pub suspicions: u64,
    /// How many of the suspicions are excluded.
    pub excluded: u64,
    /// GRPO steps done at the last proof.
    pub step: u64,
    /// Trained tokens whose log-probability, as the engine reported it, is the learner's to the bit; 0 where engines were
    /// asked in another way, if only in some steps.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub equal_tokens: u64,
    /// Engines whose samples were trained on and which no proof has reached.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unverified_engines: u64,
    /// How many of the suspicions audited samples exclude, where they are less than all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excluded_by_samples: Option<u64>,
    /// Whether `sampler_audit.nonce` was set in any step: an engine may have known which samples are audited.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nonce_is_fixed: bool,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// How much a proof of weights has shown. One that fails ends the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProofState {
    /// All suspicions are excluded.
    Proven,
    /// Some are not: the weights have moved too little, or too few tokens were seen.
    Undecided,
}

impl WeightsProof {
    /// Proof of the last step that has one.
    pub(crate) fn of(steps: &Curves) -> Option<Self> {
        let last = |name: &str| steps.column(name).last().map(|(step, _)| *step);
        let found = match (last(EQUAL_TOKENS), last("proof/suspicions")) {
            (Some(step), None) => Some(Self::of_equal_tokens(step, steps.sum(EQUAL_TOKENS))),
            (_, other) => other.and_then(|step| Self::at(step, |name| steps.at(name, step))),
        };
        let unverified = steps.column(UNVERIFIED_ENGINES).last().map_or(0.0, |(_, engines)| *engines);
        let by_samples = steps.column(EXCLUDED_BY_SAMPLES).last().map(|(_, excluded)| *excluded);
        found.map(|found| found.doubted(unverified, by_samples, last(NONCE_IS_FIXED).is_some()))
    }

    /// Proof of the last of these lines that has one.
    pub fn of_lines<'a>(lines: impl IntoIterator<Item = &'a MetricsLine>) -> Option<Self> {
        let (mut equal, mut of_engines) = (None, None);
        let mut tokens = 0.0;
        let mut unverified = 0.0;
        let mut by_samples = None;
        let mut nonce_is_fixed = false;
        for line in lines {
            unverified = line.get(UNVERIFIED_ENGINES).unwrap_or(unverified);
            by_samples = line.get(EXCLUDED_BY_SAMPLES).or(by_samples);
            nonce_is_fixed |= line.get(NONCE_IS_FIXED).is_some();
            of_engines = Self::at(line.step, |name| line.get(name)).or(of_engines);
            if let Some(more) = line.get(EQUAL_TOKENS) {
                tokens += more;
                equal = Some(Self::of_equal_tokens(line.step, tokens));
            }
        }
        of_engines.or(equal).map(|found: Self| found.doubted(unverified, by_samples, nonce_is_fixed))
    }

    /// How many engines were never verified, by the last of these lines that says it: what a process goes on from, which
    /// knows only the engines that it has seen itself.
    pub fn unverified_engines<'a>(lines: impl IntoIterator<Item = &'a MetricsLine>) -> u64 {
        let counts = lines.into_iter().filter_map(|line| line.get(UNVERIFIED_ENGINES));
        counts.last().unwrap_or_default() as u64
    }

    /// Nothing is proven of a run in which an engine was never looked at, or may have known when it is, or of which
    /// samples do not say what scores do.
    fn doubted(self, unverified_engines: f64, by_samples: Option<f64>, nonce_is_fixed: bool) -> Self {
        let unverified_engines = unverified_engines as u64;
        let by_samples = by_samples.map(|excluded| excluded as u64).filter(|&excluded| excluded < self.suspicions);
        let is_doubted = unverified_engines > 0 || by_samples.is_some() || nonce_is_fixed;
        let state = if is_doubted { ProofState::Undecided } else { self.state };
        Self { state, unverified_engines, excluded_by_samples: by_samples, nonce_is_fixed, ..self }
    }

    fn of_equal_tokens(step: u64, tokens: f64) -> Self {
        let state = ProofState::Proven;
        let equal_tokens = tokens as u64;
        Self {
            state,
            engines: 0,
            suspicions: 0,
            excluded: 0,
            step,
            equal_tokens,
            unverified_engines: 0,
            excluded_by_samples: None,
            nonce_is_fixed: false,
        }
    }

    fn at(step: u64, value: impl Fn(&str) -> Option<f64>) -> Option<Self> {
        let suspicions = value("proof/suspicions")?;
        let value = |name: &str| value(name).unwrap_or_default();
        let excluded = value("proof/excluded");
        let state = if excluded >= suspicions { ProofState::Proven } else { ProofState::Undecided };
        let suspicions = suspicions as u64;
        let excluded = excluded as u64;
        let engines = value("proof/engines") as u64;
        Some(Self { state, engines, suspicions, excluded, ..Self::of_equal_tokens(step, 0.0) })
    }
}

impl fmt::Display for WeightsProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { state, engines, suspicions, excluded, equal_tokens, unverified_engines, nonce_is_fixed, .. } = self;
        if *nonce_is_fixed {
            return f.write_str(
                "undecided: sampler_audit.nonce was set, so that an engine may have known which samples are audited",
            );
        }
        if *unverified_engines > 0 {
            let plural = if *unverified_engines == 1 { "" } else { "s" };
            return write!(
                f,
                "undecided: trained on samples of {unverified_engines} engine{plural} that no proof has reached"
            );
        }
        if *equal_tokens > 0 {
            return write!(f, "verified by {equal_tokens} trained tokens, equal to the bit");
        }
        let plural = if *engines == 1 { "" } else { "s" };
        let state = match state {
            ProofState::Proven => "verified",
            ProofState::Undecided => "undecided",
        };
        write!(f, "{state} on {engines} engine{plural} ({excluded} of {suspicions} failure modes ruled out")?;
        match self.excluded_by_samples {
            Some(by_samples) => write!(f, " by scores, {by_samples} by samples)"),
            None => f.write_str(")"),
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::StepKind;

    use super::*;

    /// What is proven by lines of two steps, of which the second has these values besides.
    fn proven(values: &[(&str, f64)]) -> WeightsProof {
        let line = |step| {
            let mut line = MetricsLine::new(StepKind::Train, step, step);
            for (name, value) in [("proof/engines", 1.0), ("proof/suspicions", 5.0), ("proof/excluded", 5.0)] {
                line.set_named(name, value);
            }
            line
        };
        let mut lines = [line(1), line(2)];
        values.iter().for_each(|(name, value)| lines[1].set_named(*name, *value));
        let found = WeightsProof::of_lines(&lines).unwrap();
        assert_eq!(WeightsProof::of(&Curves::of(&lines)), Some(found), "the card of the model and the summary agree");
        found
    }

    #[test]
    fn a_process_that_goes_on_knows_how_many_engines_were_never_verified() {
        let counts = [None, Some(2.0), Some(1.0), None];
        let line = |(step, count): (u64, Option<f64>)| {
            let mut line = MetricsLine::new(StepKind::Train, step, step);
            count.iter().for_each(|count| line.set_named(UNVERIFIED_ENGINES, *count));
            line
        };
        let lines: Vec<_> = (1..).zip(counts).map(line).collect();
        assert_eq!(WeightsProof::unverified_engines(&lines), 1);
        assert_eq!(WeightsProof::unverified_engines(&lines[..1]), 0);
    }

    #[test]
    fn a_run_is_undecided_where_an_engine_was_never_looked_at_or_may_have_known_when() {
        assert_eq!(proven(&[]).state, ProofState::Proven);
        assert_eq!(proven(&[(UNVERIFIED_ENGINES, 0.0)]).state, ProofState::Proven);
        let unverified = proven(&[(UNVERIFIED_ENGINES, 2.0)]);
        assert_eq!((unverified.state, unverified.unverified_engines), (ProofState::Undecided, 2));
        let words = "undecided: trained on samples of 2 engines that no proof has reached";
        assert_eq!(unverified.to_string(), words);
        let by_samples = proven(&[(EXCLUDED_BY_SAMPLES, 3.0)]);
        assert_eq!((by_samples.state, by_samples.excluded_by_samples), (ProofState::Undecided, Some(3)));
        let words = "undecided on 1 engine (5 of 5 failure modes ruled out by scores, 3 by samples)";
        assert_eq!(by_samples.to_string(), words);
        assert_eq!(proven(&[(EXCLUDED_BY_SAMPLES, 5.0)]), proven(&[]));
        let foretold = proven(&[(NONCE_IS_FIXED, 1.0)]);
        assert_eq!((foretold.state, foretold.nonce_is_fixed), (ProofState::Undecided, true));
        assert!(foretold.to_string().starts_with("undecided: sampler_audit.nonce was set"), "{foretold}");
    }
}
