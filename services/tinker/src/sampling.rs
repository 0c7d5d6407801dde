//! Sampling: engines have one version of the weights at a time, so requests of one version run together, and those of
//! another wait until these are done. Weights are proven each time that they were loaded; where that fails, nothing is
//! sampled.

use std::collections::VecDeque;
use std::sync::Arc;

use evenkeel_model_folder::Tokenizer;
use evenkeel_proto::flatten;
use evenkeel_proto::v1::{FinishReason, GenerateItem, Rollout, Sampling};
use evenkeel_seeds::Stream;
use prost::Message as _;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::backend::Backend;
use crate::error::Failure;
use crate::futures::{OperationOutcome, Promise};
use crate::proof::{DrawnSample, LoadedWeights, SharedProof};
use crate::store::Weights;
use crate::wire::{SampleResponse, SampledSequence, floats};

/// Waiting requests whose prompts weights are proven by.
const PROVING_PROMPTS: usize = 64;

/// A request for samples.
pub(crate) struct SampleJob {
    pub(crate) weights: Weights,
    pub(crate) prompt: Vec<u32>,
    pub(crate) samples: u32,
    pub(crate) sampling: Sampling,
    /// Texts that end a sample.
    pub(crate) stop_texts: Vec<String>,
    pub(crate) prompt_logprobs: bool,
    pub(crate) deadline_ms: u64,
    pub(crate) promise: Promise,
}

pub(crate) struct Sampler {
    pub(crate) backend: Backend,
    pub(crate) engines: LoadedWeights,
    pub(crate) tokenizer: Option<Arc<Tokenizer>>,
}

impl Sampler {
    /// Runs requests until the last sender is gone.
    pub(crate) async fn run(mut self, mut jobs: mpsc::UnboundedReceiver<SampleJob>) {
        let mut waiting: VecDeque<SampleJob> = VecDeque::new();
        let mut running = JoinSet::new();
        let mut loaded: Option<Weights> = None;
        let shared = self.engines.shared();
        loop {
            tokio::select! {
                job = jobs.recv() => match job {
                    Some(job) => waiting.push_back(job),
                    None => break,
                },
                Some(_) = running.join_next() => {}
            }
            while let Ok(job) = jobs.try_recv() {
                waiting.push_back(job);
            }
            while let Some(first) = waiting.front() {
                let weights = first.weights.clone();
                if loaded.as_ref() != Some(&weights) || self.engines.is_due() {
                    if !running.is_empty() {
                        break;
                    }
                    loaded = None;
                    let same = waiting.iter().filter(|job| job.weights == weights).take(PROVING_PROMPTS);
                    same.for_each(|job| shared.text.add(&job.prompt, &[]));
                    if let Err(failure) = self.engines.load(&weights).await {
                        tracing::warn!(version = weights.version, error = failure.message, "weights not loaded");
                        // What is wrong with the weights is as wrong for all that wait for them.
                        let is_of_weights = failure.reason.is_some();
                        let is_failed =
                            |at: usize, job: &SampleJob| at == 0 || (is_of_weights && job.weights == weights);
                        let (failed, others): (Vec<_>, Vec<_>) = std::mem::take(&mut waiting)
                            .into_iter()
                            .enumerate()
                            .partition(|(at, job)| is_failed(*at, job));
                        waiting = others.into_iter().map(|(_, job)| job).collect();
                        failed
                            .into_iter()
                            .for_each(|(_, job)| job.promise.complete(OperationOutcome::Failed(failure.clone())));
                        continue;
                    }
                    loaded = Some(weights.clone());
                }
                // All that wait for these weights now; what comes later takes its turn.
                let (these, others) = std::mem::take(&mut waiting).into_iter().partition(|job| job.weights == weights);
                waiting = others;
                let these: VecDeque<SampleJob> = these;
                for job in these {
                    running.spawn(answer(self.backend.clone(), Arc::clone(&shared), self.tokenizer.clone(), job));
                }
            }
        }
    }
}

