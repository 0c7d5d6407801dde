//! What a run reports while it runs. The terminal, the JSON lines and the gRPC service all read the same events.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_proto::v1::RunState;
use evenkeel_run::{MetricsLine, Summary};
use tokio::sync::{mpsc, watch};

use crate::dependency::Dependency;
use crate::sample_stream::SampleStream;

/// How a run ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunOutcome {
    /// All steps are done.
    Completed,
    /// The run was stopped and can be resumed.
    Stopped,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Every check has passed.
    Started {
        /// Name of the run.
        run_id: String,
        /// Directory of the run.
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
    /// A line of metrics as it was written: a warm-start step, a GRPO step or an evaluation.
    Line(MetricsLine),
    /// A checkpoint was written.
    Checkpoint {
        step: u64,
        /// Folder of the checkpoint, as the learner sees it.
        path: String,
    },
    /// A service is unreachable, or a disk is full; the run waits. Reported with each attempt.
    Waiting {
        /// What the run waits for.
        service: Dependency,
        /// Address of the service, or the file.
        endpoint: String,
        message: String,
        /// Time since the first failed attempt.
        waited_ms: u64,
        /// Time until the run ends with an error.
        gives_up_in_ms: u64,
    },
    /// The run no longer waits for it.
    Recovered {
        /// What the run waits for.
        service: Dependency,
        /// How long the run waited.
        waited_ms: u64,
    },
    /// The learner had lost its state: the run returned to a checkpoint and repeats the steps after it, with the same
    /// results.
    Rewound {
        /// GRPO steps done at the checkpoint.
        step: u64,
        message: String,
    },
    /// Something that the user should know about the settings.
    Note { message: String },
    /// Something went wrong that does not stop the run.
    Warning { message: String },
    /// The run ended; nothing follows.
    Finished {
        outcome: RunOutcome,
        /// Results of the run.
        summary: Box<Summary>,
    },
    /// The run ended with an error; nothing follows. It can be resumed.
    Failed { message: String },
}

/// What a run does between samples and training.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Activity {
    #[default]
    None,
    /// Weights are published, and engines updated to them.
    Publishing,
    /// Learner and engines score the same tokens.
    Proving,
    /// A checkpoint is written.
    Checkpointing,
}

impl Activity {
    /// For people; empty for none.
    pub fn label(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Publishing => "updating weights",
            Self::Proving => "verifying weights",
            Self::Checkpointing => "writing a checkpoint",
        }
    }
}

/// Where a run is, for progress bars. Only the newest state is kept, so readers may look as seldom as they like.
#[derive(Debug, Clone, PartialEq)]
pub struct RunProgress {
    /// Current state of the run.
    pub state: RunState,
    pub step: u64,
    /// GRPO steps to do in all.
    pub total_steps: u64,
    pub warm_start_step: u64,
    /// Version of the weights that it samples from.
    pub policy_version: u64,
    /// Samples that are finished, of the step or evaluation that is sampled. With `pipeline.max_lag` it may be ahead of
    /// `step`.
    pub samples_done: usize,
    /// All samples of it so far.
    pub samples: usize,
    /// Groups whose gradient is accumulated, as the learner reports it.
    pub groups_trained: u32,
    /// What is done at the moment besides sampling and training.
    pub activity: Activity,
    /// Service that the run waits for, if any.
    pub waiting_for: Option<Dependency>,
    /// Why it waits or failed; empty otherwise.
    pub message: String,
}

/// Events for one reader.
pub type Subscription = mpsc::UnboundedReceiver<Arc<Event>>;

/// The events and the progress of one run; clones share them. Queues are unbounded: readers are few and a step has a
/// handful of events, so that what is unread costs less than losing an event or letting a slow terminal delay the run.
#[derive(Debug, Clone)]
pub(crate) struct Events {
    readers: Arc<Mutex<Vec<mpsc::UnboundedSender<Arc<Event>>>>>,
    /// What the run is doing when it does not wait.
    phase: watch::Sender<RunState>,
    progress: watch::Sender<RunProgress>,
    samples: SampleStream,
}

