//! Training in operations of the caller's own: gradients of sums over tokens are accumulated over any number of calls,
//! then applied by one update with settings of its own. Whole steps are made of the same two operations; what a loss
//! sums is the caller's decision.

mod loss;

use std::ops::Range;

use evenkeel_objective::{RatioBounds, SummedLoss, SummedStats};
use evenkeel_proto::FieldError;

use crate::blocks::Place;
use crate::error::{LearnerError, Result};
use crate::gradient_sum::GradientSum;
use crate::learner::Learner;
use crate::optimizer::TrainingPhase;
use crate::ranks::{ByteReader, ByteWriter};
use crate::sequence::Sequence;
use crate::settings::OptimizerSettings;
use crate::trainer::{Passed, Trainer, UpdateBy};
use loss::{LossOfTargets, balanced, term};

/// The temperature of the distribution that targets are scored under.
const TEMPERATURE: f32 = 1.0;

/// A sequence with a target for each of its tokens. All lists have one number for each token.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TargetSequence {
    /// Token ids, at least one.
    pub tokens: Vec<u32>,
    /// The id that each token is to predict: usually the next one.
    pub targets: Vec<u32>,
    /// Advantages, or with `cross_entropy` weights; 0 for a token that is not trained on. Finite.
    pub factors: Vec<f32>,
    /// The sampler's log-probabilities of the targets; empty with `cross_entropy`. Finite where a factor is not 0.
    pub sampler_logp: Vec<f32>,
    /// With `balanced`: responses with the same number are to the same prompt.
    pub group: Option<i64>,
}

/// A loss with its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TargetLoss {
    /// Formula that is summed.
    pub loss: SummedLoss,
    /// Bounds of the ratio, where the formula has them.
    pub bounds: RatioBounds,
}

/// What was computed for a list of sequences.
#[derive(Clone, Debug, PartialEq)]
pub struct Accumulated {
    /// Log-probabilities of the targets of each sequence, masked ones included.
    pub logp: Vec<Vec<f32>>,
    /// The loss and what it was made of.
    pub stats: SummedStats,
}

/// An update that was applied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Applied {
    /// The version of the weights after it.
    pub version: u64,
    /// Global norm of the gradient before clipping.
    pub grad_norm: f64,
}

impl Learner {
    /// Adds the gradient of a loss over sequences to what was accumulated since the last update. Where it fails,
    /// nothing of it is added, and the next [`apply`](Self::apply) refuses.
    ///
    /// # Errors
    /// No sequence, or a refused one by its index; a failure of the device.
    pub fn accumulate(&mut self, data: &[TargetSequence], loss: TargetLoss) -> Result<Accumulated> {
        let mut sum = std::mem::take(&mut self.sum);
        let prepared = self.prepared(data, loss);
        let done = prepared.and_then(|(sequences, factors)| {
            let trainer = self.trainer_mut();
            let done = accumulate(trainer, &sequences, &LossOfTargets { loss, data, factors: &factors }, &mut sum);
            trainer.together(format_args!("accumulated {} sequences", data.len()), done)
        });
        self.sum = sum;
        done.inspect_err(|error| self.sum.fail(format_args!("a part of it failed: {error}")))
    }

    /// Scores sequences as [`accumulate`](Self::accumulate) does, without a gradient.
    ///
    /// # Errors
    /// As [`accumulate`](Self::accumulate).
    pub fn score_targets(&self, data: &[TargetSequence], loss: TargetLoss) -> Result<Accumulated> {
        let (sequences, factors) = self.prepared(data, loss)?;
        let trainer = self.trainer();
        let logp: Vec<Vec<f32>> =
            trainer.score(&sequences, TEMPERATURE)?.into_iter().map(|scores| scores.logp).collect();
        let mut stats = SummedStats::default();
        for ((sequence, logp), factor) in data.iter().zip(&logp).zip(factors) {
            stats.add(&term(loss, sequence, factor, logp, &mut vec![0.0; logp.len()])?);
        }
        Ok(Accumulated { logp, stats })
    }

    /// Applies what was accumulated by one update of AdamW with these settings (their schedule aside), and begins a new
    /// sum.
    ///
    /// # Errors
    /// Settings out of range; nothing was accumulated, or not all of it could be; a loss or a gradient that is not
    /// finite; a failure of the device. Weights and moments are then unchanged, and the sum is gone.
    pub fn apply(&mut self, settings: &OptimizerSettings) -> Result<Applied> {
        let sum = std::mem::take(&mut self.sum);
        let once = OptimizerSettings {
            warmup_updates: 0,
            warmup_steps: 0,
            schedule: crate::settings::Schedule::Constant,
            ..settings.clone()
        };
        once.validate("adam").map_err(LearnerError::Input)?;
        if once.weight_decay != 0.0 && self.parameters().lora().is_some() {
            let allowed = "0 with adapters, which are not decayed: decay pulls them to the base";
            return Err(LearnerError::input("adam.weight_decay", once.weight_decay, allowed));
        }
        if matches!(sum, GradientSum::Empty) {
            return Err(LearnerError::NothingAccumulated);
        }
        let by = UpdateBy { phase: TrainingPhase::Policy, settings: once, scale: 1.0, loss_is_finite: true };
        let (report, version) = self.trainer_mut().commit(TrainingPhase::Policy, false, |trainer| {
            let report = trainer.apply(sum, &by)?;
            match report.skipped {
                Some(reason) => Err(LearnerError::NotApplied { reason, version: trainer.version() }),
                None => Ok(report),
            }
        })?;
        Ok(Applied { version, grad_norm: report.grad_norm })
    }

