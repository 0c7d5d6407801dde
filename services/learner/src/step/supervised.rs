//! Supervised fine-tuning: token cross-entropy with the same passes and its own optimizer settings.

use serde::Serialize;

use crate::blocks::Place;
use crate::error::{LearnerError, Result};
use crate::gradient_sum::GradientSum;
use crate::optimizer::TrainingPhase;
use crate::ranks::{ByteReader, ByteWriter};
use crate::sequence::Sequence;
use crate::skip_reason::SkipReason;
use crate::trainer::{Passed, SequenceLoss, TokenGradient, TokenScores, Trainer, UpdateBy};

/// A prompt and the response to imitate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Example {
    /// Token ids of the prompt, at least 1.
    pub prompt: Vec<u32>,
    /// Token ids of the response, at least 1, including the end token if there is one.
    pub response: Vec<u32>,
}

/// The result of a supervised update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SupervisedReport {
    /// Mean cross-entropy of the response tokens, nats.
    pub loss: f64,
    /// Response tokens of the batch.
    pub tokens: usize,
    /// Global gradient norm before clipping.
    pub grad_norm: f64,
    /// Learning rate of the update.
    pub learning_rate: f64,
    /// Why nothing was changed; absent if the update was applied.
    pub skipped: Option<SkipReason>,
    /// Steps done, including this one: the version of the weights after it.
    pub version: u64,
}

/// loss = - sum of logp / N over all N response tokens of the batch.
struct CrossEntropy {
    weight: f32,
}

impl SequenceLoss for CrossEntropy {
    type Stats = ();

    fn sequence(
        &self,
        _index: usize,
        _scores: TokenScores<'_>,
        gradient: TokenGradient<'_>,
    ) -> Result<(), evenkeel_objective::Error> {
        gradient.logp.fill(-self.weight);
        Ok(())
    }
}

/// The sum of all log-probabilities, micro-batch by micro-batch, also of those that other ranks have computed: their
/// blocks follow each other as ranks do.
fn sum_of_logp(trainer: &Trainer, passed: &Passed<()>) -> Result<f64> {
    let mut writer = ByteWriter::default();
    for index in 0..passed.batches.packed().len() {
        let tokens = passed.batches.members(index).iter().flat_map(|&sequence| &passed.logp[sequence]);
        writer.f64(tokens.map(|&logp| f64::from(logp)).sum());
    }
    let mut sums = Vec::new();
    for (rank, bytes) in trainer.gather("sums of examples", writer.bytes())?.iter().enumerate() {
        let mut reader = ByteReader::new(rank, bytes);
        while !reader.is_empty() {
            sums.push(reader.f64()?);
        }
    }
    Ok(sums.into_iter().sum())
}

/// One update on a batch of examples, at temperature 1.
///
/// # Errors
/// An empty batch or an invalid example, by its index; then nothing is changed.
#[tracing::instrument(skip_all, fields(examples = examples.len()))]
pub(crate) fn supervised_step(trainer: &mut Trainer, examples: &[Example]) -> Result<SupervisedReport> {
    if examples.is_empty() {
        return Err(LearnerError::input("examples", "empty", "1 or more"));
    }
    trainer.begin_step();
    let sequences = examples.iter().enumerate().map(|(index, Example { prompt, response })| {
        Sequence::of_pair(trainer.config(), &format!("examples[{index}]"), prompt, response).map(Sequence::alone)
    });
    // An example is a group of one; those of a block share micro-batches.
    let blocks = trainer.blocks(examples.len());
    let place = |block| Place { block, group: block };
    let is_own = |example: &usize| trainer.is_own(blocks.of(*example));
    let places: Vec<Place> = (0..examples.len()).filter(is_own).map(|example| place(blocks.of(example))).collect();
    let sequences = sequences.collect::<Result<Vec<_>>>()?.into_iter().enumerate();
    let sequences: Vec<Sequence> = sequences.filter(|(example, _)| is_own(example)).map(|(_, own)| own).collect();
    trainer.check_whole()?;
    trainer.agree(format_args!("{} examples", examples.len()), Ok(()))?;
    let tokens: usize = examples.iter().map(|example| example.response.len()).sum();
    let loss = CrossEntropy { weight: 1.0 / tokens as f32 };
    let ((update, sum), version) = trainer.commit(TrainingPhase::Supervised, false, |trainer| {
        let passed = trainer.accumulate(&sequences, &places, 1.0, &loss, true)?;
        let logp = sum_of_logp(trainer, &passed)?;
        let loss_is_finite = logp.is_finite();
        let by = UpdateBy { loss_is_finite, ..UpdateBy::settings_of(trainer, TrainingPhase::Supervised) };
        let mut sum = GradientSum::default();
        trainer.close(&mut sum)?;
        Ok((trainer.apply(sum, &by)?, logp))
    })?;
    Ok(SupervisedReport {
        loss: -sum / tokens as f64,
        tokens,
        grad_norm: update.grad_norm,
        learning_rate: update.learning_rate,
        skipped: update.skipped,
        version,
    })
}
