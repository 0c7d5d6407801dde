//! Whether engines and learner compute the same bits. Then each trained token is its own proof of weights: the learner
//! compares its log-probability with the engine's before the first update of a step.

use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_proto::v1::{GenerationGetStatusResponse, LearnerGetStatusResponse, TrainReport};

use evenkeel_trust::{AuditMode, LearnerArithmetic};

use crate::run::run_context::RunContext;

/// What is known of it, shared by those who open steps, prove weights and audit samples.
#[derive(Debug, Default)]
pub(in crate::run) struct Equality {
    /// Whether each token is drawn from all of the vocabulary, by the weights that its step is trained from; and whether
    /// samples are audited, of which some do not pass through the learner otherwise.
    by_settings: bool,
    /// How the learner computes, by the name that it reported last.
    learner: LearnerArithmetic,
    /// Whether all engines have that name, and every trained token so far was compared.
    holds: AtomicBool,
    /// Whether any token was.
    has_compared: AtomicBool,
}

impl Equality {
    pub(in crate::run) fn new(context: &RunContext) -> Self {
        let settings = &context.settings;
        let by_settings = settings.proof.every > 0
            && settings.sampler_audit.mode == AuditMode::Stop
            && settings.pipeline.max_lag == 0
            && settings.sampling.draws_from_all();
        Self { by_settings, ..Self::default() }
    }

    /// Notes what learner and engines say of themselves.
    pub(in crate::run) fn meet(&self, learner: &LearnerGetStatusResponse, generation: &GenerationGetStatusResponse) {
        let own = &learner.arithmetic;
        self.learner.set(own);
        let all_have_it = generation.engines.iter().all(|engine| engine.arithmetic == *own);
        let holds = self.by_settings && !own.is_empty() && !generation.engines.is_empty() && all_have_it;
        self.holds.store(holds, Ordering::Relaxed);
    }

    /// How the learner computes, for those who compare samples.
    pub(in crate::run) fn learner(&self) -> LearnerArithmetic {
        self.learner.clone()
    }

    /// What the header of a step says is to be compared; empty for nothing.
    pub(in crate::run) fn of_step(&self) -> String {
        if self.by_settings { self.learner.get() } else { String::new() }
    }

    /// Whether weights need no other proof.
    pub(in crate::run) fn holds(&self) -> bool {
        self.holds.load(Ordering::Relaxed)
    }

    /// Notes what was compared in a step.
    pub(in crate::run) fn add(&self, report: &TrainReport) {
        self.has_compared.fetch_or(report.equal_tokens > 0, Ordering::Relaxed);
        if report.uncompared_tokens > 0 {
            self.holds.store(false, Ordering::Relaxed);
        }
    }

    /// One sentence for the end of a run in which it holds.
    pub(in crate::run) fn conclusion(&self) -> String {
        let has_compared = self.has_compared.load(Ordering::Relaxed);
        let proven = "proven: the log-probability of every trained token is the learner's, to the bit";
        if has_compared { proven } else { "undecided: no token was trained" }.to_owned()
    }
}
