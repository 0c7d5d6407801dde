//! The overhead of the server: 256 samples of 40 tokens with the model of the built-in recipe, by a bare loop over the
//! decoder and over HTTP in five ways, alternating, so that load on the machine affects all alike.
//!
//! ```text
//! cargo run --release -p evenkeel-engine --example measure -- [ROUNDS]
//! ```

use std::io::Write;
use std::net::SocketAddr;
use std::time::Instant;

use candle_core::{DType, Device};
use evenkeel_engine::{Engine, EngineSettings};
use evenkeel_model::decode::DecodeStep;
use evenkeel_model::folder::{SaveOptions, save_config, save_parameters};
use evenkeel_model::kernels::cpu::Cpu;
use evenkeel_model::{Architecture, Biases, Config, Decoder, KvCache, Parameters, Rope};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

const SAMPLES: usize = 256;
const TOKENS: usize = 40;
const PROMPT: usize = 6;
const THREADS: usize = 2;

const NAMES: [&str; 6] = [
    "decoder alone",
    "16 requests of n = 16",
    "256 requests",
    "16 streams of n = 16",
    "256 streams",
    "256 streams by eight",
];

type Failure = Box<dyn std::error::Error>;

fn config() -> Config {
    Config {
        architecture: Architecture::QWEN3,
        query_key_norm: true,
        vocab_size: 128,
        hidden_size: 96,
        intermediate_size: 256,
        num_layers: 3,
        num_heads: 3,
        num_kv_heads: 1,
        head_dim: 32,
        max_position_embeddings: 256,
        rms_norm_eps: 1e-6,
        rope: Rope::plain(1e4),
        layers_without_rope: Vec::new(),
        biases: Biases::NONE,
        tie_word_embeddings: true,
        eos_token_ids: vec![1],
    }
}

fn prompt(number: usize) -> Vec<u32> {
    (0..PROMPT).map(|at| (2 + (number * 31 + at * 17) % 90) as u32).collect()
}

/// The decoder alone, fed with the likeliest tokens: a lower bound for any server.
fn bare(decoder: &Decoder) -> Result<f64, Failure> {
    let began = Instant::now();
    let mut caches: Vec<KvCache> = (0..SAMPLES).map(|_| decoder.sequence()).collect::<Result<_, _>>()?;
    let mut next: Vec<Vec<u32>> = (0..SAMPLES).map(|number| prompt(number / 16)).collect();
    for _ in 0..TOKENS {
        let mut steps: Vec<DecodeStep<'_>> =
            caches.iter_mut().zip(&next).map(|(cache, ids)| DecodeStep::new(cache, ids)).collect();
        let logits = decoder.step(&mut steps)?;
        for (row, next) in logits.chunks(128).zip(&mut next) {
            let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(id, _)| id);
            *next = vec![best as u32];
        }
    }
    Ok(began.elapsed().as_secs_f64())
}

/// `interval`: tokens of a frame; 0 requests a whole response.
fn request(number: usize, samples: usize, interval: usize) -> String {
    let stream = interval > 0;
    json!({"prompt": prompt(number), "n": samples, "seed": number * 1000, "temperature": 1.0, "top_p": 1.0, "top_k": 0,
           "max_tokens": TOKENS, "ignore_eos": true, "logprobs": 0, "return_token_ids": true,
           "return_tokens_as_token_ids": true, "stream": stream, "stream_interval": interval.max(1)})
    .to_string()
}

/// Open connections, like a trainer's.
async fn connect(address: SocketAddr, count: usize) -> Result<Vec<SendRequest<Full<Bytes>>>, Failure> {
    let mut senders = Vec::new();
    for _ in 0..count {
        let stream = tokio::net::TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        senders.push(sender);
    }
    Ok(senders)
}

