//! The gRPC API: items in, verdicts out.

use std::sync::Arc;

use evenkeel_math::Profile;
use evenkeel_proto::v1::reward_server::Reward;
use evenkeel_proto::v1::{
    RewardGetStatusRequest, RewardGetStatusResponse, Verdict, VerifyItem, VerifyOneRequest, VerifyOneResponse,
    VerifyRequest, VerifyTimings, verify_item::Task,
};
use evenkeel_rpc::error::{ServiceError, micros};
use evenkeel_rpc::items::{ItemContext, ItemServer, Items, ResponseStream, VerifyItems};
use evenkeel_rpc::server::{Drain, ServerInfo};
use tokio::sync::oneshot;
use tokio::task::JoinError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use crate::counts::VerdictCounts;
use crate::functions::Functions;
use crate::judge::RubricJudge;
use crate::serial_thread::SerialThread;
use crate::settings::RewardSettings;
use crate::spans::record_span_of;
use crate::verifier::{CodeWork, Verifier, Work};

pub(crate) struct RewardService {
    worker: Arc<Worker>,
    items: ItemServer<VerifyItems>,
    info: ServerInfo,
    settings: RewardSettings,
}

/// Judges items.
struct Worker {
    name: String,
    verifier: Arc<Verifier>,
    functions: Functions,
    rubric_judge: Option<RubricJudge>,
    counts: VerdictCounts,
    /// Reads tests, one row at a time: decompressing takes a multiple of their memory.
    reading: SerialThread,
    /// Submits programs to the sandbox, which may have to be prepared first.
    submission: SerialThread,
}

/// Why there will be no verdict.
#[derive(Debug, thiserror::Error)]
enum NoVerdict {
    #[error("the server is shutting down")]
    ShuttingDown,
    #[error("the thread that judged it failed")]
    Failed,
}

impl From<JoinError> for NoVerdict {
    fn from(error: JoinError) -> Self {
        if error.is_cancelled() { Self::ShuttingDown } else { Self::Failed }
    }
}

impl RewardService {
    /// Starts the threads of the worker.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(crate) fn new(
        settings: RewardSettings,
        (verifier, functions, rubric_judge): (Arc<Verifier>, Functions, Option<RubricJudge>),
        items: ItemServer<VerifyItems>,
        drain: Drain,
    ) -> std::io::Result<Self> {
        let reading = SerialThread::start("reward-tests")?;
        let submission = SerialThread::start("reward-programs")?;
        let name = settings.name.clone();
        let counts = VerdictCounts::default();
        let worker = Worker { name, verifier, functions, rubric_judge, counts, reading, submission };
        let info = ServerInfo::new(&settings.name, drain);
        Ok(Self { worker: Arc::new(worker), items, info, settings })
    }
}

impl Worker {
    /// Judges an item; a long text on a blocking thread, since one of megabytes must not delay other connections.
    async fn handle(self: Arc<Self>, item: VerifyItem, context: ItemContext) -> Verdict {
        let queue_us = micros(context.queued);
        let id = item.id.clone();
        let task = task_of(&item);
        let begun = Instant::now();
        let judged = if self.functions.judge_item(&item) {
            Ok(Some(self.by_functions(&context, item).await))
        } else if let Some(judge) = self.rubric_judge.as_ref().filter(|judge| judge.is_verifier_of(&item)) {
            // It waits for calls, not for a thread.
            context.release_permit();
            Ok(Some(Verdict { worker: self.name.clone(), ..judge.verdict(item).await }))
        } else {
            let doubt = self.rubric_judge.as_ref().and_then(|judge| judge.doubt(&item));
            match (self.judge(&context, item).await, &self.rubric_judge) {
                (Ok(Some(verdict)), Some(judge)) if doubt.is_some() => {
                    context.release_permit();
                    Ok(Some(judge.decide(verdict, doubt).await))
                }
                (judged, _) => judged,
            }
        };
        let (verdict, elapsed) = match judged {
            Ok(Some(verdict)) => (verdict, begun.elapsed()),
            Ok(None) => return VerifyItems::failed(id, ServiceError::Cancelled.failure()),
            Err(NoVerdict::ShuttingDown) => return VerifyItems::failed(id, ServiceError::Draining.failure()),
            Err(error) => {
                tracing::error!(%error, "judging an item failed");
                let message = "the verifier failed unexpectedly".to_owned();
                (VerifyItems::failed(id, ServiceError::Internal { message }.failure()), begun.elapsed())
            }
        };
        self.counts.record(task, &verdict, elapsed);
        record_span_of(task, &verdict, &context, elapsed);
        Verdict { timings: Some(VerifyTimings { queue_us, work_us: micros(elapsed) }), ..verdict }
    }

    /// Judges mathematics or a program.
    async fn judge(self: &Arc<Self>, context: &ItemContext, item: VerifyItem) -> Result<Option<Verdict>, NoVerdict> {
        match self.verifier.accept(item) {
            Err(verdict) => Ok(Some(*verdict)),
            Ok(Work::Math(work)) if work.is_short() => Ok(Some(self.verifier.math(work))),
            Ok(Work::Math(work)) => self.on_thread(context, move |verifier| verifier.math(work)).await,
            Ok(Work::Code(work)) => self.in_sandbox(context, work).await,
        }
    }

