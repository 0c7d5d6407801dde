//! What the two sides of a run hand to each other: weights one way, steps of groups and metrics lines of evaluations the other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_proto::v1::WeightsRef;
use tokio::sync::{mpsc, oneshot, watch};

use crate::clients::{Stop, TrainFeed};
use crate::metrics::MetricsLine;
use crate::run::proof::ProofReport;
use crate::run::step_sampler::SampledStep;

/// Weights that the learner has published. Weights are named here by their step: how many GRPO steps were done before them.
#[derive(Debug, Clone)]
pub(super) struct Published {
    pub(super) weights: WeightsRef,
    /// How long publishing took.
    pub(super) took: Duration,
}

/// An update of the engines to a weights version.
#[derive(Debug, Clone)]
pub(super) struct EnginesUpdated {
    /// GRPO steps before these weights.
    pub(super) weights_step: u64,
    /// How long updating the engines took.
    pub(super) took: Duration,
    /// The check of these weights, if there was one.
    pub(super) proof: Option<ProofReport>,
}

/// A step whose groups are being sampled, or were.
pub(super) struct OpenStep {
    pub(super) step: u64,
    pub(super) feed: TrainFeed,
    /// GRPO steps before the first weights that sample it.
    pub(super) weights_step: u64,
    /// How long sampling waited for these weights.
    pub(super) waited: Duration,
    /// Everything about its groups, once all are sampled.
    pub(super) sampled: oneshot::Receiver<SampledStep>,
}

/// The progress of the learner.
#[derive(Debug, Clone, Copy)]
struct LearnerProgress {
    /// GRPO steps whose metrics lines are written.
    done: u64,
    /// The step that it has begun last.
    begun: Option<u64>,
    /// The step from which on it can begin none, since they are not sampled: the run stops before.
    end: Option<u64>,
}

impl LearnerProgress {
    /// No step from this one on is sampled.
    fn end_before(&mut self, step: u64) {
        self.end = Some(self.end.map_or(step, |end| end.min(step)));
    }
}

/// The progress of the evaluations.
#[derive(Debug, Clone, Copy)]
struct EvaluatedThrough {
    /// GRPO steps before the newest weights of which nothing is left to evaluate.
    weights_step: u64,
    /// Whether every evaluation so far was finished; a stop leaves one unfinished.
    complete: bool,
}

/// What both sides look at. Neither waits for the other but through it.
struct SharedProgress {
    published: watch::Sender<BTreeMap<u64, Published>>,
    learner: watch::Sender<LearnerProgress>,
    engines: watch::Sender<BTreeMap<u64, EnginesUpdated>>,
    evaluated_through: watch::Sender<Option<EvaluatedThrough>>,
    /// Number of the first prompt that no step has begun.
    prompts: watch::Sender<u64>,
}

/// What the sampling side has of the handover.
pub(super) struct SamplingHandle {
    shared: Arc<SharedProgress>,
    steps: mpsc::UnboundedSender<OpenStep>,
    lines: mpsc::UnboundedSender<MetricsLine>,
}

/// What the learning side has of the handover.
pub(super) struct LearningHandle {
    shared: Arc<SharedProgress>,
    steps: mpsc::UnboundedReceiver<OpenStep>,
}

/// Metrics lines of evaluations for the journal.
pub(super) struct EvaluatedLines(mpsc::UnboundedReceiver<MetricsLine>);

