//! Metrics of the agent.

use evenkeel_telemetry::{Series, Values};

/// What they need to appear.
const ONLY: &str = "an agent that fetches weights";

pub(crate) const OUTCOMES: &[&str] = &["pulled", "present", "failed"];

/// Metrics of the agent, besides those of its server.
pub const SERIES: &[Series] = &[
    Series::counter("evenkeel_weights_pulls_total", "pulls, by how they ended: fetched, already there, failed")
        .by(&[("outcome", Values::Of(OUTCOMES))])
        .only(ONLY),
    Series::counter("evenkeel_weights_fetched_bytes_total", "bytes of weights that came over the network").only(ONLY),
    Series::counter(
        "evenkeel_weights_reused_bytes_total",
        "bytes of weights that had not changed and were not fetched",
    )
    .only(ONLY),
    Series::counter("evenkeel_weights_damaged_parts_total", "tensors that arrived damaged and were fetched again")
        .only(ONLY),
    Series::counter("evenkeel_weights_cuts_total", "times that fetching a file was interrupted and continued")
        .only(ONLY),
    Series::histogram("evenkeel_weights_pull_seconds", "time of one pull that fetched something").only(ONLY),
];
