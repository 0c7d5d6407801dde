//! A part of a response is generated: attempts at it, until a rollout passes validation or they are used up.

use evenkeel_proto::v1::{Failure, FailureCode, Rollout, SegmentSource};
use evenkeel_rpc::dispatch::DispatchError;
use evenkeel_telemetry::TraceContext;

use super::context::{AttemptStart, Batch};
use super::engine_weights::MissingWeights;
use super::environment_idle::Place;
use super::group_request::GroupRequest;
use super::played::Played;
use super::response_part::ResponsePart;
use crate::dependency::Dependency;
use crate::error::{Halt, RunError};
use crate::instruments;

/// Attempts at a sample, at all of its parts together.
#[derive(Debug)]
pub(super) struct Attempts {
    limit: u32,
    pub(super) failed: u32,
    /// Whether any of them took too long.
    pub(super) late: bool,
}

impl Attempts {
    pub(super) fn new(limit: u32) -> Self {
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

/// A rollout that passed validation: the response up to its last part, and how many tokens that is.
pub(super) struct AcceptedRollout {
    pub(super) rollout: Rollout,
    /// Tokens of the response; of an episode with several turns those that were sampled.
    pub(super) tokens: usize,
    /// The turns of an episode with several.
    pub(super) played: Option<Played>,
}

impl AcceptedRollout {
    /// An episode with several turns that is over.
    pub(super) fn of_episode(rollout: Rollout, played: Played) -> Self {
        let sampled = rollout.segments.iter().map(|segment| segment.log_probabilities.len()).sum();
        Self { rollout, tokens: sampled, played: Some(played) }
    }

    /// Notes how many attempts at the episode came before.
    pub(super) fn played_again(&mut self, retries: u32) {
        if let Some(played) = &mut self.played {
            played.record.retries = retries;
        }
    }
}

/// What became of a part.
pub(super) enum Generated {
    Accepted(Box<AcceptedRollout>),
    /// The attempts are used up.
    Exhausted {
        /// Why the last one failed.
        last: String,
    },
}

/// Generates the parts of one sample's response.
pub(super) struct PartGenerator<'a> {
    pub(super) batch: &'a Batch,
    pub(super) request: &'a GroupRequest,
    /// The number of the sample in its group.
    pub(super) number: u32,
    pub(super) span: TraceContext,
    pub(super) attempts: &'a mut Attempts,
}

/// What an attempt has come to.
enum Attempted {
    Accepted(Box<AcceptedRollout>),
    /// The engines lack the weights of the part.
    LacksWeights(String),
    /// No engine is available, or all are busy with the samples of others.
    Unavailable(String),
    /// No attempt can succeed.
    Refused(String),
    Failed(AttemptFailure),
}

impl PartGenerator<'_> {
    /// Generates a part until its rollout is accepted or the attempts are used up. `submitted` is called once a request
    /// is with the generation service.
    ///
    /// Engines that lack the weights of the part do not count as an attempt if the run updated them to others or is
    /// updating them: it moves on to each version once, and gives that up after `services.outage_timeout`. Nor does the
    /// first time that they lost them, as with a restart. Every further time counts, since nothing else would end that.
    ///
    /// # Errors
    /// What ends the whole run: a sample that can never be generated, a service that stays away, a stop.
    pub(super) async fn generate(self, part: &ResponsePart, submitted: &mut impl FnMut()) -> Result<Generated, Halt> {
        let policy = self.batch.services().retry_policy();
        let mut unavailable = policy.with_jitter(self.id()).backoff();
        let mut lost_before = false;
        loop {
            let start = self.batch.begin_attempt().await;
            let answer = self.request_part(part, submitted).await;
            let failure = match self.classify(part, start, answer) {
                Attempted::Accepted(accepted) => {
                    self.batch.engines_available();
                    return Ok(Generated::Accepted(accepted));
                }
                Attempted::Refused(message) => {
                    let what = format!("sample `{}`", self.id());
                    return Err(RunError::Refused { service: Dependency::Generation, what, message }.into());
                }
                Attempted::Unavailable(message) => {
                    self.batch.engines_unavailable(message);
                    tokio::time::sleep(unavailable.next_pause()).await;
                    continue;
                }
                Attempted::LacksWeights(message) => {
                    let is_lost = self.batch.restore_weights(part, start).await? == MissingWeights::Lost;
                    let counts = is_lost && lost_before;
                    lost_before |= is_lost;
                    AttemptFailure { message, late: false, counts }
                }
                Attempted::Failed(failure) => failure,
            };
            self.attempts.record(&failure);
            if self.attempts.is_exhausted() {
                return Ok(Generated::Exhausted { last: failure.message });
            }
            instruments::retry(Dependency::Generation);
            tracing::debug!(message = failure.message, attempts = self.attempts.failed, "generating the sample again");
        }
    }

