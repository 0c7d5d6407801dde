//! Lines of metrics: one for each step, under verl's names where verl has the quantity.

pub mod at_k;
mod curves;
mod evaluated;
mod line;
mod quantity;
mod statistics;
mod training;

pub use curves::Curves;
pub use evaluated::{EvaluatedBenchmark, accuracy, headline};
pub use line::MetricsLine;
pub use quantity::Quantity;
pub use statistics::Statistics;
