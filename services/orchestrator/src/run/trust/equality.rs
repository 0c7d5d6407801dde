//! Whether engines and learner compute the same bits. Then each trained token is its own proof of weights: the learner
//! compares its log-probability with the engine's before the first update of a step.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use evenkeel_proto::v1::{GenerationGetStatusResponse, LearnerGetStatusResponse, TrainHeader, TrainReport};

use evenkeel_trust::LearnerArithmetic;

use crate::run::run_context::RunContext;

/// What is known of it, shared by those who open steps, prove weights and audit samples.
#[derive(Debug, Default)]
pub(in crate::run) struct Equality {
    /// Whether tokens are compared, as far as the weights have drawn them that their step is trained from: they are
    /// drawn from all of the vocabulary, and samples are audited, of which some do not pass through the learner
    /// otherwise.
    compares: bool,
    /// Whether these weights draw all samples.
    is_in_step: bool,
    /// The first tokens of a response that are drawn without the end tokens, and not compared.
    min_tokens: u32,
    /// How the learner computes, by the name that it reported last.
    learner: LearnerArithmetic,
    /// Whether all engines have that name, and every trained token so far was compared, but for the first ones.
    holds: AtomicBool,
    /// Whether any token was.
    has_compared: AtomicBool,
    /// Engines that name how they compute, as those do that compute in f32.
    named: Mutex<BTreeSet<String>>,
}

impl Equality {
    pub(in crate::run) fn new(context: &RunContext) -> Self {
        let settings = &context.settings;
        let compares = settings.compares_tokens();
        let is_in_step = settings.pipeline.max_lag == 0;
        Self { compares, is_in_step, min_tokens: settings.sampling.min_tokens, ..Self::default() }
    }

    /// Notes what learner and engines say of themselves.
    pub(in crate::run) fn meet(&self, learner: &LearnerGetStatusResponse, generation: &GenerationGetStatusResponse) {
        let own = &learner.arithmetic;
        self.learner.set(own);
        let named = generation.engines.iter().filter(|engine| !engine.arithmetic.is_empty());
        *self.named() = named.map(|engine| engine.name.clone()).collect();
        let all_have_it = generation.engines.iter().all(|engine| engine.arithmetic == *own);
        let compares = self.compares && !own.is_empty() && !generation.engines.is_empty() && all_have_it;
        let holds = compares && self.is_in_step;
        self.holds.store(holds, Ordering::Relaxed);
    }

    /// Whether an engine has named how it computes, and so has the learner: one in a narrower type is further off.
    pub(super) fn computes_in_f32(&self, engine: &str) -> bool {
        self.named().contains(engine) && !self.learner.get().is_empty()
    }