    /// The sequences for the model, and what the factors of each are multiplied by.
    fn prepared(&self, data: &[TargetSequence], loss: TargetLoss) -> Result<(Vec<Sequence>, Vec<f64>)> {
        if data.is_empty() {
            return Err(LearnerError::input("data", "empty", "1 or more sequences"));
        }
        if loss.loss.has_bounds() {
            loss.bounds.validate().map_err(LearnerError::Input)?;
        }
        let sequences = data.iter().enumerate().map(|(number, sequence)| {
            let path = format!("data[{number}]");
            validate(sequence, loss.loss).map_err(|error| LearnerError::Input(error.within(&path)))?;
            Sequence::with_targets(self.config(), &path, &sequence.tokens, &sequence.targets)
        });
        let sequences = sequences.collect::<Result<Vec<_>>>()?;
        let factors = match loss.loss {
            SummedLoss::Balanced => balanced(data)?,
            _ => vec![1.0; data.len()],
        };
        Ok((sequences, factors))
    }
}

/// Adds the gradient of a loss over all of its sequences to a sum; of several ranks each passes those of its blocks.
fn accumulate(
    trainer: &mut Trainer,
    sequences: &[Sequence],
    loss: &LossOfTargets<'_>,
    sum: &mut GradientSum,
) -> Result<Accumulated> {
    trainer.begin_step();
    let own = own_of(trainer, sequences.len());
    let blocks = trainer.blocks(sequences.len());
    // Those of a block share micro-batches.
    let place = |block| Place { block, group: block };
    let places: Vec<Place> = own.clone().map(|number| place(blocks.of(number))).collect();
    let loss = LossOfTargets { data: &loss.data[own.clone()], factors: &loss.factors[own.clone()], ..*loss };
    let Passed { stats, logp, .. } = trainer.accumulate(&sequences[own], &places, TEMPERATURE, &loss, true)?;
    let accumulated = gather(trainer, logp, &stats)?;
    if !accumulated.stats.loss.is_finite() {
        let version = trainer.version();
        return Err(LearnerError::NotApplied { reason: crate::SkipReason::NonFiniteLoss, version });
    }
    trainer.close(sum)?;
    Ok(accumulated)
}

/// The sequences in the blocks of this rank, which follow each other.
fn own_of(trainer: &Trainer, sequences: usize) -> Range<usize> {
    let blocks = trainer.blocks(sequences);
    let mut own = (0..sequences).filter(|&number| trainer.is_own(blocks.of(number)));
    own.next().map_or(0..0, |first| first..first + 1 + own.count())
}

/// What all ranks have passed, in the order of the sequences: blocks follow each other as ranks do.
fn gather(trainer: &Trainer, logp: Vec<Vec<f32>>, stats: &[SummedStats]) -> Result<Accumulated> {
    let mut all = Accumulated { logp: Vec::new(), stats: SummedStats::default() };
    if trainer.division().is_alone() {
        stats.iter().for_each(|of_sequence| all.stats.add(of_sequence));
        return Ok(Accumulated { logp, ..all });
    }
    let mut writer = ByteWriter::default();
    for (logp, &SummedStats { loss, tokens, clipped, ratio, sampler_gap }) in logp.iter().zip(stats) {
        writer.f32s(logp);
        [loss, ratio, sampler_gap].into_iter().for_each(|number| writer.f64(number));
        [tokens, clipped].into_iter().for_each(|number| writer.u64(number));
    }
    for (rank, bytes) in trainer.gather("scores of targets", writer.bytes())?.iter().enumerate() {
        let mut reader = ByteReader::new(rank, bytes);
        while !reader.is_empty() {
            all.logp.push(reader.f32s()?);
            let loss = reader.f64()?;
            let ratio = reader.f64()?;
            let sampler_gap = reader.f64()?;
            let tokens = reader.u64()?;
            let clipped = reader.u64()?;
            all.stats.add(&SummedStats { loss, tokens, clipped, ratio, sampler_gap });
        }
    }
    Ok(all)
}

/// Refuses lists of other lengths than that of the tokens, and numbers that are not finite where they count.
fn validate(sequence: &TargetSequence, loss: SummedLoss) -> Result<(), FieldError> {
    let TargetSequence { tokens, factors, sampler_logp, .. } = sequence;
    let length = |field: &str, list: &[f32], wanted: usize| {
        let allowed = format!("a list of {wanted}");
        FieldError::ensure(list.len() == wanted, field, format_args!("a list of {}", list.len()), allowed)
    };
    let name = if loss.has_ratio() { "advantages" } else { "weights" };
    length(name, factors, tokens.len())?;
    length("sampler_log_probabilities", sampler_logp, if loss.has_ratio() { tokens.len() } else { 0 })?;
    for (at, factor) in factors.iter().enumerate() {
        FieldError::ensure(factor.is_finite(), format!("{name}[{at}]"), factor, "a finite number")?;
        if let Some(logp) = sampler_logp.get(at).filter(|logp| *factor != 0.0 && !logp.is_finite()) {
            return Err(FieldError::new(format!("sampler_log_probabilities[{at}]"), logp, "a finite number"));
        }
    }
    Ok(())
}
