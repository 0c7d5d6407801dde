//! What the generation service counts.

use evenkeel_telemetry::{Series, Values};

use crate::pool::EngineState;

const ENGINE: (&str, Values) = ("engine", Values::Few("engines of the setting `endpoints`"));
const KIND: (&str, Values) = (
    "kind",
    Values::Of(&[
        "transport",
        "timeout",
        "status",
        "refused",
        "invalid_response",
        "incompatible",
        "wrong_weights",
        "interrupted",
    ]),
);

/// How an update of weights may end.
pub(crate) const UPDATE_OUTCOMES: &[&str] = &["updated", "failed"];

/// Series of the generation service, besides those of its server and its item stream.
pub const SERIES: &[Series] = &[
    Series::counter("evenkeel_rollouts_total", "finished samples").by(&[(
        "finish_reason",
        Values::Of(&["stop", "length", "repetition", "aborted", "deadline", "failed", "cancelled"]),
    )]),
    Series::counter("evenkeel_rollout_tokens_total", "tokens of finished samples"),
    Series::histogram("evenkeel_rollout_seconds", "from the receipt of a sample to its answer"),
    Series::counter(
        "evenkeel_continued_samples_total",
        "samples that name the engine that sampled what they go on from, by the engine that took them",
    )
    .by(&[("engine", Values::Of(&["preferred", "other"]))])
    .only("episodes with several turns"),
    Series::counter("evenkeel_sample_retries_total", "samples restarted on another engine").by(&[KIND]),
    Series::gauge("evenkeel_generation_waiting_samples", "samples that wait for an engine with room"),
    Series::gauge("evenkeel_generation_asleep", "1 while the engines sleep for the learner, else 0"),
    Series::gauge("evenkeel_engine_state", "1 for the state that the engine is in, 0 for the others")
        .by(&[ENGINE, ("state", Values::Of(EngineState::LABELS))]),
    Series::gauge("evenkeel_engine_policy_version", "version of the weights that the engine reports")
        .by(&[ENGINE])
        .only("an engine that reports a version"),
    Series::gauge("evenkeel_engine_in_flight_items", "samples that the engine has").by(&[ENGINE]),
    Series::gauge("evenkeel_engine_in_flight_tokens", "tokens that these may still take").by(&[ENGINE]),
    Series::gauge("evenkeel_engine_tokens_per_second", "tokens that the engine samples, smoothed").by(&[ENGINE]),
    Series::gauge("evenkeel_engine_running_requests", "requests that it decodes, by its own count").by(&[ENGINE]),
    Series::gauge("evenkeel_engine_waiting_requests", "requests that wait in it, by its own count").by(&[ENGINE]),
    Series::gauge("evenkeel_engine_cache_usage_ratio", "share of its cache that is in use").by(&[ENGINE]),
    Series::counter("evenkeel_engine_failures_total", "failed requests to the engine")
        .by(&[ENGINE, KIND])
        .only("a failed request"),
    Series::counter("evenkeel_weight_updates_total", "updates of the engine's weights")
        .by(&[ENGINE, ("outcome", Values::Of(UPDATE_OUTCOMES))]),
    Series::histogram("evenkeel_weight_update_paused_seconds", "how long the engine sampled nothing for an update")
        .by(&[ENGINE]),
    Series::histogram("evenkeel_weight_update_load_seconds", "how long the engine took to load the weights")
        .by(&[ENGINE]),
];