    fn named(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the learner computes, for those who compare samples.
    pub(in crate::run) fn learner(&self) -> LearnerArithmetic {
        self.learner.clone()
    }

    /// The header of a step that says which of its tokens are to be compared.
    pub(in crate::run) fn with_comparison(&self, header: TrainHeader) -> TrainHeader {
        if !self.compares {
            return header;
        }
        TrainHeader { equal_arithmetic: self.learner.get(), min_tokens: self.min_tokens, ..header }
    }

    /// Whether weights need no other proof.
    pub(in crate::run) fn holds(&self) -> bool {
        self.holds.load(Ordering::Relaxed)
    }

    /// Notes what was compared in a step.
    pub(in crate::run) fn add(&self, report: &TrainReport) {
        self.has_compared.fetch_or(report.equal_tokens > 0, Ordering::Relaxed);
        // Where all that was trained came before `min_tokens`, nothing of it shows the weights.
        let has_trained = report.trainable_tokens > 0 && report.groups > report.groups_without_signal;
        let are_all_early = self.min_tokens > 0 && has_trained && report.equal_tokens == 0;
        if report.uncompared_tokens > 0 || are_all_early {
            self.holds.store(false, Ordering::Relaxed);
        }
    }

    /// How many tokens prove the weights that have sampled a step: all that were trained. `None` where any was not
    /// compared, or where older weights may have sampled others.
    pub(in crate::run) fn proven_by(&self, report: &TrainReport) -> Option<u64> {
        let all_were = self.is_in_step && report.uncompared_tokens == 0;
        Some(report.equal_tokens).filter(|tokens| all_were && *tokens > 0)
    }

    /// One sentence for the end of a run in which it holds.
    pub(in crate::run) fn conclusion(&self) -> String {
        if !self.has_compared.load(Ordering::Relaxed) {
            return "undecided: no trained token was compared".to_owned();
        }
        let but = match self.min_tokens {
            0 => String::new(),
            first => format!(" after the first {first} of a response (min_tokens)"),
        };
        format!("verified: every trained token{but} has the learner's log-probability, equal to the bit")
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::{EngineStatus, GenerationGetStatusResponse, LearnerGetStatusResponse};

    use super::*;

    fn met(is_in_step: bool, min_tokens: u32) -> Equality {
        let equality = Equality { compares: true, is_in_step, min_tokens, ..Equality::default() };
        let arithmetic = "cpu".to_owned();
        let engines = vec![EngineStatus { arithmetic: arithmetic.clone(), ..EngineStatus::default() }];
        let generation = GenerationGetStatusResponse { engines, ..GenerationGetStatusResponse::default() };
        equality.meet(&LearnerGetStatusResponse { arithmetic, ..LearnerGetStatusResponse::default() }, &generation);
        equality
    }

    #[test]
    fn ahead_of_training_tokens_are_compared_and_weights_need_other_proofs() {
        let report = TrainReport { equal_tokens: 9, ..TrainReport::default() };
        for (is_in_step, proven) in [(true, Some(9)), (false, None)] {
            let equality = met(is_in_step, 0);
            assert_eq!(equality.with_comparison(TrainHeader::default()).equal_arithmetic, "cpu");
            assert_eq!((equality.holds(), equality.proven_by(&report)), (is_in_step, proven));
        }
        assert_eq!(Equality::default().with_comparison(TrainHeader::default()), TrainHeader::default());
    }

    #[test]
    fn an_engine_is_held_to_f32_only_by_a_learner_that_computes_in_it_too() {
        let engine = EngineStatus { name: "a".to_owned(), arithmetic: "cpu".to_owned(), ..EngineStatus::default() };
        let generation =
            GenerationGetStatusResponse { engines: vec![engine], ..GenerationGetStatusResponse::default() };
        let equality = Equality::default();
        for (arithmetic, is_held) in [("cpu", true), ("another", true), ("", false)] {
            let learner = LearnerGetStatusResponse { arithmetic: arithmetic.to_owned(), ..Default::default() };
            equality.meet(&learner, &generation);
            assert_eq!(equality.computes_in_f32("a"), is_held, "{arithmetic}");
            assert!(!equality.computes_in_f32("b"));
        }
    }

    #[test]
    fn tokens_that_are_not_compared_are_named_and_prove_nothing() {
        let equality = met(true, 3);
        assert_eq!(equality.with_comparison(TrainHeader::default()).min_tokens, 3);
        assert!(equality.conclusion().starts_with("undecided"));
        equality.add(&TrainReport { equal_tokens: 5, ..TrainReport::default() });
        assert!(equality.holds() && equality.conclusion().contains("every trained token after the first 3 of a"));
        equality.add(&TrainReport { equal_tokens: 5, uncompared_tokens: 1, ..TrainReport::default() });
        assert!(!equality.holds());
    }

    #[test]
    fn a_step_that_trains_on_first_tokens_alone_needs_another_proof() {
        let early = TrainReport { trainable_tokens: 40, groups: 4, groups_without_signal: 3, ..TrainReport::default() };
        let without_signal = TrainReport { groups_without_signal: 4, ..early.clone() };
        let compared = TrainReport { equal_tokens: 1, ..early.clone() };
        for (report, holds) in [(without_signal, true), (compared, true), (early, false)] {
            let equality = met(true, 30);
            equality.add(&report);
            assert_eq!(equality.holds(), holds, "{report:?}");
        }
    }
}
