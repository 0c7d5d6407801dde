//! Commands that train.

use std::path::PathBuf;

use clap::Args;

#[derive(Args)]
pub(crate) struct TrainOptions {
    /// A recipe that comes with the program, or a TOML file; several are merged, later ones win [default: arithmetic].
    #[arg(long, value_name = "NAME|FILE.toml", conflicts_with = "resume")]
    pub(crate) recipe: Vec<String>,
    /// Start a new run from a checkpoint of another one, after step N [default: its newest], with its settings and --set on top.
    #[arg(long, value_name = "DIR[@N]", conflicts_with_all = ["recipe", "resume"])]
    pub(crate) from: Option<String>,
    /// Set one setting, as `learner.optimizer.learning_rate=1e-5`. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// GRPO steps in total.
    #[arg(long, value_name = "N")]
    pub(crate) steps: Option<u64>,
    /// Compute the gradient of every aggregation rule on the batch of the first step and of every N-th from there; it changes no result.
    #[arg(long, value_name = "every=N", value_parser = every)]
    pub(crate) probe_gradients: Option<u64>,
    /// Directory of the run [default: runs/RECIPE-SEED, or DIR-from-N with --from; with a number if it exists].
    #[arg(long, visible_alias = "run", value_name = "DIR", conflicts_with = "resume")]
    pub(crate) out: Option<PathBuf>,
    /// Resume the run in this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) resume: Option<PathBuf>,
    /// Print one JSON line per step on stdout, and nothing else; with --dry-run one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Start nothing: check files, templates, gold answers, memory and engines, print what the run will cost and all that keeps it from
    /// starting. Fails if the run cannot start.
    #[arg(long, conflicts_with_all = ["from", "resume"])]
    pub(crate) dry_run: bool,
    /// End when standard input does: for a process that starts runs, so that none outlives it.
    #[arg(long, hide = true)]
    pub(crate) with_parent: bool,
}

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct CompareOptions {
    /// Recipes, each a task of its own; a study, such as studies/four-regimes; or directories of runs that exist.
    #[arg(value_name = "RECIPE|STUDY|RUN", required = true)]
    pub(crate) names: Vec<String>,
    /// A setting and its values, as `learner.objective.aggregation=token,balanced`. Repeated, every combination is run.
    #[arg(long, value_name = "KEY=VALUE,VALUE")]
    pub(crate) vary: Vec<String>,
    /// The quick version of a study, which shows that it works and no more.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Runs of each combination, with the seeds 0 to N - 1; fewer than 8 give no verdict [default: 8].
    #[arg(long, value_name = "N")]
    pub(crate) seeds: Option<u64>,
    /// Runs at once; they change no result [default: cores divided by the threads of a run].
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Threads of a run, which decide its bits [default: 1].
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Compute the gradient of every aggregation rule in all runs, as `evenkeel train` does.
    #[arg(long, value_name = "every=N", value_parser = every)]
    pub(crate) probe_gradients: Option<u64>,
    /// Set one setting of all runs. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// The measure that conclusions are about, such as `last-accuracy` [default: that, or `last-reward` without evaluations].
    #[arg(long, value_name = "MEASURE")]
    pub(crate) primary: Option<String>,
    /// Count the steps until the mean reward reaches this.
    #[arg(long, value_name = "REWARD")]
    pub(crate) reward: Option<f64>,
    /// Folder of the comparison; the same command continues with what it has [default: comparisons/RECIPE].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print the comparison as one JSON line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The N of `every=N`.
fn every(text: &str) -> Result<u64, String> {
    let every = text.strip_prefix("every=").and_then(|number| number.trim().parse().ok()).filter(|every| *every > 0);
    every.ok_or_else(|| "allowed: every=N, with an N of at least 1".to_owned())
}

/// The setting that `--probe-gradients every=N` is.
pub(crate) fn probe_setting(every: Option<u64>) -> Option<String> {
    every.map(|every| format!("learner.probe_gradients.every={every}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_often_to_probe_is_a_number_of_steps() {
        assert_eq!(every("every=20"), Ok(20));
        for wrong in ["20", "every=0", "every=", "every=-1", "each=3"] {
            assert!(every(wrong).unwrap_err().contains("every=N"), "{wrong}");
        }
    }
}