impl Events {
    pub(crate) fn new(total_steps: u64) -> Self {
        let progress = RunProgress {
            state: RunState::Starting,
            step: 0,
            total_steps,
            warm_start_step: 0,
            policy_version: 0,
            samples_done: 0,
            samples: 0,
            groups_trained: 0,
            activity: Activity::None,
            waiting_for: None,
            message: String::new(),
        };
        Self {
            readers: Arc::default(),
            phase: watch::Sender::new(RunState::Starting),
            progress: watch::Sender::new(progress),
            samples: SampleStream::default(),
        }
    }

    pub(crate) fn subscribe(&self) -> Subscription {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        receiver
    }

    pub(crate) fn progress(&self) -> watch::Receiver<RunProgress> {
        self.progress.subscribe()
    }

    pub(crate) fn samples(&self) -> &SampleStream {
        &self.samples
    }

    pub(crate) fn emit(&self, event: Event) {
        let event = Arc::new(event);
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.retain(|reader| reader.send(Arc::clone(&event)).is_ok());
        if matches!(*event, Event::Finished { .. } | Event::Failed { .. }) {
            // Nothing follows: closing the channels tells readers so.
            readers.clear();
        }
    }

    /// Reports that a service is unreachable and will be tried again.
    pub(crate) fn waiting(&self, text: String, event: Event) {
        let waiting_for = match &event {
            Event::Waiting { service, .. } => Some(*service),
            _ => None,
        };
        self.update(|progress| {
            (progress.state, progress.waiting_for, progress.message) = (RunState::Waiting, waiting_for, text);
        });
        self.emit(event);
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut RunProgress)) {
        self.progress.send_modify(change);
    }

    pub(crate) fn state(&self) -> RunState {
        self.progress.borrow().state
    }

    /// Starts another phase of the run.
    pub(crate) fn enter_phase(&self, state: RunState) {
        self.phase.send_replace(state);
        self.resume_phase();
    }

    /// Ends a wait. A caller that still waits for something else reports so again.
    pub(crate) fn resume_phase(&self) {
        let state = *self.phase.borrow();
        self.at_state(state, String::new());
    }

    /// Something else is done until the value is dropped.
    pub(crate) fn during(&self, activity: Activity) -> ActivityGuard<'_> {
        self.update(|progress| progress.activity = activity);
        ActivityGuard(self)
    }

    /// The learner has done these steps and nothing of the next one.
    pub(crate) fn at_step(&self, step: u64, warm_start_step: u64) {
        self.update(|progress| {
            (progress.step, progress.warm_start_step, progress.groups_trained) = (step, warm_start_step, 0);
        });
    }

    /// The samples of another step or evaluation are counted from now on, with what is left of the one before.
    pub(crate) fn begin_samples(&self) {
        self.update(|progress| {
            progress.samples = progress.samples.saturating_sub(progress.samples_done);
            progress.samples_done = 0;
        });
    }

    /// No sample is in flight.
    pub(crate) fn forget_samples(&self) {
        self.update(|progress| (progress.samples, progress.samples_done) = (0, 0));
    }

    /// The run has ended.
    pub(crate) fn ended(&self, state: RunState, message: String) {
        self.at_state(state, message);
    }

    /// The run waits for nothing.
    fn at_state(&self, state: RunState, message: String) {
        self.update(|progress| (progress.state, progress.waiting_for, progress.message) = (state, None, message));
    }
}

/// An activity, until it is dropped.
pub(crate) struct ActivityGuard<'a>(&'a Events);

impl Drop for ActivityGuard<'_> {
    fn drop(&mut self) {
        self.0.update(|progress| progress.activity = Activity::None);
    }
}

impl RunProgress {
    /// Whether the run is over.
    pub fn has_ended(&self) -> bool {
        self.state.has_ended()
    }
}
