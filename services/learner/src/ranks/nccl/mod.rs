//! Ranks with a card each: what they exchange goes from card to card by NCCL, everything else over the connections that
//! they have joined by.
//!
//! NCCL's own sums follow its ring, whose order depends on the number of ranks. So parts are exchanged from each rank
//! to each other, and every rank adds what it gets in the tree that one process has, as everywhere: any number of ranks
//! has the same bits. Rank 0 makes the unique id of the communicator and gives it to the others over the rendezvous.

#[cfg(feature = "nccl")]
mod cards;

use std::time::{Duration, Instant};

use evenkeel_proto::v1::rank_command;

use super::{Collective, RankError};

#[cfg(feature = "nccl")]
pub use cards::Cards;

/// Bytes of a part's head: the number of its exchange, what it is, and its length.
const HEAD: usize = 24;
/// The shortest and the longest pause between two looks at an exchange that has not ended.
const PAUSES: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(2)];

/// The calls of NCCL that ranks need. Errors are NCCL's own words.
pub trait NcclCalls: Send {
    /// `ncclGetUniqueId`: the 128 bytes by which ranks find each other.
    ///
    /// # Errors
    /// NCCL's.
    fn unique_id(&mut self) -> Result<Vec<u8>, String>;

    /// `ncclCommInitRank`. Returns once all ranks have called it.
    ///
    /// # Errors
    /// NCCL's.
    fn join(&mut self, id: &[u8], rank: usize, ranks: usize) -> Result<(), String>;

    /// Begins a group of `ncclSend` and `ncclRecv`: `parts[r]` goes to rank r, and `sizes[r]` bytes come from it;
    /// nothing where there are none. This rank gives itself nothing.
    ///
    /// # Errors
    /// NCCL's.
    fn begin(&mut self, parts: Vec<Vec<u8>>, sizes: &[usize]) -> Result<(), String>;

    /// What has come from each rank, once the group that was begun has ended.
    ///
    /// # Errors
    /// NCCL's, also those that it meets after the calls have returned (`ncclCommGetAsyncError`).
    fn take(&mut self) -> Result<Option<Vec<Vec<u8>>>, String>;

    /// `ncclCommAbort`: whatever is under way ends.
    fn abort(&mut self);
}

/// One of several ranks whose exchanges NCCL carries. Its errors name a rank as far as the rendezvous can tell which
/// one is missing.
pub struct NcclRanks<N, C> {
    calls: N,
    rendezvous: C,
    timeout: Duration,
    operation: u64,
    failure: Option<RankError>,
}

impl<N: NcclCalls, C: Collective> NcclRanks<N, C> {
    /// Joins with all ranks of a rendezvous. An exchange may take as long as `timeout`, and the rendezvous has to wait
    /// longer than that: a rank that notices a failure at once meets there those that notice it late.
    ///
    /// # Errors
    /// A rank that is lost meanwhile, and what NCCL refuses.
    pub fn join(mut calls: N, mut rendezvous: C, timeout: Duration) -> Result<Self, RankError> {
        let rank = rendezvous.rank();
        let ranks = rendezvous.ranks();
        let failed = |message| RankError::Failed { rank, message: format!("NCCL: {message}") };
        // A rank that cannot make an id tells the others by an empty one, instead of keeping them waiting.
        let made = if rank == 0 { calls.unique_id() } else { Ok(Vec::new()) };
        let id = rendezvous.broadcast("NCCL's id", made.as_ref().cloned().unwrap_or_default())?;
        made.map_err(failed)?;
        if id.is_empty() {
            return Err(RankError::Failed { rank: 0, message: "NCCL: it has no id for the others".into() });
        }
        calls.join(&id, rank, ranks).map_err(failed)?;
        Ok(Self { calls, rendezvous, timeout, operation: 0, failure: None })
    }

