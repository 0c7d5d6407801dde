//! The time of one draw from a row of logits, at a small and a large vocabulary, without truncation, with top-p, and
//! with top-k and top-p.
//!
//! ```text
//! cargo bench -p evenkeel-model --bench draw
//! ```

use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant};

use evenkeel_model::sampling::{DrawOptions, LogprobsMode, LogprobsRequest, Sampler, Truncation};

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

fn options(temperature: f32, top_k: usize, top_p: f32) -> DrawOptions<'static> {
    DrawOptions {
        temperature,
        truncation: Truncation { top_k, top_p, min_p: 0.0 },
        excluded: &[],
        logprobs: Some(LogprobsRequest { mode: LogprobsMode::ProcessedLogprobs, alternatives: 0 }),
    }
}

fn main() -> std::io::Result<()> {
    let mut sampler = Sampler::default();
    let mut top = Vec::new();
    let mut out = std::io::stdout().lock();
    for vocabulary in [128, 151_936] {
        let row = row(vocabulary);
        let mut work = row.clone();
        for case in [options(1.0, 0, 1.0), options(0.8, 0, 0.95), options(0.8, 50, 0.95)] {
            let draws = LOGITS / vocabulary;
            let mut elapsed = Duration::ZERO;
            for draw in 0..draws {
                work.copy_from_slice(&row);
                let began = Instant::now();
                let drawn = sampler.draw(black_box(&mut work), case, number(draw), &mut top);
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
