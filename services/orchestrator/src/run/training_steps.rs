//! The training steps of one run at the learner.

use std::sync::{Arc, OnceLock};

use evenkeel_proto::v1::{
    GenerationGetStatusResponse, LearnerGetStatusResponse, SupervisedBatch, SupervisedExample, TrainHeader, TrainKind,
    TrainReport,
};
use evenkeel_telemetry::TraceContext;

use super::position::Position;
use super::run_context::RunContext;
use super::trust::Equality;
use crate::clients::{Services, TrainFeed};
use crate::error::{Halt, Incompatible};

/// Examples in one message: far below the limit of a message, and enough that messages cost nothing.
const EXAMPLES_PER_MESSAGE: usize = 64;

/// Opens training steps with headers that name the run, its seed and the settings that the learner must train by.
pub(super) struct TrainingSteps {
    services: Arc<Services>,
    run_id: String,
    seed: u64,
    groups_per_step: u32,
    /// How many versions behind a step's weights its samples may be.
    max_lag: u32,
    learner_settings_hash: OnceLock<String>,
    equality: Arc<Equality>,
}

impl TrainingSteps {
    /// `learner_settings_hash` is the digest of the learner's settings in the recipe. Absent: whatever the learner has
    /// is accepted.
    pub(super) fn new(context: &RunContext, learner_settings_hash: Option<String>, equality: Arc<Equality>) -> Self {
        Self {
            services: context.services(),
            run_id: context.directory.run_id().to_owned(),
            seed: context.settings.run.seed,
            groups_per_step: context.settings.sampling.prompts_per_step,
            max_lag: context.settings.pipeline.max_lag,
            learner_settings_hash: learner_settings_hash.map_or_else(OnceLock::new, OnceLock::from),
            equality,
        }
    }

    /// Notes what learner and engines say of themselves, and compares the learner's settings with those of the run.
    ///
    /// # Errors
    /// [`Incompatible::LearnerSettings`].
    pub(super) fn meet(
        &self,
        learner: &LearnerGetStatusResponse,
        generation: &GenerationGetStatusResponse,
    ) -> Result<(), Incompatible> {
        self.equality.meet(learner, generation);
        let reported = &learner.settings_hash;
        let expected = self.learner_settings_hash.get_or_init(|| reported.clone());
        if expected == reported {
            return Ok(());
        }
        Err(Incompatible::LearnerSettings { reported: reported.clone(), expected: expected.clone() })
    }

    pub(super) fn run_id(&self) -> &str {
        &self.run_id
    }

    /// The trace of a GRPO step.
    pub(super) fn trace(&self, step: u64) -> TraceContext {
        TraceContext::for_id(&self.run_id, &format!("step/{step}"))
    }

    /// The trace of a warm-start step.
    pub(super) fn warm_start_trace(&self, step: u64) -> TraceContext {
        TraceContext::for_id(&self.run_id, &format!("warm_start/{step}"))
    }

    /// The feed of a GRPO step that is trained from that version, open for groups.
    pub(super) fn open_step(&self, step: u64, base_version: u64) -> TrainFeed {
        TrainFeed::new(self.equality.with_comparison(TrainHeader {
            step,
            expected_groups: self.groups_per_step,
            max_lag: Some(self.max_lag),
            report_samples: true,
            kind: TrainKind::Grpo.into(),
            traceparent: self.trace(step).to_string(),
            ..self.header(base_version)
        }))
    }

    /// The complete feed of a supervised step.
    pub(super) fn supervised_step(&self, position: &Position, examples: &[SupervisedExample]) -> TrainFeed {
        let step = position.warm_start_steps() + 1;
        let feed = TrainFeed::new(TrainHeader {
            step,
            expected_examples: examples.len().try_into().unwrap_or(u32::MAX),
            kind: TrainKind::Supervised.into(),
            traceparent: self.warm_start_trace(step).to_string(),
            ..self.header(position.version())
        });
        for batch in examples.chunks(EXAMPLES_PER_MESSAGE) {
            feed.push(SupervisedBatch { examples: batch.to_vec() });
        }
        feed.close();
        feed
    }

    /// Does the step of a feed, which may still be filled. `what` names it in errors.
    pub(super) async fn train(&self, feed: &TrainFeed, what: &str) -> Result<TrainReport, Halt> {
        let report = self.services.learner().train(feed, what).await?;
        self.equality.add(&report);
        Ok(report)
    }

    /// How many tokens prove the weights that have sampled a step; `None` where other proofs are needed.
    pub(super) fn proven_by(&self, report: &TrainReport) -> Option<u64> {
        self.equality.proven_by(report)
    }

    fn header(&self, base_version: u64) -> TrainHeader {
        TrainHeader {
            run_id: self.run_id.clone(),
            base_version,
            settings_hash: self.learner_settings_hash.get().cloned().unwrap_or_default(),
            seed: self.seed,
            ..TrainHeader::default()
        }
    }
}
