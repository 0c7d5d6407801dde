//! Names of the files in a run directory.

/// The manifest of the run; its presence makes a folder a run directory.
pub const RUN_FILE: &str = "run.json";
pub const CONFIG_FILE: &str = "config.toml";
/// The record of everything that the run reads.
pub const INPUTS_FILE: &str = "inputs.json";
/// Report on the rows of the data.
pub const DATA_FILE: &str = "data.json";
/// The lines of GRPO steps.
pub const METRICS_FILE: &str = "metrics.jsonl";
/// Outcomes of the prompts of each GRPO step.
pub const PROMPTS_FILE: &str = "prompts.jsonl";
/// The receipt: a line of its hash chain for each GRPO step.
pub const RECEIPT_FILE: &str = "receipt.jsonl";
/// The lines of supervised steps.
pub const WARM_START_FILE: &str = "warm_start.jsonl";
/// The lines of evaluations.
pub const EVALUATION_FILE: &str = "evaluation.jsonl";
pub const SUMMARY_FILE: &str = "summary.json";
/// The results as a page.
pub const REPORT_FILE: &str = "report.html";
/// The best checkpoint, where the settings say by what.
pub const BEST_FILE: &str = "best.json";
/// The record of a judge's verdicts. They were paid for: whoever clears a directory leaves it.
pub const JUDGE_FILE: &str = "judge.jsonl";
/// Marks a directory whose run has not started: its content may be removed.
pub(crate) const INCOMPLETE_FILE: &str = ".incomplete";
/// The samples of training steps.
pub const ROLLOUTS_FOLDER: &str = "rollouts";
/// A folder for each evaluation.
pub(crate) const EVALUATION_FOLDER: &str = "evaluation";
/// The folder of the event files, which `tensorboard --logdir` takes.
pub const TENSORBOARD_FOLDER: &str = "tensorboard";
pub(crate) const CHECKPOINTS_FOLDER: &str = "checkpoints";
/// The weights that the learner publishes.
pub(crate) const WEIGHTS_FOLDER: &str = "weights";
