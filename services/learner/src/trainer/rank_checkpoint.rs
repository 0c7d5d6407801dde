//! A checkpoint of several ranks: rank 0 writes it, with the moments of all, and gives all what it reads of one.

use std::path::Path;

use candle_core::{Device, Tensor};
use evenkeel_model::folder::Values;
use evenkeel_model::kernels::Moment;
use evenkeel_proto::v1::RankOrder;

use super::ranks::OtherRanks;
use super::{StoredCounters, StoredState, Trainer};
use crate::error::{LearnerError, Result};
use crate::optimizer::{TrainingPhase, UpdateCounts};
use crate::ranks::{ByteReader, ByteWriter, RankError};

impl Trainer {
    /// Brings the moments of all parameters to rank 0 in an `order` that all ranks have, one at a time, so that rank 0
    /// holds no more than one beside its own. There it is `taken`; elsewhere nothing is. After an error of `taken` the
    /// others still give what is left: they do not know of it.
    ///
    /// # Errors
    /// That of `taken`; a rank that is lost, or has other weights.
    pub(crate) fn gather_moments(
        &self,
        order: &[(Moment, usize)],
        mut taken: impl FnMut(Moment, usize, Values<'_>) -> Result<()>,
    ) -> Result<()> {
        self.compare_weights()?;
        let rank = self.division().rank();
        let moments = self.optimizer.moments();
        let parts = self.parameters_of_ranks();
        let mut result = Ok(());
        for &(moment, id) in order {
            let owner = parts.iter().position(|part| part.contains(&id)).expect("each parameter is of one rank");
            if owner == 0 {
                if rank == 0 && result.is_ok() {
                    result = taken(moment, id, moments.values(moment, id));
                }
                continue;
            }
            let mut given = vec![Vec::new(); self.division().ranks()];
            if owner == rank {
                let mut writer = ByteWriter::default();
                writer.tensor(&moments.tensor(moment, id)?)?;
                given[0] = writer.bytes();
            }
            let got = self.ranks.exchange("moments", given)?;
            if rank == 0 && result.is_ok() {
                let values = ByteReader::new(owner, &got[owner]).f32s().map_err(LearnerError::from);
                let values = values.and_then(|values| self.checked_length(owner, id, values));
                result = match values {
                    Err(LearnerError::Rank(error)) => return Err(self.rank_failed(error).into()),
                    values => taken(moment, id, Values::Host(&values?)),
                };
            }
        }
        result
    }

    /// Replaces weights and moments by stored ones on all ranks, of which rank 0 reads them.
    ///
    /// # Errors
    /// As [`restore`](Self::restore).
    pub(crate) fn restore_all(&mut self, stored: &dyn StoredState, numbers: StoredCounters) -> Result<()> {
        if self.division().is_alone() {
            return self.restore(stored, numbers);
        }
        // Before the others are told, who would wait for what comes next.
        self.restored_terms(stored, &numbers.terms)?;
        self.tell(RankOrder::Restore)?;
        let mut writer = ByteWriter::default();
        let StoredCounters { optimizer, version, seed, terms } = &numbers;
        [optimizer.updates, optimizer.steps, *version, *seed].into_iter().for_each(|number| writer.u64(number));
        writer.flag(optimizer.phase == TrainingPhase::Policy);
        writer.text(&serde_json::to_string(terms).expect("values serialise"));
        let ranks = self.ranks.clone();
        ranks.broadcast("counters", writer.bytes())?;
        let restored = self.restore(&Given { ranks: &ranks, stored }, numbers);
        self.agree("restored", restored)
    }

    /// Takes what rank 0 gives in [`restore_all`](Self::restore_all).
    ///
    /// # Errors
    /// As [`restore`](Self::restore).
    pub(crate) fn receive_state(&mut self) -> Result<()> {
        let ranks = self.ranks.clone();
        let bytes = ranks.broadcast("counters", Vec::new())?;
        let mut reader = ByteReader::new(0, &bytes);
        let updates = reader.u64()?;
        let steps = reader.u64()?;
        let version = reader.u64()?;
        let seed = reader.u64()?;
        let phase = if reader.flag()? { TrainingPhase::Policy } else { TrainingPhase::Supervised };
        let terms = serde_json::from_str(reader.text()?)
            .map_err(|error| RankError::Failed { rank: 0, message: format!("it sent no states of terms: {error}") })?;
        let numbers = StoredCounters { optimizer: UpdateCounts { updates, steps, phase }, version, seed, terms };
        let shapes = self.parameters().trained_specs().iter().map(|spec| spec.shape.clone()).collect();
        let restored = self.restore(&Received { ranks: &ranks, shapes }, numbers);
        self.agree("restored", restored)
    }
}

/// What rank 0 reads, and gives to all others as it does.
struct Given<'a> {
    ranks: &'a OtherRanks,
    stored: &'a dyn StoredState,
}

