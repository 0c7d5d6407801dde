//! Commands that train.

use std::path::PathBuf;

use clap::Args;
use evenkeel_run::RUN_FILE;

use super::whole;

#[derive(Args, Default)]
pub(crate) struct TrainOptions {
    /// Built-in recipes or TOML files, as --recipe names them.
    #[arg(value_name = "RECIPE", conflicts_with_all = ["recipe", "from", "resume"])]
    pub(crate) recipes: Vec<String>,
    /// A built-in recipe or a TOML file; several are merged, later ones win [default: arithmetic].
    #[arg(long, alias = "config", value_name = "NAME|FILE.toml", conflicts_with = "resume")]
    pub(crate) recipe: Vec<String>,
    /// Start a new run from the checkpoint of another run after step N [default: its newest], with its settings and
    /// --set on top.
    #[arg(long, value_name = "DIR[@N]", conflicts_with_all = ["recipe", "resume"])]
    pub(crate) from: Option<String>,
    /// Override one setting, such as `learner.optimizer.learning_rate=1e-5`. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Total number of GRPO steps.
    #[arg(long, value_name = "N", value_parser = whole::<u64>)]
    pub(crate) steps: Option<u64>,
    /// Compute the gradient of every aggregation rule on the batch of the first step and every N-th after it; this
    /// changes no result.
    #[arg(long, value_name = "every=N", value_parser = every)]
    pub(crate) probe_gradients: Option<u64>,
    /// Directory of the run [default: runs/RECIPE-SEED, or DIR-from-N with --from; with a number if it exists].
    #[arg(long, visible_alias = "run", value_name = "DIR", conflicts_with = "resume")]
    pub(crate) out: Option<PathBuf>,
    /// Resume the run in this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) resume: Option<PathBuf>,
    /// Resume the run in the directory that --out names, if there is one, with its own settings and --set; else begin
    /// it. For schedulers, which start a job again with the command that it had.
    #[arg(long = "continue", requires = "out", conflicts_with_all = ["from", "dry_run"])]
    pub(crate) continues: bool,
    /// Resume although files that the run reads, or lines that it wrote, are not what they were. The run says so in its
    /// record, its summary and its report.
    #[arg(long, requires = "resume")]
    pub(crate) accept_changed_inputs: bool,
    /// Print one JSON line per step on stdout, and nothing else; with --dry-run one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Start no run: check files, templates, gold answers, memory and engines, send one row through reward functions
    /// and environments, time a step where this machine samples and trains, and print everything that keeps the run
    /// from starting. Fails if the run cannot start.
    #[arg(long, conflicts_with_all = ["from", "resume"])]
    pub(crate) dry_run: bool,
    /// With --dry-run: time nothing, which takes up to 20 s.
    #[arg(long, requires = "dry_run")]
    pub(crate) no_timing: bool,
    /// Say also what the learner computes.
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Exit when standard input closes: for a process that starts runs, so that none outlives it.
    #[arg(long, hide = true)]
    pub(crate) with_parent: bool,
}

#[derive(Args)]
pub(crate) struct ResumeOptions {
    /// Directory of the run.
    #[arg(value_name = "DIR")]
    pub(crate) run: PathBuf,
    /// Override one setting that may change when a run goes on, such as `model.path=...`. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Total number of GRPO steps, with those that are done: more than the run had extend it.
    #[arg(long, value_name = "N", value_parser = whole::<u64>)]
    pub(crate) steps: Option<u64>,
    /// Resume although files that the run reads, or lines that it wrote, are not what they were. The run says so in its
    /// record, its summary and its report.
    #[arg(long)]
    pub(crate) accept_changed_inputs: bool,
    /// Print one JSON line per step on stdout, and nothing else.
    #[arg(long)]
    pub(crate) json: bool,
    /// Say also what the learner computes.
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

impl From<ResumeOptions> for TrainOptions {
    fn from(options: ResumeOptions) -> Self {
        let ResumeOptions { run, set, steps, accept_changed_inputs, json, verbose } = options;
        Self { resume: Some(run), set, steps, accept_changed_inputs, json, verbose, ..Self::default() }
    }
}

impl TrainOptions {
    /// With `--continue`, those of a resumed run where there is one.
    pub(crate) fn resolved(self) -> Self {
        match &self.out {
            Some(out) if self.continues && out.join(RUN_FILE).is_file() => {
                Self { resume: self.out, out: None, recipes: Vec::new(), recipe: Vec::new(), ..self }
            }
            _ => self,
        }
    }

    /// The recipes, wherever they stand on the command line.
    pub(crate) fn recipes(&self) -> &[String] {
        if self.recipes.is_empty() { &self.recipe } else { &self.recipes }
    }
}

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct CompareOptions {
    /// Recipes, each a task of its own; a study, such as studies/four-regimes; or directories of existing runs and
    /// folders of them.
    #[arg(value_name = "RECIPE|STUDY|RUN", required = true)]
    pub(crate) names: Vec<String>,
    /// A setting and its values, such as `learner.objective.aggregation=token,balanced`. If repeated, every combination
    /// is run.
    #[arg(long, value_name = "KEY=VALUE,VALUE")]
    pub(crate) vary: Vec<String>,
    /// The quick version of a study, which shows only that it works.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Runs per combination, with the seeds 0 to N - 1; fewer than 8 give no verdict [default: 8].
    #[arg(long, value_name = "N", value_parser = whole::<u64>)]
    pub(crate) seeds: Option<u64>,
    /// Number of runs at once; does not affect results [default: cores divided by threads per run; 1 for runs on a GPU
    /// or with engines of their own].
    #[arg(long, value_name = "N", value_parser = whole::<usize>)]
    pub(crate) jobs: Option<usize>,
    /// Threads per run; results are bit-identical only for the same number [default: 1].
    #[arg(long, value_name = "N", value_parser = whole::<usize>)]
    pub(crate) threads: Option<usize>,
    /// Compute the gradient of every aggregation rule in all runs, as `evenkeel train` does.
    #[arg(long, value_name = "every=N", value_parser = every)]
    pub(crate) probe_gradients: Option<u64>,
    /// Override one setting in all runs. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// The measure that conclusions are drawn from, such as `last-accuracy` [default: that, or `last-reward` without
    /// evaluations].
    #[arg(long, value_name = "MEASURE")]
    pub(crate) primary: Option<String>,
    /// How far below another rule balanced may be and still count as no worse, in the units of the measure [default:
    /// 0.01].
    #[arg(long, value_name = "MARGIN")]
    pub(crate) margin: Option<f64>,
    /// Count the steps until the mean reward reaches this.
    #[arg(long, value_name = "REWARD")]
    pub(crate) reward: Option<f64>,
    /// Folder of the comparison; running the same command again continues it [default: comparisons/RECIPE].
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
