//! The thread that owns the model: it joins sequences between steps, decodes and samples them together, and lets them go.
//!
//! Requests and orders reach it by one bounded channel, in order; results go back by a channel of each request's own.
//! A sequence's samples are a function of its prompt, its settings, its seed and the weights: the kernels compute each sequence
//! alone to the bit, and its random numbers are its own.

mod admission;
mod batch;
mod control;
mod run;
mod sequence;

pub(crate) use admission::{Admission, Permit};
pub(crate) use sequence::{Finish, Output};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use evenkeel_model::Decoder;
use serde::Deserialize;
use tokio::sync::{mpsc, oneshot};

use crate::error::EngineError;
use crate::folder::Model;
use crate::metrics::Metrics;
use crate::sampling::Sampling;
use crate::settings::EngineConfig;

/// Orders that may wait for the end of a step. More of them wait in their senders.
const ORDERS: usize = 1024;

/// A prompt with its samples.
pub(crate) struct Job {
    /// The id under which clients abort it.
    pub(crate) name: Arc<str>,
    /// Ids, at least one; with `max_tokens` within the context.
    pub(crate) prompt: Arc<[u32]>,
    pub(crate) sampling: Arc<Sampling>,
    /// Index of its first sample in the request, and how many there are.
    pub(crate) first: usize,
    pub(crate) count: usize,
    /// Of the first sample; the next have the next. `None` takes the engine's own.
    pub(crate) seed: Option<u64>,
    /// Tokens after which a sample is told of; `None` tells it whole at its end.
    pub(crate) interval: Option<usize>,
    /// Where its samples go.
    pub(crate) sink: mpsc::UnboundedSender<Output>,
    /// Set when nobody wants it any more.
    pub(crate) gone: Arc<AtomicBool>,
    /// A place in the engine for each sample.
    pub(crate) permits: Vec<Permit>,
    pub(crate) arrived: Instant,
}

/// What becomes of running sequences when a pause begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PauseMode {
    /// They end at once with what they have.
    #[default]
    Abort,
    /// They end as they would; the pause begins then.
    Wait,
    /// They stand still, and go on after it.
    Keep,
}

pub(crate) enum Order {
    Run(Vec<Job>),
    /// A client went away.
    Sweep,
    /// Ends the samples of these names, or all; the answer is how many names that were.
    Abort(Option<Vec<String>>, oneshot::Sender<usize>),
    Pause {
        mode: PauseMode,
        clear_cache: bool,
        done: oneshot::Sender<()>,
    },
    Resume(oneshot::Sender<()>),
    /// Forgets the keys and values of running sequences, which compute them again.
    Recompute(oneshot::Sender<()>),
    /// New weights; the answer is the old ones, to be dropped elsewhere.
    Swap(Box<Decoder>, oneshot::Sender<Box<Decoder>>),
    Stop,
}

/// The way to the thread.
#[derive(Clone)]
pub(crate) struct Scheduler {
    orders: mpsc::Sender<Order>,
    paused: Arc<AtomicBool>,
}

impl Scheduler {
    /// Starts the thread.
    pub(crate) fn start(
        settings: &EngineConfig,
        model: &Arc<Model>,
        decoder: Decoder,
        metrics: &Arc<Metrics>,
    ) -> Result<(Self, JoinHandle<()>), EngineError> {
        let (orders, received) = mpsc::channel(ORDERS);
        let paused = Arc::new(AtomicBool::new(false));
        let threads = settings.thread_count();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("engine-{i}")).build();
        let pool = pool.map_err(|error| EngineError::Thread(error.to_string()))?;
        let state =
            run::State::new(settings, model.clone(), decoder, metrics.clone(), received, paused.clone(), threads);
        // The loop runs on a worker of the pool, so that a step needs no other thread to begin.
        let body = move || pool.install(|| state.run());
        let thread = std::thread::Builder::new().name("engine".to_owned()).spawn(body);
        let thread = thread.map_err(|error| EngineError::Thread(error.to_string()))?;
        Ok((Self { orders, paused }, thread))
    }

    /// Gives it an order.
    pub(crate) async fn order(&self, order: Order) -> Result<(), EngineError> {
        self.orders.send(order).await.map_err(|_| EngineError::Stopped)
    }

    /// Gives it an order and waits until it is done.
    pub(crate) async fn ask<T>(&self, order: impl FnOnce(oneshot::Sender<T>) -> Order) -> Result<T, EngineError> {
        let (done, answer) = oneshot::channel();
        self.order(order(done)).await?;
        answer.await.map_err(|_| EngineError::Stopped)
    }

    /// Wakes it where it sleeps, to notice who has gone. Where its channel is full it is awake anyway.
    pub(crate) fn sweep(&self) {
        // Full or closed: nothing to do in either case.
        let _ = self.orders.try_send(Order::Sweep);
    }

    /// Whether a pause has begun.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire)
    }

    /// Whether the thread is there.
    pub(crate) fn is_alive(&self) -> bool {
        !self.orders.is_closed()
    }
}
