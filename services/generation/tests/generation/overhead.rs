//! What the service costs: many samples through it and by a direct client with the same concurrency, in turns.

use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_generation::{GenerationConfig, StreamSetting};
use evenkeel_proto::v1::GenerateItem;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::support::completions::request_body;
use crate::support::engine::spawn_instant;
use crate::support::{Service, bounded, item, settings_of, with_tokens};

const SAMPLES: u64 = 4096;
const AT_ONCE: usize = 256;

/// CPU time of this process.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

async fn direct(endpoint: &str, tokens: u32) -> Duration {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for seed in 0..SAMPLES {
        let (client, places, url) = (client.clone(), Arc::clone(&places), format!("{endpoint}/v1/completions"));
        tasks.spawn(async move {
            let _place = places.acquire_owned().await.unwrap();
            let body = request_body(seed, tokens);
            let answer = client.post(url).header("content-type", "application/json").body(body).send().await.unwrap();
            let answer: serde_json::Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
            assert_eq!(answer["choices"][0]["token_ids"].as_array().unwrap().len(), tokens as usize);
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    begun.elapsed()
}

async fn through(service: &Service, tokens: u32) -> Duration {
    let items: Vec<GenerateItem> =
        (0..SAMPLES).map(|seed| with_tokens(item(format!("s/{seed}"), seed), tokens)).collect();
    let begun = Instant::now();
    let rollouts = service.draw_all(items).await;
    assert!(rollouts.values().all(|rollout| rollout.failure.is_none()));
    begun.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn overhead() {
    bounded(async {
        let endpoint = spawn_instant();
        for (name, stream) in [("whole", StreamSetting::WhenPartial), ("streamed", StreamSetting::Always)] {
            let service = Service::with(GenerationConfig { stream, ..settings_of(vec![endpoint.clone()]) }).await;
            for tokens in [24, 200] {
                let mut lines = Vec::new();
                for _ in 0..5 {
                    let before = cpu();
                    let plain = direct(&endpoint, tokens).await;
                    let middle = cpu();
                    let ours = through(&service, tokens).await;
                    lines.push((plain, middle - before, ours, cpu() - middle));
                }
                let each = |time: Duration| time.as_micros() as u64 / SAMPLES;
                lines.sort_by_key(|line| line.2);
                for (plain, plain_cpu, ours, ours_cpu) in lines {
                    println!(
                        "{name}, {tokens} tokens: direct {} us a sample ({} us CPU, engine included), through the service {} us ({} us CPU)",
                        each(plain), each(plain_cpu), each(ours), each(ours_cpu)
                    );
                }
            }
        }
    })
    .await;
}
