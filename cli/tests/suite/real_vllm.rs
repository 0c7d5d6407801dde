//! A real vLLM of a test's own. `VLLM` is its program.
#![allow(clippy::print_stdout, reason = "a test prints what it measured")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Process, evenkeel, free_ports};

/// vLLM loads for minutes on a small machine that does other things, too.
const START: Duration = Duration::from_secs(900);

pub(crate) struct Vllm {
    pub(crate) port: u16,
    process: Process,
}

impl Vllm {
    /// Serves a model in f32 as the documentation says; `more` adds options.
    pub(crate) fn start(model: &Path, log: &Path, more: impl FnOnce(&mut Command)) -> Self {
        let program = std::env::var("VLLM").expect("VLLM is the program vllm");
        let [port] = free_ports();
        let mut command = Command::new(program);
        command.stdin(Stdio::null()).arg("serve").arg(model).args(["--port", &port.to_string()]);
        command.args([
            "--host",
            "127.0.0.1",
            "--dtype",
            "float32",
            "--enforce-eager",
            "--logprobs-mode",
            "processed_logprobs",
        ]);
        // Prompts of requests with seeds of their own must not be cut: vLLM 0.32 fails then on a CPU.
        command.args(["--generation-config", "vllm", "--max-model-len", "512", "--max-num-batched-tokens", "16384"]);
        command.envs([
            ("VLLM_SERVER_DEV_MODE", "1"),
            ("VLLM_CPU_KVCACHE_SPACE", "1"),
            ("HF_HUB_OFFLINE", "1"),
            ("VLLM_NO_USAGE_STATS", "1"),
        ]);
        more(&mut command);
        let engine = Self { port, process: Process::start_logging(command, log) };
        let begun = Instant::now();
        let mut health = evenkeel(&["health", &format!("{}/health", engine.url())]);
        while !health.output().unwrap().status.success() {
            assert!(begun.elapsed() < START, "vLLM does not start: {}", log.display());
            std::thread::sleep(Duration::from_secs(2));
        }
        println!("vLLM on {} after {:?}", model.display(), begun.elapsed());
        engine
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for Vllm {
    fn drop(&mut self) {
        // Killed it would leave the processes of its engine behind.
        self.process.interrupt();
        let _ = self.process.0.wait();
    }
}
