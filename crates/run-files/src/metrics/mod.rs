//! Lines of metrics: one for each step, under verl's names where verl has the quantity.

pub mod at_k;
mod curves;
mod line;
mod statistics;

pub use curves::Curves;
pub use line::MetricsLine;
pub use statistics::Statistics;

/// Whether a value may differ between two runs of one seed: times, the memory of a GPU, how often something had to be retried, and what a
/// proof of weights finds, which begins anew after a resume. Every other value is the same to the bit.
pub fn may_differ(name: &str) -> bool {
    const PREFIXES: [&str; 10] = [
        "timing_s/",
        "perf/throughput",
        "perf/time_per_step",
        "perf/max_memory_reserved_gb",
        "rollout/begun_again",
        "rollout/verified_again",
        "proof/",
        "sampler_audit/",
        "pipeline/learner_waited_s",
        "pipeline/sampling_waited_s",
    ];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}