/// The ends of a run that has done `done` GRPO steps. Neither queue needs a bound of its own: there are at most `pipeline.max_lag` steps
/// before the learner's, since the weights that would sample more do not exist yet.
pub(super) fn handover(done: u64) -> (SamplingHandle, LearningHandle, EvaluatedLines) {
    let shared = Arc::new(SharedProgress {
        published: watch::Sender::default(),
        learner: watch::Sender::new(LearnerProgress { done, begun: None, end: None }),
        engines: watch::Sender::default(),
        evaluated_through: watch::Sender::default(),
        prompts: watch::Sender::default(),
    });
    let ((steps, next_steps), (lines, next_lines)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
    let sampling = SamplingHandle { shared: Arc::clone(&shared), steps, lines };
    (sampling, LearningHandle { shared, steps: next_steps }, EvaluatedLines(next_lines))
}

/// Waits until `holds` is true of a shared value; the caller keeps it open.
async fn until<T: Clone>(value: &watch::Sender<T>, holds: impl FnMut(&T) -> bool) -> T {
    let mut value = value.subscribe();
    let reached = value.wait_for(holds).await.map(|value| value.clone());
    reached.expect("the sender outlives the receiver")
}

impl SamplingHandle {
    /// The weights after `weights_step` steps, once they are published. Those before them are not requested again.
    pub(super) async fn weights(&self, weights_step: u64) -> Published {
        let published = until(&self.shared.published, |published| published.contains_key(&weights_step)).await;
        self.shared.published.send_if_modified(|published| {
            *published = published.split_off(&weights_step);
            false
        });
        published[&weights_step].clone()
    }

    /// The newest published weights, or the first ones from `first` on that must not be skipped (`stops`), with their step. Waits until
    /// there are some.
    pub(super) async fn newest_weights(&self, first: u64, stops: impl Fn(u64) -> bool) -> (u64, Published) {
        let published = until(&self.shared.published, |all| all.range(first..).next().is_some()).await;
        let newest = published.last_key_value().map_or(first, |(weights_step, _)| *weights_step);
        let weights_step = (first..newest).find(|step| stops(*step)).unwrap_or(newest);
        (weights_step, self.weights(weights_step).await)
    }

    /// Waits until a step may be sampled. `ahead`: before the learner begins it. Returns false once a stop is requested before the learner
    /// has begun it, which then never does.
    pub(super) async fn may_begin(&self, step: u64, ahead: bool, stop: &Stop) -> bool {
        let has_begun = |at: &LearnerProgress| at.begun.is_some_and(|begun| begun >= step);
        if !ahead {
            until(&self.shared.learner, has_begun).await;
        } else if stop.is_requested() {
            self.shared.learner.send_if_modified(|at| {
                if !has_begun(at) {
                    at.end_before(step);
                }
                false
            });
        }
        self.shared.learner.borrow().end.is_none_or(|end| step < end)
    }

    /// No step from this one on is sampled: the run stops before, even where the learner waits for it already.
    pub(super) fn end_before(&self, step: u64) {
        self.shared.learner.send_modify(|at| at.end_before(step));
    }

    /// Waits until the metrics lines of the first `steps` steps are written.
    pub(super) async fn until_done(&self, steps: u64) {
        until(&self.shared.learner, |at| at.done >= steps).await;
    }

    /// The engines were updated to other weights.
    pub(super) fn engines_updated(&self, engines: EnginesUpdated) {
        self.shared.engines.send_modify(|all| {
            all.insert(engines.weights_step, engines);
        });
    }

    /// An evaluation is finished.
    pub(super) fn evaluated(&self, line: MetricsLine) {
        // The receiver is gone only when the run ends.
        let _ = self.lines.send(line);
    }

    /// Nothing is left to evaluate of the weights after `weights_step` steps, unless a stop has left something (not `complete`).
    pub(super) fn evaluated_through(&self, weights_step: u64, complete: bool) {
        self.shared.evaluated_through.send_modify(|through| {
            let complete = complete && through.is_none_or(|before| before.complete);
            *through = Some(EvaluatedThrough { weights_step, complete });
        });
    }

    /// A step has begun the prompts before this number.
    pub(super) fn begun(&self, prompts: u64) {
        self.shared.prompts.send_replace(prompts);
    }

    /// Hands over a step, which may still be empty.
    pub(super) fn hand_over(&self, step: OpenStep) {
        let _ = self.steps.send(step);
    }
}

impl LearningHandle {
    /// The weights after `weights_step` steps are published.
    pub(super) fn publish(&self, weights_step: u64, published: Published) {
        self.shared.published.send_modify(|all| {
            all.insert(weights_step, published);
        });
    }

    /// The step begins. Returns false where it is not sampled, since a stop was requested.
    pub(super) fn begin(&self, step: u64) -> bool {
        self.shared.learner.send_if_modified(|at| {
            let is_sampled = at.end.is_none_or(|end| step < end);
            if is_sampled {
                at.begun = Some(step);
            }
            is_sampled
        })
    }

    /// Number of the first prompt that no step has begun.
    pub(super) fn prompts_begun(&self) -> u64 {
        *self.shared.prompts.borrow()
    }

    /// The metrics lines of the first `steps` steps are written.
    pub(super) fn done(&self, steps: u64) {
        self.shared.learner.send_modify(|at| at.done = steps);
    }

    /// The next step in order, once the sampling side begins it. `None` where it never does, since a stop was requested.
    pub(super) async fn next_step(&mut self) -> Option<OpenStep> {
        tokio::select! {
            biased;
            step = self.steps.recv() => match step {
                Some(step) => Some(step),
                // The sampling side has failed, which ends the run.
                None => std::future::pending().await,
            },
            _ = until(&self.shared.learner, |at| at.end.is_some_and(|end| at.begun.is_some_and(|begun| begun >= end))) => None,
        }
    }

    /// Waits until the engines have any weights of the run.
    pub(super) async fn first_engines(&self) {
        until(&self.shared.engines, |all| !all.is_empty()).await;
    }

    /// Waits until the engines have, or had, the weights after `weights_step` steps. Earlier ones are not requested again.
    pub(super) async fn engines(&self, weights_step: u64) -> EnginesUpdated {
        let all = until(&self.shared.engines, |all| all.contains_key(&weights_step)).await;
        self.shared.engines.send_if_modified(|all| {
            *all = all.split_off(&weights_step);
            false
        });
        all[&weights_step].clone()
    }

    /// Waits until nothing is left to evaluate of the weights after `weights_step` steps. Returns whether everything was evaluated.
    pub(super) async fn until_evaluated(&self, weights_step: u64) -> bool {
        let reached = until(&self.shared.evaluated_through, |at| {
            at.is_some_and(|at| at.weights_step >= weights_step || !at.complete)
        })
        .await;
        reached.is_some_and(|at| at.complete)
    }
}

impl EvaluatedLines {
    /// The next line.
    pub(super) async fn next(&mut self) -> MetricsLine {
        match self.0.recv().await {
            Some(line) => line,
            None => std::future::pending().await,
        }
    }

    /// A line that is there already.
    pub(super) fn ready(&mut self) -> Option<MetricsLine> {
        self.0.try_recv().ok()
    }
}

impl OpenStep {
    /// Waits until all of its groups are sampled.
    pub(super) async fn sampled(&mut self) -> SampledStep {
        match (&mut self.sampled).await {
            Ok(sampled) => sampled,
            // The sampling side has failed, which ends the run.
            Err(_) => std::future::pending().await,
        }
    }
}
