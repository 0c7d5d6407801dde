//! Training in operations of the caller's own: their order, their stored results, and what each does.

use std::collections::VecDeque;
use std::time::Instant;

use evenkeel_host::sha256;
use evenkeel_objective::RatioBounds;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{
    AccumulateOperation, AccumulateResult, ApplyOperation, ApplyResult, OperateRequest, OperateResponse,
    PublishRequest, TargetScores, TargetSequence as TargetMessage, operate_request::Kind, rank_command,
};
use evenkeel_rpc::error::{Reason, ServiceError};
use prost::Message as _;

use super::artifacts::CheckpointStore;
use super::convert;
use super::leader::Teller;
use super::lease::Lease;
use super::score::Scoring;
use super::status::StatusBoard;
use super::train::Training;
use super::weights_store::WeightsStore;
use crate::accumulation::{Accumulated, Applied, TargetLoss, TargetSequence};
use crate::error::LearnerError;
use crate::learner::Learner;
use crate::settings::OptimizerSettings;

/// Results kept for callers that repeat an operation.
const KEPT_RESULTS: usize = 256;
/// The largest size of all of them together, in bytes as they are sent.
const KEPT_BYTES: usize = 64 << 20;

/// The state that operations change.
pub(super) struct Parts<'a> {
    pub(super) learner: &'a mut Learner,
    pub(super) lease: &'a mut Lease,
    pub(super) training: &'a mut Training,
    pub(super) checkpoints: &'a mut CheckpointStore,
    pub(super) weights: &'a mut WeightsStore,
    pub(super) scoring: &'a mut Scoring,
    pub(super) status: &'a StatusBoard,
}

/// The operations of the run that trains in them, and the results of the last ones.
#[derive(Default)]
pub(super) struct OperationLog {
    run_id: String,
    /// Number of operations done.
    done: u64,
    /// Results of operations, the newest last.
    results: VecDeque<Done>,
    bytes: usize,
}

/// An operation that was done.
struct Done {
    sequence: u64,
    /// Digest of the request.
    digest: String,
    result: Result<OperateResponse, ServiceError>,
    bytes: usize,
}

impl OperationLog {
    /// Does an operation, or answers with its stored result.
    #[tracing::instrument(name = "operate", skip_all, fields(run = request.run_id, sequence = request.sequence))]
    pub(super) fn follow(
        &mut self,
        mut parts: Parts<'_>,
        request: &OperateRequest,
    ) -> Result<OperateResponse, ServiceError> {
        let OperateRequest { run_id, sequence, kind } = request;
        Lease::validate_name("run_id", run_id)?;
        let kind = kind.as_ref().ok_or_else(|| FieldError::missing("kind", "an operation"))?;
        let is_start = matches!(kind, Kind::Begin(_) | Kind::Load(_));
        let is_owner = self.run_id == *run_id && parts.status.read().run_id == *run_id;
        let digest = sha256(request.encode_to_vec());
        if is_owner && let Some(done) = self.results.iter().find(|done| done.sequence == *sequence) {
            if done.digest != digest {
                let allowed = format!("another number: {sequence} was taken by another operation");
                return Err(FieldError::new("sequence", sequence, allowed).into());
            }
            return done.result.clone().map(|result| OperateResponse { already_done: true, ..result });
        }
        let next = if is_owner { self.done + 1 } else { 1 };
        if *sequence != next {
            let message = if *sequence < next {
                format!("operation {sequence} was done, and its result is no longer kept; the next is {next}")
            } else {
                format!("sequence is {sequence}, the next operation of run `{run_id}` is {next}")
            };
            return Err(ServiceError::Precondition { reason: Reason::OutOfOrder, message });
        }
        if !is_owner {
            if !is_start {
                return Err(FieldError::new("kind", "another", "`begin` or `load`, as the first operation").into());
            }
            parts.lease.check_expired(run_id)?;
        }
        parts.lease.renew();
        let started = Instant::now();
        let result = parts.run(request, kind);
        if !is_owner {
            if result.is_err() {
                // The weights are still those of whoever had them: the run has not begun.
                return result.map(|response| OperateResponse { sequence: *sequence, ..response });
            }
            *self = Self { run_id: run_id.clone(), ..Self::default() };
        }
        let result = result.map(|response| {
            let version = parts.learner.version();
            OperateResponse { sequence: *sequence, version, ..response }
        });
        if let Err(error) = &result {
            tracing::warn!(%error, "the operation failed");
        }
        tracing::debug!(seconds = started.elapsed().as_secs_f64(), "operation done");
        self.keep(*sequence, digest, result.clone());
        result
    }

    /// Stores a result, before it is sent, so that a caller that lost the connection does not do it twice.
    fn keep(&mut self, sequence: u64, digest: String, result: Result<OperateResponse, ServiceError>) {
        self.done = sequence;
        let bytes = result.as_ref().map_or(256, prost::Message::encoded_len);
        self.bytes += bytes;
        self.results.push_back(Done { sequence, digest, result, bytes });
        // The last one is kept whatever its size.
        while self.results.len() > 1 && (self.results.len() > KEPT_RESULTS || self.bytes > KEPT_BYTES) {
            self.bytes -= self.results.pop_front().map_or(0, |done| done.bytes);
        }
    }
}