    /// Has a reward function called, which has a queue and processes of its own.
    async fn by_functions(&self, context: &ItemContext, item: VerifyItem) -> Verdict {
        context.release_permit();
        Verdict { worker: self.name.clone(), ..self.functions.verdict(item).await }
    }

    /// Runs work on a blocking thread. `None` if the item was cancelled before the work started.
    async fn on_thread<T: Send + 'static>(
        self: &Arc<Self>,
        context: &ItemContext,
        work: impl FnOnce(&Verifier) -> T + Send + 'static,
    ) -> Result<Option<T>, NoVerdict> {
        let worker = Arc::clone(self);
        let context = context.clone();
        Ok(tokio::task::spawn_blocking(move || (!context.is_stopped()).then(|| work(&worker.verifier))).await?)
    }

    /// Submits a program to the sandbox and waits for its verdict. Dropping the future cancels the program.
    async fn in_sandbox(self: &Arc<Self>, context: &ItemContext, work: CodeWork) -> Result<Option<Verdict>, NoVerdict> {
        // The sandbox has its own threads and queue, so that programs do not delay mathematical answers.
        context.release_permit();
        let cancel = CancellationToken::new();
        let _guard = cancel.clone().drop_guard();
        let (sender, receiver) = oneshot::channel();
        let worker = Arc::clone(self);
        let program = Program { work, cancel, verdict: sender };
        self.submission.submit(move || worker.submit(program));
        receiver.await.map(Some).map_err(|_| NoVerdict::Failed)
    }

    /// Submits a program to the sandbox, at once if its tests are cached or small, otherwise after they were read.
    fn submit(self: Arc<Self>, program: Program) {
        if self.verifier.has_tests(&program.work) {
            if let Some(run) = program.read(&self.verifier) {
                run(&self.verifier);
            }
            return;
        }
        let worker = Arc::clone(&self);
        self.reading.submit(move || {
            if let Some(run) = program.read(&worker.verifier) {
                let submitter = Arc::clone(&worker);
                worker.submission.submit(move || run(&submitter.verifier));
            }
        });
    }
}

/// A program on its way to the sandbox.
struct Program {
    work: CodeWork,
    cancel: CancellationToken,
    verdict: oneshot::Sender<Verdict>,
}

impl Program {
    /// Reads the program and its tests. Returns what submits it to the sandbox, unless it has a verdict already or was
    /// cancelled.
    fn read(self, verifier: &Verifier) -> Option<impl FnOnce(&Verifier) + Send + 'static> {
        let Self { work, cancel, verdict: sender } = self;
        if cancel.is_cancelled() {
            return None;
        }
        match verifier.read_code(work, &cancel) {
            // Without a receiver the program was cancelled.
            Ok(program) => Some(move |verifier: &Verifier| {
                verifier.run_code(program, cancel, move |verdict| drop(sender.send(verdict)))
            }),
            Err(verdict) => {
                let _ = sender.send(*verdict);
                None
            }
        }
    }
}

/// The kind of an item's task in metrics.
fn task_of(item: &VerifyItem) -> &'static str {
    match item.task {
        Some(Task::Math(_)) => "math",
        Some(Task::Code(_)) => "code",
        Some(Task::Custom(_)) => "custom",
        None => "none",
    }
}

#[tonic::async_trait]
impl Reward for RewardService {
    type VerifyStream = ResponseStream<Verdict>;

    async fn verify(&self, request: Request<Streaming<VerifyRequest>>) -> Result<Response<Self::VerifyStream>, Status> {
        let worker = Arc::clone(&self.worker);
        Ok(self.items.serve(request, move |item, context| Arc::clone(&worker).handle(item, context)))
    }

    async fn verify_one(&self, request: Request<VerifyOneRequest>) -> Result<Response<VerifyOneResponse>, Status> {
        self.items.verify_one(request, |item, context| Arc::clone(&self.worker).handle(item, context)).await
    }

    async fn get_status(
        &self,
        _: Request<RewardGetStatusRequest>,
    ) -> Result<Response<RewardGetStatusResponse>, Status> {
        let default = self.settings.math.profile;
        let judge = self.worker.rubric_judge.as_ref();
        let mut components = self.worker.functions.components();
        components.extend(judge.iter().flat_map(|judge| judge.components()));
        components.sort();
        components.dedup();
        let others = Profile::ALL.into_iter().filter(|profile| *profile != default);
        Ok(Response::new(RewardGetStatusResponse {
            server: Some(self.info.status()),
            queue: Some(self.items.status()),
            math: true,
            math_profiles: std::iter::once(default).chain(others).map(|profile| profile.name().to_owned()).collect(),
            code: self.worker.verifier.verifies_code(),
            verdicts: self.worker.counts.by_outcome(),
            max_completion_bytes: self.settings.max_completion.bytes(),
            custom: !self.worker.functions.is_empty() || judge.is_some_and(RubricJudge::is_verifier),
            components,
        }))
    }
}
