//! Ranks over streams that are channels of this process.

use tokio::runtime::Runtime;
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::*;

/// Far more than any exchange takes.
const PATIENT: Duration = Duration::from_secs(60);

/// What happens to messages from one rank to another.
type Wire = fn(from: usize, to: usize, message: &mut RankMessage);

fn as_sent(_: usize, _: usize, _: &mut RankMessage) {}

/// Creates `ranks` ranks, and the runtime that carries what they exchange.
fn connected(ranks: usize, timeout: Duration, wire: Wire) -> (Runtime, Vec<Streams>) {
    let runtime = Runtime::new().unwrap();
    let one_way = |from: usize, to: usize| {
        let (outgoing, arriving) = mpsc::unbounded_channel();
        let arriving = UnboundedReceiverStream::new(arriving).map(move |mut message| {
            wire(from, to, &mut message);
            Ok(message)
        });
        let _inside = runtime.enter();
        (outgoing, Inbox::of(arriving, 1 << 20))
    };
    let mut of_first = Vec::new();
    let mut others = Vec::new();
    for rank in 1..ranks {
        let (to_first, from_other) = one_way(rank, 0);
        let (to_other, from_first) = one_way(0, rank);
        of_first.push(Link { rank, host: format!("host {rank}"), outgoing: to_other, inbox: from_other });
        let link = Link { rank: 0, host: "host 0".into(), outgoing: to_first, inbox: from_first };
        others.push(Streams::new(rank, ranks, vec![link], timeout, runtime.handle().clone()));
    }
    others.insert(0, Streams::new(0, ranks, of_first, timeout, runtime.handle().clone()));
    (runtime, others)
}

/// What `work` returns on each of them.
fn on_each<T: Send>(ranks: &mut [Streams], work: impl Fn(&mut Streams) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = ranks.iter_mut().map(|rank| scope.spawn(|| work(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn each_rank_gets_what_every_other_gave_to_it() {
    let (_runtime, mut ranks) = connected(3, PATIENT, as_sent);
    on_each(&mut ranks, |rank| {
        let own = rank.rank() as u8;
        let found = rank.exchange("gradients", (0..3).map(|to| vec![own, to]).collect()).unwrap();
        assert_eq!(found, [vec![0, own], vec![1, own], vec![2, own]]);
        assert_eq!(rank.all_gather("weights", vec![own]).unwrap(), [[0], [1], [2]]);
    });
}

/// Changes a bit of what rank 1 gives, on the way to rank 0.
fn damaged_to_first(from: usize, _: usize, message: &mut RankMessage) {
    if let (1, Some(rank_message::Kind::Part(part))) = (from, &mut message.kind) {
        part.values[0] ^= 1;
    }
}

/// Changes a bit of what rank 1 gives, on the way from rank 0 to rank 2.
fn damaged_to_last(_: usize, to: usize, message: &mut RankMessage) {
    if let (2, Some(rank_message::Kind::Part(part))) = (to, &mut message.kind)
        && part.from == 1
    {
        part.values[0] ^= 1;
    }
}

#[test]
fn a_bit_that_is_flipped_between_two_ranks_is_noticed_by_the_rank_that_gets_it() {
    for (wire, receiver, sender) in [(damaged_to_first as Wire, 0, 1), (damaged_to_last, 2, 0)] {
        let (_runtime, mut ranks) = connected(3, PATIENT, wire);
        let gathered = on_each(&mut ranks, |rank| {
            let gathered = rank.all_gather("weights", vec![7; 100]);
            // As a rank that cannot go on does: the others do not wait for it.
            rank.links.clear();
            gathered
        });
        let error = gathered[receiver].as_ref().unwrap_err().to_string();
        let words = format!(
            "rank {sender} (host {sender}) is lost: \"weights\" of exchange 0 arrived damaged: its checksum is another"
        );
        assert_eq!(error, words);
    }
}

#[test]
fn a_rank_that_hangs_is_named_also_by_those_that_hear_of_it_through_rank_0_alone() {
    let (_runtime, mut ranks) = connected(3, Duration::from_millis(50), as_sent);
    let error = |rank: &mut Streams| rank.all_gather("weights", vec![1]).unwrap_err().to_string();
    let said = "hangs: it has sent no weights for";
    let of_first = error(&mut ranks[0]);
    assert_eq!(of_first, format!("rank 1 (host 1) {said} 50ms (setting `learner.ranks.timeout`)"));
    // It waits a little longer than rank 0, whose own weights have come.
    let of_last = error(&mut ranks[2]);
    assert_eq!(of_last, format!("rank 1 (behind rank 0) {said} 60ms (setting `learner.ranks.timeout`)"));
}
