//! One episode: its response is sampled segment by segment, validated, verified and scored. Whatever can be retried for
//! one sample is retried here. When each segment is sampled, and by which weights, is decided by others.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use evenkeel_proto::SamplingSettings;
use evenkeel_proto::v1::{Act, Failure, FailureCode, FinishReason, Rollout, Segment, WeightsRef};
use evenkeel_rpc::dispatch::DispatchError;
use evenkeel_rpc::retry::RetryPolicy;
use evenkeel_telemetry::TraceContext;

use super::bare::is_bare;
use super::context::{AttemptStart, Batch};
use super::engine_weights::MissingWeights;
use super::environment_idle::Place;
use super::group::GroupRequest;
use super::played::Played;
use super::response_part::ResponsePart;
use super::sample::{Sample, SampleStatus, VerdictDetail, mean_log_probability, parts_of};
use super::spans::{record_sample, trace_of_prompt};
use super::table::Table;
use super::verification::{VerificationOutcome, verify};
use crate::clients::Services;
use crate::dependency::Dependency;
use crate::error::{Halt, RunError};
use crate::instruments;

/// Longest pause between two verifications of a sample.
const LONGEST_VERIFY_PAUSE: Duration = Duration::from_secs(1);

/// One sample of a group, as far as its response is.
pub(super) struct Episode {
    batch: Arc<Batch>,
    request: Arc<GroupRequest>,
    number: u32,
    /// How the whole response is drawn.
    whole: SamplingSettings,
    /// The response so far, and how many tokens that is.
    before: Vec<Segment>,
    sampled: u32,
    attempts: Attempts,
    /// Where its one turn is carried out, of an episode without an environment.
    table: Option<Table>,
    /// When its first segment was asked for.
    began: Option<SystemTime>,
    /// Span of the sample. All samples of a prompt share a trace.
    span: TraceContext,
}

/// How a segment has ended.
pub(super) enum SegmentEnd {
    /// The response goes on.
    GoesOn,
    /// The response is whole.
    Whole(Box<Accepted>),
    /// The attempts are used up.
    Exhausted {
        /// Why the last one failed.
        message: String,
        /// Whether any took too long.
        late: bool,
    },
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

/// What became of a segment.
pub(super) enum Generated {
    Accepted(Box<Accepted>),
    /// The attempts are used up.
    Exhausted {
        /// Why the last one failed.
        last: String,
    },
}

/// A rollout that passed validation: the response up to its last part, and how many tokens that is.
pub(super) struct Accepted {
    rollout: Rollout,
    /// Tokens of the response; of an episode with several turns those that were sampled.
    tokens: usize,
    /// Of an episode with several turns.
    played: Option<Played>,
}

impl Accepted {
    /// An episode with several turns that is over.
    pub(super) fn of_episode(rollout: Rollout, played: Played) -> Self {
        let sampled = rollout.segments.iter().map(|segment| segment.log_probabilities.len()).sum();
        Self { rollout, tokens: sampled, played: Some(played) }
    }

    pub(super) fn into_rollout(self) -> Rollout {
        self.rollout
    }

    /// The episode was played so often before.
    pub(super) fn played_again(&mut self, retries: u32) {
        if let Some(played) = &mut self.played {
            played.record.retries = retries;
        }
    }
}

impl Episode {
    pub(super) fn new(batch: &Arc<Batch>, request: &Arc<GroupRequest>, number: u32) -> Self {
        let span = trace_of_prompt(batch.run_id(), request).child();
        let is_alone = request.environment.is_none();
        Self {
            table: is_alone.then(|| Table::alone(request.id.sample(number).to_string())),
            whole: batch.sampling(request, number),
            attempts: Attempts::new(batch.services().settings().sample_attempts),
            batch: Arc::clone(batch),
            request: Arc::clone(request),
            number,
            before: Vec::new(),
            sampled: 0,
            began: None,
            span,
        }
    }

    pub(super) fn id(&self) -> String {
        self.request.id.sample(self.number).to_string()
    }

    pub(super) fn services(&self) -> &Services {
        self.batch.services()
    }

    pub(super) fn batch(&self) -> &Batch {
        &self.batch
    }

    pub(super) fn request(&self) -> &GroupRequest {
        &self.request
    }

    /// How the whole response is drawn.
    pub(super) fn whole(&self) -> &SamplingSettings {
        &self.whole
    }

    /// The seed of whatever an environment draws: the sample's own.
    pub(super) fn seed(&self) -> u64 {
        self.whole.seed
    }

    pub(super) fn span(&self) -> TraceContext {
        self.span
    }

    /// Whether any attempt to sample took too long.
    pub(super) fn was_late(&self) -> bool {
        self.attempts.late
    }

    /// Samples the next segment of its response, by these weights; the last one is as long as it gets. `accepted` is
    /// called once the request is with the generation service. An episode of several turns is one segment: all of them
    /// are sampled by these weights, so that it is accepted with the last one.
    ///
    /// # Errors
    /// What ends the whole run: a sample that can never be generated, a service that stays away, a stop.
    pub(super) async fn sample(
        &mut self,
        weights: Option<WeightsRef>,
        is_last: bool,
        mut accepted: impl FnMut(),
    ) -> Result<SegmentEnd, Halt> {
        self.began.get_or_insert_with(SystemTime::now);
        if let Some(task) = self.request.environment.clone() {
            let end = self.play(&task, weights).await;
            accepted();
            return end;
        }
        let sampling = self.batch.segment(&self.whole, is_last, self.sampled);
        let part = ResponsePart {
            weights,
            prompt: None,
            before: std::mem::take(&mut self.before),
            engine: String::new(),
            is_last: is_last || sampling.max_tokens + self.sampled == self.whole.max_tokens,
            sampling,
        };
        let generated = match self.generate_part(&part, &mut accepted).await? {
            Generated::Accepted(generated) => generated,
            Generated::Exhausted { last } => {
                return Ok(SegmentEnd::Exhausted { message: last, late: self.attempts.late });
            }
        };
        let tokens = generated.tokens as u32;
        if part.ends(tokens - self.sampled, generated.rollout.finish_reason()) {
            self.answered(generated.rollout.finish_reason()).await?;
            return Ok(SegmentEnd::Whole(generated));
        }
        (self.before, self.sampled) = (generated.rollout.segments, tokens);
        Ok(SegmentEnd::GoesOn)
    }

