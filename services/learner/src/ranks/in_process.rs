//! Ranks that are threads of one process, for tests.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::{Collective, RankError};

/// What is given: its name, and the bytes.
type SentPart = (&'static str, Vec<u8>);

/// One of several ranks in a process.
pub struct InProcess {
    rank: usize,
    timeout: Duration,
    to: Vec<Sender<SentPart>>,
    from: Vec<Receiver<SentPart>>,
}

impl InProcess {
    /// Creates `count` ranks, each of which waits at most `timeout` for another.
    pub fn ranks(count: usize, timeout: Duration) -> Vec<Self> {
        let mut to: Vec<Vec<Sender<SentPart>>> = (0..count).map(|_| Vec::new()).collect();
        let mut from: Vec<Vec<Receiver<SentPart>>> = (0..count).map(|_| Vec::new()).collect();
        for receiver in &mut from {
            for sender in &mut to {
                let (send, receive) = channel();
                sender.push(send);
                receiver.push(receive);
            }
        }
        let ranks = to.into_iter().zip(from).enumerate();
        ranks.map(|(rank, (to, from))| Self { rank, timeout, to, from }).collect()
    }

    fn host(rank: usize) -> String {
        format!("thread {rank}")
    }
}

impl Collective for InProcess {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.to.len()
    }

    fn exchange(&mut self, what: &'static str, parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, RankError> {
        let lost = |rank| RankError::Lost { rank, host: Self::host(rank), reason: "its thread has ended".into() };
        for (rank, (to, part)) in self.to.iter().zip(parts).enumerate() {
            to.send((what, part)).map_err(|_| lost(rank))?;
        }
        let receive = |(rank, from): (usize, &Receiver<SentPart>)| match from.recv_timeout(self.timeout) {
            Ok((found, part)) if found == what => Ok(part),
            Ok((found, _)) => Err(RankError::OutOfStep {
                rank,
                host: Self::host(rank),
                found: found.to_owned(),
                expected: what.to_owned(),
            }),
            Err(RecvTimeoutError::Disconnected) => Err(lost(rank)),
            Err(RecvTimeoutError::Timeout) => {
                Err(RankError::Late { rank, host: Self::host(rank), what: what.to_owned(), waited: self.timeout })
            }
        };
        self.from.iter().enumerate().map(receive).collect()
    }

    fn all_gather(&mut self, what: &'static str, part: Vec<u8>) -> Result<Vec<Vec<u8>>, RankError> {
        self.exchange(what, vec![part; self.to.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(100);

    #[test]
    fn each_rank_gets_what_every_other_gave_to_it() {
        std::thread::scope(|scope| {
            for mut rank in InProcess::ranks(3, Duration::from_secs(20)) {
                scope.spawn(move || {
                    let own = rank.rank() as u8;
                    let parts = (0..3).map(|to| vec![own, to]).collect();
                    let found = rank.exchange("test", parts).unwrap();
                    assert_eq!(found, [vec![0, own], vec![1, own], vec![2, own]]);
                    assert_eq!(rank.all_gather("test", vec![own]).unwrap(), [[0], [1], [2]]);
                    assert_eq!(rank.broadcast("test", vec![7 + own]).unwrap(), [7]);
                    rank.barrier().unwrap();
                });
            }
        });
    }

    #[test]
    fn a_rank_that_is_gone_or_silent_or_does_something_else_is_named() {
        let mut ranks = InProcess::ranks(3, SOON);
        drop(ranks.pop());
        let error = ranks[0].barrier().unwrap_err();
        assert!(matches!(error, RankError::Lost { rank: 2, .. }), "{error}");
        let mut ranks = InProcess::ranks(2, SOON);
        let error = ranks[0].barrier().unwrap_err();
        assert_eq!(
            error.to_string(),
            "rank 1 (thread 1) hangs: it has sent no barrier for 100ms (setting `learner.ranks.timeout`)"
        );
        let error = ranks[1].all_gather("weights", Vec::new()).unwrap_err();
        assert!(matches!(error, RankError::OutOfStep { rank: 0, .. }), "{error}");
    }
}
