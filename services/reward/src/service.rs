//! The gRPC door: items in, verdicts out.

use std::future::Future;
use std::sync::Arc;

use evenkeel_math::Profile;
use evenkeel_proto::FieldError;
use evenkeel_proto::shown::shown;
use evenkeel_proto::v1::reward_server::Reward;
use evenkeel_proto::v1::{
    RewardGetStatusRequest, RewardGetStatusResponse, ServerStatus, Verdict, VerifyItem, VerifyOneRequest,
    VerifyOneResponse, VerifyRequest, VerifyTimings,
};
use evenkeel_rpc::deadline::Deadline;
use evenkeel_rpc::error::ServiceError;
use evenkeel_rpc::items::{ItemContext, ItemServer, Items, ResponseStream, VerifyItems};
use evenkeel_rpc::server::Drain;
use tokio::sync::oneshot;
use tokio::task::JoinError;
use tokio::time::Instant;
use tonic::{Request, Response, Status, Streaming};

use crate::judge::{Cancel, CodeWork, Judge, Work};
use crate::line::Line;
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
    /// Unpacks tests, one row after the other: no more than one is in memory twice.
    reads: Line,
    /// Gives programs to the sandbox, which may have to be made ready first.
    begins: Line,
}

/// Why a verdict will not come.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error("the server ended")]
    Ended,
    #[error("the thread that judged it failed")]
    Failed,
}

impl From<JoinError> for Lost {
    fn from(error: JoinError) -> Self {
        if error.is_cancelled() { Self::Ended } else { Self::Failed }
    }
}

impl RewardService {
    /// # Errors
    /// The system has no threads to give.
    pub(crate) fn new(
        config: RewardConfig,
        judge: Judge,
        items: ItemServer<VerifyItems>,
        drain: Drain,
    ) -> std::io::Result<Self> {
        let (reads, begins) = (Line::start("reward-tests")?, Line::start("reward-programs")?);
        let worker = Worker { judge, tally: Tally::default(), reads, begins };
        Ok(Self { worker: Arc::new(worker), items, drain, started: Instant::now(), config })
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
        let judged = match self.judge.accept(item) {
            Err(verdict) => Ok(Some(*verdict)),
            Ok(Work::Math(work)) => self.on_thread(&context, move |judge| judge.math(work)).await,
            Ok(Work::Code(work)) => self.in_sandbox(&context, work).await,
        };
        let (verdict, work) = match judged {
            Ok(Some(verdict)) => (verdict, begun.elapsed()),
            Ok(None) => return VerifyItems::failed(id, ServiceError::Cancelled.failure()),
            Err(Lost::Ended) => return VerifyItems::failed(id, ServiceError::Draining.failure()),
            Err(error) => {
                tracing::error!(id = %shown(&id, 200), %error, "judging an item failed");
                let message = "the verifier failed in a way that it did not expect".to_owned();
                (VerifyItems::failed(id, ServiceError::Internal { message }.failure()), begun.elapsed())
            }
        };
        self.tally.count(&verdict, work);
        Verdict { timings: Some(VerifyTimings { queue_us, work_us: micros(work) }), ..verdict }
    }

    /// Does work on a thread that may block; nothing where nobody waits any more when its turn comes.
    async fn on_thread<T: Send + 'static>(
        self: &Arc<Self>,
        context: &ItemContext,
        work: impl FnOnce(&Judge) -> T + Send + 'static,
    ) -> Result<Option<T>, Lost> {
        let (worker, context) = (Arc::clone(self), context.clone());
        Ok(tokio::task::spawn_blocking(move || (!context.is_stopped()).then(|| work(&worker.judge))).await?)
    }

    /// Gives a program to the sandbox and waits. Whoever drops this takes the program back.
    async fn in_sandbox(self: &Arc<Self>, context: &ItemContext, work: CodeWork) -> Result<Option<Verdict>, Lost> {
        // From here on there are threads and queues of its own, so that no program holds up mathematics.
        context.release_permit();
        let cancel = CancelOnDrop(Cancel::new());
        let (sender, receiver) = oneshot::channel();
        let (worker, program) = (Arc::clone(self), Program { work, cancel: cancel.0.clone(), answer: sender });
        self.begins.put(move || worker.begin(program));
        receiver.await.map(Some).map_err(|_| Lost::Failed)
    }

    /// Gives a program to the sandbox at once where its tests are here, and otherwise when they have been read.
    fn begin(self: Arc<Self>, program: Program) {
        if self.judge.is_quick(&program.work) {
            if let Some(run) = program.read(&self.judge) {
                run(&self.judge);
            }
            return;
        }
        let worker = Arc::clone(&self);
        self.reads.put(move || {
            if let Some(run) = program.read(&worker.judge) {
                let begins = Arc::clone(&worker);
                worker.begins.put(move || run(&begins.judge));
            }
        });
    }
}

/// A program on its way to the sandbox.
struct Program {
    work: CodeWork,
    cancel: Cancel,
    answer: oneshot::Sender<Verdict>,
}

impl Program {
    /// What gives it to the sandbox, unless it is answered already or nobody waits for it.
    fn read(self, judge: &Judge) -> Option<impl FnOnce(&Judge) + Send + 'static> {
        let Self { work, cancel, answer } = self;
        if cancel.is_cancelled() {
            return None;
        }
        match judge.read_code(work, &cancel) {
            // A receiver that is gone has taken its program back.
            Ok(program) => {
                Some(move |judge: &Judge| judge.run_code(program, cancel, move |verdict| drop(answer.send(verdict))))
            }
            Err(verdict) => {
                let _ = answer.send(*verdict);
                None
            }
        }
    }
}

/// Ends a program that nobody waits for.
struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

fn micros(duration: std::time::Duration) -> u64 {
    duration.as_micros().try_into().unwrap_or(u64::MAX)
}

#[tonic::async_trait]
impl Reward for RewardService {
    type VerifyStream = ResponseStream<Verdict>;

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
            code: self.worker.judge.judges_code(),
            verdicts: self.worker.tally.counts(),
            max_completion_bytes: self.config.max_completion_bytes as u64,
            custom: false,
        }))
    }
}
