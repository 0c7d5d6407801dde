//! What is asked and how it is judged.
//!
//! - [`Task`]: what an answer is judged against: mathematics with gold answers, code with tests, or a payload for a
//!   verifier of the user's own. One value, unchanged from the row of a data set to the reward service's request.
//! - [`DataRow`] and [`Fields`]: the one place that knows what data sets call their columns. Training and `evenkeel
//!   verify` read the same rows.
//! - [`Collector`]: rows to problems, duplicates merged, what is at fault dropped by [`Reason`]; [`DataReport`] has the
//!   counts and examples.
//! - [`Dataset`]: problems to train on and problems held out, from files ([`read`]) or built in ([`arithmetic`],
//!   [`products`], [`programs`], [`trails`], [`word_problems`]).
#![forbid(unsafe_code)]

pub mod arithmetic;
pub mod products;
pub mod programs;
pub mod read;
pub mod trails;
pub mod word_problems;

mod asked;
mod benchmark;
mod code;
mod collect;
mod dataset;
mod demonstration;
mod digest;
mod environments;
mod error;
mod fields;
mod filter;
mod gold;
mod known_answers;
mod lint;
mod livecodebench;
mod merge;
mod messages;
mod names;
mod null_keys;
mod other_language;
mod payload;
mod problem;
mod program;
mod question;
mod reason;
mod report;
mod row;
mod shape;
mod sum;
mod task;
mod tests_column;
mod text;
mod trailing_sum;
mod unique_keys;
mod verifiers;

pub use benchmark::BenchmarkFiles;
pub use collect::{Collector, RowRules};
pub use dataset::{DataSource, Dataset, FileSet, FileSource};
pub use demonstration::Demonstration;
pub use environments::{EnvironmentTask, Environments};
pub use error::{Cancel, Cancelled, DataError};
pub use fields::{Fields, ProgramPrompt};
pub use filter::{Accepts, Filter, number};
pub use known_answers::answers_in;
pub use problem::{Id, Problem, ProblemOrigin};
pub use program::Program;
pub use question::{ProblemDifficulty, ProblemKind};
pub use reason::Reason;
pub use report::{DataReport, Example, FileReport, Purpose};
pub use row::{DataRow, RowError, RowLocation, RowProblem};
pub use shape::Shape;
pub use sum::Sum;
pub use task::{CodeRules, Rules, Task, TaskKind};
pub use trailing_sum::{TrailingSum, Trails};
pub use verifiers::Verifiers;