impl Given<'_> {
    /// Gives a tensor, or tells that there is none: the others wait for it.
    fn give(&self, read: Result<Tensor>) -> Result<Tensor> {
        let mut writer = ByteWriter::default();
        writer.flag(read.is_ok());
        if let Ok(tensor) = &read {
            writer.tensor(tensor)?;
        }
        self.ranks.broadcast("stored values", writer.bytes())?;
        read
    }
}

impl StoredState for Given<'_> {
    fn folder(&self) -> &Path {
        self.stored.folder()
    }

    fn weights(&self, parameter: usize, device: &Device) -> Result<Tensor> {
        self.give(self.stored.weights(parameter, device))
    }

    fn moment(&self, moment: Moment, parameter: usize, device: &Device) -> Result<Tensor> {
        self.give(self.stored.moment(moment, parameter, device))
    }
}

/// What rank 0 gives.
struct Received<'a> {
    ranks: &'a OtherRanks,
    shapes: Vec<Vec<usize>>,
}

impl Received<'_> {
    fn take(&self, parameter: usize, device: &Device) -> Result<Tensor> {
        let bytes = self.ranks.broadcast("stored values", Vec::new())?;
        let mut reader = ByteReader::new(0, &bytes);
        if !reader.flag()? {
            return Err(LearnerError::checkpoint(self.folder(), "could not be read by rank 0"));
        }
        Ok(Tensor::from_vec(reader.f32s()?, self.shapes[parameter].as_slice(), device)?)
    }
}

impl StoredState for Received<'_> {
    fn folder(&self) -> &Path {
        Path::new("of rank 0")
    }

    fn weights(&self, parameter: usize, device: &Device) -> Result<Tensor> {
        self.take(parameter, device)
    }

    fn moment(&self, _moment: Moment, parameter: usize, device: &Device) -> Result<Tensor> {
        self.take(parameter, device)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::*;
    use crate::TrainingSettings;
    use crate::ranks::{Division, InProcess};
    use crate::test_model::{config, parameters};

    #[test]
    fn ranks_stay_in_step_when_rank_0_cannot_write_what_comes() {
        let work = |number: usize, collective: InProcess| {
            let division = Division::new(number, 2);
            let mut trainer = Trainer::new(config(), parameters(), TrainingSettings::default(), division).unwrap();
            trainer.join(Some(Arc::new(Mutex::new(collective))));
            let ids = 0..trainer.parameters().trained_specs().len();
            let order: Vec<_> = ids.flat_map(|id| Moment::ALL.map(|moment| (moment, id))).collect();
            let mut came = 0;
            let gathered = trainer.gather_moments(&order, |_, _, _| {
                came += 1;
                Err(LearnerError::Torn)
            });
            assert_eq!((gathered.is_err(), came), if number == 0 { (true, 1) } else { (false, 0) });
            assert_eq!(trainer.gather("what comes next", vec![number as u8]).unwrap(), [[0], [1]]);
        };
        std::thread::scope(|scope| {
            for (number, collective) in InProcess::ranks(2, Duration::from_secs(60)).into_iter().enumerate() {
                scope.spawn(move || work(number, collective));
            }
        });
    }
}