    /// One group of sends and receives.
    fn group(&mut self, what: &'static str, parts: Vec<Vec<u8>>, sizes: &[usize]) -> Result<Vec<Vec<u8>>, RankError> {
        if let Err(message) = self.calls.begin(parts, sizes) {
            return Err(self.broken(what, Some(message)));
        }
        let began = Instant::now();
        let mut pause = PAUSES[0];
        loop {
            match self.calls.take() {
                Ok(Some(come)) => return Ok(come),
                Ok(None) if began.elapsed() < self.timeout => std::thread::sleep(pause),
                Ok(None) => return Err(self.broken(what, None)),
                Err(message) => return Err(self.broken(what, Some(message))),
            }
            pause = (2 * pause).min(PAUSES[1]);
        }
    }

    /// NCCL does not say which rank is missing: all that notice meet at the rendezvous, which does.
    fn broken(&mut self, what: &'static str, message: Option<String>) -> RankError {
        self.calls.abort();
        let rank = self.rank();
        let late = || format!("no {what} within {} s, although all ranks are there", self.timeout.as_secs());
        let error = match self.rendezvous.barrier() {
            Err(named) => named,
            Ok(()) => RankError::Failed { rank, message: format!("NCCL: {}", message.unwrap_or_else(late)) },
        };
        self.failure = Some(error.clone());
        error
    }

    /// The length of what a rank will send, by its head.
    fn check(&mut self, rank: usize, head: &[u8], expected: &[u8]) -> Result<usize, RankError> {
        let is_same = head.len() == HEAD && head[..16] == expected[..16];
        let number = |bytes: &[u8]| bytes.try_into().map_or(u64::MAX, u64::from_le_bytes);
        if is_same {
            return Ok(usize::try_from(number(&head[16..])).unwrap_or(usize::MAX));
        }
        let exchange = number(head.get(..8).unwrap_or_default());
        let other = if exchange == self.operation { " of something else" } else { "" };
        let host = format!("rank {rank}");
        let found = format!("exchange {exchange}{other}");
        let expected = format!("exchange {}", self.operation);
        let error = RankError::OutOfStep { rank, host, found, expected };
        self.failure = Some(error.clone());
        Err(error)
    }
}

/// The number of an exchange and what it is, which are the same on all ranks, and the length of a part.
fn head(operation: u64, what: &str, length: usize) -> Vec<u8> {
    let name = what
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    [operation, name, length as u64].into_iter().flat_map(u64::to_le_bytes).collect()
}

impl<N: NcclCalls, C: Collective> Collective for NcclRanks<N, C> {
    fn rank(&self) -> usize {
        self.rendezvous.rank()
    }

    fn ranks(&self) -> usize {
        self.rendezvous.ranks()
    }

    fn exchange(&mut self, what: &'static str, mut parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, RankError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let own = self.rank();
        self.operation += 1;
        let kept = std::mem::take(&mut parts[own]);
        let heads: Vec<_> = parts.iter().map(|part| head(self.operation, what, part.len())).collect();
        let expected = heads[own].clone();
        let mut lengths = vec![HEAD; parts.len()];
        lengths[own] = 0;
        let mut sent = heads;
        sent[own].clear();
        let come = self.group(what, sent, &lengths)?;
        for (rank, head) in come.iter().enumerate().filter(|(rank, _)| *rank != own) {
            lengths[rank] = self.check(rank, head, &expected)?;
        }
        let mut come = self.group(what, parts, &lengths)?;
        come[own] = kept;
        Ok(come)
    }

    fn all_gather(&mut self, what: &'static str, part: Vec<u8>) -> Result<Vec<Vec<u8>>, RankError> {
        self.exchange(what, vec![part; self.ranks()])
    }

    fn fail(&mut self, error: &RankError) {
        self.failure.get_or_insert_with(|| error.clone());
        self.calls.abort();
        self.rendezvous.fail(error);
    }

    fn tell(&mut self, command: rank_command::Kind) -> Result<(), RankError> {
        self.rendezvous.tell(command)
    }
}
