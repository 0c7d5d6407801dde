//! What ranks exchange, whatever carries it.

use std::time::Duration;

use evenkeel_config::human;
use evenkeel_proto::v1::rank_command;

/// Why ranks cannot go on together. Whoever gets it returns to the initial weights and joins again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RankError {
    /// The connection to a rank has ended.
    #[error("rank {rank} ({host}) is lost: {reason}")]
    Lost {
        /// Number of the rank.
        rank: usize,
        /// Host and process of the rank.
        host: String,
        /// How the connection ended.
        reason: String,
    },
    /// A rank has not answered in time.
    #[error(
        "rank {rank} ({host}) hangs: it has sent no {what} for {} (setting `learner.ranks.timeout`)",
        human(*waited)
    )]
    Late {
        /// Number of the rank.
        rank: usize,
        /// Host and process of the rank.
        host: String,
        /// Message that is late.
        what: String,
        /// How long the others have waited.
        waited: Duration,
    },
    /// A rank does something else than the others.
    #[error("rank {rank} ({host}) is out of step: {found}, expected: {expected}")]
    OutOfStep {
        /// Number of the rank.
        rank: usize,
        /// Host and process of the rank.
        host: String,
        /// Message that it sent.
        found: String,
        /// What was its turn.
        expected: String,
    },
    /// A rank whose weights are not those of the others.
    #[error(
        "rank {rank} has other weights than rank {right}: `{tensor}` differs, by damage to its memory or to what it \
         received. Nothing of this step is published or saved"
    )]
    OtherWeights {
        /// Number of the rank.
        rank: usize,
        /// One that has the weights of most ranks; of two halves the rank that updates this tensor.
        right: usize,
        /// The first tensor that differs.
        tensor: String,
    },
    /// A rank failed where others did not.
    #[error("rank {rank} failed: {message}")]
    Failed {
        /// Number of the rank.
        rank: usize,
        /// Error of the rank.
        message: String,
    },
    /// The ranks have not joined.
    #[error(
        "ranks {missing:?} of {ranks} have not joined{}",
        last.as_deref().map(|last| format!(" again: {last}")).unwrap_or_default()
    )]
    Missing {
        /// Ranks that have not joined.
        missing: Vec<usize>,
        /// How many there are in all.
        ranks: usize,
        /// Why they have to.
        last: Option<String>,
    },
}

/// What carries bytes between ranks. All of them call the same methods in the same order; each call ends within a
/// deadline, with an error that names the late rank.
pub trait Collective: Send {
    /// The number of this rank, from 0.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn ranks(&self) -> usize;

    /// Gives `parts[r]` to rank r, and returns what each rank gave to this one. Sums that each rank adds in a fixed
    /// order make it a reduce-scatter.
    ///
    /// # Errors
    /// A rank that is lost, late or out of step.
    fn exchange(&mut self, what: &'static str, parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, RankError>;

    /// Gives a part to all ranks, and returns those of each.
    ///
    /// # Errors
    /// As [`exchange`](Self::exchange).
    fn all_gather(&mut self, what: &'static str, part: Vec<u8>) -> Result<Vec<Vec<u8>>, RankError>;

    /// Returns what rank 0 has. Others give nothing.
    ///
    /// # Errors
    /// As [`exchange`](Self::exchange).
    fn broadcast(&mut self, what: &'static str, part: Vec<u8>) -> Result<Vec<u8>, RankError> {
        let part = if self.rank() == 0 { part } else { Vec::new() };
        Ok(std::mem::take(&mut self.all_gather(what, part)?[0]))
    }

    /// Waits until every rank has come here.
    ///
    /// # Errors
    /// As [`exchange`](Self::exchange).
    fn barrier(&mut self) -> Result<(), RankError> {
        self.all_gather("barrier", Vec::new()).map(drop)
    }

    /// Notes that the ranks cannot go on together.
    fn fail(&mut self, error: &RankError) {
        let _ = error;
    }

    /// Tells all other ranks what comes next. Where they know by themselves, nothing is sent.
    ///
    /// # Errors
    /// A rank that is lost.
    fn tell(&mut self, command: rank_command::Kind) -> Result<(), RankError> {
        drop(command);
        Ok(())
    }
}
