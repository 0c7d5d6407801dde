//! What is asked and how it is judged.
//!
//! - [`Task`]: what an answer is judged against: mathematics with gold answers, code with tests, or a payload for a verifier of the
//!   user's own. One value, unchanged from the row of a data set to the reward service's request.
//! - [`Row`] and [`Fields`]: the one place that knows what data sets call their columns. Training and `evenkeel verify` read the same rows.
//! - [`Dataset`]: problems to train on and problems held out, from files ([`read`]) or built in ([`arithmetic`]).
#![forbid(unsafe_code)]

pub mod arithmetic;
pub mod read;

mod code;
mod dataset;
mod error;
mod fields;
mod lint;
mod problem;
mod row;
mod sum;
mod task;

pub use dataset::{Dataset, FileSource};
pub use error::{Cancel, Cancelled, DataError};
pub use fields::Fields;
pub use lint::unsound_golds;
pub use problem::{Demonstration, Problem};
pub use row::{Row, RowError};
pub use sum::Sum;
pub use task::{CodeRules, Rules, Task, TaskKind};
