//! Files with a line for each step, and the line of `prompts.jsonl`.

mod line_file;
mod metrics_file;
mod prompt_file;
mod prompt_line;

pub use line_file::LineMark;
pub(crate) use line_file::{LineFile, read_text};
pub use metrics_file::{MetricsFile, read_lines};
pub use prompt_file::{PromptFile, read_prompts};
pub use prompt_line::{GroupRecord, PromptLine, PromptOutcome, Received};
