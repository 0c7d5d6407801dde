//! The gRPC door: items in, verdicts out.

use std::future::Future;
use std::sync::Arc;

use evenkeel_common::deadline::Deadline;
use evenkeel_common::error::ServiceError;
use evenkeel_common::items::{AnswerStream, ItemContext, ItemServer, Items, VerifyItems};
use evenkeel_common::server::Drain;
use evenkeel_math::Profile;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::reward_server::Reward;
use evenkeel_proto::v1::{
    RewardGetStatusRequest, RewardGetStatusResponse, ServerStatus, Verdict, VerifyItem, VerifyOneRequest,
    VerifyOneResponse, VerifyRequest, VerifyTimings,
};
use tokio::time::Instant;
use tonic::{Request, Response, Status, Streaming};

use crate::judge::Judge;
use crate::settings::RewardConfig;
use crate::tally::Tally;

/// One worker.
pub(crate) struct RewardService {
    worker: Arc<Worker>,
    items: ItemServer<VerifyItems>,
    drain: Drain,
    started: Instant,
    config: RewardConfig,
}

/// What judging an item needs.
struct Worker {
    judge: Judge,
    tally: Tally,
}

impl RewardService {
    pub(crate) fn new(config: RewardConfig, items: ItemServer<VerifyItems>, drain: Drain) -> Self {
        let worker = Worker { judge: Judge::new(&config), tally: Tally::default() };
        Self { worker: Arc::new(worker), items, drain, started: Instant::now(), config }
    }

    fn handler(&self) -> impl Fn(VerifyItem, ItemContext) -> HandlerFuture + Send + Sync + use<> {
        let worker = Arc::clone(&self.worker);
        move |item, context| Box::pin(Arc::clone(&worker).handle(item, context))
    }
}

type HandlerFuture = std::pin::Pin<Box<dyn Future<Output = Verdict> + Send>>;

impl Worker {
    /// Judges one item on a thread: a text of megabytes must not hold up the connections of the others.
    async fn handle(self: Arc<Self>, item: VerifyItem, context: ItemContext) -> Verdict {
        let queue_us = micros(context.queued);
        let id = item.id.clone();
        let begun = Instant::now();
        let worker = Arc::clone(&self);
        let judged = tokio::task::spawn_blocking(move || {
            // Nobody waits any more, and nobody will see the answer.
            (!context.is_stopped()).then(|| worker.judge.verdict(item))
        });
        let (verdict, work) = match judged.await {
            Ok(Some(verdict)) => (verdict, begun.elapsed()),
            Ok(None) => return VerifyItems::failed(id, ServiceError::Cancelled.failure()),
            Err(error) if error.is_cancelled() => return VerifyItems::failed(id, ServiceError::Draining.failure()),
            Err(error) => {
                tracing::error!(id, %error, "judging an item failed");
                let message = "the verifier failed in a way that it did not expect".to_owned();
                (VerifyItems::failed(id, ServiceError::Internal { message }.failure()), begun.elapsed())
            }
        };
        self.tally.count(&verdict, work);
        Verdict { timings: Some(VerifyTimings { queue_us, work_us: micros(work) }), ..verdict }
    }
}

fn micros(duration: std::time::Duration) -> u64 {
    duration.as_micros().try_into().unwrap_or(u64::MAX)
}

#[tonic::async_trait]
impl Reward for RewardService {
    type VerifyStream = AnswerStream<Verdict>;

    async fn verify(&self, request: Request<Streaming<VerifyRequest>>) -> Result<Response<Self::VerifyStream>, Status> {
        let call = Deadline::of_call(request.metadata());
        Ok(Response::new(self.items.serve(request.into_inner(), call, self.handler())))
    }

    async fn verify_one(&self, request: Request<VerifyOneRequest>) -> Result<Response<VerifyOneResponse>, Status> {
        let call = Deadline::of_call(request.metadata());
        let item = request.into_inner().item;
        let item = item.ok_or_else(|| ServiceError::from(FieldError::missing("item", "an item to judge")))?;
        let verdict = self.items.serve_one(item, call, self.handler()).await;
        Ok(Response::new(VerifyOneResponse { verdict: Some(verdict) }))
    }

    async fn get_status(
        &self,
        _: Request<RewardGetStatusRequest>,
    ) -> Result<Response<RewardGetStatusResponse>, Status> {
        let default = self.config.math.profile;
        let others = Profile::ALL.into_iter().filter(|profile| *profile != default);
        Ok(Response::new(RewardGetStatusResponse {
            server: Some(ServerStatus {
                name: self.config.name.clone(),
                program_version: env!("CARGO_PKG_VERSION").to_owned(),
                uptime_ms: self.started.elapsed().as_millis().try_into().unwrap_or(u64::MAX),
                draining: self.drain.is_draining(),
            }),
            queue: Some(self.items.status()),
            math: true,
            math_profiles: std::iter::once(default).chain(others).map(|profile| profile.name().to_owned()).collect(),
            code: false,
            verdicts: self.worker.tally.counts(),
            max_completion_bytes: self.config.max_completion_bytes as u64,
        }))
    }
}
