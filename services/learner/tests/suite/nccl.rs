//! Ranks whose exchanges NCCL carries, over a fake of NCCL's calls: bytes go through channels, as late and as wrong as
//! a test says.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use candle_core::Device;
use evenkeel_learner::{Collective, Division, InProcess, Learner, NcclCalls, NcclRanks, RankError};
use evenkeel_model::Parameters;

use crate::support::{bits, config, groups, learner, settings};

const SOON: Duration = Duration::from_millis(200);
const PATIENT: Duration = Duration::from_secs(20);

/// What NCCL does wrong on a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    NoId,
    /// Nothing ends any more after so many groups.
    Stuck(usize),
    /// The calls fail after so many groups.
    Broken(usize),
}

struct FakeNccl {
    fault: Fault,
    rank: usize,
    groups: usize,
    to: Vec<Sender<Vec<u8>>>,
    from: Vec<Receiver<Vec<u8>>>,
    expected: Option<Vec<usize>>,
    come: Vec<VecDeque<Vec<u8>>>,
    seen: Arc<Mutex<Seen>>,
}

/// What happened on all ranks.
#[derive(Default)]
struct Seen {
    /// The ids that were joined with.
    ids: Vec<Vec<u8>>,
    /// The ranks that were aborted.
    aborted: Vec<usize>,
}

impl FakeNccl {
    fn ranks(count: usize, faults: &[Fault], seen: &Arc<Mutex<Seen>>) -> Vec<Self> {
        let mut to: Vec<Vec<_>> = (0..count).map(|_| Vec::new()).collect();
        let mut from: Vec<Vec<_>> = (0..count).map(|_| Vec::new()).collect();
        for receiver in &mut from {
            for sender in &mut to {
                let (send, receive) = channel();
                sender.push(send);
                receiver.push(receive);
            }
        }
        let ends = to.into_iter().zip(from).enumerate();
        ends.map(|(rank, (to, from))| Self {
            fault: faults.get(rank).copied().unwrap_or(Fault::None),
            rank,
            groups: 0,
            come: to.iter().map(|_| VecDeque::new()).collect(),
            to,
            from,
            expected: None,
            seen: Arc::clone(seen),
        })
        .collect()
    }
}

impl NcclCalls for FakeNccl {
    fn unique_id(&mut self) -> Result<Vec<u8>, String> {
        match self.fault {
            Fault::NoId => Err("ncclSystemError".into()),
            _ => Ok(vec![7; 128]),
        }
    }

    fn join(&mut self, id: &[u8], rank: usize, _: usize) -> Result<(), String> {
        assert_eq!(rank, self.rank);
        self.seen.lock().unwrap().ids.push(id.to_vec());
        Ok(())
    }

    fn begin(&mut self, parts: Vec<Vec<u8>>, sizes: &[usize]) -> Result<(), String> {
        assert!(
            !self.seen.lock().unwrap().aborted.contains(&self.rank) && self.expected.is_none(),
            "one at a time, and none after the end"
        );
        assert!(parts[self.rank].is_empty() && sizes[self.rank] == 0, "a rank gives itself nothing");
        self.groups += 1;
        match self.fault {
            Fault::Broken(after) if self.groups > after => return Err("ncclRemoteError".into()),
            Fault::Stuck(after) if self.groups > after => {}
            _ => parts
                .into_iter()
                .zip(&self.to)
                .filter(|(part, _)| !part.is_empty())
                .for_each(|(part, to)| drop(to.send(part))),
        }
        self.expected = Some(sizes.to_vec());
        Ok(())
    }

    fn take(&mut self) -> Result<Option<Vec<Vec<u8>>>, String> {
        for (from, come) in self.from.iter().zip(&mut self.come) {
            come.extend(from.try_iter());
        }
        let sizes = self.expected.clone().expect("a group was begun");
        let is_stuck = matches!(self.fault, Fault::Stuck(after) if self.groups > after);
        if is_stuck || sizes.iter().zip(&self.come).any(|(&size, come)| size > 0 && come.is_empty()) {
            return Ok(None);
        }
        self.expected = None;
        let taken = sizes.iter().zip(&mut self.come).map(|(&size, come)| match size {
            0 => Vec::new(),
            _ => come.pop_front().unwrap(),
        });
        let taken: Vec<_> = taken.collect();
        assert!(taken.iter().zip(&sizes).all(|(part, &size)| part.len() == size), "as many bytes as were announced");
        Ok(Some(taken))
    }

    fn abort(&mut self) {
        self.expected = None;
        self.seen.lock().unwrap().aborted.push(self.rank);
    }
}

type Ranks = NcclRanks<FakeNccl, InProcess>;

