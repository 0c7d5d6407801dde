//! Calls that are valid HTTP/2 and little else.

use std::time::Duration;

use bytes::Bytes;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Round;
use super::rows::VERIFY_ONE;
use crate::abuse::wire::{self, Failed};

/// A method of each kind of each service.
const METHODS: [&str; 15] = [
    VERIFY_ONE,
    "/evenkeel.v1.Reward/Verify",
    "/evenkeel.v1.Generation/Generate",
    "/evenkeel.v1.Generation/UpdateWeights",
    "/evenkeel.v1.Generation/Sleep",
    "/evenkeel.v1.Learner/Train",
    "/evenkeel.v1.Learner/Score",
    "/evenkeel.v1.Learner/SaveCheckpoint",
    "/evenkeel.v1.Learner/LoadCheckpoint",
    "/evenkeel.v1.Learner/Reset",
    "/evenkeel.v1.Orchestrator/StartRun",
    "/evenkeel.v1.Orchestrator/ListRuns",
    "/evenkeel.v1.Orchestrator/WatchRun",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
];

/// 30 MB of a message of 31, on ten connections.
pub(super) async fn half_sent(round: Round) -> Result<(), Failed> {
    let mut prefix = vec![0];
    prefix.extend(31_000_000_u32.to_be_bytes());
    let part = Bytes::from(vec![7; 30_000_000]);
    let mut held = Vec::new();
    for _ in 0..10 {
        let channel = round.channel(round.targets().reward).await?;
        let pieces = vec![Bytes::from(prefix.clone()), part.clone()];
        let call = tokio::spawn({
            let channel = channel.clone();
            async move { wire::call(&channel, VERIFY_ONE, pieces, true).await }
        });
        held.push((call, channel));
        round.count("messages");
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    for (call, _) in held {
        call.abort();
    }
    Ok(())
}

/// Methods that no server has, each another, with headers of their own.
pub(super) async fn unknown(round: Round) -> Result<(), Failed> {
    let channel = round.channel(round.server()).await?;
    for index in 0..50 {
        let path = format!("/evenkeel.v1.None{}/Method{index}", round.number);
        round.call(&channel, &path, wire::framed(b"")).await?;
    }
    Ok(())
}

/// Random bytes, lengths that are wrong, flags that are not there, as messages of every method.
pub(super) async fn garbage(round: Round) -> Result<(), Failed> {
    let mut random = ChaCha8Rng::seed_from_u64(round.number);
    let channel = round.channel(round.server()).await?;
    for method in METHODS {
        let mut noise = vec![0; random.random_range(0..2_000)];
        random.fill(&mut noise[..]);
        let pieces = match random.random_range(0..4) {
            0 => vec![Bytes::from(noise)],
            1 => vec![wire::framed(&noise)],
            2 => vec![Bytes::from_static(&[1, 0, 0, 0, 9]), Bytes::from(noise)],
            _ => vec![Bytes::from_static(&[0, 255, 255, 255, 255]), Bytes::from(noise)],
        };
        let call = async { Ok::<_, Failed>(wire::end(wire::call(&channel, method, pieces, false).await?).await.0) };
        // Some of them go on for ever by their nature (a watch), and one cannot tell with noise.
        match tokio::time::timeout(Duration::from_secs(2), call).await {
            Ok(Ok(code)) => round.count(&code),
            Ok(Err(error)) => round.count(&format!("broke off: {error}")),
            Err(_) => round.count("goes on"),
        }
    }
    Ok(())
}
