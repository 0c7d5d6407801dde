//! What servers, item streams, queues and dispatchers count.

use evenkeel_telemetry::{Series, Values};

use crate::error::Unit;
use crate::labels::{CloseReason, ItemEnd, ItemResult};

const METHOD: (&str, Values) = ("method", Values::Few("methods of the service; others are `unknown`"));
const ITEMS: (&str, Values) = ("items", Values::Few("kinds of item streams: `generate`, `verify`, `score`"));
const DISPATCHED: (&str, Values) = ("items", Values::Few("kinds of item streams: `generate`, `verify`"));
const QUEUE: (&str, Values) = ("queue", Values::Few("`receive`, and one for each kind of item stream"));

/// Metric series of every gRPC server.
pub const SERVER_SERIES: &[Series] = &[
    Series::counter("evenkeel_grpc_calls_total", "finished calls; `Cancelled` if the client went away")
        .by(&[METHOD, ("code", Values::Few("gRPC's 17 status codes"))])
        .only("a call"),
    Series::gauge("evenkeel_grpc_calls_in_flight", "open calls").by(&[METHOD]).only("a call"),
    Series::histogram("evenkeel_grpc_call_seconds", "duration of calls, of streams as a whole")
        .by(&[METHOD])
        .only("a call"),
    Series::gauge("evenkeel_connections", "open connections").only("a connection"),
    Series::counter("evenkeel_connections_closed_total", "connections that the server closed")
        .by(&[("why", Values::Of(CloseReason::LABELS))]),
    Series::counter("evenkeel_connections_full_total", "connections that were accepted for health checks only"),
    Series::counter("evenkeel_grpc_unauthenticated_total", "calls without a valid token"),
    Series::gauge("evenkeel_queue_bytes", "bytes held, waiting or in work").by(&[QUEUE]),
    QUEUE_REFUSED,
];

pub(crate) const QUEUE_REFUSED: Series =
    Series::counter("evenkeel_queue_refused_total", "refused because items or bytes were used up")
        .by(&[QUEUE, ("unit", Values::Of(Unit::NAMES))]);

/// Metric series of every server of item streams.
pub const ITEM_SERIES: &[Series] = &[
    Series::gauge("evenkeel_queue_items", "items queued or being processed").by(&[QUEUE]),
    Series::counter("evenkeel_items_total", "finished items; streams that ended `unread`")
        .by(&[ITEMS, ("result", Values::Of(ItemResult::LABELS))]),
    Series::histogram("evenkeel_item_queue_seconds", "time of an item in the queue").by(&[ITEMS]),
    Series::histogram("evenkeel_item_work_seconds", "time of an item in its handler").by(&[ITEMS]),
];

/// Metric series of every dispatcher, the client's side of item streams.
pub const DISPATCH_SERIES: &[Series] = &[
    Series::counter("evenkeel_dispatch_items_total", "finished items on the client's side")
        .by(&[DISPATCHED, ("end", Values::Of(ItemEnd::LABELS))]),
    Series::histogram("evenkeel_dispatch_seconds", "from the submission of an item to its answer").by(&[DISPATCHED]),
    Series::counter("evenkeel_dispatch_retries_total", "items that were assigned again").by(&[DISPATCHED]),
    Series::counter(
        "evenkeel_dispatch_unasked_answers_total",
        "answers to no outstanding item: a second answer, or an unknown id",
    )
    .by(&[DISPATCHED]),
    Series::counter("evenkeel_dispatch_links_lost_total", "streams that were lost or could not be opened")
        .by(&[DISPATCHED]),
    Series::gauge("evenkeel_dispatch_workers", "connected workers").by(&[DISPATCHED]),
    Series::gauge("evenkeel_dispatch_queued_items", "items that wait for a worker").by(&[DISPATCHED]),
    Series::counter("evenkeel_resolve_failures_total", "names that could not be resolved")
        .by(&[("host", Values::Few("names of the setting"))])
        .only("a name that cannot be resolved"),
];

/// Begins the series of a kind of items at zero.
pub(crate) fn begin(series: &[Series], items: &'static str) {
    series.iter().for_each(|series| series.begin(&[("items", items)]));
}
