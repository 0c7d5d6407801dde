//! Judges: models behind an OpenAI-compatible endpoint that score answers by a rubric.
//!
//! [`Judge::judge`] answers a [`Question`] with a [`Judged`] score or a typed failure, never with a default score. The
//! judge's words are on the disk, under a digest of everything that decides them, before they count: a run that is
//! resumed or replayed asks nothing again and gets the same bits.
//!
//! | file | what it does |
//! |---|---|
//! | `settings` | `reward.judge` |
//! | `rubric`, `template`, `reply` | criteria and score; what the judge is sent; how its words are read |
//! | `untrusted` | keeps an answer from steering the judge |
//! | `columns`, `question`, `rules` | the texts of a row; the digest of a verdict |
//! | `record` | the file that keeps verdicts, and the budget |
//! | `endpoint`, `pause`, `key` | calls, rate limits, the API key |
//! | `judge` | all of it together |
//! | `agreement` | how a judge compares with labels and with itself |
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod agreement;
mod columns;
mod endpoint;
mod error;
mod judge;
mod key;
mod pause;
mod place;
mod question;
mod record;
mod reply;
mod rubric;
mod rules;
mod settings;
mod template;
mod untrusted;

pub use agreement::{Agreement, LabelledScore};
pub use error::JudgeError;
pub use judge::{Judge, Judged, Judgement, NoVerdict};
pub use place::DefaultRecord;
pub use question::Question;
pub use record::RECORD_FILE;
pub use reply::Parser;
pub use rubric::{Criterion, Rubric};
pub use settings::{BudgetSettings, JudgeSettings, SamplingSettings};
pub use template::Template;
