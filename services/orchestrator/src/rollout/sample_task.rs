//! The task of one sample: generate, validate, verify, score. Whatever can be retried for one sample is retried here.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use evenkeel_proto::v1::{Failure, FailureCode, FinishReason, Rollout, WeightsRef};
use evenkeel_rpc::dispatch::DispatchError;
use evenkeel_rpc::retry::RetryPolicy;
use evenkeel_telemetry::TraceContext;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::context::{AttemptStart, Batch};
use super::engine_weights::MissingWeights;
use super::group::GroupRequest;
use super::response_part::ResponsePart;
use super::rounds::SampleProgress;
use super::sample::{Sample, SampleStatus, VerdictDetail};
use super::spans::{record_sample, trace_of_prompt};
use super::verification::{VerificationOutcome, verify};
use crate::clients::Services;
use crate::dependency::Dependency;
use crate::error::{Halt, RunError};
use crate::instruments::{self, AtStage, Stage};

/// Longest pause between two verifications of a sample.
const LONGEST_VERIFY_PAUSE: Duration = Duration::from_secs(1);

/// One sample of a group.
pub(super) struct SampleTask {
    batch: Arc<Batch>,
    request: Arc<GroupRequest>,
    number: u32,
    attempts: Attempts,
    progress: SampleProgress,
    /// What the generation service may have at once.
    permits: Arc<Semaphore>,
    /// Its span. All samples of a prompt share a trace.
    span: TraceContext,
}

/// Attempts at a sample, at all of its parts together.
#[derive(Debug)]
struct Attempts {
    limit: u32,
    failed: u32,
    /// Whether any of them took too long.
    late: bool,
}

impl Attempts {
    fn new(limit: u32) -> Self {
        Self { limit, failed: 0, late: false }
    }

    fn record(&mut self, failure: &AttemptFailure) {
        if failure.counts {
            self.failed += 1;
            self.late |= failure.late;
        }
    }

    fn is_exhausted(&self) -> bool {
        self.failed >= self.limit
    }
}

/// Why an attempt to generate a sample failed.
struct AttemptFailure {
    message: String,
    late: bool,
    /// Whether it counts as an attempt of the sample; an outage of the service does not.
    counts: bool,
}

/// What became of a response, or of a part of it.
enum Generated {
    Accepted(Box<Accepted>),
    /// The attempts are used up.
    Exhausted {
        last: AttemptFailure,
    },
}

/// A rollout that passed validation: the response up to its last part, and how many tokens that is.
struct Accepted {
    rollout: Rollout,
    tokens: usize,
}

impl SampleTask {
    pub(super) fn new(batch: &Arc<Batch>, request: Arc<GroupRequest>, number: u32, permits: &Arc<Semaphore>) -> Self {
        let span = trace_of_prompt(batch.run_id(), &request).child();
        let attempts = Attempts::new(batch.services().settings().sample_attempts);
        let progress = SampleProgress::new(batch.rounds().cloned(), request.rounds);
        Self { batch: Arc::clone(batch), request, number, attempts, progress, permits: Arc::clone(permits), span }
    }

    pub(super) fn id(&self) -> String {
        self.request.id.sample(self.number).to_string()
    }

    /// Takes the sample to its reward, or to the reason why it has none. `permit` is for the first part of its response.
    ///
    /// # Errors
    /// What ends the whole run: a sample that can never be generated, a service that stays away, a stop.
    pub(super) async fn run(mut self, permit: OwnedSemaphorePermit) -> Result<Sample, Halt> {
        let (began, span, prompt) = (SystemTime::now(), self.span, trace_of_prompt(self.batch.run_id(), &self.request));
        let generated = self.generate(permit).await?;
        self.progress.finish();
        let sample = match generated {
            Generated::Accepted(accepted) => {
                let _stage = AtStage::enter(Stage::Verifying);
                self.score(*accepted).await?
            }
            Generated::Exhausted { last } => self.failed(last.message),
        };
        record_sample(&sample, prompt, span, began);
        Ok(sample)
    }

