//! Two ranks of one learner: what is between them, and who is let in.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evenkeel_learner::{LearnerSettings, PublishOptions, RankEnd, RankSettings, follow};
use evenkeel_proto::v1::operate_request::Kind;
use evenkeel_proto::v1::ranks_client::RanksClient;
use evenkeel_proto::v1::{AccumulateOperation, OperateResponse, RankHello, RankMessage, rank_message};
use evenkeel_rpc::client::{ClientSettings, Connector, ServerAddress};
use evenkeel_rpc::error::{Reason, has_reason};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tonic::{Code, Status};

use super::operations::{apply, begin, data};
use super::{TestService, start, start_from_with};
use crate::support::{learner, settings};

pub(super) struct TwoRanks {
    pub(super) service: TestService,
    /// The end of the one that follows.
    pub(super) following: JoinHandle<RankEnd>,
    /// Where rank 0 listens for it.
    port: u16,
    token: PathBuf,
}

/// Two ranks. `wire` turns the port at which the first listens into that at which the second looks for it.
pub(super) async fn start_two_ranks(wire: impl FnOnce(u16) -> u16) -> TwoRanks {
    let folder = tempfile::tempdir().unwrap();
    let model = learner(settings()).publish(folder.path(), PublishOptions::default()).unwrap().path;
    let token = folder.path().join("token");
    std::fs::write(&token, "0123456789abcdef").unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let rank = |rank, port| {
        let address = Some(format!("127.0.0.1:{port}"));
        let token_file = Some(token.clone());
        Some(RankSettings { count: 2, rank: Some(rank), address, token_file, ..RankSettings::default() })
    };
    let mut training = settings();
    training.ranks = rank(1, wire(port));
    let place = training.rank_place().unwrap().unwrap();
    let second = LearnerSettings { model: model.clone(), training, ..LearnerSettings::default() };
    let following = tokio::spawn(async move { follow(second, place, std::future::pending()).await.unwrap() });
    let service = start_from_with(folder, &model, settings(), |first| first.training.ranks = rank(0, port)).await;
    TwoRanks { service, following, port, token }
}

/// Bytes of the name of a part, behind which come its numbers.
const GRADIENTS: &[u8] = b"gradients";

/// Where the bit is flipped: that many bytes behind the name.
const BEHIND: usize = 40;

/// A wire to a port on which one bit of the first gradients is flipped, once. `to_rank_0` says in which direction.
fn damaging(port: u16, to_rank_0: bool) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    listener.set_nonblocking(true).unwrap();
    let listener = TcpListener::from_std(listener).unwrap();
    let is_done = Arc::new(AtomicBool::new(false));
    tokio::spawn(async move {
        loop {
            let (near, _) = listener.accept().await.unwrap();
            // Rank 0 does not listen yet.
            let Ok(far) = TcpStream::connect(("127.0.0.1", port)).await else { continue };
            let (from_near, to_near) = near.into_split();
            let (from_far, to_far) = far.into_split();
            let damaged = Arc::clone(&is_done);
            let unharmed = Arc::new(AtomicBool::new(true));
            let (up, down) = if to_rank_0 { (damaged, unharmed) } else { (unharmed, damaged) };
            tokio::spawn(carry(from_near, to_far, up));
            tokio::spawn(carry(from_far, to_near, down));
        }
    });
    own
}

/// Carries bytes, and flips a bit unless that `is_done`.
async fn carry(mut from: impl AsyncReadExt + Unpin, mut to: impl AsyncWriteExt + Unpin, is_done: Arc<AtomicBool>) {
    let mut bytes = vec![0; 1 << 16];
    let mut matched = 0;
    let mut behind = 0;
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        for byte in &mut bytes[..count] {
            if is_done.load(Ordering::SeqCst) {
                break;
            }
            if matched < GRADIENTS.len() {
                matched = if *byte == GRADIENTS[matched] { matched + 1 } else { 0 };
            } else if behind < BEHIND {
                behind += 1;
            } else {
                *byte ^= 4;
                is_done.store(true, Ordering::SeqCst);
            }
        }
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

/// One update on fresh moments, from the initial weights.
async fn train(service: &mut TestService) -> Result<OperateResponse, Status> {
    let data = (0..11).map(data).collect();
    let sum = AccumulateOperation { data, loss: "cross_entropy".into(), ..AccumulateOperation::default() };
    service.operate(1, begin(10)).await?;
    service.operate(2, Kind::Accumulate(sum)).await?;
    service.operate(3, apply()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bit_flipped_between_ranks_ends_the_update_and_is_in_nothing_that_follows() {
    let alone = train(&mut start().await).await.unwrap();
    for to_rank_0 in [true, false] {
        let mut ranks = start_two_ranks(|port| damaging(port, to_rank_0)).await;
        let error = train(&mut ranks.service).await.unwrap_err();
        assert!(has_reason(&error, Reason::RankLost) && error.message().starts_with("rank 1 ("), "{error}");
        // Otherwise rank 1 has found it, and left.
        assert!(!to_rank_0 || error.message().contains("\"gradients\" of exchange"), "{error}");
        assert!(!to_rank_0 || error.message().contains("arrived damaged"), "{error}");
        let began = Instant::now();
        let again = loop {
            match train(&mut ranks.service).await {
                Ok(again) => break again,
                Err(error) => assert!(began.elapsed() < Duration::from_secs(60), "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        assert_eq!((again.version, again.applied), (alone.version, alone.applied));
    }
}

/// The answer of rank 0 to a hello of another program, without a checksum.
async fn join(port: u16, token: Option<&Path>) -> Status {
    let settings = ClientSettings { token_file: token.map(Path::to_owned), ..ClientSettings::default() };
    let connector = Connector::new("client", settings).unwrap();
    let address = ServerAddress::new(format!("http://127.0.0.1:{port}"));
    let mut client = RanksClient::new(connector.connect(&address).await.unwrap());
    let hello = RankHello { rank: 1, ranks: 2, program: "another".into(), ..RankHello::default() };
    let hello = RankMessage { kind: Some(rank_message::Kind::Hello(hello)), checksum: 0 };
    client.join(tokio_stream::iter([hello])).await.map(drop).unwrap_err()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_is_refused_without_a_word_of_what_rank_0_expects() {
    let ranks = start_two_ranks(|port| port).await;
    let guess = ranks.token.with_file_name("guess");
    std::fs::write(&guess, "0123456789abcdee").unwrap();
    for token in [None, Some(&*guess)] {
        let error = join(ranks.port, token).await;
        assert_eq!(error.code(), Code::Unauthenticated, "{error}");
        for expected in ["sha256", "program", "settings", "weights", "ranks", env!("CARGO_PKG_VERSION")] {
            assert!(!error.message().contains(expected), "{error}");
        }
    }
    let error = join(ranks.port, Some(&ranks.token)).await;
    assert_eq!((error.code(), error.message()), (Code::DataLoss, "the hello arrived damaged: its checksum is another"));
}
