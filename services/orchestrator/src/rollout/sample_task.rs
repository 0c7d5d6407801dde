//! The task of one sample: generate, validate, verify, score. Whatever can be retried for one sample is retried here.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use evenkeel_proto::v1::{Failure, FailureCode, FinishReason, Rollout};
use evenkeel_rpc::dispatch::DispatchError;
use evenkeel_rpc::retry::RetryPolicy;
use evenkeel_telemetry::TraceContext;
use tokio::sync::OwnedSemaphorePermit;

use super::context::Batch;
use super::group::GroupPlan;
use super::sample::{Judgement, Sample, SampleStatus};
use super::spans::{record_sample, trace_of_prompt};
use super::verification::{Verified, verify};
use crate::clients::Services;
use crate::error::{Halt, RunError};
use crate::instruments::{self, AtStage, Stage};

/// Longest pause between two verifications of a sample.
const LONGEST_VERIFY_PAUSE: Duration = Duration::from_secs(1);

/// One sample of a group.
pub(super) struct SampleTask {
    batch: Arc<Batch>,
    plan: Arc<GroupPlan>,
    number: u32,
    attempts: Attempts,
    /// Its span. All samples of a prompt share a trace.
    span: TraceContext,
}

/// Attempts at a sample that count as its own.
#[derive(Debug, Default)]
struct Attempts {
    failed: u32,
    /// Whether any of them took too long.
    late: bool,
}

/// Why an attempt to generate a sample failed.
struct AttemptFailure {
    message: String,
    late: bool,
    /// Whether it counts as an attempt of the sample; an outage of the service does not.
    counts: bool,
}

/// A rollout that passed validation, with its number of response tokens.
struct Accepted {
    rollout: Rollout,
    tokens: usize,
}

impl SampleTask {
    pub(super) fn new(batch: Arc<Batch>, plan: Arc<GroupPlan>, number: u32) -> Self {
        let span = trace_of_prompt(batch.run_id(), &plan).child();
        Self { batch, plan, number, attempts: Attempts::default(), span }
    }

    pub(super) fn id(&self) -> String {
        self.plan.id.sample(self.number).to_string()
    }

    /// Takes the sample to its reward, or to the reason why it has none. `permit` is held while the sample is with the generation service.
    ///
    /// # Errors
    /// What ends the whole run: a sample that can never be generated, a service that stays away, a stop.
    pub(super) async fn run(mut self, permit: OwnedSemaphorePermit) -> Result<Sample, Halt> {
        let (began, span, prompt) = (SystemTime::now(), self.span, trace_of_prompt(self.batch.run_id(), &self.plan));
        let stage = AtStage::enter(Stage::Generating);
        let generated = self.generate().await?;
        drop((permit, stage));
        let sample = match generated {
            Ok(accepted) => {
                let _stage = AtStage::enter(Stage::Verifying);
                self.score(accepted).await?
            }
            Err(message) => self.failed(message),
        };
        record_sample(&sample, prompt, span, began);
        Ok(sample)
    }

    fn services(&self) -> &Services {
        self.batch.services()
    }

    /// Generates until a rollout is accepted or the attempts are used up; then the last message is returned.
    async fn generate(&mut self) -> Result<Result<Accepted, String>, Halt> {
        let policy = *self.services().retry_policy();
        let mut unavailable = policy.without_time_limit().with_jitter(self.id()).start();
        let mut refusals = 0;
        loop {
            let moves = self.batch.weight_moves().await;
            let item = self.batch.generate_item(&self.plan, self.number, self.span);
            let answer = self.services().generation().generate(item).await;
            self.batch.health.rollout_ended();
            let failure = match answer {
                Err(error) => self.lost(&error),
                Ok(rollout) => match &rollout.failure {
                    None => match self.batch.requirements().validate(&rollout, &self.plan) {
                        Ok(tokens) => {
                            self.batch.health.engines_available();
                            return Ok(Ok(Accepted { rollout, tokens }));
                        }
                        Err(difference) => {
                            let message = format!("engine {}: {difference}", rollout.engine);
                            AttemptFailure { message, late: false, counts: true }
                        }
                    },
                    Some(failure) if failure.code() == FailureCode::InvalidArgument => {
                        let what = format!("sample `{}`", self.id());
                        return Err(RunError::Refused { service: "generation", what, message: text(failure) }.into());
                    }
                    Some(failure) if failure.code() == FailureCode::FailedPrecondition => {
                        refusals += u32::from(self.batch.restore_weights(moves).await?);
                        // An attempt only where engines refuse again and again although they were moved to the weights.
                        let counts = refusals > self.services().settings().sample_attempts;
                        AttemptFailure { message: text(failure), late: false, counts }
                    }
                    // No engine is available, or all are busy with the samples of others.
                    Some(failure) if failure.is_retryable() => {
                        self.batch.health.engines_unavailable(text(failure));
                        let pause = unavailable.next_retry().map_or(policy.initial_pause(), |retry| retry.pause);
                        tokio::time::sleep(pause).await;
                        continue;
                    }
                    Some(failure) => {
                        let late = failure.code() == FailureCode::DeadlineExceeded;
                        AttemptFailure { message: text(failure), late, counts: true }
                    }
                },
            };
            if failure.counts {
                self.attempts.failed += 1;
                self.attempts.late |= failure.late;
            }
            if self.attempts.failed >= self.services().settings().sample_attempts {
                return Ok(Err(failure.message));
            }
            instruments::retry("generation");
            tracing::debug!(message = failure.message, attempts = self.attempts.failed, "generating the sample again");
        }
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
        let request = self.batch.verify_request(&self.plan, &rollout, self.span)?;
        let settings = self.services().settings();
        let initial = self.services().retry_policy().initial_pause();
        let policy =
            RetryPolicy::new(initial, initial.max(LONGEST_VERIFY_PAUSE)).with_max_attempts(settings.verify_attempts);
        let judge = self.services().judge(self.plan.task.verifier())?;
        let verified = verify(judge.dispatcher(), request, policy).await;
        judge.verification_ended();
        let (status, judgement, verify_retries) = match verified {
            Verified::Verdict { judged, judgement, retries } => {
                let (rewards, components) = self.batch.rewards(&judged, tokens);
                (SampleStatus::Valid { outcome: judged.outcome, rewards, components }, judgement, retries)
            }
            Verified::Invalid { reason, retries, late } => {
                tracing::warn!(reason, "no verdict, the sample is left out");
                (SampleStatus::Invalid { reason, late }, Judgement::default(), retries)
            }
        };
        Ok(Sample {
            id: self.id(),
            finish_reason: rollout.finish_reason(),
            segments: rollout.segments,
            tokens,
            status,
            judgement,
            verify_retries,
            rollout_retries: self.attempts.failed,
        })
    }

    fn failed(self, message: String) -> Sample {
        tracing::warn!(message, "the sample cannot be generated and is left out");
        Sample {
            id: self.id(),
            segments: Vec::new(),
            finish_reason: FinishReason::Failed,
            tokens: 0,
            status: SampleStatus::Failed { message, late: self.attempts.late },
            judgement: Judgement::default(),
            verify_retries: 0,
            rollout_retries: self.attempts.failed,
        }
    }
}

fn text(failure: &Failure) -> String {
    format!("{}: {}", failure.reason, failure.message)
}
