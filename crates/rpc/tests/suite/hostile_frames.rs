//! Frames that no library sends, and bytes that are not messages: their sender is closed or refused, and others notice
//! nothing.

use std::time::Duration;

use crate::support::{Setup, Worker, bounded, item};
use evenkeel_proto::v1::VerifyOneRequest;
use evenkeel_proto::v1::reward_client::RewardClient;
use evenkeel_rpc::client::ClientChannel;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;
const MANY: usize = 10_000;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// `POST /evenkeel.v1.Reward/Verify` as gRPC, in HPACK without its dynamic table.
fn request() -> Vec<u8> {
    let fields: [(&[u8], &[u8]); 3] =
        [(&[0x83, 0x86, 0x04], b"/evenkeel.v1.Reward/Verify"), (&[0x01], b"a"), (&[0x0f, 16], b"application/grpc")];
    fields.iter().flat_map(|(name, value)| [name, &[value.len() as u8][..], value].concat()).collect()
}

/// Numbers that look random and are the same each time.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// What is sent after the beginning of a connection, by what it is.
fn floods() -> Vec<(&'static str, Vec<u8>)> {
    let taken_back = |index: usize| {
        let stream = 2 * index as u32 + 1;
        [frame(HEADERS, END_HEADERS, stream, &request()), frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat()
    };
    let open = frame(HEADERS, END_HEADERS, 1, &request());
    let endless = frame(HEADERS, 0, 1, &request());
    let field = [&[0, 1, b'a', 100][..], &[b'b'; 100]].concat();
    let window = ((1_u32 << 31) - 1).to_be_bytes();
    vec![
        ("requests that are taken back", (0..MANY / 4).flat_map(taken_back).collect()),
        ("probes", frame(PING, 0, 0, &[7; 8]).repeat(MANY)),
        ("settings", frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]).repeat(MANY)),
        ("a header that does not end", [endless.clone(), frame(CONTINUATION, 0, 1, &[]).repeat(MANY)].concat()),
        ("a header of megabytes", [endless, frame(CONTINUATION, 0, 1, &field.repeat(100)).repeat(200)].concat()),
        ("a body of nothing", [open.clone(), frame(DATA, 0, 1, &[]).repeat(MANY)].concat()),
        ("goodbyes", frame(GOAWAY, 0, 0, &[0; 8]).repeat(1_000)),
        ("windows beyond all bounds", frame(WINDOW_UPDATE, 0, 0, &window).repeat(3)),
        ("a window of nothing", frame(WINDOW_UPDATE, 0, 0, &[0; 4])),
        ("data of no stream", frame(DATA, 0, 0, &[7; 100])),
        ("data of a stream that is not open", frame(DATA, 0, 9, &[7; 100])),
        ("a stream with a number of the server's", frame(HEADERS, END_HEADERS, 2, &request())),
        ("a promise by a client", [open.clone(), frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2, 0x82])].concat()),
        ("a continuation of nothing", frame(CONTINUATION, END_HEADERS, 1, &[0x82])),
        ("streams that depend on themselves", frame(PRIORITY, 0, 5, &[0, 0, 0, 5, 0]).repeat(5_000)),
        ("a setting out of range", frame(SETTINGS, 0, 0, &[0, 4, 255, 255, 255, 255])),
        ("a probe of another length", frame(PING, 0, 0, &[1; 3])),
        ("a header that is no HPACK", frame(HEADERS, END_HEADERS, 1, &[0xff; 200])),
        ("a frame beyond the longest", vec![0xff, 0xff, 0xff, DATA, 0, 0, 0, 0, 1]),
        ("a frame that is not whole", vec![0, 0, 100, HEADERS, END_HEADERS]),
        ("kinds of frames that there are not", (11..=255).flat_map(|kind| frame(kind, 0xff, 1, &[7; 20])).collect()),
    ]
}

async fn answers(client: &mut RewardClient<ClientChannel>) -> bool {
    let request = VerifyOneRequest { item: Some(item("a", "")) };
    let answer = tokio::time::timeout(Duration::from_secs(60), client.verify_one(request)).await.expect("in time");
    answer.unwrap().into_inner().verdict.unwrap().is_valid()
}

/// Sends on a connection of its own, and reads what comes back for a moment.
async fn send(worker: &Worker, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(worker.server.address()).await.unwrap();
    let (mut reader, mut writer) = stream.split();
    let mut rest = Vec::new();
    let both = async {
        // The server may close before it has everything.
        let _ = tokio::join!(writer.write_all(bytes), reader.read_to_end(&mut rest));
    };
    let _ = tokio::time::timeout(Duration::from_millis(200), both).await;
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_of_every_kind_disturb_no_other_connection() {
    bounded(async {
        let worker = Setup::default().start("worker").await;
        let mut honest = worker.client().await;
        let begun = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
        let mut held = Vec::new();
        for (what, bytes) in floods() {
            held.push(send(&worker, &[&begun[..], &bytes].concat()).await);
            assert!(answers(&mut honest).await, "{what}: a connection that stood");
            assert!(answers(&mut worker.client().await).await, "{what}: a new connection");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn noise_in_place_of_frames_disturbs_no_other_connection() {
    bounded(async {
        let worker = Setup::default().start("worker").await;
        let mut honest = worker.client().await;
        let begun = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
        for seed in 0..16 {
            let bytes = noise(seed, 4_000);
            let shaped = |bytes: &[u8]| frame(bytes[0] % 11, bytes[1], u32::from(bytes[2] % 8), &bytes[3..]);
            let frames: Vec<u8> = bytes.chunks(40).flat_map(shaped).collect();
            send(&worker, &bytes).await;
            send(&worker, &[&begun[..], &bytes].concat()).await;
            send(&worker, &[begun.clone(), frames].concat()).await;
            assert!(answers(&mut honest).await, "seed {seed}");
        }
    })
    .await;
}
