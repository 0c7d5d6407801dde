//! The operation *accumulate*, of which whole steps are made as well: forward and backward over sequences at their
//! places in a sum, which an update [applies](Trainer::apply).

use std::sync::{Mutex, PoisonError};

use candle_core::Tensor;
use evenkeel_model::{BoxError, Coefficients, Packed, Scores, TokenLoss};
use evenkeel_objective as objective;

use super::Trainer;
use crate::blocks::Place;
use crate::error::Result;
use crate::gradient_sum::GradientSum;
use crate::memory::MemoryPhase;
use crate::micro_batch::MicroBatches;
use crate::sequence::Sequence;
use crate::timeline::{PassKind, Timeline};

/// A loss that is a sum over sequences.
pub(crate) trait SequenceLoss: Sync {
    /// What a sequence is summed up as.
    type Stats: Clone + Default + Send;

    /// The sums of the sequence at this index. `scores` are those of its scored tokens; the derivatives of the loss by
    /// them, which are zero before, are written to `gradient`.
    ///
    /// # Errors
    /// Numbers that the objective refuses.
    fn sequence(
        &self,
        index: usize,
        scores: TokenScores<'_>,
        gradient: TokenGradient<'_>,
    ) -> Result<Self::Stats, objective::Error>;
}

/// Log-probabilities and entropies of the scored tokens of a sequence.
#[derive(Clone, Copy)]
pub(crate) struct TokenScores<'a> {
    pub(crate) logp: &'a [f32],
    pub(crate) entropy: &'a [f32],
}

/// The derivatives of a loss by them.
pub(crate) struct TokenGradient<'a> {
    pub(crate) logp: &'a mut [f32],
    pub(crate) entropy: &'a mut [f32],
}

/// What a pass has made of its sequences, in their order.
pub(crate) struct Passed<S> {
    pub(crate) stats: Vec<S>,
    /// The log-probabilities of scored tokens; empty if they are not kept.
    pub(crate) logp: Vec<Vec<f32>>,
    /// How the sequences were packed.
    pub(crate) batches: MicroBatches,
}

/// A loss over packed sequences.
struct PackedLoss<'a, L: SequenceLoss> {
    loss: &'a L,
    batches: &'a MicroBatches,
    /// Set for each sequence by the thread that processes it, so that their order does not depend on threads.
    results: Mutex<Results<L::Stats>>,
}

/// Results of each sequence, in their order.
struct Results<S> {
    stats: Vec<S>,
    /// Empty if they are not kept.
    logp: Vec<Vec<f32>>,
}

impl<L: SequenceLoss> TokenLoss for PackedLoss<'_, L> {
    fn coefficients(&self, index: usize, _: &Packed, scores: &Scores) -> Result<Coefficients, BoxError> {
        let count = scores.logp.len();
        let mut out = Coefficients { logp: vec![0.0; count], entropy: vec![0.0; count] };
        let members = self.batches.members(index);
        let mut done = Vec::with_capacity(members.len());
        for (number, &sequence) in members.iter().enumerate() {
            let range = self.batches.scored(index, number);
            let of_sequence =
                TokenScores { logp: &scores.logp[range.clone()], entropy: &scores.entropy[range.clone()] };
            let gradient = TokenGradient { logp: &mut out.logp[range.clone()], entropy: &mut out.entropy[range] };
            done.push((sequence, self.loss.sequence(sequence, of_sequence, gradient)?));
        }
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, (sequence, of_sequence)) in done.into_iter().enumerate() {
            results.stats[sequence] = of_sequence;
            if let Some(kept) = results.logp.get_mut(sequence) {
                *kept = scores.logp[self.batches.scored(index, number)].to_vec();
            }
        }
        Ok(out)
    }
}

impl Trainer {
    /// Forward and backward over sequences at their places, whose blocks ascend and are not before those of passes
    /// since the last [`close`](Self::close). Gradients stay summed by blocks until then. With `keep` log-probabilities
    /// are among the results.
    ///
    /// # Errors
    /// A failure of the device, or numbers that the loss refuses.
    #[tracing::instrument(level = "debug", skip_all, fields(sequences = sequences.len()))]
    pub(crate) fn accumulate<L: SequenceLoss>(
        &mut self,
        sequences: &[Sequence],
        places: &[Place],
        temperature: f32,
        loss: &L,
        keep: bool,
    ) -> Result<Passed<L::Stats>> {
        let batches = self.pack_in_blocks(sequences, places)?;
        let logp = if keep { vec![Vec::new(); sequences.len()] } else { Vec::new() };
        let results = Mutex::new(Results { stats: vec![L::Stats::default(); sequences.len()], logp });
        let packed = PackedLoss { loss, batches: &batches, results };
        let began = Timeline::now();
        let passed = self.model.accumulate(&batches, temperature, &packed);
        self.timeline.add(PassKind::Gradient, began, batches.packed().len());
        self.explained(MemoryPhase::Training, passed)?;
        let Results { stats, logp } = packed.results.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Passed { stats, logp, batches })
    }

    /// Ends the passes of a part, and adds their gradient to a sum: of several ranks the part of this one's parameters.
    ///
    /// # Errors
    /// A failure of the device, or a rank that is lost.
    pub(crate) fn close(&mut self, sum: &mut GradientSum) -> Result<()> {
        let gradient = self.take_gradient()?;
        sum.add(gradient)
    }

    /// The gradient of the passes since it was last taken: of several ranks the part of this one's parameters.
    ///
    /// # Errors
    /// As [`close`](Self::close).
    pub(crate) fn take_gradient(&mut self) -> Result<Vec<Tensor>> {
        if self.division().is_alone() { Ok(self.model.take_gradients()?) } else { self.reduce_scatter() }
    }

    /// A gradient of zeros, that of nothing: of several ranks the part of this one's parameters.
    ///
    /// # Errors
    /// A failure of the device.
    pub(super) fn zero_gradient(&self) -> Result<Vec<Tensor>> {
        let own = &self.parameters().trained_values()[self.optimizer.moments().own()];
        Ok(own.iter().map(Tensor::zeros_like).collect::<Result<_, _>>()?)
    }
}
