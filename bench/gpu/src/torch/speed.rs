//! How fast PyTorch trains what [`crate::model`] times.

use std::path::Path;

use anyhow::{Context, Result};
use candle_core::Device;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Torch;
use crate::report::ReportPart;
use crate::shapes::{Case, PEAK, cases};

#[derive(Deserialize)]
struct Measured {
    /// Sequences of the micro-batch: fewer than were asked for where memory did not suffice.
    sequences: usize,
    seconds: f64,
    /// Absent where memory does not suffice for weights, gradients and moments in fp32.
    update_seconds: Option<f64>,
}

/// Tokens a second of PyTorch, for each case that it was measured on.
#[derive(Default)]
pub(crate) struct Peer(Vec<(String, usize, f64)>);

impl Peer {
    /// What a run of the part `torch` alone has left in this folder, if anything.
    pub(crate) fn of_earlier_run(out: &Path) -> Self {
        let summary = std::fs::read(out.join("speed-torch.json")).ok();
        let summary: Option<Value> = summary.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let facts = summary.iter().flat_map(|summary| summary["parts"][0]["facts"].as_array().into_iter().flatten());
        let passes = facts.filter(|fact| fact["what"] == "pass" && fact["by"] == "torch");
        let read_speed = |fact: &Value| {
            let name = fact["model"].as_str()?.to_owned();
            let length = fact["length"].as_u64()? as usize;
            Some((name, length, fact["tokens_per_second"].as_f64()?))
        };
        Self(passes.filter_map(read_speed).collect())
    }

    /// Tokens a second of a case, wherever its moments are.
    pub(crate) fn tokens_per_second(&self, case: &Case) -> Option<f64> {
        let found = self.0.iter().find(|(name, length, _)| (name.as_str(), *length) == (case.name, case.length));
        found.map(|(.., tokens)| *tokens)
    }
}

pub(crate) fn measure(part: &mut ReportPart<'_>, device: &Device) -> Result<Peer> {
    let mut peer = Peer::default();
    let Some(torch) = Torch::find(part, device) else { return Ok(peer) };
    for case in cases() {
        part.attempt(case.title(), |part| one(part, &torch, case.on(device)?, &mut peer));
    }
    Ok(peer)
}

fn one(part: &mut ReportPart<'_>, torch: &Torch, case: Case, peer: &mut Peer) -> Result<()> {
    // It has one way to train a model.
    if peer.tokens_per_second(&case).is_none() {
        let argument = json!({
            "config": case.config.to_json()?, "sequences": case.sequences, "length": case.length, "recompute": case.recomputes(),
        });
        let argument = argument.to_string();
        let found: Measured = torch.call("speed", &[argument.as_ref()]).context(case.name)?;
        let ran = Case { sequences: found.sequences, ..case };
        let tokens_per_second = ran.tokens() as f64 / found.seconds;
        peer.0.push((ran.name.to_owned(), ran.length, tokens_per_second));
        part.fact(json!({
            "what": "pass", "by": "torch", "model": ran.name, "sequences": ran.sequences, "length": ran.length,
            "recompute": ran.recomputes(), "seconds": found.seconds, "tokens_per_second": tokens_per_second,
            "share_of_989_tflops": ran.flops() / found.seconds / PEAK,
        }));
        part.fact(json!({"what": "update", "by": "torch", "model": ran.name, "seconds": found.update_seconds}));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pytorch_reached_in_an_earlier_call_is_read_from_its_file() {
        let out = tempfile::tempdir().unwrap();
        let [case, ..] = cases();
        assert_eq!(Peer::of_earlier_run(out.path()).tokens_per_second(&case), None);
        let fact = |what: &str, by: &str, tokens: f64| json!({"what": what, "by": by, "model": case.name, "length": case.length, "tokens_per_second": tokens});
        let facts = [
            json!({"torch": "2.11"}),
            fact("update", "torch", 1.0),
            fact("pass", "own", 2.0),
            fact("pass", "torch", 3.5),
        ];
        std::fs::write(out.path().join("speed-torch.json"), json!({"parts": [{"facts": facts}]}).to_string()).unwrap();
        assert_eq!(Peer::of_earlier_run(out.path()).tokens_per_second(&case), Some(3.5));
        std::fs::write(out.path().join("speed-torch.json"), "{").unwrap();
        assert_eq!(Peer::of_earlier_run(out.path()).tokens_per_second(&case), None);
    }
}