/// All samples over HTTP, read to the end but not parsed. Returns seconds and bytes.
async fn over_http(
    senders: &mut [SendRequest<Full<Bytes>>],
    each: usize,
    interval: usize,
) -> Result<(f64, usize), Failure> {
    let began = Instant::now();
    let mut answers = Vec::new();
    for (number, sender) in senders.iter_mut().enumerate() {
        let number = if each == 1 { number / 16 } else { number };
        let body = Full::new(Bytes::from(request(number, each, interval)));
        let request = http::Request::post("/v1/completions")
            .header("host", "localhost")
            .header("content-type", "application/json");
        answers.push(tokio::spawn(sender.send_request(request.body(body)?)));
    }
    let mut readers = Vec::new();
    for answer in answers {
        readers.push(tokio::spawn(answer.await??.into_body().collect()));
    }
    let mut bytes = 0;
    let mut first = None;
    for reader in readers {
        let body = reader.await??.to_bytes();
        bytes += body.len();
        first.get_or_insert(body);
    }
    let seconds = began.elapsed().as_secs_f64();
    if interval == 0 {
        let answer: Value = serde_json::from_slice(&first.unwrap_or_default())?;
        assert_eq!(answer["usage"]["completion_tokens"], each * TOKENS);
    }
    Ok((seconds, bytes))
}

/// CPU time of this process in seconds, in hundredths; 0 if the system does not report it.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    fields.iter().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let rounds: usize = std::env::args().nth(1).map_or(Ok(15), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    let parameters = Parameters::random(&config(), 1, 0.05, &Device::Cpu)?;
    save_parameters(folder.path(), &parameters, SaveOptions::default())?;
    save_config(folder.path(), &config().to_json()?, DType::F32)?;
    let decoder = Decoder::new(config(), &parameters, Cpu::new()?, THREADS)?;
    let settings =
        EngineSettings { listen: "127.0.0.1:0".into(), threads: THREADS, ..EngineSettings::for_model(folder.path()) };
    let engine = Engine::start(settings).await?;
    let mut few = connect(engine.address(), SAMPLES / 16).await?;
    let mut many = connect(engine.address(), SAMPLES).await?;

    let mut seconds = vec![Vec::new(); NAMES.len()];
    let mut bytes = [0; NAMES.len()];
    let mut processor = [0.0; NAMES.len()];
    for round in 0..=rounds {
        let mut found = Vec::new();
        let mut before = processor_seconds();
        for (way, processor) in processor.iter_mut().enumerate() {
            found.push(match way {
                0 => (tokio::task::block_in_place(|| bare(&decoder))?, 0),
                1 => over_http(&mut few, 16, 0).await?,
                2 => over_http(&mut many, 1, 0).await?,
                3 => over_http(&mut few, 16, 1).await?,
                4 => over_http(&mut many, 1, 1).await?,
                _ => over_http(&mut many, 1, 8).await?,
            });
            let now = processor_seconds();
            if round > 0 {
                *processor += now - before;
            }
            before = now;
        }
        for (way, (time, size)) in found.into_iter().enumerate() {
            // The first round warms up.
            if round > 0 {
                seconds[way].push(time);
            }
            bytes[way] = size;
        }
    }
    engine.stop().await;
    let mut out = std::io::stdout().lock();
    let base = median(seconds[0].clone());
    writeln!(out, "{SAMPLES} samples of {TOKENS} tokens, {THREADS} threads, median of {rounds} rounds")?;
    for (way, (name, seconds)) in NAMES.iter().zip(seconds).enumerate() {
        let least = seconds.iter().copied().fold(f64::INFINITY, f64::min);
        let median = median(seconds);
        let rate = (SAMPLES * TOKENS) as f64 / median;
        writeln!(
            out,
            "{name:22} {:6.1} ms (least {:6.1}) {rate:7.0} tokens/s, {:4.2} of the decoder; processor {:6.1} ms, \
            {:4.2}; {:5.0} KiB",
            median * 1e3,
            least * 1e3,
            median / base,
            processor[way] / rounds as f64 * 1e3,
            processor[way] / processor[0],
            bytes[way] as f64 / 1024.0
        )?;
    }
    Ok(())
}