    /// The answer is the only turn of its episode, which is over with it.
    async fn answered(&mut self, finish_reason: FinishReason) -> Result<(), Halt> {
        let Some(mut table) = self.table.take() else {
            return Err(RunError::Defect(format!("the answer of `{}` was given twice", self.id())).into());
        };
        let act = Act { finish_reason: finish_reason.into(), ..Act::default() };
        let over = match table.step(act).await {
            Ok(_) => table.scored().await.map(drop),
            Err(broken) => Err(broken),
        };
        over.map_err(|broken| RunError::Defect(broken.message).into())
    }

    /// Verifies and scores a response that is whole.
    ///
    /// # Errors
    /// A service that stays away; a stop.
    pub(super) async fn verify(self, accepted: Accepted) -> Result<Sample, Halt> {
        let began = self.began;
        let span = self.span;
        let prompt = trace_of_prompt(self.batch.run_id(), &self.request);
        let sample = self.score(accepted).await?;
        record_sample(&sample, prompt, span, began.unwrap_or_else(SystemTime::now));
        Ok(sample)
    }

    /// Gives the sample up.
    pub(super) fn give_up(self, message: String, late: bool) -> Sample {
        let began = self.began;
        let span = self.span;
        let prompt = trace_of_prompt(self.batch.run_id(), &self.request);
        let sample = self.failed(message, late);
        record_sample(&sample, prompt, span, began.unwrap_or_else(SystemTime::now));
        sample
    }

    /// Generates a part until its rollout is accepted or the attempts are used up.
    pub(super) async fn generate_part(
        &mut self,
        part: &ResponsePart,
        accepted: &mut impl FnMut(),
    ) -> Result<Generated, Halt> {
        let policy = self.services().retry_policy();
        let mut unavailable = policy.with_jitter(self.id()).backoff();
        let mut lost = false;
        loop {
            let start = self.batch.begin_attempt().await;
            let item = self.batch.generate_item(&self.request, self.number, part, self.span);
            let submitted = self.services().generation().submit(item).await;
            accepted();
            let answer = match submitted {
                Ok(pending) => {
                    let _sampled = self.batch.environment_idle().enter(Place::Engine);
                    pending.await.result
                }
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
                            return Ok(Generated::Accepted(Box::new(Accepted { rollout, tokens, played: None })));
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
                return Ok(Generated::Exhausted { last: failure.message });
            }
            instruments::retry(Dependency::Generation);
            tracing::debug!(message = failure.message, attempts = self.attempts.failed, "generating the sample again");
        }
    }

    /// The engines lack the weights of a part. This does not count as an attempt if the run updated them to others or
    /// is updating them: it moves on to each version once, and gives that up after `services.outage_timeout`. Nor does
    /// the first time that they lost them (`lost` says whether it is over), as with a restart. Every further time
    /// counts, since nothing else would end that.
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

    async fn score(self, Accepted { rollout, tokens, mut played }: Accepted) -> Result<Sample, Halt> {
        let request = self.batch.verify_request(&self.request, &rollout, played.as_ref(), self.span)?;
        let text = request.completion().to_owned();
        let settings = self.services().settings();
        let initial = self.services().retry_policy().initial_pause();
        let pauses = RetryPolicy::new(initial, initial.max(LONGEST_VERIFY_PAUSE));
        let outcome = match played.as_mut().and_then(|played| played.verdict.take()) {
            Some(verdict) => VerificationOutcome::of_environment(verdict),
            None => {
                let verifier = self.services().verifier(self.request.task.verifier())?;
                verify(&verifier.await_verdict(), request, settings.verify_attempts, pauses).await
            }
        };
        let (status, verdict_detail, verify_retries) = match outcome {
            VerificationOutcome::Verdict { reward, detail, retries } => {
                let bare = || is_bare(&text, detail.extracted.as_deref());
                let (rewards, components) = self.batch.rewards(&reward, tokens, bare);
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
            text,
            parts: parts_of(&rollout.segments),
            mean_log_probability: mean_log_probability(&rollout.segments),
            segments: rollout.segments,
            contexts: played.as_mut().map(|played| std::mem::take(&mut played.contexts)).unwrap_or_default(),
            tokens,
            status,
            verdict_detail,
            verify_retries,
            rollout_retries: self.attempts.failed,
            episode: played.map(|played| Box::new(played.record)),
        })
    }

    fn failed(self, message: String, late: bool) -> Sample {
        tracing::warn!(message, "the sample cannot be generated and is left out");
        Sample {
            id: self.id(),
            engine: String::new(),
            segments: Vec::new(),
            contexts: Vec::new(),
            text: String::new(),
            parts: Vec::new(),
            mean_log_probability: None,
            finish_reason: FinishReason::Failed,
            tokens: 0,
            status: SampleStatus::Failed { message, late },
            verdict_detail: VerdictDetail::default(),
            verify_retries: 0,
            rollout_retries: self.attempts.failed,
            episode: None,
        }
    }
}

fn text(failure: &Failure) -> String {
    format!("{}: {}", failure.reason, failure.message)
}
