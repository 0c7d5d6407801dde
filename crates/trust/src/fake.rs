//! A learner and engines for tests, whose log-probabilities are plain functions of tokens and weights.

use std::future::{Future, ready};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::evidence::samples::policy::Policy;
use crate::fault::{SamplerFault, WeightsFault};
use crate::remark::{Remark, RemarkSink};
use crate::scorer::{
    EngineScorer, EngineScores, LearnerScorer, LearnerToken, LearnerView, NotScored, PromptedResponse,
    PublishedWeights, SampledDistribution, TensorGroup, TokenScores,
};

/// Tokens that there are.
pub(crate) const VOCABULARY: u32 = 64;

/// What a version moves log-probabilities by, each in a direction of its own.
const STEP: f32 = 2e-3;

/// What ends a fake run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum FakeError {
    #[error(transparent)]
    Weights(#[from] WeightsFault),
    #[error(transparent)]
    Sampler(#[from] SamplerFault),
}

/// The weights of a small model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FakeWeights {
    pub(crate) embeddings: u64,
    pub(crate) mlp: u64,
    /// How much of the adapters is added.
    pub(crate) adapters: f32,
    /// Which model it is.
    pub(crate) model: u64,
}

impl FakeWeights {
    pub(crate) fn of(version: u64) -> Self {
        Self { embeddings: version, mlp: version, adapters: 1.0, model: 1 }
    }

    /// Weights of a published version, with those of a group of tensors replaced if a suspicion supposes that.
    fn published(weights: &PublishedWeights) -> Self {
        let mut tensors = Self::of(weights.version);
        match &weights.replaced {
            None => {}
            Some(replaced) => match &replaced.group {
                TensorGroup::Adapters => tensors.adapters = 0.0,
                TensorGroup::Named(name) if name == "embeddings" => tensors.embeddings = replaced.version,
                TensorGroup::Named(_) => tensors.mlp = replaced.version,
            },
        }
        tensors
    }

    /// The policy that the token at that place of a response is drawn from, of which each version moves every logit by
    /// up to so many nats for each group.
    pub(crate) fn policy(&self, movement: f32, prompt: &[u32], at: usize) -> Policy {
        let seed = mixed(key(prompt) ^ at as u64);
        let logit = |id: u32| {
            let token = mixed(seed ^ u64::from(id) << 20);
            let moved =
                |version, group: u64| (1..=version).map(|step| wave(token ^ mixed(group << 32 | step))).sum::<f32>();
            let all = moved(self.embeddings, 2) + moved(self.mlp, 3) + self.adapters * wave(token ^ mixed(4));
            f64::from(3.0 * wave(token) + movement * all)
        };
        Policy::of((0..VOCABULARY).map(logit))
    }

    /// Log-probabilities of all tokens but the first.
    fn scores(&self, sequence: &[u32]) -> Vec<f32> {
        let score = |at: usize| {
            let context = sequence[..=at].iter().fold(7_u64, |hash, id| mixed(hash ^ u64::from(*id)));
            let part = |seed: u64| wave(context ^ mixed(seed));
            let moved = |version: u64, seed: u64| STEP * (1..=version).map(|step| part(seed << 32 | step)).sum::<f32>();
            let adapted = 0.05 * self.adapters * part(4).powi(9);
            -2.0 - part(self.model).abs() + moved(self.embeddings, 2) + moved(self.mlp, 3) + adapted
        };
        (1..sequence.len()).map(score).collect()
    }
}

/// Learner that scores with [`FakeWeights`].
#[derive(Debug, Clone, Default)]
pub(crate) struct FakeLearner {
    /// Why it has no published weights.
    pub(crate) not_scored: Option<&'static str>,
    /// What every log-probability is lower by.
    pub(crate) lower: f32,
    /// By how much a version moves logits of its policy.
    pub(crate) movement: f32,
    /// How long it says that it computes for a view.
    pub(crate) computing: Duration,
}

impl LearnerScorer for FakeLearner {
    type Error = FakeError;

    fn score(
        &self,
        sequences: &[Vec<u32>],
        weights: &PublishedWeights,
    ) -> impl Future<Output = Result<Result<TokenScores, NotScored>, FakeError>> + Send {
        let tensors = FakeWeights::published(weights);
        let scores = sequences.iter().map(|sequence| tensors.scores(sequence)).collect();
        ready(Ok(self.not_scored.map_or(Ok(scores), |why| Err(NotScored(why.to_owned())))))
    }