    fn services(&self) -> &Services {
        self.batch.services()
    }

    /// Generates the response part by part. A permit is held while a part is with the generation service, not while its weights are waited
    /// for.
    async fn generate(&mut self, permit: OwnedSemaphorePermit) -> Result<Generated, Halt> {
        let (span, whole) = (self.request.rounds, self.batch.sampling(&self.request, self.number));
        let (mut round, last) = span.range().into_inner();
        let (mut permit, mut before, mut sampled) = (Some(permit), Vec::new(), 0);
        loop {
            let weights = self.weights(round).await;
            let held = match permit.take() {
                Some(permit) => permit,
                None => self.permit().await?,
            };
            let sampling = span.sampling(&whole, round, sampled);
            let part = ResponsePart {
                weights,
                before,
                is_last: round == last || sampling.max_tokens + sampled == whole.max_tokens,
                sampling,
            };
            let stage = AtStage::enter(Stage::Generating);
            let generated = self.generate_part(&part, round).await?;
            drop((held, stage));
            let accepted = match generated {
                Generated::Accepted(accepted) => accepted,
                exhausted @ Generated::Exhausted { .. } => return Ok(exhausted),
            };
            let tokens = accepted.tokens as u32;
            if part.ends(tokens - sampled, accepted.rollout.finish_reason()) {
                return Ok(Generated::Accepted(accepted));
            }
            self.progress.end(round);
            (round, before, sampled) = (round + 1, accepted.rollout.segments, tokens);
        }
    }

