//! Metrics of an environment worker.

use evenkeel_telemetry::{Series, Values};

const ENVIRONMENT: (&str, Values) = ("environment", Values::Few("environments of the worker; others are `unknown`"));

/// What they need to appear.
const ONLY: &str = "episodes";

/// Metrics of an environment worker, besides those of its server.
pub const SERIES: &[Series] = &[
    Series::gauge("evenkeel_episodes_open", "open episodes").only(ONLY),
    Series::counter("evenkeel_episodes_total", "episodes that ended, by how: scored, closed, or why they failed")
        .by(&[ENVIRONMENT, ("end", Values::Of(crate::counts::ENDS))])
        .only(ONLY),
    Series::histogram("evenkeel_episode_step_seconds", "time of one step").by(&[ENVIRONMENT]).only(ONLY),
    Series::counter("evenkeel_episode_tool_errors_total", "calls of tools that could not be carried out")
        .by(&[ENVIRONMENT])
        .only(ONLY),
];
