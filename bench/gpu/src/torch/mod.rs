//! PyTorch and transformers, where the machine has them: results and speeds are compared with theirs.

mod gradients;
mod speed;

use std::ffi::{OsStr, OsString};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use candle_core::Device;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::report::ReportPart;

pub(crate) use gradients::compare;
pub(crate) use speed::{Peer, measure};

/// Names the Python that has them; `python3` if it is not set.
const PYTHON: &str = "EVENKEEL_PYTHON";
const SCRIPT: &str = include_str!("reference.py");

/// A Python with both.
struct Torch {
    python: OsString,
    device: &'static str,
    /// Versions and the kind of attention.
    about: Value,
}

impl Torch {
    /// Looks for it, and records what was found. Where there is none that can use the device, the part is skipped with
    /// the reason.
    fn find(part: &mut ReportPart<'_>, device: &Device) -> Option<Self> {
        let python = std::env::var_os(PYTHON).filter(|name| !name.is_empty()).unwrap_or_else(|| "python3".into());
        match Self::of(python, if device.is_cuda() { "cuda" } else { "cpu" }) {
            Ok(torch) => {
                part.fact(torch.about.clone());
                Some(torch)
            }
            Err(reason) => {
                part.skip(&reason);
                None
            }
        }
    }

    /// # Errors
    /// Why it cannot be used.
    fn of(python: OsString, device: &'static str) -> Result<Self, String> {
        let mut torch = Self { python, device, about: Value::Null };
        torch.about = torch.call("about", &[]).map_err(|error| {
            format!("no PyTorch and transformers to compare with ({error:#}); {PYTHON} names a Python that has them")
        })?;
        Ok(torch)
    }

    /// Runs a command of the script on the device.
    fn call<T: DeserializeOwned>(&self, command: &str, arguments: &[&OsStr]) -> Result<T> {
        let mut python = Command::new(&self.python);
        python.arg("-c").arg(SCRIPT).arg(command).arg(self.device).args(arguments);
        // Nothing is looked up on the network.
        python.env("HF_HUB_OFFLINE", "1").stdin(Stdio::null());
        let output = python.output().with_context(|| self.python.display().to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let complaints = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            // The last line of a traceback names the error.
            let reason = complaints.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message");
            bail!("{}: {}: {reason}", self.python.display(), output.status);
        }
        let line = text.lines().last().unwrap_or_default();
        serde_json::from_str(line).with_context(|| format!("{command} of reference.py wrote {line:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_pytorch_the_reason_says_how_to_name_one() {
        for python in ["/nowhere/python3", "false"] {
            let reason = Torch::of(python.into(), "cpu").err().unwrap();
            assert!(reason.contains(python) && reason.contains(PYTHON), "{reason}");
        }
    }
}
