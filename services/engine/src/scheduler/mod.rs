//! Continuous batching: the thread that owns the model admits sequences between steps, decodes and samples them
//! together, and removes those that ended.
//!
//! Commands reach it over one bounded channel, in order; outputs go back over a channel of each request. A sequence's
//! samples are a function of its prompt, its settings, its seed and the weights: the kernels compute each sequence
//! independently to the bit, and its random numbers are its own.

mod admission;
mod batch;
mod output;
mod pause;
mod queue;
mod run;
mod sequence;
mod shared_prefix;
mod timestamps;

pub(crate) use admission::{Admission, Permit};
pub(crate) use output::Output;
pub(crate) use timestamps::Timestamps;

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use evenkeel_errors::FieldError;
use evenkeel_model::Decoder;
use tokio::sync::{mpsc, oneshot};

use crate::error::EngineError;
use crate::folder::Model;
use crate::metrics::Metrics;
use crate::sampling::SamplingParams;
use crate::settings::EngineSettings;

/// Commands that may wait for the end of a step. Further senders wait.
const COMMANDS: usize = 1024;

/// The samples of one prompt.
pub(crate) struct Job {
    /// The id under which clients abort it.
    pub(crate) request_id: Arc<str>,
    /// Ids, at least one; with `max_tokens` within the context.
    pub(crate) prompt: Arc<[u32]>,
    pub(crate) sampling: Arc<SamplingParams>,
    /// Index of its first sample in the request, and how many there are.
    pub(crate) first: usize,
    pub(crate) count: usize,
    /// The seed of the first sample; those of the others count up from it. `None` for one derived from the engine's
    /// seed.
    pub(crate) seed: Option<u64>,
    /// Tokens between two outputs of a sample; `None` for one output at its end.
    pub(crate) interval: Option<usize>,
    /// Where its outputs go.
    pub(crate) sink: mpsc::UnboundedSender<Output>,
    /// Set when its client has gone.
    pub(crate) cancelled: Arc<AtomicBool>,
    /// One permit for each sample.
    pub(crate) permits: Vec<Permit>,
    pub(crate) arrived: Instant,
}

/// How a pause treats running sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum PauseMode {
    /// Sequences end at once with the tokens that they have.
    #[default]
    Abort,
    /// Sequences finish before the pause takes effect.
    Wait,
    /// Sequences stop, and continue after the pause.
    Keep,
}

impl FromStr for PauseMode {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, FieldError> {
        match text {
            "abort" => Ok(Self::Abort),
            "wait" => Ok(Self::Wait),
            "keep" => Ok(Self::Keep),
            other => Err(FieldError::new("mode", format_args!("{other:?}"), "abort, wait or keep")),
        }
    }
}

/// A command to the thread. Those with a sender are replied to when they are done.
pub(crate) enum Command {
    Run(Vec<Job>),
    /// A client has gone.
    RemoveCancelled,
    /// Ends the samples of these request ids, or all; the reply is their number.
    Abort(Option<Vec<String>>, oneshot::Sender<usize>),
    Pause {
        mode: PauseMode,
        clear_cache: bool,
        done: oneshot::Sender<()>,
    },
    Resume(oneshot::Sender<()>),
    /// Drops the keys and values of running sequences, which recompute them.
    Recompute(oneshot::Sender<()>),
    /// New weights; the reply is the old ones, to be dropped elsewhere.
    ReplaceWeights(Box<Decoder>, oneshot::Sender<Box<Decoder>>),
    Stop,
}

/// The handle of the thread.
#[derive(Clone)]
pub(crate) struct Scheduler {
    commands: mpsc::Sender<Command>,
    paused: Arc<AtomicBool>,
}

impl Scheduler {
    pub(crate) fn start(
        settings: &EngineSettings,
        model: &Arc<Model>,
        decoder: Decoder,
        metrics: &Arc<Metrics>,
    ) -> Result<(Self, JoinHandle<()>), EngineError> {
        let (commands, received) = mpsc::channel(COMMANDS);
        let paused = Arc::new(AtomicBool::new(false));
        let threads = settings.thread_count();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("engine-{i}")).build();
        let pool = pool.map_err(EngineError::ThreadPool)?;
        let state = run::SchedulerThread::new(
            settings,
            model.clone(),
            decoder,
            metrics.clone(),
            received,
            paused.clone(),
            threads,
        );
        // The loop runs on a worker of the pool, so that no other thread is needed to start a step.
        let body = move || pool.install(|| state.run());
        let thread = std::thread::Builder::new().name("engine".to_owned()).spawn(body);
        let thread = thread.map_err(EngineError::SpawnThread)?;
        Ok((Self { commands, paused }, thread))
    }

    pub(crate) async fn send(&self, command: Command) -> Result<(), EngineError> {
        self.commands.send(command).await.map_err(|_| EngineError::Stopped)
    }

    /// Sends a command and waits for its reply.
    pub(crate) async fn call<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, EngineError> {
        let (done, reply) = oneshot::channel();
        self.send(command(done)).await?;
        reply.await.map_err(|_| EngineError::Stopped)
    }

    /// Wakes the thread because a client has gone. If its channel is full, it is awake and will notice anyway.
    pub(crate) fn remove_cancelled(&self) {
        // Full or closed: nothing to do in either case.
        let _ = self.commands.try_send(Command::RemoveCancelled);
    }

    /// Whether a pause has begun.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire)
    }

    /// Whether the thread is alive.
    pub(crate) fn is_alive(&self) -> bool {
        !self.commands.is_closed()
    }
}

/// Replies to a command. The sender may have gone in the meantime.
fn reply<T>(done: oneshot::Sender<T>, value: T) {
    let _ = done.send(value);
}
