//! The operations of the model in training, one after the other, as operations of the learner.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_config::human;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::operate_request::Kind;
use evenkeel_proto::v1::{
    AbandonOperation, AccumulateResult, LoadOperation, OperateResponse, PublishOperation, SaveOperation,
};
use evenkeel_rpc::error::{Reason, has_reason};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use crate::error::Failure;
use crate::front::Front;
use crate::futures::OperationOutcome;
use crate::store::{Checkpoint, CheckpointKind, Live, Sampler, Weights, now};
use crate::training::{Keep, LIVE, Operation, SamplerTarget, Training};
use crate::wire::logprobs;

/// Puts a model into the place of the one in training, and runs its operations.
pub(crate) fn activate(front: &Arc<Front>, training: Arc<Training>) {
    front.set_active(Arc::clone(&training));
    tokio::spawn(training.run(Arc::clone(front)));
}

impl Training {
    /// Runs operations until the model ends; then what waits fails.
    async fn run(self: Arc<Self>, front: Arc<Front>) {
        let mut gap: Option<(u64, Instant)> = None;
        loop {
            let arrived = self.arrived.notified();
            while !self.ended.is_cancelled() {
                let _turn = self.turn.lock().await;
                let Some((_, (operation, promise))) = self.lock().jobs.take() else { break };
                let result = self.execute(&front, operation).await;
                if let Err(failure) = &result {
                    tracing::info!(model = self.model, error = failure.message, "an operation failed");
                }
                promise.settle(result);
                front.note_update(&self.model);
            }
            let missing = self.lock().jobs.missing();
            gap = missing.map(|number| match gap {
                Some((same, until)) if same == number => (same, until),
                _ => (number, Instant::now() + front.settings.missing_request),
            });
            let given_up = async {
                match gap {
                    Some((number, until)) => {
                        sleep_until(until).await;
                        number
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.ended.cancelled() => break,
                () = arrived => {}
                number = given_up => self.give_up(&front, number).await,
            }
        }
        let reason = front.why_gone(&self.model);
        for (_, promise) in self.lock().jobs.clear() {
            promise.complete(OperationOutcome::Failed(Failure::user(reason.clone())));
        }
    }

    /// Goes on without a request that never arrived, as if it had been refused.
    async fn give_up(&self, front: &Arc<Front>, number: u64) {
        let _turn = self.turn.lock().await;
        let limit = human(front.settings.missing_request);
        let reason = format!("the request with seq_id {number} did not arrive within {limit} (tinker.missing_request)");
        tracing::info!(model = self.model, reason, "a request is missing");
        // Perhaps it was a forward_backward: the rest of the sum must not be applied.
        self.lock().has_sum = true;
        if let Err(failure) = self.operate(front, Kind::Abandon(AbandonOperation { reason })).await {
            tracing::info!(model = self.model, error = failure.message, "an operation failed");
        }
        self.lock().jobs.skip(number);
    }

    /// One operation of the learner.
    async fn operate(&self, front: &Arc<Front>, kind: Kind) -> Result<OperateResponse, Failure> {
        let sequence = {
            let mut queue = self.lock();
            queue.sequence += 1;
            queue.sequence
        };
        let status = match front.backend.operate(&self.run_id, sequence, kind).await {
            Ok(done) => return Ok(done),
            Err(status) => status,
        };
        let is_lost = [Reason::OutOfOrder, Reason::RunMismatch, Reason::Leased].iter().any(|&r| has_reason(&status, r))
            || status.code() == tonic::Code::Unavailable;
        if !is_lost {
            return Err(status.into());
        }
        let why = format!("the learner lost the weights of this model ({}): load a checkpoint", status.message());
        let failure = Failure::server(why.clone());
        let model = self.model.clone();
        front.blocking(move |front| front.end_model(&model, &why)).await;
        Err(failure)
    }

    async fn execute(&self, front: &Arc<Front>, operation: Operation) -> Result<OperationOutcome, Failure> {
        match operation {
            Operation::Accumulate(Ok(operation)) => {
                let forward_only = operation.forward_only;
                if !forward_only {
                    self.lock().has_sum = true;
                }
                let response = self.operate(front, Kind::Accumulate(operation)).await?;
                response.accumulated.map(accumulated).ok_or_else(incomplete)
            }
            Operation::Accumulate(Err(refused)) => {
                // Its update must not apply the rest of the sum.
                self.lock().has_sum = true;
                let reason = format!("a forward_backward was refused: {refused}");
                self.operate(front, Kind::Abandon(AbandonOperation { reason })).await?;
                Err(refused.into())
            }
            Operation::Apply(Ok(operation)) => {
                self.lock().has_sum = false;
                let response = self.operate(front, Kind::Apply(operation)).await?;
                let norm = response.applied.ok_or_else(incomplete)?.gradient_norm;
                Ok(OperationOutcome::Json(json!({"metrics": {"grad_norm": norm}})))
            }
            Operation::Apply(Err(refused)) => {
                // What was summed for it is not applied by the next one.
                let reason = format!("an optim_step was refused: {refused}");
                self.operate(front, Kind::Abandon(AbandonOperation { reason })).await?;
                Err(refused.into())
            }
            Operation::Save { name, overwrite, keep } => self.save(front, name, overwrite, keep).await,
            Operation::SaveForSampler { target, keep } => self.publish(front, target, keep).await,
            Operation::Load { path, optimizer } => {
                let (from_run_id, name) = front.training_checkpoint(&path)?;
                let version = front.blocking(Front::fresh_version).await?;
                self.lock().has_sum = false;
                self.operate(front, Kind::Load(LoadOperation { name, from_run_id, optimizer, version })).await?;
                Ok(OperationOutcome::Json(json!({"type": "load_weights", "path": path, "model_id": self.model})))
            }
            Operation::Refused(refused) => Err(refused.into()),
        }
    }

    async fn save(
        &self,
        front: &Arc<Front>,
        name: String,
        overwrite: bool,
        keep: Keep,
    ) -> Result<OperationOutcome, Failure> {
        let path = format!("tinker://{}/{}/{name}", self.model, CheckpointKind::Training.folder());
        // The learner knows the names of this run of the model only, which begins anew when the server starts.
        if !overwrite && front.has_checkpoint(&path) {
            return Err(FieldError::quoted("path", name, "a name that no checkpoint of this model has").into());
        }
        let save = SaveOperation { name: name.clone(), client_state: Vec::new(), overwrite };
        let response = self.operate(front, Kind::Save(save)).await?;
        let saved = response.checkpoint.ok_or_else(incomplete)?;
        let checkpoint = Checkpoint {
            model: self.model.clone(),
            name,
            kind: CheckpointKind::Training,
            created: now(),
            expires: keep.expires,
            user_metadata: keep.user_metadata,
            run_id: self.run_id.clone(),
            folder: Some(saved.path.into()),
            size_bytes: saved.size_bytes,
            weights: None,
        };
        let at = path.clone();
        front.blocking(move |front| front.keep_checkpoint(at, checkpoint)).await?;
        Ok(OperationOutcome::Json(json!({"type": "save_weights", "path": path})))
    }

    async fn publish(
        &self,
        front: &Arc<Front>,
        target: SamplerTarget,
        keep: Keep,
    ) -> Result<OperationOutcome, Failure> {
        if let SamplerTarget::Path { name, overwrite: false } = &target
            && front.has_checkpoint(&self.sampler_path(name))
        {
            return Err(FieldError::quoted("path", name, "a name that no sampler weights of this model have").into());
        }
        let response = self.operate(front, Kind::Publish(PublishOperation {})).await?;
        let weights = response.weights.and_then(Weights::of).ok_or_else(incomplete)?;
        match target {
            SamplerTarget::Path { name, .. } => {
                let path = self.sampler_path(&name);
                let checkpoint = Checkpoint {
                    model: self.model.clone(),
                    name,
                    kind: CheckpointKind::Sampler,
                    created: now(),
                    expires: keep.expires,
                    user_metadata: keep.user_metadata,
                    run_id: self.run_id.clone(),
                    folder: None,
                    size_bytes: weights.size_bytes(),
                    weights: Some(weights),
                };
                let at = path.clone();
                front.blocking(move |front| front.keep_checkpoint(at, checkpoint)).await?;
                Ok(OperationOutcome::Json(json!({"type": "save_weights_for_sampler", "path": path})))
            }
            SamplerTarget::Session(id) => {
                let session = self.session.clone();
                let sampler = Sampler { session, path: None, weights: Some(weights), created: now() };
                let new = id.clone();
                front.blocking(move |front| front.keep_sampler(new, sampler)).await?;
                Ok(OperationOutcome::Json(json!({"type": "save_weights_for_sampler", "sampling_session_id": id})))
            }
        }
    }

    fn sampler_path(&self, name: &str) -> String {
        format!("tinker://{}/{}/{name}", self.model, CheckpointKind::Sampler.folder())
    }

    /// Saves the weights as the server stops; nothing runs any more. `None` where that fails.
    pub(crate) async fn park(&self, front: &Arc<Front>) -> Option<Live> {
        // What waits fails with this start of the server, and part of a sum may be among it.
        let last = self.lock().jobs.last();
        self.ended.cancel();
        let _turn = self.turn.lock().await;
        let (done, has_sum) = {
            let queue = self.lock();
            (last.max(queue.jobs.done()), queue.has_sum || last > queue.jobs.done())
        };
        let save = SaveOperation { name: LIVE.to_owned(), client_state: Vec::new(), overwrite: true };
        match self.operate(front, Kind::Save(save)).await {
            Ok(response) => {
                let model = self.model.clone();
                let run_id = self.run_id.clone();
                let folder = response.checkpoint.map(|checkpoint| checkpoint.path.into());
                Some(Live { model, run_id, name: LIVE.to_owned(), folder, done, has_sum })
            }
            Err(failure) => {
                tracing::warn!(error = failure.message, "the weights in training are not saved");
                None
            }
        }
    }

    /// After a restart: what had been accumulated is lost, and its update has to know.
    pub(crate) async fn lost_sum(&self, front: &Arc<Front>) -> Result<(), Failure> {
        let reason = "the server was restarted after it was accumulated".to_owned();
        self.lock().has_sum = true;
        self.operate(front, Kind::Abandon(AbandonOperation { reason })).await.map(drop)
    }
}

fn incomplete() -> Failure {
    Failure::server("the learner's answer lacks a part")
}

/// The result of a pass. The SDK takes metrics whose names say how chunks are joined.
fn accumulated(result: AccumulateResult) -> OperationOutcome {
    let mut metrics =
        BTreeMap::from([("loss:sum".to_owned(), result.loss), ("tokens:sum".to_owned(), result.tokens as f64)]);
    if result.ratio_sum != 0.0 {
        metrics.insert("ratio:sum".to_owned(), result.ratio_sum);
        metrics.insert("sampler_gap:sum".to_owned(), result.sampler_gap_sum);
        metrics.insert("clipped_tokens:sum".to_owned(), result.clipped_tokens as f64);
    }
    let of_datums: Vec<Vec<f32>> = result.scores.into_iter().map(|scores| scores.log_probabilities).collect();
    OperationOutcome::Protobuf(logprobs(&of_datums, metrics).into())
}