async fn answer(backend: Backend, proof: Arc<SharedProof>, tokenizer: Option<Arc<Tokenizer>>, mut job: SampleJob) {
    let promise = job.promise;
    let ids = std::mem::take(&mut job.prompt);
    let seed = job.sampling.seed.unwrap_or_default();
    let mut samples = JoinSet::new();
    for number in 0..job.samples {
        // Hashed: with seeds that count up, requests with neighbouring seeds would share samples.
        let seed = evenkeel_seeds::seed(seed, Stream::RequestedSample { sample: number.into() });
        let item = GenerateItem {
            group_id: promise.id().to_owned(),
            prompt_token_ids: ids.clone(),
            sampling: Some(Sampling { seed: Some(seed), ..job.sampling.clone() }),
            engine_deadline_ms: Some(job.deadline_ms),
            policy_version: Some(job.weights.version),
            ..GenerateItem::default()
        };
        let backend = backend.clone();
        samples.spawn(async move { (number, backend.sample(item).await) });
    }
    let result = async {
        let mut prompt_logprobs = None;
        if job.prompt_logprobs {
            // The first token has none.
            let scores = [vec![f32::NAN], backend.score(job.weights.version, &ids).await?].concat();
            prompt_logprobs = Some(floats(&scores));
        }
        let mut done = Vec::new();
        while let Some(sample) = samples.join_next().await {
            let (number, rollout) = sample.map_err(|error| Failure::server(error.to_string()))?;
            let rollout = rollout?;
            let version = job.weights.version;
            proof.sampled(&rollout, version);
            let sample = DrawnSample { version, prompt: &ids, sampling: &job.sampling, rollout: &rollout };
            proof.audit(&backend, sample).await?;
            let response: Vec<u32> =
                rollout.segments.iter().flat_map(|segment| segment.token_ids.iter().copied()).collect();
            proof.text.add(&ids, &response);
            done.push((number, sequence(rollout, job.weights.version, &job.stop_texts, tokenizer.as_deref())?));
        }
        done.sort_by_key(|(number, _)| *number);
        let sequences = done.into_iter().map(|(_, sequence)| sequence).collect();
        let response = SampleResponse { sequences, prompt_logprobs };
        Ok(OperationOutcome::Protobuf(response.encode_to_vec().into()))
    };
    let result: Result<OperationOutcome, Failure> = result.await;
    promise.settle(result);
}

fn sequence(
    rollout: Rollout,
    version: u64,
    stops: &[String],
    tokenizer: Option<&Tokenizer>,
) -> Result<SampledSequence, Failure> {
    let mut stopped = match rollout.finish_reason() {
        FinishReason::Stop => true,
        FinishReason::Length => false,
        other => return Err(Failure::server(format!("a sample ended as {}", other.as_str_name()))),
    };
    let tokens = flatten(&rollout.segments).map_err(|error| Failure::server(error.to_string()))?;
    if let Some((other, _)) = tokens.versions.iter().find(|(found, _)| *found != version) {
        return Err(Failure::server(format!("version {other} sampled a token instead of {version}")));
    }
    let mut ids = tokens.token_ids;
    let mut logprobs = tokens.log_probabilities;
    if let Some(length) = stop_at(&ids, stops, tokenizer)? {
        ids.truncate(length);
        logprobs.truncate(length);
        stopped = true;
    }
    Ok(SampledSequence {
        stop_reason: i32::from(!stopped),
        tokens: ids.iter().flat_map(|id| id.to_le_bytes()).collect(),
        logprobs: floats(&logprobs),
    })
}

/// How many tokens there are up to the one that completes a stop text; `None` where none does.
fn stop_at(ids: &[u32], stops: &[String], tokenizer: Option<&Tokenizer>) -> Result<Option<usize>, Failure> {
    let Some(tokenizer) = tokenizer.filter(|_| !stops.is_empty()) else { return Ok(None) };
    let holds_one = |length: usize| {
        let text = tokenizer.decode(&ids[..length], false).map_err(|error| Failure::server(error.to_string()))?;
        Ok::<_, Failure>(stops.iter().any(|stop| text.contains(stop.as_str())))
    };
    if !holds_one(ids.len())? {
        return Ok(None);
    }
    // A text that holds one still does with more tokens after it.
    let mut without = 0;
    let mut with = ids.len();
    while with - without > 1 {
        let middle = usize::midpoint(without, with);
        if holds_one(middle)? { with = middle } else { without = middle }
    }
    Ok(Some(with))
}
