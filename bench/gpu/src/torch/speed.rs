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

pub(crate) fn measure(part: &mut Part<'_>, device: &Device) -> Result<()> {
    let Some(torch) = Torch::find(part, device) else { return Ok(()) };
    for case in cases() {
        let case = case.on(device);
        let argument = json!({
            "config": case.config.to_json(), "sequences": case.sequences, "length": case.length, "recompute": case.recomputes(),
        });
        let argument = argument.to_string();
        let found: Measured = torch.call("speed", &[argument.as_ref()]).context(case.name)?;
        let ran = Case { sequences: found.sequences, ..case };
        part.fact(json!({
            "what": "pass", "by": "torch", "model": ran.name, "sequences": ran.sequences, "length": ran.length,
            "recompute": ran.recomputes(), "seconds": found.seconds, "tokens_per_second": ran.tokens() as f64 / found.seconds,
            "share_of_989_tflops": ran.flops() / found.seconds / PEAK,
        }));
        part.fact(json!({"what": "update", "by": "torch", "model": ran.name, "seconds": found.update_seconds}));
    }
    Ok(())
}
