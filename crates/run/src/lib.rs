//! A run directory: its files, each with one owner that writes and reads it, and [`metric`], what a run measures.
//!
//! | file | owner |
//! |---|---|
//! | `run.json` | [`RunManifest`]; its presence makes a folder a run directory |
//! | `config.toml` | [`RunDirectory`]: the resolved settings, of which [`RunPlan`] is what needs no service to be understood |
//! | `inputs.json` | [`InputRecord`]: digests of everything that the run reads, and the settings that decide what it computes |
//! | `data.json` | [`read_data`]: the report on the rows of the data |
//! | `metrics.jsonl`, `warm_start.jsonl`, `evaluation.jsonl` | [`MetricsFile`]: a line for each GRPO step, supervised step, evaluation |
//! | `prompts.jsonl` | [`PromptFile`]: a line for each GRPO step, with the outcome of each prompt |
//! | `receipt.jsonl` | [`ReceiptFile`]: the hash chain over all of it, a line for each GRPO step; [`check_receipt`] verifies it |
//! | `rollouts/step-N.jsonl.zst` | [`RolloutFolder`]: the samples of a GRPO step, a line for each |
//! | `evaluation/step-N/` | [`AnswerFile`] and [`EvaluationManifest`]: the answers of an evaluation, a file for each benchmark |
//! | `best.json` | [`BestKeeper`]: which checkpoint is the best, where the settings say by what |
//! | `summary.json` | [`Summary`] |
//! | `model/` | the fresh model, where the recipe asks for one |
//! | `checkpoints/`, `weights/` | the learner's, bounded by the settings `checkpoint` |
//!
//! `report.html` and `tensorboard/` are made of these by `evenkeel-run-report`. [`RunDirectory`] is the directory of a
//! run that is written, locked by one process; [`RunRecord`] is for reading it afterwards. There is no
//! runtime and no service here.
#![forbid(unsafe_code)]

mod answers;
mod best;
mod check;
mod config;
mod directory;
mod error;
mod inputs;
mod labelled;
mod layout;
mod left_out;
mod lines;
pub mod metric;
mod metrics;
mod program;
mod receipt;
mod reward_parts;
mod rollouts;
mod summary;
mod turn;
mod undecided;
mod weights_proof;
mod whole_file;

pub use answers::{
    AnswerFile, AnswerReader, AnswerVerdict, AnsweredGroups, AskedBenchmark, EvaluationAnswer, EvaluationManifest,
    evaluation_folder, list_answers,
};
pub use best::{Best, BestKeeper};
pub use check::{Difference, FoundHead, ReceiptCheck, check_receipt, other_rollouts};
pub use config::{RunPlan, flat_settings};
pub use directory::{
    ForkOrigin, Lock, RecipeRecord, RunDirectory, RunManifest, RunRecord, has_finished_step, is_locked, is_run_name,
    read_data, recipe_stem,
};
pub use error::RunFilesError;
pub use inputs::{
    AcceptedChanges, Input, InputKind, InputRecord, Rules, accepted_changes, changed_rewards, differences, flat,
    names_files,
};
pub use labelled::Labelled;
pub use layout::{
    BEST_FILE, CONFIG_FILE, DATA_FILE, EVALUATION_FILE, INPUTS_FILE, JUDGE_FILE, METRICS_FILE, PROMPTS_FILE,
    RECEIPT_FILE, REPORT_FILE, ROLLOUTS_FOLDER, RUN_FILE, SUMMARY_FILE, TENSORBOARD_FOLDER, WARM_START_FILE,
};
pub use left_out::{AnswerCounts, LENGTH_BINS, LeftOut};
pub use lines::{
    GroupRecord, LineMark, MetricsFile, PromptFile, PromptLine, PromptOutcome, Received, read_lines, read_prompts,
};
pub use metrics::{Curves, EvaluatedBenchmark, MetricsLine, Quantity, Statistics, accuracy, at_k, headline};
pub use program::PROGRAM;
pub use receipt::{
    AuditSeen, Determined, Heads, LineKind, Observed, Parent, ProofSeen, ReceiptFile, ReceiptLine, StepContent,
    StepDigests, read_receipt, receipt_text, receipt_up_to, tokens_digest,
};
pub use reward_parts::CORRECTNESS;
pub use rollouts::{
    NotTrained, Rollout, RolloutFolder, RolloutReader, RolloutSegment, TurnPrompt, encode_rollouts, list_rollouts,
    read_rollouts, rollout_file, rollout_name, thinned_rollouts,
};
pub use summary::{
    ATTENTION, BenchmarkSummary, BenchmarkValue, ChangedSetting, ENDS, Evaluated, Seconds, Summary, WrittenLines,
    did_all_steps,
};
pub use turn::RolloutTurn;
pub use undecided::{NOTABLE, Undecided};
pub use weights_proof::{ProofState, WeightsProof};
pub use whole_file::replace;
