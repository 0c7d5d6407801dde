//! What a run tells while it runs. The terminal, the JSON lines and the gRPC service all read the same.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_proto::v1::RunState;
use tokio::sync::{mpsc, watch};

use crate::metrics::Line;
use crate::summary::Summary;

/// How a run ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All steps are done.
    Completed,
    /// It was stopped and can be resumed.
    Stopped,
}

/// Something happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Everything was checked and stands.
    Started {
        /// Name of the run.
        run_id: String,
        /// Its directory.
        directory: PathBuf,
        /// GRPO steps done before, where it was resumed.
        step: u64,
        /// GRPO steps to do in all.
        total_steps: u64,
        /// Supervised steps of the warm start.
        warm_start_steps: u64,
        /// Problems that it trains on.
        problems: usize,
    },
    /// A line of metrics, as it was written: a warm-start step, a GRPO step or an evaluation.
    Line(Line),
    /// A checkpoint was written.
    Checkpoint {
        /// GRPO steps done.
        step: u64,
        /// Its folder, as the learner sees it.
        path: String,
    },
    /// A service is gone, or a disk is full; the run waits. Told again with each attempt.
    Waiting {
        /// generation, reward, learner or disk.
        service: &'static str,
        /// Where it is.
        endpoint: String,
        /// What is wrong.
        message: String,
        /// How long it has been waited for.
        waited_ms: u64,
        /// When the run ends with an error.
        gives_up_in_ms: u64,
    },
    /// What was waited for is back.
    Recovered {
        /// generation, reward, learner or disk.
        service: &'static str,
        /// How long it was gone.
        waited_ms: u64,
    },
    /// The learner had lost its state: the run went back to a checkpoint and does the steps behind it again, bit for bit.
    Rewound {
        /// GRPO steps done there.
        step: u64,
        /// Why.
        message: String,
    },
    /// Something that the user should know about the settings.
    Note {
        /// One sentence.
        message: String,
    },
    /// Something that does not stop the run.
    Warning {
        /// For people.
        message: String,
    },
    /// The run ended; nothing follows.
    Finished {
        /// How.
        outcome: Outcome,
        /// What it came to.
        summary: Box<Summary>,
    },
    /// The run ended with an error; nothing follows. It can be resumed.
    Failed {
        /// The error.
        message: String,
    },
}

/// Where a run is, for progress bars: only the newest state matters, so that it may be looked at as seldom as one likes.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// What it is doing.
    pub state: RunState,
    /// GRPO steps done.
    pub step: u64,
    /// GRPO steps to do in all.
    pub total_steps: u64,
    /// Supervised steps done.
    pub warm_start_step: u64,
    /// Version of the weights that it samples from.
    pub policy_version: u64,
    /// Samples of the current step (or evaluation) that are judged.
    pub samples_done: usize,
    /// Samples of the current step (or evaluation) so far.
    pub samples: usize,
    /// Groups whose gradient is in, as the learner says.
    pub groups_trained: u32,
    /// Why it waits or failed; empty otherwise.
    pub message: String,
}

/// Events for one reader.
pub type Subscription = mpsc::UnboundedReceiver<Arc<Event>>;

/// Tells all readers. They are few and events are a handful for each step, so that what is not read yet costs less than losing it
/// or letting a slow terminal hold up a run.
#[derive(Debug, Clone)]
pub(crate) struct Events {
    readers: Arc<Mutex<Vec<mpsc::UnboundedSender<Arc<Event>>>>>,
    /// What the run is doing when it does not wait.
    phase: watch::Sender<RunState>,
    progress: watch::Sender<Progress>,
}

impl Events {
    pub(crate) fn new(total_steps: u64) -> Self {
        let progress = Progress {
            state: RunState::Starting,
            step: 0,
            total_steps,
            warm_start_step: 0,
            policy_version: 0,
            samples_done: 0,
            samples: 0,
            groups_trained: 0,
            message: String::new(),
        };
        Self {
            readers: Arc::default(),
            phase: watch::Sender::new(RunState::Starting),
            progress: watch::Sender::new(progress),
        }
    }

    pub(crate) fn subscribe(&self) -> Subscription {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        receiver
    }

    pub(crate) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub(crate) fn emit(&self, event: Event) {
        let event = Arc::new(event);
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.retain(|reader| reader.send(Arc::clone(&event)).is_ok());
        if matches!(*event, Event::Finished { .. } | Event::Failed { .. }) {
            // Nothing follows: whoever reads on learns that it has ended.
            readers.clear();
        }
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut Progress)) {
        self.progress.send_modify(change);
    }

    pub(crate) fn state(&self) -> RunState {
        self.progress.borrow().state
    }

    /// Begins something else.
    pub(crate) fn enter(&self, state: RunState) {
        self.phase.send_replace(state);
        self.resume_phase();
    }

    /// Nothing is waited for any more. Who still waits for something else says so again.
    pub(crate) fn resume_phase(&self) {
        let state = *self.phase.borrow();
        self.update(|progress| (progress.state, progress.message) = (state, String::new()));
    }
}
