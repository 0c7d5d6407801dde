//! A client of the generation service: one stream with a fixed number of samples in flight.

use std::collections::HashMap;
use std::error::Error;
use std::time::{Duration, Instant};

use evenkeel_proto::SamplingSettings;
use evenkeel_proto::v1::generation_client::GenerationClient;
use evenkeel_proto::v1::{GenerateItem, GenerateRequest};
use evenkeel_rpc::client::{ClientSettings, Connector, ServerAddress};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::load::{Load, line};

/// Time limit for the service to come up.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) async fn run(url: &str, load: Load) -> Result<Value, Box<dyn Error>> {
    let connector = Connector::new("client", ClientSettings::default())?;
    let begun = Instant::now();
    let channel = loop {
        match connector.connect(&ServerAddress::new(url)).await {
            Ok(channel) => break channel,
            Err(error) if begun.elapsed() > STARTUP_TIMEOUT => return Err(error.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    };
    let (requests, receiver) = mpsc::channel(load.in_flight);
    let mut rollouts = GenerationClient::new(channel).generate(ReceiverStream::new(receiver)).await?.into_inner();
    let began = Instant::now();
    let mut sent = HashMap::new();
    let mut next = 0;
    let mut answered = 0;
    let mut tokens = 0;
    let mut latencies = Vec::new();
    while answered < load.samples {
        while next < load.samples && sent.len() < load.in_flight {
            sent.insert(next, Instant::now());
            requests.send(item(next, load.tokens)).await?;
            next += 1;
        }
        let rollout = rollouts.message().await?.ok_or("the stream ended")?;
        let found: usize = rollout.segments.iter().map(|segment| segment.token_ids.len()).sum();
        if found != load.tokens as usize || rollout.failure.is_some() {
            return Err(format!("{}: {found} tokens, {:?}", rollout.sample_id, rollout.failure).into());
        }
        let sample: u64 = rollout.sample_id.parse()?;
        let latency = sent.remove(&sample).ok_or("answered twice")?.elapsed();
        latencies.extend(load.latency(sample, latency));
        answered += 1;
        tokens += found as u64;
    }
    Ok(line(load, began.elapsed(), tokens, latencies))
}

fn item(sample: u64, tokens: u32) -> GenerateRequest {
    let group = Load::group(sample);
    let sampling = SamplingSettings { ignore_eos: true, ..SamplingSettings::plain(tokens, sample) };
    GenerateItem {
        sample_id: sample.to_string(),
        group_id: format!("group/{group}"),
        prompt_token_ids: Load::prompt(group),
        sampling: Some(sampling.into()),
        ..GenerateItem::default()
    }
    .into()
}
