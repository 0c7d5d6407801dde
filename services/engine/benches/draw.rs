//! The time of one draw from a row of logits, at a small and a large vocabulary, without truncation, with top-p, and with top-k and top-p.
//!
//! ```text
//! cargo bench -p evenkeel-engine --bench draw
//! ```

use std::hint::black_box;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The sampler is private to the engine, so it is compiled into this program from the same files.
#[path = "../src/sampling/mod.rs"]
#[allow(dead_code, unused_imports, reason = "only draws are measured, and its tests do not run here")]
mod sampling;

/// What the sampler needs from the rest of the engine.
mod settings {
    pub(crate) use evenkeel_engine::LogprobsMode;
}

use sampling::{Sampler, SamplingParams, Truncation};
use settings::LogprobsMode;

/// Number of logits that are processed for each vocabulary and case.
const LOGITS: usize = 20_000_000;

/// Equidistributed numbers in [0, 1).
fn number(index: usize) -> f64 {
    (index as f64 * 0.618_033_988_749_894_9).fract()
}

/// Logits like a model's: most near zero, few high.
fn row(vocabulary: usize) -> Vec<f32> {
    (0..vocabulary).map(|id| (6.0 * number(id).powi(3) - 3.0 * number(7 * id + 1)) as f32).collect()
}

fn sampling(temperature: f32, top_k: usize, top_p: f32) -> SamplingParams {
    SamplingParams {
        temperature,
        truncation: Truncation { top_k, top_p, min_p: 0.0 },
        logprobs: Some(0),
        prompt_logprobs: false,
        min_tokens: 0,
        never_early: Vec::new(),
        max_tokens: 1,
        eos_token_id: None,
        stop_token_ids: Vec::new(),
        stop: Arc::new([]),
        include_stop_str_in_output: false,
        skip_special_tokens: true,
    }
}

fn main() -> std::io::Result<()> {
    let (mut sampler, mut top, mut out) = (Sampler::default(), Vec::new(), std::io::stdout().lock());
    for vocabulary in [128, 151_936] {
        let row = row(vocabulary);
        let mut work = row.clone();
        for case in [sampling(1.0, 0, 1.0), sampling(0.8, 0, 0.95), sampling(0.8, 50, 0.95)] {
            let draws = LOGITS / vocabulary;
            let mut elapsed = Duration::ZERO;
            for draw in 0..draws {
                work.copy_from_slice(&row);
                let began = Instant::now();
                let mode = LogprobsMode::ProcessedLogprobs;
                let drawn = sampler.draw(black_box(&mut work), &case, mode, false, number(draw), &mut top);
                elapsed += began.elapsed();
                black_box(drawn).map_err(std::io::Error::other)?;
            }
            let Truncation { top_k, top_p, .. } = case.truncation;
            let micros = elapsed.as_secs_f64() / draws as f64 * 1e6;
            writeln!(out, "{vocabulary:6} logits, top-k {top_k:2}, top-p {top_p:4.2}: {micros:8.1} us")?;
        }
    }
    Ok(())
}
