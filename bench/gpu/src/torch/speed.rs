//! How fast PyTorch trains what [`crate::model`] times.

use anyhow::{Context, Result};
use candle_core::Device;
use serde::Deserialize;
use serde_json::json;

use super::Torch;
use crate::report::Part;
use crate::shapes::{Case, PEAK, cases};

#[derive(Deserialize)]
struct Measured {
    /// Of the micro-batch: fewer than were asked for where memory did not suffice.
    sequences: usize,
    seconds: f64,
    update_seconds: f64,
}

/// Tokens a second of PyTorch, for each case that it was measured on.
#[derive(Default)]
pub(crate) struct Peer(Vec<(&'static str, usize, f64)>);

impl Peer {
    /// Of a case, wherever its moments are.
    pub(crate) fn tokens_per_second(&self, case: &Case) -> Option<f64> {
        let found = self.0.iter().find(|(name, length, _)| (*name, *length) == (case.name, case.length));
        found.map(|(.., tokens)| *tokens)
    }
}

pub(crate) fn measure(part: &mut Part<'_>, device: &Device) -> Result<Peer> {
    let mut peer = Peer::default();
    let Some(torch) = Torch::find(part, device) else { return Ok(peer) };
    for case in cases() {
        let case = case.on(device);
        // It has one way to train a model.
        if peer.tokens_per_second(&case).is_some() {
            continue;
        }
        let argument = json!({
            "config": case.config.to_json(), "sequences": case.sequences, "length": case.length, "recompute": case.recomputes(),
        });
        let argument = argument.to_string();
        let found: Measured = torch.call("speed", &[argument.as_ref()]).context(case.name)?;
        let ran = Case { sequences: found.sequences, ..case };
        let tokens_per_second = ran.tokens() as f64 / found.seconds;
        peer.0.push((ran.name, ran.length, tokens_per_second));
        part.fact(json!({
            "what": "pass", "by": "torch", "model": ran.name, "sequences": ran.sequences, "length": ran.length,
            "recompute": ran.recomputes(), "seconds": found.seconds, "tokens_per_second": tokens_per_second,
            "share_of_989_tflops": ran.flops() / found.seconds / PEAK,
        }));
        part.fact(json!({"what": "update", "by": "torch", "model": ran.name, "seconds": found.update_seconds}));
    }
    Ok(peer)
}
