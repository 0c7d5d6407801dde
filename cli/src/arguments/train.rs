//! Commands that train.

use std::path::PathBuf;

use clap::Args;
use evenkeel_run::RUN_FILE;

use super::whole;

/// Headings of the help.
const BEGIN: &str = "Directory and start";
const DRY_RUN: &str = "Dry run";
const OUTPUT: &str = "Output";

#[derive(Args, Default)]
pub(crate) struct TrainOptions {
    /// Built-in recipes or TOML files; later ones win [default: arithmetic]
    #[arg(value_name = "RECIPE", conflicts_with_all = ["recipe", "from", "resume"])]
    pub(crate) recipes: Vec<String>,
    /// Another way to write RECIPE; may be repeated.
    #[arg(long, alias = "config", value_name = "NAME|FILE.toml", conflicts_with = "resume")]
    pub(crate) recipe: Vec<String>,
    /// Start from a checkpoint of another run [default step: its newest]
    ///
    /// The new run has the settings of the other run, with --set on top.
    #[arg(help_heading = BEGIN, long, value_name = "DIR[@N]", conflicts_with_all = ["recipe", "resume"])]
    pub(crate) from: Option<String>,
    /// Override one setting, such as run.seed=1; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Total number of training steps.
    #[arg(long, value_name = "N", value_parser = whole::<u64>)]
    pub(crate) steps: Option<u64>,
    /// Measure the gradient of every aggregation rule each N steps.
    ///
    /// The first step is measured as well. This changes no result.
    #[arg(long, value_name = "every=N", value_parser = every)]
    pub(crate) probe_gradients: Option<u64>,
    /// Directory of the run [default: runs/RECIPE-SEED]
    ///
    /// With --from, the default is DIR-from-N. If the default exists, the name gets a number.
    #[arg(help_heading = BEGIN, long, visible_alias = "run", value_name = "DIR", conflicts_with = "resume")]
    pub(crate) out: Option<PathBuf>,
    /// Resume the run in this directory.
    #[arg(help_heading = BEGIN, long, value_name = "DIR")]
    pub(crate) resume: Option<PathBuf>,
    /// Resume the run in --out if it exists, else start it.
    ///
    /// A resumed run keeps its own settings, with --set on top. For schedulers, which repeat the command of a job that
    /// they restart.
    #[arg(help_heading = BEGIN, long = "continue", requires = "out", conflicts_with_all = ["from", "dry_run"])]
    pub(crate) continues: bool,
    /// Resume even if files of the run have changed.
    ///
    /// That is, files that the run reads, or lines that it wrote. The run notes it in its record, its summary and its
    /// report.
    #[arg(help_heading = BEGIN, long, requires = "resume")]
    pub(crate) accept_changed_inputs: bool,
    /// Print one JSON line per step, and nothing else, on stdout.
    ///
    /// With --dry-run: one JSON object.
    #[arg(help_heading = OUTPUT, long)]
    pub(crate) json: bool,
    /// Check everything that the run needs, without starting it.
    ///
    /// The dry run checks files, chat templates, gold answers, memory and engines, sends one row through reward
    /// functions and environments, and times one step if this machine samples and trains. It prints everything that
    /// keeps the run from starting, and fails if there is anything.
    #[arg(help_heading = DRY_RUN, long, conflicts_with_all = ["from", "resume"])]
    pub(crate) dry_run: bool,
    /// With --dry-run: skip timing a step, which takes up to 20 s.
    #[arg(help_heading = DRY_RUN, long, requires = "dry_run")]
    pub(crate) no_timing: bool,
    /// Print the formula of the objective as well.
    #[arg(help_heading = OUTPUT, long, short)]
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
    /// Override a setting that may change on resume; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Total number of training steps; a larger number extends the run.
    ///
    /// The steps that are done count.
    #[arg(long, value_name = "N", value_parser = whole::<u64>)]
    pub(crate) steps: Option<u64>,
    /// Resume even if files of the run have changed.
    ///
    /// That is, files that the run reads, or lines that it wrote. The run notes it in its record, its summary and its
    /// report.
    #[arg(long)]
    pub(crate) accept_changed_inputs: bool,
    /// Print one JSON line per step, and nothing else, on stdout.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the formula of the objective as well.
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
    /// Recipes (one task each), one study, or directories of runs.
    ///
    /// A study is named like studies/four-regimes. A folder of runs stands for all runs in it.
    #[arg(value_name = "RECIPE|STUDY|RUN", required = true)]
    pub(crate) names: Vec<String>,
    /// A setting and its values; repeat it to run every combination.
    ///
    /// Such as `learner.objective.aggregation=token,balanced`.
    #[arg(long, value_name = "KEY=VALUE,VALUE")]
    pub(crate) vary: Vec<String>,
    /// Run the quick version of a study, which only shows that it works.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Runs per combination [default: 8, the fewest for a verdict]
    ///
    /// The seeds are 0 to N - 1.
    #[arg(long, value_name = "N", value_parser = whole::<u64>)]
    pub(crate) seeds: Option<u64>,
    /// Runs at the same time; does not affect results.
    ///
    /// Default: cores divided by threads per run, or 1 for runs on a GPU or with engines of their own.
    #[arg(long, value_name = "N", value_parser = whole::<usize>)]
    pub(crate) jobs: Option<usize>,
    /// Threads per run; does not affect results [default: 1]
    #[arg(long, value_name = "N", value_parser = whole::<usize>)]
    pub(crate) threads: Option<usize>,
    /// Measure the gradient of every aggregation rule each N steps.
    #[arg(long, value_name = "every=N", value_parser = every)]
    pub(crate) probe_gradients: Option<u64>,
    /// Override one setting in all runs; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Measure for conclusions [default: last-accuracy]
    ///
    /// Without evaluations the default is `last-reward`.
    #[arg(long, value_name = "MEASURE")]
    pub(crate) primary: Option<String>,
    /// Deficit of balanced that counts as no worse [default: 0.01]
    ///
    /// In the units of the measure.
    #[arg(long, value_name = "MARGIN")]
    pub(crate) margin: Option<f64>,
    /// Count the steps until the mean reward reaches this.
    #[arg(long, value_name = "REWARD")]
    pub(crate) reward: Option<f64>,
    /// Folder of the comparison [default: comparisons/RECIPE]
    ///
    /// Running the same command again continues the comparison.
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