    fn id(&self) -> String {
        self.request.id.sample(self.number).to_string()
    }

    /// Requests the part and waits for the answer.
    async fn request_part(&self, part: &ResponsePart, submitted: &mut impl FnMut()) -> Result<Rollout, DispatchError> {
        let item = self.batch.generate_item(self.request, self.number, part, self.span);
        let pending = self.batch.services().generation().submit(item).await;
        submitted();
        let answer = match pending {
            Ok(pending) => {
                let _sampled = self.batch.environment_idle().enter(Place::Engine);
                pending.await.result
            }
            Err(error) => Err(error),
        };
        self.batch.rollout_ended();
        answer
    }

    fn classify(&self, part: &ResponsePart, start: AttemptStart, answer: Result<Rollout, DispatchError>) -> Attempted {
        let mut rollout = match answer {
            Ok(rollout) => rollout,
            Err(error) => return Attempted::Failed(self.lost(&error)),
        };
        name_engines(&mut rollout);
        if let Some(failure) = &rollout.failure {
            return Attempted::given_up(failure);
        }
        let engine = &rollout.engine;
        if let Some(version) = start.outdated(&rollout) {
            let message = format!("engine {engine}: sampled by version {version}, which is outdated");
            return Attempted::LacksWeights(message);
        }
        match self.batch.requirements().validate(&rollout, self.request, part) {
            Ok(tokens) => Attempted::Accepted(Box::new(AcceptedRollout { rollout, tokens, played: None })),
            Err(mismatch) => {
                let message = format!("engine {engine}: {mismatch}");
                Attempted::Failed(AttemptFailure { message, late: false, counts: true })
            }
        }
    }

    /// While the service is unreachable a lost sample is an outage and no attempt.
    fn lost(&self, error: &DispatchError) -> AttemptFailure {
        AttemptFailure {
            message: error.to_string(),
            late: matches!(error, DispatchError::Deadline { .. }),
            counts: self.batch.services().generation().is_connected(),
        }
    }
}

/// Names the engine of segments whose service does not say it: they are new, or an earlier answer has named theirs.
fn name_engines(rollout: &mut Rollout) {
    let sampled = rollout.segments.iter_mut().filter(|segment| segment.source() == SegmentSource::Sampled);
    sampled.filter(|segment| segment.engine.is_empty()).for_each(|segment| segment.engine.clone_from(&rollout.engine));
}

impl Attempted {
    /// The generation service gave the part up.
    fn given_up(failure: &Failure) -> Self {
        let message = format!("{}: {}", failure.reason, failure.message);
        match failure.code() {
            FailureCode::InvalidArgument => Self::Refused(message),
            FailureCode::FailedPrecondition => Self::LacksWeights(message),
            _ if failure.is_retryable() => Self::Unavailable(message),
            code => {
                let late = code == FailureCode::DeadlineExceeded;
                Self::Failed(AttemptFailure { message, late, counts: true })
            }
        }
    }
}