impl Parts<'_> {
    fn run(&mut self, request: &OperateRequest, kind: &Kind) -> Result<OperateResponse, ServiceError> {
        let run_id = &request.run_id;
        let mut response = OperateResponse::default();
        match kind {
            Kind::Begin(begin) => {
                self.tell(request)?;
                self.learner.begin(begin.version, begin.adapter_seed).map_err(convert::error)?;
                self.replaced(run_id);
            }
            Kind::Load(load) => {
                // The others get weights and moments from this one, and then hear what they are from now on.
                let (checkpoint, client_state) = self.checkpoints.load_named(self.learner, run_id, load)?;
                self.tell(request)?;
                self.replaced(run_id);
                (response.checkpoint, response.client_state) = (Some(checkpoint), client_state);
            }
            Kind::Accumulate(operation) => {
                if !operation.forward_only {
                    self.tell(request)?;
                }
                response.accumulated = Some(accumulate(self.learner, operation).map_err(convert::error)?);
            }
            Kind::Apply(operation) => {
                self.tell(request)?;
                let Applied { grad_norm, .. } = self.learner.apply(&adam(operation)).map_err(convert::error)?;
                response.applied = Some(ApplyResult { gradient_norm: grad_norm });
            }
            Kind::Save(save) => {
                response.checkpoint = Some(self.checkpoints.save_named(self.learner, run_id, save)?);
            }
            Kind::Abandon(abandon) => {
                FieldError::ensure(!abandon.reason.is_empty(), "abandon.reason", "empty", "why a part is missing")?;
                self.tell(request)?;
                self.learner.sum.fail(&abandon.reason);
            }
            Kind::Publish(_) => {
                let request = PublishRequest { run_id: run_id.to_owned(), ..PublishRequest::default() };
                response.weights = self.weights.publish(self.learner, &request)?.weights;
                self.scoring.published(Some(self.learner.version()));
                self.learner.empty_cache().map_err(convert::error)?;
            }
        }
        Ok(response)
    }

    /// Tells the other ranks, which [take part](take_part).
    fn tell(&self, request: &OperateRequest) -> Result<(), ServiceError> {
        let ranks = Teller::of(self.learner);
        ranks.tell(|| rank_command::Kind::Operate(request.clone())).map_err(convert::error)
    }

    /// Notes that the weights are now others, of this run.
    fn replaced(&mut self, run_id: &str) {
        self.lease.assign(run_id);
        self.status.restored(self.learner.version());
        self.training.restored(0);
        self.weights.forget();
        self.scoring.published(None);
    }
}

/// Does what a rank after rank 0 has to do with an operation that it is told of.
///
/// # Errors
/// Those of rank 0, and a rank that is lost.
pub(super) fn take_part(learner: &mut Learner, request: &OperateRequest) -> Result<(), LearnerError> {
    match &request.kind {
        Some(Kind::Begin(begin)) => learner.begin(begin.version, begin.adapter_seed),
        // Weights and moments came before.
        Some(Kind::Load(load)) => learner.renew(load.version, load.optimizer),
        Some(Kind::Accumulate(operation)) => accumulate(learner, operation).map(drop),
        Some(Kind::Apply(operation)) => learner.apply(&adam(operation)).map(drop),
        Some(Kind::Abandon(abandon)) => {
            learner.sum.fail(&abandon.reason);
            Ok(())
        }
        Some(Kind::Save(_) | Kind::Publish(_)) | None => Ok(()),
    }
}

fn accumulate(learner: &mut Learner, operation: &AccumulateOperation) -> Result<AccumulateResult, LearnerError> {
    let loss = loss(operation).map_err(|error| {
        if !operation.forward_only {
            learner.sum.fail(format_args!("a part of it was refused: {error}"));
        }
        LearnerError::Input(error)
    })?;
    let data: Vec<TargetSequence> = operation.data.iter().map(sequence).collect();
    let Accumulated { logp, stats } =
        (if operation.forward_only { learner.score_targets(&data, loss) } else { learner.accumulate(&data, loss) })?;
    Ok(AccumulateResult {
        scores: logp.into_iter().map(|log_probabilities| TargetScores { log_probabilities }).collect(),
        loss: stats.loss,
        tokens: stats.tokens,
        clipped_tokens: stats.clipped,
        ratio_sum: stats.ratio,
        sampler_gap_sum: stats.sampler_gap,
    })
}

fn loss(operation: &AccumulateOperation) -> Result<TargetLoss, FieldError> {
    let default = RatioBounds::default();
    let bounds = RatioBounds {
        low: operation.clip_low.unwrap_or(default.low),
        high: operation.clip_high.unwrap_or(default.high),
    };
    let loss = TargetLoss { loss: operation.loss.parse()?, bounds };
    if !loss.loss.has_bounds() {
        for (field, value) in [("clip_low", operation.clip_low), ("clip_high", operation.clip_high)] {
            if let Some(value) = value {
                return Err(FieldError::new(field, value, format!("absent with {}", loss.loss)));
            }
        }
    }
    Ok(loss)
}

fn sequence(message: &TargetMessage) -> TargetSequence {
    TargetSequence {
        tokens: message.token_ids.clone(),
        targets: message.target_ids.clone(),
        factors: message.factors.clone(),
        sampler_logp: message.sampler_log_probabilities.clone(),
        group: message.group,
    }
}

fn adam(operation: &ApplyOperation) -> OptimizerSettings {
    OptimizerSettings {
        learning_rate: operation.learning_rate,
        betas: [operation.beta1, operation.beta2],
        epsilon: operation.epsilon,
        weight_decay: operation.weight_decay,
        max_grad_norm: operation.max_gradient_norm,
        warmup_updates: 0,
        ..OptimizerSettings::default()
    }
}