    fn score_in_memory(
        &self,
        sequences: &[Vec<u32>],
        version: u64,
    ) -> impl Future<Output = Result<TokenScores, FakeError>> + Send {
        let tensors = FakeWeights::of(version);
        let lower = |score: f32| score - self.lower;
        ready(Ok(sequences.iter().map(|sequence| tensors.scores(sequence).into_iter().map(lower).collect()).collect()))
    }

    fn view(
        &self,
        responses: &[PromptedResponse<'_>],
        weights: &PublishedWeights,
        distribution: &SampledDistribution,
    ) -> impl Future<Output = Result<Result<LearnerView, NotScored>, FakeError>> + Send {
        let temperature = f64::from(distribution.temperature);
        let at_temperature =
            |policy: Policy| if temperature == 1.0 { policy } else { policy.at_temperature(temperature) };
        let tensors = FakeWeights::published(weights);
        let at_place = |response: &PromptedResponse<'_>, at: usize| match self.movement {
            0.0 => early_policy(response.prompt, at, response.early),
            movement => tensors.policy(movement, response.prompt, at),
        };
        let view = |response: &PromptedResponse<'_>| {
            let tokens = response.response.iter().enumerate();
            tokens
                .map(|(at, &id)| LearnerToken {
                    drawn: drawn_again(response, at, id),
                    ..at_temperature(at_place(response, at)).view(id as usize)
                })
                .collect()
        };
        let view = LearnerView { responses: responses.iter().map(view).collect(), computing: self.computing };
        ready(Ok(self.not_scored.map_or(Ok(view), |why| Err(NotScored(why.to_owned())))))
    }
}

/// The seed of tokens that are not the ones that it gives.
pub(crate) const ANOTHER_DRAW: u64 = 13;

fn drawn_again(response: &PromptedResponse<'_>, at: usize, id: u32) -> Option<u32> {
    let run = response.seeded.iter().find(|run| (run.first..run.first + run.count).contains(&at))?;
    Some(if run.seed == ANOTHER_DRAW { id + 1 } else { id })
}

/// Engines that have these weights.
#[derive(Debug, Clone)]
pub(crate) struct FakeEngines {
    pub(crate) weights: FakeWeights,
    /// Largest noise of a token, in nats.
    pub(crate) noise: f32,
    /// Whether they say that they compute in f32.
    pub(crate) is_f32: bool,
}

impl EngineScorer for FakeEngines {
    type Error = FakeError;

    fn score(&self, sequences: &[Vec<u32>]) -> impl Future<Output = Result<Vec<EngineScores>, FakeError>> + Send {
        let noisy = |sequence: &Vec<u32>| {
            let scores = self.weights.scores(sequence).into_iter().enumerate();
            let noise = |at: usize| self.noise * wave(mixed(u64::from(sequence[0]) << 32 | at as u64) ^ key(sequence));
            scores.map(|(at, score)| score + noise(at)).collect()
        };
        let scores = sequences.iter().map(noisy).collect();
        ready(Ok(vec![EngineScores { engine: "fake".to_owned(), scores, is_exact: false, is_f32: self.is_f32 }]))
    }
}

/// The policy that the token at that place of a response is drawn from.
pub(crate) fn policy(prompt: &[u32], at: usize) -> Policy {
    let seed = mixed(key(prompt) ^ at as u64);
    Policy::of((0..VOCABULARY).map(|id| f64::from(3.0 * wave(mixed(seed ^ u64::from(id) << 20)))))
}

/// The output of a future that waits for nothing.
pub(crate) fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

/// A sink with the remarks that it took.
pub(crate) fn remarks() -> (RemarkSink, Arc<Mutex<Vec<Remark>>>) {
    let taken = Arc::new(Mutex::new(Vec::new()));
    let sink = RemarkSink::new({
        let taken = Arc::clone(&taken);
        move |remark| taken.lock().unwrap().push(remark)
    });
    (sink, taken)
}

/// That policy where the first `early` tokens cannot be the last id.
pub(crate) fn early_policy(prompt: &[u32], at: usize, early: usize) -> Policy {
    let policy = policy(prompt, at);
    if at < early { policy.without(|token, _| token == policy.end()) } else { policy }
}

fn key(ids: &[u32]) -> u64 {
    ids.iter().fold(11, |hash, id| mixed(hash ^ u64::from(*id)))
}

/// A number without a pattern, from -1 to 1.
pub(crate) fn wave(number: u64) -> f32 {
    (mixed(number) >> 40) as f32 / (1 << 23) as f32 - 1.0
}

fn mixed(number: u64) -> u64 {
    let mut number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    for shift in [33, 29, 32] {
        number = (number ^ number >> shift).wrapping_mul(0xff51_afd7_ed55_8ccd);
    }
    number
}