    /// The weights of a round, once it begins.
    async fn weights(&self, round: usize) -> Option<WeightsRef> {
        let _stage = AtStage::enter(Stage::Queued);
        self.batch.weights(round).await
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit, RunError> {
        let _stage = AtStage::enter(Stage::Queued);
        Arc::clone(&self.permits).acquire_owned().await.map_err(|error| RunError::Defect(error.to_string()))
    }

    /// Generates a part until its rollout is accepted or the attempts are used up. Its round has begun once it is on its way: until then
    /// the engines keep its weights.
    async fn generate_part(&mut self, part: &ResponsePart, round: usize) -> Result<Generated, Halt> {
        let policy = self.services().retry_policy();
        let (mut unavailable, mut lost) = (policy.with_jitter(self.id()).backoff(), false);
        loop {
            let start = self.batch.begin_attempt().await;
            let item = self.batch.generate_item(&self.request, self.number, part, self.span);
            let submitted = self.services().generation().submit(item).await;
            self.progress.begin(round);
            let answer = match submitted {
                Ok(pending) => pending.await.result,
                Err(error) => Err(error),
            };
            self.batch.rollout_ended();
            let failure = match answer {
                Err(error) => self.lost(&error),
                Ok(rollout) => match (&rollout.failure, start.outdated(&rollout)) {
                    (None, Some(version)) => {
                        let message =
                            format!("engine {}: sampled by version {version}, which is outdated", rollout.engine);
                        self.lacks_weights(part, start, message, &mut lost).await?
                    }
                    (None, None) => match self.batch.requirements().validate(&rollout, &self.request, part) {
                        Ok(tokens) => {
                            self.batch.engines_available();
                            return Ok(Generated::Accepted(Box::new(Accepted { rollout, tokens })));
                        }
                        Err(mismatch) => {
                            let message = format!("engine {}: {mismatch}", rollout.engine);
                            AttemptFailure { message, late: false, counts: true }
                        }
                    },
                    (Some(failure), _) if failure.code() == FailureCode::InvalidArgument => {
                        let what = format!("sample `{}`", self.id());
                        return Err(RunError::Refused {
                            service: Dependency::Generation,
                            what,
                            message: text(failure),
                        }
                        .into());
                    }
                    (Some(failure), _) if failure.code() == FailureCode::FailedPrecondition => {
                        self.lacks_weights(part, start, text(failure), &mut lost).await?
                    }
                    // No engine is available, or all are busy with the samples of others.
                    (Some(failure), _) if failure.is_retryable() => {
                        self.batch.engines_unavailable(text(failure));
                        tokio::time::sleep(unavailable.next_pause()).await;
                        continue;
                    }
                    (Some(failure), _) => {
                        let late = failure.code() == FailureCode::DeadlineExceeded;
                        AttemptFailure { message: text(failure), late, counts: true }
                    }
                },
            };
            self.attempts.record(&failure);
            if self.attempts.is_exhausted() {
                return Ok(Generated::Exhausted { last: failure });
            }
            instruments::retry(Dependency::Generation);
            tracing::debug!(message = failure.message, attempts = self.attempts.failed, "generating the sample again");
        }
    }

    /// The engines lack the weights of a part. This does not count as an attempt if the run updated them to others or is updating
    /// them: it moves on to each version once, and gives that up after `services.outage_timeout`. Nor does the first time that they lost
    /// them (`lost` says whether it is over), as with a restart. Every further time counts, since nothing else would end that.
    async fn lacks_weights(
        &self,
        part: &ResponsePart,
        start: AttemptStart,
        message: String,
        lost: &mut bool,
    ) -> Result<AttemptFailure, Halt> {
        let is_lost = self.batch.restore_weights(part, start).await? == MissingWeights::Lost;
        let counts = is_lost && *lost;
        *lost |= is_lost;
        Ok(AttemptFailure { message, late: false, counts })
    }

    /// While the service is unreachable a lost sample is an outage and no attempt.
    fn lost(&self, error: &DispatchError) -> AttemptFailure {
        AttemptFailure {
            message: error.to_string(),
            late: matches!(error, DispatchError::Deadline { .. }),
            counts: self.services().generation().is_connected(),
        }
    }

    async fn score(self, Accepted { rollout, tokens }: Accepted) -> Result<Sample, Halt> {
        let request = self.batch.verify_request(&self.request, &rollout, self.span)?;
        let settings = self.services().settings();
        let initial = self.services().retry_policy().initial_pause();
        let pauses = RetryPolicy::new(initial, initial.max(LONGEST_VERIFY_PAUSE));
        let verifier = self.services().verifier(self.request.task.verifier())?;
        let outcome = verify(&verifier.await_verdict(), request, settings.verify_attempts, pauses).await;
        let (status, verdict_detail, verify_retries) = match outcome {
            VerificationOutcome::Verdict { reward, detail, retries } => {
                let (rewards, components) = self.batch.rewards(&reward, tokens);
                (SampleStatus::Valid { outcome: reward.outcome, rewards, components }, detail, retries)
            }
            VerificationOutcome::Invalid { reason, retries, late } => {
                tracing::warn!(reason, "no verdict, the sample is left out");
                (SampleStatus::Invalid { reason, late }, VerdictDetail::default(), retries)
            }
        };
        Ok(Sample {
            id: self.id(),
            engine: rollout.engine.clone(),
            finish_reason: rollout.finish_reason(),
            segments: rollout.segments,
            tokens,
            status,
            verdict_detail,
            verify_retries,
            rollout_retries: self.attempts.failed,
        })
    }

    fn failed(self, message: String) -> Sample {
        tracing::warn!(message, "the sample cannot be generated and is left out");
        Sample {
            id: self.id(),
            engine: String::new(),
            segments: Vec::new(),
            finish_reason: FinishReason::Failed,
            tokens: 0,
            status: SampleStatus::Failed { message, late: self.attempts.late },
            verdict_detail: VerdictDetail::default(),
            verify_retries: 0,
            rollout_retries: self.attempts.failed,
        }
    }
}

fn text(failure: &Failure) -> String {
    format!("{}: {}", failure.reason, failure.message)
}
