//! What a step exchanges with other ranks.

use std::fmt::Display;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::Tensor;
use evenkeel_model::{PartialGradient, gradients_of_sums, sum_of_nodes};
use evenkeel_proto::v1::{RankOrder, rank_command};

use super::Trainer;
use crate::error::{LearnerError, Result};
use crate::ranks::{ByteReader, ByteWriter, Collective, Division, FAILED, OUTCOME, RankError, checksum_of};

/// Carries a rank's exchanges; shared with its driver.
pub type SharedCollective = Arc<Mutex<dyn Collective>>;

/// The other ranks, if there are any.
#[derive(Clone)]
pub(super) struct OtherRanks {
    division: Division,
    collective: Option<SharedCollective>,
}

impl OtherRanks {
    pub(super) fn new(division: Division) -> Self {
        Self { division, collective: None }
    }

    fn lock(&self) -> Result<MutexGuard<'_, dyn Collective + 'static>> {
        let Some(collective) = &self.collective else {
            let missing = (0..self.division.ranks()).filter(|&rank| rank != self.division.rank()).collect();
            return Err(RankError::Missing { missing, ranks: self.division.ranks(), last: None }.into());
        };
        Ok(collective.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn all_gather(&self, what: &'static str, part: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        Ok(self.lock()?.all_gather(what, part)?)
    }

    pub(super) fn exchange(&self, what: &'static str, parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        Ok(self.lock()?.exchange(what, parts)?)
    }

    pub(super) fn broadcast(&self, what: &'static str, part: Vec<u8>) -> Result<Vec<u8>> {
        Ok(self.lock()?.broadcast(what, part)?)
    }
}

impl Trainer {
    /// Which rank this is.
    pub(crate) fn division(&self) -> Division {
        self.ranks.division
    }

    /// Takes part with what carries the exchanges, or no longer.
    pub(crate) fn join(&mut self, collective: Option<SharedCollective>) {
        self.ranks.collective = collective;
    }

    /// What carries the exchanges.
    pub(crate) fn collective(&self) -> Option<SharedCollective> {
        self.ranks.collective.clone()
    }

    /// Tells all other ranks what comes next, where they do not know it by themselves.
    pub(crate) fn tell(&self, order: RankOrder) -> Result<()> {
        if self.division().is_alone() {
            return Ok(());
        }
        Ok(self.ranks.lock()?.tell(rank_command::Kind::Order(order.into()))?)
    }

    /// Whether this rank sums the gradients of a block.
    pub(crate) fn is_own(&self, block: usize) -> bool {
        self.division().blocks(self.settings.compute.gradient_blocks).contains(&block)
    }

    /// What every rank says, in their order; alone only this one.
    pub(crate) fn gather(&self, what: &'static str, part: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        if self.division().is_alone() { Ok(vec![part]) } else { self.ranks.all_gather(what, part) }
    }

    /// The parameters of each rank, by their numbers among those that are trained.
    pub(super) fn parameters_of_ranks(&self) -> Vec<Range<usize>> {
        self.division().parameters(self.parameters().trained_specs())
    }

    /// Gives each rank the sums of the parameters whose moments it has, and returns the gradient of this rank's, added
    /// in the order that one process has.
    pub(super) fn reduce_scatter(&mut self) -> Result<Vec<Tensor>> {
        let partial = self.model.take_partial_gradients()?;
        let parts = self.parameters_of_ranks();
        let given = parts.iter().map(|part| encode(&partial, part)).collect::<Result<_>>()?;
        drop(partial);
        let got = self.ranks.exchange("gradients", given)?;
        let own = parts[self.division().rank()].clone();
        let blocks = self.settings.compute.gradient_blocks;
        // Of each parameter the sums of all nodes, in the order of ranks and so of blocks.
        let mut nodes = vec![Vec::new(); own.len()];
        let mut is_reached = vec![false; own.len()];
        for (rank, bytes) in got.iter().enumerate() {
            let mut reader = ByteReader::new(rank, bytes);
            for node in evenkeel_model::nodes_of(self.division().blocks_of(rank, blocks)) {
                let has_sum = reader.flag()?;
                for id in 0..own.len() {
                    let sum = if has_sum {
                        is_reached[id] |= reader.flag()?;
                        Some(self.checked_length(rank, own.start + id, reader.f32s()?)?)
                    } else {
                        None
                    };
                    nodes[id].push((node, sum));
                }
            }
        }
        drop(got);
        let parameters = self.parameters();
        let mut sums = Vec::with_capacity(own.len());
        for ((id, nodes), is_reached) in own.clone().zip(nodes).zip(is_reached) {
            let like = &parameters.trained_values()[id];
            let sum = sum_of_nodes(blocks, nodes).unwrap_or_else(|| vec![0.0; like.elem_count()]);
            sums.push((Tensor::from_vec(sum, like.shape(), like.device())?, is_reached));
        }
        Ok(gradients_of_sums(parameters, own, sums)?)
    }

    /// Refuses values of another number than a parameter has.
    pub(super) fn checked_length(&self, rank: usize, id: usize, values: Vec<f32>) -> Result<Vec<f32>> {
        let wanted = self.parameters().trained_values()[id].elem_count();
        if values.len() == wanted {
            return Ok(values);
        }
        let name = &self.parameters().trained_specs()[id].name;
        let message = format!("it sent {} values of `{name}`, which has {wanted}", values.len());
        Err(RankError::Failed { rank, message }.into())
    }

    /// The sum over all parameters, in their order, of a number that each rank has for its own.
    pub(crate) fn sum_over_parameters(&self, own: &[f64]) -> Result<f64> {
        let mut writer = ByteWriter::default();
        own.iter().for_each(|value| writer.f64(*value));
        let mut sum = 0.0;
        for (rank, bytes) in self.gather("sums of parameters", writer.bytes())?.iter().enumerate() {
            let mut reader = ByteReader::new(rank, bytes);
            while !reader.is_empty() {
                sum += reader.f64()?;
            }
        }
        Ok(sum)
    }

    /// Gives all ranks the weights that this one has updated, and takes theirs.
    pub(super) fn gather_weights(&mut self) -> Result<()> {
        let parts = self.parameters_of_ranks();
        let own = self.division().rank();
        let mut writer = ByteWriter::default();
        for value in &self.parameters().trained_values()[parts[own].clone()] {
            writer.tensor(value)?;
        }
        let got = self.ranks.all_gather("weights", writer.bytes())?;
        for (rank, (part, bytes)) in parts.into_iter().zip(&got).enumerate().filter(|(rank, _)| *rank != own) {
            let mut reader = ByteReader::new(rank, bytes);
            for id in part {
                let values = self.checked_length(rank, id, reader.f32s()?)?;
                let weights = &mut self.model.parameters_mut().trained_values_mut()[id];
                *weights = Tensor::from_vec(values, weights.shape(), weights.device())?;
            }
        }
        Ok(())
    }

    /// Refuses to go on with ranks whose weights differ. Each rank computes its part of an update from its own copy, and
    /// gets the new weights of the others: a copy that was damaged in between would be trained on, and then replaced.
    pub(super) fn compare_weights(&self) -> Result<()> {
        if self.division().is_alone() {
            return Ok(());
        }
        let mut writer = ByteWriter::default();
        for value in self.parameters().trained_values() {
            writer.u64(checksum_of(value)?.into());
        }
        let all = self.ranks.all_gather("checksums of weights", writer.bytes())?;
        for (owner, part) in self.parameters_of_ranks().into_iter().enumerate() {
            for id in part {
                let of_ranks: Vec<_> = all.iter().map(|bytes| bytes.get(8 * id..8 * (id + 1))).collect();
                if let Some((rank, right)) = differing(&of_ranks, owner) {
                    let tensor = self.parameters().trained_specs()[id].name.clone();
                    return Err(self.rank_failed(RankError::OtherWeights { rank, right, tensor }).into());
                }
            }
        }
        Ok(())
    }

    /// A result that all ranks have, which have done the same `work`; or an error of the rank that has another.
    pub(crate) fn agree<T>(&self, work: impl Display, result: Result<T>) -> Result<T> {
        if self.division().is_alone() || matches!(result, Err(LearnerError::Rank(_))) {
            return result;
        }
        let own = match &result {
            Ok(_) => format!("{work} on version {}", self.version).into_bytes(),
            Err(error) => [FAILED, error.to_string().as_bytes()].concat(),
        };
        let all = self.ranks.all_gather(OUTCOME, own)?;
        let Some(other) = all.iter().find(|outcome| **outcome != all[0]) else { return result };
        let failed = all.iter().find(|outcome| outcome.starts_with(FAILED)).unwrap_or(other);
        let rank = all.iter().position(|outcome| outcome == failed).unwrap_or_default();
        let message = String::from_utf8_lossy(failed.strip_prefix(FAILED).unwrap_or(failed)).into_owned();
        Err(self.rank_failed(RankError::Failed { rank, message }).into())
    }

    /// Agrees on work that changes what is trained: ranks that do not agree are of no step any more, and go on from a
    /// checkpoint.
    pub(crate) fn together<T>(&mut self, work: impl Display, result: Result<T>) -> Result<T> {
        let agreed = self.agree(work, result);
        if let Err(LearnerError::Rank(error)) = &agreed {
            self.is_torn = true;
            self.rank_failed(error.clone());
        }
        agreed
    }

    /// Notes that the ranks cannot go on together.
    pub(super) fn rank_failed(&self, error: RankError) -> RankError {
        if let Ok(mut collective) = self.ranks.lock() {
            collective.fail(&error);
        }
        error
    }
}

/// The sums of some parameters, of all nodes.
fn encode(partial: &[PartialGradient], parameters: &Range<usize>) -> Result<Vec<u8>> {
    let mut writer = ByteWriter::default();
    for PartialGradient { sums, .. } in partial {
        writer.flag(sums.is_some());
        for (sum, is_reached) in sums.iter().flat_map(|sums| &sums[parameters.clone()]) {
            writer.flag(*is_reached);
            writer.tensor(sum)?;
        }
    }
    Ok(writer.bytes())
}

/// The first rank that has something else than most, and one of those; of two halves the owner's counts.
fn differing<T: PartialEq>(of_ranks: &[T], owner: usize) -> Option<(usize, usize)> {
    let votes = |rank: usize| of_ranks.iter().filter(|other| **other == of_ranks[rank]).count();
    let right = (0..of_ranks.len()).max_by_key(|&rank| (votes(rank), rank == owner))?;
    let wrong = of_ranks.iter().position(|other| *other != of_ranks[right])?;
    Some((wrong, right))
}

#[cfg(test)]
mod tests {
    use super::differing;

    #[test]
    fn the_rank_that_differs_from_most_is_named_and_of_two_halves_the_one_that_does_not_update_the_tensor() {
        assert_eq!(differing(&[7, 7, 7], 1), None);
        assert_eq!(differing(&[7, 8, 7], 1).map(|found| found.0), Some(1), "also where it is the owner");
        assert_eq!(differing(&[8, 7, 7, 7], 2).map(|found| found.0), Some(0));
        assert_eq!(differing(&[7, 8], 0), Some((1, 0)));
        assert_eq!(differing(&[7, 8], 1), Some((0, 1)));
    }
}
