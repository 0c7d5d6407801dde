//! Frames of HTTP/2 as no library sends them.

use std::time::Duration;

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Round;
use crate::abuse::wire::{self, Failed};

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

/// How long a server is listened to after a flood.
const LISTEN: Duration = Duration::from_secs(2);
/// Frames of one flood.
const FLOOD: u32 = 10_000;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The header of a request, in HPACK without its dynamic table: `POST` of an existing method.
fn request() -> Vec<u8> {
    // Entries of the static table: method POST, scheme http; names path, authority and content-type (15 and 16 more).
    let fields: [(&[u8], &[u8]); 5] = [
        (&[0x83], b""),
        (&[0x86], b""),
        (&[0x04], b"/evenkeel.v1.Reward/Verify"),
        (&[0x01], b"server"),
        (&[0x0f, 16], b"application/grpc"),
    ];
    let mut block = Vec::new();
    for (name, value) in fields {
        block.extend(name);
        if !value.is_empty() {
            block.push(value.len() as u8);
            block.extend(value);
        }
    }
    block
}

/// Sends a flood on a connection of its own, and counts how that ended.
async fn flood(round: &Round, bytes: &[u8]) -> Result<(), Failed> {
    let mut stream = wire::tcp(round.from, round.server()).await?;
    let (mut reader, mut writer) = stream.split();
    let listening = async {
        let mut buffer = vec![0; 1 << 16];
        loop {
            match reader.read(&mut buffer).await {
                Ok(0) | Err(_) => return "closed by the server",
                Ok(_) => {}
            }
        }
    };
    let sending = async {
        if writer.write_all(bytes).await.is_err() {
            return "closed by the server";
        }
        tokio::time::sleep(LISTEN).await;
        "taken"
    };
    let ended = tokio::select! {
        ended = listening => ended,
        ended = sending => ended,
    };
    round.count(ended);
    Ok(())
}

fn begun() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

/// Random bytes, before and after what a connection begins with.
pub(super) async fn noise(round: Round) -> Result<(), Failed> {
    let mut random = ChaCha8Rng::seed_from_u64(round.number);
    let mut bytes = vec![0; 20_000];
    random.fill_bytes(&mut bytes);
    flood(&round, &bytes).await?;
    flood(&round, &[&begun()[..], &bytes].concat()).await?;
    let mut frames = begun();
    for _ in 0..200 {
        let [kind, flags, stream, length] = random.next_u32().to_be_bytes();
        frames.extend(frame(kind % 11, flags, u32::from(stream % 8), &bytes[..usize::from(length)]));
    }
    flood(&round, &frames).await
}

/// Requests that are taken back at once.
pub(super) async fn resets(round: Round) -> Result<(), Failed> {
    let mut bytes = begun();
    let block = request();
    for index in 0..FLOOD / 4 {
        let stream = 2 * index + 1;
        bytes.extend(frame(HEADERS, END_HEADERS, stream, &block));
        bytes.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
    }
    flood(&round, &bytes).await
}

pub(super) async fn pings(round: Round) -> Result<(), Failed> {
    flood(&round, &[begun(), frame(PING, 0, 0, &[7; 8]).repeat(FLOOD as usize)].concat()).await
}

/// Settings without end, each to be acknowledged.
pub(super) async fn settings(round: Round) -> Result<(), Failed> {
    let change = [0, 4, 0, 0, 0, 0];
    flood(&round, &[begun(), frame(SETTINGS, 0, 0, &change).repeat(FLOOD as usize)].concat()).await
}

/// A header that never ends, and one that is large.
pub(super) async fn continuations(round: Round) -> Result<(), Failed> {
    let mut bytes = begun();
    bytes.extend(frame(HEADERS, 0, 1, &request()));
    // One literal after the other, of a name that is not indexed.
    let field = [&[0x00, 1, b'a', 100][..], &[b'b'; 100]].concat();
    let mut large = bytes.clone();
    bytes.extend(frame(CONTINUATION, 0, 1, &[]).repeat(FLOOD as usize));
    flood(&round, &bytes).await?;
    large.extend(frame(CONTINUATION, 0, 1, &field.repeat(100)).repeat(200));
    flood(&round, &large).await
}

/// A body of nothing, in many frames.
pub(super) async fn empty_data(round: Round) -> Result<(), Failed> {
    let mut bytes = begun();
    bytes.extend(frame(HEADERS, END_HEADERS, 1, &request()));
    bytes.extend(frame(DATA, 0, 1, &[]).repeat(FLOOD as usize));
    flood(&round, &bytes).await
}

/// Frames where they may not be, of lengths that they may not have.
pub(super) async fn out_of_place(round: Round) -> Result<(), Failed> {
    let window = (1_u32 << 31) - 1;
    let wrong = [
        frame(GOAWAY, 0, 0, &[0; 8]).repeat(1_000),
        frame(WINDOW_UPDATE, 0, 0, &window.to_be_bytes()).repeat(3),
        frame(WINDOW_UPDATE, 0, 0, &[0; 4]),
        frame(DATA, 0, 0, &[7; 100]),
        frame(DATA, 0, 9, &[7; 100]),
        frame(HEADERS, END_HEADERS, 2, &request()),
        frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2, 0x82]),
        frame(CONTINUATION, END_HEADERS, 1, &[0x82]),
        frame(PRIORITY, 0, 5, &[0, 0, 0, 5, 0]).repeat(5_000),
        frame(SETTINGS, 0, 0, &[0, 4, 255, 255, 255, 255]),
        frame(PING, 0, 0, &[1; 3]),
        frame(HEADERS, END_HEADERS, 1, &[0xff; 200]),
        vec![0xff, 0xff, 0xff, DATA, 0, 0, 0, 0, 1],
    ];
    for frames in wrong {
        let bytes = [begun(), frames].concat();
        let mut stream: TcpStream = wire::tcp(round.from, round.server()).await?;
        if stream.write_all(&bytes).await.is_err() {
            round.count("closed by the server");
            continue;
        }
        let mut answer = Vec::new();
        let reading = stream.read_to_end(&mut answer);
        match tokio::time::timeout(Duration::from_millis(300), reading).await {
            Ok(_) => round.count("closed by the server"),
            Err(_) => round.count("taken"),
        }
    }
    Ok(())
}
