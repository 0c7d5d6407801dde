//! vLLM's own metrics of its load.

use super::VllmClient;
use crate::engine::{EngineClientError, EngineMetrics};

const RUNNING: &str = "vllm:num_requests_running";
const WAITING: &str = "vllm:num_requests_waiting";
/// The current name, and the one before vLLM 0.11.
const CACHE_USAGE: [&str; 2] = ["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"];

impl VllmClient {
    /// `None` if it has no such metrics.
    pub(super) async fn read_metrics(&self) -> Result<Option<EngineMetrics>, EngineClientError> {
        match self.control.get("/metrics", self.control_timeout).await {
            Ok(body) => Ok(parse(&String::from_utf8_lossy(&body))),
            Err(error) if error.is_missing_route() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Parses Prometheus' text format. A server with several engines has a line for each: counts add up, and the fullest
/// cache counts.
fn parse(text: &str) -> Option<EngineMetrics> {
    let mut running = None;
    let mut waiting = None;
    let mut cache_usage = 0.0_f64;
    for line in text.lines() {
        let Some((series, value)) = line.rsplit_once(' ') else { continue };
        let name = series.split('{').next().unwrap_or_default();
        // The cast turns negative numbers and NaN into 0.
        let value = || value.parse::<f64>().unwrap_or(0.0);
        match name {
            RUNNING => running = Some(running.unwrap_or(0) + value() as u64),
            WAITING => waiting = Some(waiting.unwrap_or(0) + value() as u64),
            _ if CACHE_USAGE.contains(&name) => cache_usage = cache_usage.max(value()),
            _ => {}
        }
    }
    Some(EngineMetrics { running: running?, waiting: waiting?, cache_usage })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As vLLM 0.32 writes them.
    const REAL: &str = r#"# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 7.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
"#;

    #[test]
    fn running_and_waiting_requests_and_cache_usage_are_read() {
        assert_eq!(parse(REAL), Some(EngineMetrics { running: 3, waiting: 2, cache_usage: 0.25 }));
    }

    #[test]
    fn several_engines_behind_one_server_add_up() {
        let both = format!("{REAL}{}", REAL.replace("engine=\"0\"", "engine=\"1\"").replace("0.25", "0.75"));
        assert_eq!(parse(&both), Some(EngineMetrics { running: 6, waiting: 4, cache_usage: 0.75 }));
    }

    #[test]
    fn other_metrics_are_none() {
        assert_eq!(parse("go_goroutines 7\n"), None);
        assert_eq!(parse("<html>not found"), None);
    }
}
