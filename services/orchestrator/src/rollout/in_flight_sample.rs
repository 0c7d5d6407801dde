//! One sample from its request to its reward: the response is sampled segment by segment, verified and scored. When
//! each segment is sampled, and by which weights, is decided by others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use evenkeel_data::TaskKind;
use evenkeel_proto::v1::{FinishReason, Segment, WeightsRef};
use evenkeel_proto::{JudgeFailure, Label, SamplingSettings};
use evenkeel_rpc::retry::RetryPolicy;
use evenkeel_telemetry::TraceContext;

use super::bare::is_marked;
use super::context::Batch;
use super::generated_part::{AcceptedRollout, Attempts, Generated, PartGenerator};
use super::group_request::GroupRequest;
use super::judging::JudgedAnswer;
use super::left_out::LeftOut;
use super::response_part::ResponsePart;
use super::sample::{Sample, SampleStatus, Unscored, VerdictDetail, engines_of, mean_log_probability, parts_of};
use super::spans::{record_sample, trace_of_prompt};
use super::verification::{VerificationOutcome, verify};
use crate::clients::Services;
use crate::error::Halt;

/// Longest pause between two verifications of a sample.
const LONGEST_VERIFY_PAUSE: Duration = Duration::from_secs(1);

/// One sample of a group, as far as its response is.
pub(super) struct InFlightSample {
    batch: Arc<Batch>,
    request: Arc<GroupRequest>,
    number: u32,
    /// How the whole response is drawn.
    whole: SamplingSettings,
    /// The response so far, and how many tokens that is.
    before: Vec<Segment>,
    sampled: u32,
    attempts: Attempts,
    /// The last attempt at an episode, until it has a score.
    pub(super) unscored: Option<Unscored>,
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
    Whole(Box<AcceptedRollout>),
    /// The attempts are used up.
    Exhausted {
        /// Why the last one failed.
        message: String,
        /// Whether any took too long.
        late: bool,
    },
}

impl InFlightSample {
    pub(super) fn new(batch: &Arc<Batch>, request: &Arc<GroupRequest>, number: u32) -> Self {
        let span = trace_of_prompt(batch.run_id(), request).child();
        Self {
            whole: batch.sampling(request, number),
            attempts: Attempts::new(batch.services().settings().sample_attempts),
            batch: Arc::clone(batch),
            request: Arc::clone(request),
            number,
            before: Vec::new(),
            sampled: 0,
            unscored: None,
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
            return Ok(SegmentEnd::Whole(generated));
        }
        (self.before, self.sampled) = (generated.rollout.segments, tokens);
        Ok(SegmentEnd::GoesOn)
    }

    /// Generates a part of the response.
    ///
    /// # Errors
    /// As [`PartGenerator::generate`].
    pub(super) async fn generate_part(
        &mut self,
        part: &ResponsePart,
        accepted: &mut impl FnMut(),
    ) -> Result<Generated, Halt> {
        let generator = PartGenerator {
            batch: &self.batch,
            request: &self.request,
            number: self.number,
            span: self.span,
            attempts: &mut self.attempts,
        };
        generator.generate(part, accepted).await
    }

    /// Verifies and scores a response that is whole.
    ///
    /// # Errors
    /// A service that stays away; a stop.
    pub(super) async fn verify(self, accepted: AcceptedRollout) -> Result<Sample, Halt> {
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

    async fn score(self, accepted: AcceptedRollout) -> Result<Sample, Halt> {
        let AcceptedRollout { rollout, tokens, mut played } = accepted;
        let request = self.batch.verify_request(&self.request, &rollout, played.as_ref(), self.span)?;
        let text = request.completion().to_owned();
        let settings = self.services().settings();
        let initial = self.services().retry_policy().initial_pause();
        let pauses = RetryPolicy::new(initial, initial.max(LONGEST_VERIFY_PAUSE));
        let scored = played.as_mut().and_then(|played| played.verdict.take());
        let is_of_environment = scored.is_some();
        let outcome = match scored {
            Some(verdict) => VerificationOutcome::of_environment(verdict),
            None if self.request.task.kind() == TaskKind::Unjudged => VerificationOutcome::unjudged(),
            None if self.request.task.kind() == TaskKind::Environment => {
                let reason = "the environment gave no score, and the row has no gold answer".to_owned();
                VerificationOutcome::Invalid { code: String::new(), reason, retries: 0, late: false }
            }
            None => {
                let verifier = self.services().verifier(self.request.task.verifier())?;
                verify(&verifier.await_verdict(), request, settings.verify_attempts, pauses).await
            }
        };
        let answer = JudgedAnswer { text: &text, tokens, verifier: self.request.task.verifier(), is_of_environment };
        let (status, verdict_detail, verify_retries) = self.batch.judging().judged(outcome, &answer);
        if let SampleStatus::Invalid { reason, .. } = &status {
            self.batch.left_out(LeftOut::NoVerdict, reason);
            if verdict_detail.reason == JudgeFailure::Budget.label() {
                self.services().stop().budget_used(reason);
            }
        }
        let sample = Sample {
            id: self.id(),
            engines: engines_of(&rollout.segments).into_iter().map(str::to_owned).collect(),
            finish_reason: rollout.finish_reason(),
            is_marked: is_marked(&text),
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
        };
        if let (Some(verifier), Some(_)) = (self.request.task.verifier(), sample.function_failure()) {
            self.batch.function_failed(&sample.id, verifier, sample.failure_in_full().unwrap_or_default())?;
        }
        Ok(sample)
    }

    fn failed(self, message: String, late: bool) -> Sample {
        let is_sampled = self.unscored.is_some_and(|unscored| unscored.answer.tokens > 0);
        self.batch.left_out(if is_sampled { LeftOut::NoVerdict } else { LeftOut::NotGenerated }, &message);
        Sample {
            id: self.id(),
            engines: BTreeSet::new(),
            segments: Vec::new(),
            contexts: Vec::new(),
            text: String::new(),
            is_marked: false,
            parts: Vec::new(),
            mean_log_probability: None,
            finish_reason: FinishReason::Failed,
            tokens: 0,
            status: SampleStatus::Failed { message, late, unscored: self.unscored },
            verdict_detail: VerdictDetail::default(),
            verify_retries: 0,
            rollout_retries: self.attempts.failed,
            episode: None,
        }
    }
}
