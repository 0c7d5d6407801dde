//! Whether an engine computes a sample alike whatever else is in its batch. One prompt is sampled alone and beside
//! others, with one seed: tokens and log-probabilities have to be equal.

use std::time::Duration;

use evenkeel_proto::{FieldError, SamplingSettings};
use evenkeel_rpc::error::millis;
use futures_util::future::join_all;

use crate::engine::{EngineClient, EngineClientError, SampleRequest, SampledTokens, opaque_request_id};

/// Comparisons. Which samples an engine computes together is up to it, so that a single one may prove nothing.
const ROUNDS: u64 = 4;
/// Samples beside the one that is compared.
const BESIDE: u32 = 15;
/// Tokens of the sample that is compared. The others have up to twice as many, so that it never runs alone.
const TOKENS: u32 = 16;
/// Longest prompt.
const PROMPT: u32 = 24;
/// Ids below it are in every vocabulary.
const IDS: u32 = 8;

const ALLOWED: &str = "equal to what it gives alone (vLLM: VLLM_BATCH_INVARIANT=1 where it starts), or \
    generation.batch_invariant = false";

/// Compares an engine's samples alone and in a batch, for at most `limit`.
///
/// # Errors
/// [`EngineClientError::Incompatible`] with the first difference; whatever a sample fails with.
pub(super) async fn check(client: &dyn EngineClient, limit: Duration) -> Result<(), EngineClientError> {
    let rounds = async {
        for round in 0..ROUNDS {
            let compared = prompt(round, 0);
            let alone = sample(client, &compared, TOKENS, round, "probe-alone").await?;
            let others: Vec<_> = (1..=BESIDE).map(|other| (other, prompt(round, other))).collect();
            let beside = others.iter().map(|(other, prompt)| {
                sample(client, prompt, TOKENS + 1 + other % TOKENS, (*other).into(), "probe-others")
            });
            // No prefix of the first sample is taken from the engine's cache.
            let (others, batched) =
                tokio::join!(join_all(beside), sample(client, &compared, TOKENS, round, "probe-beside"));
            // Without them the sample was alone again, which proves nothing.
            for other in others {
                other?;
            }
            compare(&alone, &batched?)?;
        }
        Ok(())
    };
    let after_ms = millis(limit);
    let late = || EngineClientError::Timeout { route: "the probe of generation.batch_invariant", after_ms };
    tokio::time::timeout(limit, rounds).await.unwrap_or_else(|_| Err(late()))
}

/// Ids that differ from sample to sample, of another length each.
fn prompt(round: u64, sample: u32) -> Vec<u32> {
    let first = round as u32 * 5 + sample * 3;
    (0..1 + (first + 7) % PROMPT).map(|at| (first + at * at + at / 3) % IDS).collect()
}

async fn sample(
    client: &dyn EngineClient,
    prompt: &[u32],
    tokens: u32,
    seed: u64,
    cache_salt: &str,
) -> Result<SampledTokens, EngineClientError> {
    let sampling = SamplingSettings { ignore_eos: true, ..SamplingSettings::plain(tokens, seed) };
    let request = SampleRequest {
        request_id: &opaque_request_id(),
        token_ids: prompt,
        sampling: &sampling,
        adapter: None,
        cache_salt,
        traceparent: None,
        stream: false,
    };
    let mut sampled = SampledTokens::default();
    client.sample(request, &mut sampled).await?;
    Ok(sampled)
}

fn compare(alone: &SampledTokens, batched: &SampledTokens) -> Result<(), EngineClientError> {
    let tokens = |sampled: &SampledTokens| -> Vec<(u32, u32)> {
        let bits = sampled.log_probabilities().iter().map(|value| value.to_bits());
        sampled.ids().iter().copied().zip(bits).collect()
    };
    let (alone, batched) = (tokens(alone), tokens(batched));
    let Some(at) = (0..alone.len().max(batched.len())).find(|&at| alone.get(at) != batched.get(at)) else {
        return Ok(());
    };
    let shown = |token: Option<&(u32, u32)>| {
        token
            .map_or("absent".to_owned(), |&(id, bits)| format!("id {id} with log-probability {}", f32::from_bits(bits)))
    };
    let value = format!("{} alone and {} in a batch of {}", shown(alone.get(at)), shown(batched.get(at)), BESIDE + 1);
    Err(EngineClientError::Incompatible(FieldError::new(format!("token {at} of a sample"), value, ALLOWED)))
}
