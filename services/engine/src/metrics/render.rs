//! `/metrics` in Prometheus' text format.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Metrics;
use crate::finish::FinishReason;

/// A reason that vLLM has and this engine never.
const REPETITION: &str = "repetition";

impl Metrics {
    pub(crate) fn render(&self) -> String {
        let model = self.model.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels = format!("engine=\"0\",model_name=\"{model}\"");
        let mut text = Text { out: String::with_capacity(32 << 10), labels, started: self.started };
        let reserved = self.reserved.load(Ordering::Relaxed);
        let waiting = self.waiting.load(Ordering::Relaxed) as f64;
        text.gauge("num_requests_running", "Sequences that are decoded.", self.running.load(Ordering::Relaxed) as f64);
        text.gauge("num_requests_waiting", "Sequences that wait for room.", waiting);
        text.head("num_requests_waiting_by_reason", "Sequences that wait, by reason.", "gauge");
        text.line("num_requests_waiting_by_reason", "reason=\"capacity\"", waiting);
        text.line("num_requests_waiting_by_reason", "reason=\"deferred\"", 0.0);
        text.head("engine_sleep_state", "Sleep state of the engine, which never sleeps.", "gauge");
        for (state, value) in [("awake", 1.0), ("weights_offloaded", 0.0), ("discard_all", 0.0)] {
            text.line("engine_sleep_state", &format!("sleep_state=\"{state}\""), value);
        }
        let usage = reserved as f64 / self.cache_tokens as f64;
        text.gauge("kv_cache_usage_perc", "Fraction of the cache reserved for running sequences, 0 to 1.", usage);
        text.counter("prefix_cache_queries", "Tokens looked up among running sequences.", &self.prefix_queries);
        text.counter("prefix_cache_hits", "Tokens whose keys and values a running sequence had.", &self.prefix_hits);
        text.counter(
            "num_preemptions",
            "Sequences that had to compute their keys and values again.",
            &self.preemptions,
        );
        text.counter("prompt_tokens", "Prompt tokens, computed or shared.", &self.prompt_tokens);
        text.counter("generation_tokens", "Tokens generated.", &self.generation_tokens);
        text.head("request_success_total", "Sequences that ended, by reason.", "counter");
        let counts = self.finished.iter().map(|count| count.load(Ordering::Relaxed));
        for (reason, count) in FinishReason::LABELS.into_iter().zip(counts).chain([(REPETITION, 0)]) {
            text.line("request_success_total", &format!("finished_reason=\"{reason}\""), count as f64);
        }
        text.head("admission_rejections_total", "Requests that found the queue full.", "counter");
        let rejections = self.rejections.load(Ordering::Relaxed) as f64;
        // The only metric that vLLM counts before its engines.
        let reason = format!("model_name=\"{model}\",reason=\"max_num_queued_reqs\"");
        let _ = writeln!(text.out, "vllm:admission_rejections_total{{{reason}}} {rejections:?}");
        for (name, help, histogram) in [
            ("request_prompt_tokens", "Prompt tokens of each sequence.", &self.request_prompt_tokens),
            ("request_generation_tokens", "Generated tokens of each sequence.", &self.request_generation_tokens),
            ("iteration_tokens_total", "Tokens of each step.", &self.step_tokens),
            ("request_params_n", "Samples that each prompt asked for.", &self.request_samples),
            ("request_params_max_tokens", "Limits that the requests set.", &self.request_max_tokens),
            ("time_to_first_token_seconds", "From arrival to the first token.", &self.first_token),
            ("inter_token_latency_seconds", "From each token to the next.", &self.between_tokens),
            ("request_time_per_output_token_seconds", "Mean between a sequence's tokens.", &self.per_token),
            ("e2e_request_latency_seconds", "From arrival to the end.", &self.whole),
            ("request_queue_time_seconds", "From arrival to the first step.", &self.queued),
            ("request_inference_time_seconds", "From the first step to the last token.", &self.inference),
            ("request_prefill_time_seconds", "From the first step to the first token.", &self.prefill),
            ("request_decode_time_seconds", "From the first token to the last.", &self.decode),
        ] {
            text.head(name, help, "histogram");
            let labels = text.labels.clone();
            histogram.render(&format!("vllm:{name}"), &labels, &mut text.out);
        }
        text.head("cache_config_info", "The settings of the cache.", "gauge");
        let tokens = self.cache_tokens;
        let block = "block_size=\"1\",enable_prefix_caching=\"False\"";
        text.line(
            "cache_config_info",
            &format!("{block},kv_cache_size_tokens=\"{tokens}\",num_gpu_blocks=\"{tokens}\""),
            1.0,
        );
        text.idle(self.idle.load(Ordering::Relaxed));
        text.out
    }
}

struct Text {
    out: String,
    labels: String,
    started: f64,
}

impl Text {
    fn head(&mut self, name: &str, help: &str, kind: &str) {
        // Writing to a string cannot fail, here and below.
        let _ = write!(self.out, "# HELP vllm:{name} {help}\n# TYPE vllm:{name} {kind}\n");
    }

    fn line(&mut self, name: &str, label: &str, value: f64) {
        let comma = if label.is_empty() { "" } else { "," };
        let _ = writeln!(self.out, "vllm:{name}{{{}{comma}{label}}} {value:?}", self.labels);
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.head(name, help, "gauge");
        self.line(name, "", value);
    }

    /// The only metric that vLLM lacks.
    fn idle(&mut self, nanoseconds: u64) {
        let name = "evenkeel_engine_idle_seconds_total";
        let _ = write!(
            self.out,
            "# HELP {name} Seconds in which there was nothing to compute, as of the last work.\n# TYPE {name} counter\n"
        );
        let _ = writeln!(self.out, "{name}{{{}}} {:?}", self.labels, nanoseconds as f64 / 1e9);
    }

    fn counter(&mut self, name: &str, help: &str, count: &AtomicU64) {
        let total = format!("{name}_total");
        self.head(&total, help, "counter");
        self.line(&total, "", count.load(Ordering::Relaxed) as f64);
        let created = format!("{name}_created");
        self.head(&created, "When counting began, Unix time.", "gauge");
        self.line(&created, "", self.started);
    }
}
