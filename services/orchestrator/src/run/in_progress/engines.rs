//! What the loop's actions begin with engines: updates, proofs, evaluations, and weights that are given back.

use evenkeel_proto::v1::PauseMode;
use tracing::Instrument;

use super::InProgress;
use crate::error::Halt;
use crate::rollout::{MissingWeights, WeightsRequest};
use crate::run::loop_work::Done;
use crate::run::state::LoopEvent;
use crate::settings::StepOrder;

impl<'a> InProgress<'a> {
    /// A sample or a proof lacks weights.
    pub(super) fn requested(&mut self, asked: WeightsRequest) -> LoopEvent {
        let request = self.requests.last_key_value().map_or(0, |(last, _)| last + 1);
        let version = asked.weights.as_ref().map(|weights| weights.version);
        let seen = asked.seen;
        self.requests.insert(request, asked);
        LoopEvent::WeightsMissing { request, version, seen }
    }

    /// Everything that was sent to the generation service is accepted first.
    pub(in crate::run) fn settle(&mut self) {
        self.work.push(Box::pin(self.parts.settle()));
    }

    /// The engines get weights.
    pub(in crate::run) fn update_engines(&mut self, version: u64, of_step: u64) {
        let Some((reference, published_in)) = self.weights.get(&version).cloned() else {
            return self.defect("engines get weights that are not published");
        };
        let in_flight = match self.order {
            StepOrder::Data => PauseMode::Unspecified,
            StepOrder::Completion => PauseMode::Keep,
        };
        let earlier = Some(of_step).filter(|step| *step < self.first_step);
        self.first_update.get_or_insert(version);
        self.spawn_of_weights(version, of_step, self.parts.update_engines(reference, in_flight, earlier, published_in));
    }

    /// The weights that the engines have got are proven.
    pub(in crate::run) fn prove(&mut self, version: u64, of_step: u64) {
        let Some((reference, _)) = self.weights.get(&version).cloned() else {
            return self.defect("weights are verified that are not published");
        };
        self.spawn_of_weights(version, of_step, self.parts.prove(reference));
    }

    /// Does something that belongs to the step which made the weights; the first ones are of an earlier start.
    fn spawn_of_weights(
        &mut self,
        version: u64,
        of_step: u64,
        work: impl Future<Output = Result<Done, Halt>> + Send + 'a,
    ) {
        if of_step > 0 && self.first_update != Some(version) {
            self.work.push(Box::pin(self.parts.session.trace(of_step).scope(work)))
        } else {
            self.work.push(Box::pin(work))
        }
    }

    /// The engines get weights back that a request asked for.
    pub(in crate::run) fn restore(&mut self, request: u64, version: u64) {
        let Some(request) = self.requests.get(&request) else {
            return self.defect("weights are restored for nobody");
        };
        let span = request.span.clone();
        let in_flight = if request.weights.is_some() { PauseMode::Unspecified } else { PauseMode::Keep };
        let of_run = || self.weights.get(&version).map(|(weights, _)| weights.clone());
        let Some(reference) = request.weights.clone().or_else(of_run) else {
            return self.defect("weights are restored that are not published");
        };
        self.work.push(Box::pin(self.parts.restore(reference, in_flight).instrument(span)));
    }

    /// A request for weights is answered.
    pub(in crate::run) fn answer(&mut self, request: u64, cause: MissingWeights) {
        if let Some(request) = self.requests.remove(&request) {
            request.answer(cause);
        }
    }

    /// The weights of a step are evaluated.
    pub(in crate::run) fn evaluate(&mut self, version: u64, step: u64) {
        match self.weights.get(&version) {
            Some((reference, _)) => self.work.push(Box::pin(self.parts.evaluate(step, reference.clone()))),
            None => self.defect("weights are evaluated that are not published"),
        }
    }
}
