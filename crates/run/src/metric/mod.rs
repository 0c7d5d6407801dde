//! What a run measures: one table, a row for each metric.
//!
//! A row says under which name lines have the metric, in which unit, in lines of which kind, what it means, by which
//! gauge Prometheus has it and what a chart of it is called. Lines, gauges, captions and the table in the documentation
//! come from it. A new metric is a row in one of the files of [`table`] and one `line.set(metric::NAME, value)`.

mod gauge;
mod name;
mod pattern;
mod row;
pub mod table;

pub use gauge::{Gauge, Shown};
pub use name::MetricName;
pub use row::{LineKind, Metric, MetricKind, Unit};