/// What `work` returns on each of so many ranks.
fn on<T: Send>(
    faults: &[Fault],
    timeout: Duration,
    work: impl Fn(Result<Ranks, RankError>) -> T + Sync,
) -> (Vec<T>, Seen) {
    let seen = Arc::default();
    let results = std::thread::scope(|scope| {
        let calls = FakeNccl::ranks(faults.len(), faults, &seen);
        let threads: Vec<_> = calls
            .into_iter()
            // Those that notice at once wait here for those that notice late.
            .zip(InProcess::ranks(faults.len(), 20 * timeout))
            .map(|(calls, rendezvous)| {
                let work = &work;
                scope.spawn(move || work(NcclRanks::join(calls, rendezvous, timeout)))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    (results, seen)
}

#[test]
fn each_rank_gets_what_every_other_gave_to_it_whatever_its_length() {
    let (_, seen) = on(&[Fault::None; 3], PATIENT, |joined| {
        let mut ranks = joined.unwrap();
        let own = ranks.rank();
        for round in 0..4 {
            // Nothing from some to others, and a long part in between.
            let part = |from: usize, to: usize| {
                vec![from as u8; if (from + to + round).is_multiple_of(3) { 0 } else { 1 + 1000 * from * round + to }]
            };
            let found = ranks.exchange("test", (0..3).map(|to| part(own, to)).collect()).unwrap();
            assert_eq!(found, (0..3).map(|from| part(from, own)).collect::<Vec<_>>());
        }
        assert_eq!(ranks.all_gather("test", vec![own as u8]).unwrap(), [[0], [1], [2]]);
        assert_eq!(ranks.broadcast("test", vec![9 + own as u8]).unwrap(), [9]);
        ranks.barrier().unwrap();
    });
    assert_eq!(seen.ids, vec![vec![7; 128]; 3], "the id of rank 0");
    assert!(seen.aborted.is_empty());
}

#[test]
fn a_rank_that_is_gone_is_named_by_the_rendezvous_within_the_deadline() {
    let began = Instant::now();
    let (errors, _) = on(&[Fault::None; 3], SOON, |joined| {
        let mut ranks = joined.unwrap();
        if ranks.rank() == 2 {
            return None;
        }
        let error = ranks.barrier().unwrap_err();
        // Who has noticed stays until all have: in this test only one rank is gone.
        Some((error, ranks))
    });
    assert!(began.elapsed() < 20 * SOON, "{:?}", began.elapsed());
    for (error, _) in errors.into_iter().flatten() {
        assert!(matches!(error, RankError::Lost { rank: 2, .. }), "{error}");
    }
}

#[test]
fn nccl_that_is_stuck_or_fails_is_ended_on_all_ranks_and_says_so() {
    // The first exchange has two groups.
    for (fault, words) in [(Fault::Stuck(3), "no second within"), (Fault::Broken(3), "NCCL: ncclRemoteError")] {
        let (said, mut seen) = on(&[Fault::None, fault], SOON, |joined| {
            let mut ranks = joined.unwrap();
            ranks.all_gather("first", vec![1]).unwrap();
            let error = ranks.all_gather("second", vec![2]).unwrap_err();
            assert_eq!(ranks.barrier().unwrap_err(), error, "nothing goes on after it");
            error.to_string()
        });
        seen.aborted.sort_unstable();
        assert_eq!(seen.aborted, [0, 1]);
        assert!(said[1].contains(words), "{said:?}");
        assert!(said[0].contains("NCCL: no second within"), "{said:?}");
    }
}

#[test]
fn ranks_that_do_different_things_are_named() {
    let (errors, _) = on(&[Fault::None; 2], PATIENT, |joined| {
        let mut ranks = joined.unwrap();
        let what = if ranks.rank() == 0 { "weights" } else { "gradients" };
        ranks.all_gather(what, vec![1]).unwrap_err()
    });
    for (rank, error) in errors.into_iter().enumerate() {
        assert!(matches!(error, RankError::OutOfStep { rank: other, .. } if other == 1 - rank), "{error}");
    }
}

#[test]
fn a_rank_0_without_an_id_keeps_nobody_waiting() {
    let (errors, _) = on(&[Fault::NoId, Fault::None], PATIENT, |joined| joined.err().unwrap().to_string());
    assert_eq!(errors, ["rank 0 failed: NCCL: ncclSystemError", "rank 0 failed: NCCL: it has no id for the others"]);
}

#[test]
fn training_over_nccl_has_the_bits_of_one_process() {
    let train = |learner: &mut Learner| {
        for (step, count) in [(1, 9), (2, 5)] {
            learner.train(groups(step, count)).unwrap();
        }
        bits(learner)
    };
    let alone = train(&mut learner(settings()));
    for count in [2, 3] {
        let (found, _) = on(&vec![Fault::None; count], PATIENT, |joined| {
            let ranks = joined.unwrap();
            let division = Division::new(ranks.rank(), ranks.ranks());
            // As those of `learner`.
            let parameters = Parameters::random(&config(), 11, 0.2, &Device::Cpu).unwrap();
            let mut learner = Learner::new_rank(config(), parameters, settings(), division).unwrap();
            learner.join(Some(Arc::new(Mutex::new(ranks))));
            train(&mut learner)
        });
        assert!(found.iter().all(|bits| *bits == alone), "{count} ranks");
    }
}
