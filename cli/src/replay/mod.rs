//! `evenkeel replay`: the recorded steps of a run, judged or weighed again. Nothing of the run is written.

mod asked;
mod judge;
mod judges;
mod open;
mod steps;
mod weigh;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use evenkeel_orchestrator::changed_inputs;
use evenkeel_proto::FieldError;
use evenkeel_recipe::Recipe;
use evenkeel_run::{PROGRAM, RunRecord};

use crate::arguments::ReplayOptions;
use crate::runs::require_run;
use crate::terminal::{note, print_error};
use asked::Asked;
pub(crate) use judges::Judges;
pub(crate) use open::OpenedReplay;
use steps::StepRange;

/// Exit status of a replay that could not be done.
const NOT_REPLAYED: u8 = 2;

/// Replays, and says by the exit status whether everything is as it was recorded.
pub(crate) async fn replay(options: &ReplayOptions) -> Result<ExitCode> {
    Ok(match run(options).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            print_error(&error);
            ExitCode::from(NOT_REPLAYED)
        }
    })
}

/// Returns whether everything is as it was recorded.
async fn run(options: &ReplayOptions) -> Result<bool> {
    let asked = Asked::of(options)?;
    let steps = options.steps.as_deref().map(StepRange::parse).transpose()?.unwrap_or_default();
    require_run(&options.run)?;
    let run = RecordedFiles::open(RunRecord::read(&options.run)?)?;
    match asked {
        Asked::Judge(settings) => judge::judge(run, settings, steps, options).await,
        Asked::Weigh { rules, dials, settings } => weigh::weigh(run, (rules, dials), &settings, steps, options.json),
    }
}

/// A run, its settings and the folder of the model that it began with.
pub(crate) struct RecordedFiles {
    pub(crate) record: RunRecord,
    pub(crate) recipe: Recipe,
    pub(crate) model: PathBuf,
    /// Parts of the model and of a teacher that are not what they were, a sentence each.
    pub(crate) changed_model: Vec<String>,
    /// Data files that are not what they were, a sentence each.
    pub(crate) changed_data: Vec<String>,
}

impl RecordedFiles {
    /// Reads the settings of a run and finds its model.
    ///
    /// # Errors
    /// Settings that cannot be read; a folder without a model.
    pub(crate) fn open(record: RunRecord) -> Result<Self> {
        if record.program_version != PROGRAM {
            note(&format!(
                "note: the run was recorded by version {} of the program and is replayed by {PROGRAM}: results may \
                 differ",
                record.program_version
            ));
        }
        let recipe = evenkeel_recipe::finish(record.settings()?, &[])?.settings;
        let model = recipe.model.folder(note)?.unwrap_or_else(|| record.path.join("model"));
        if !model.join("config.json").exists() {
            let found = format!("{}, which has no config.json", model.display());
            return Err(FieldError::new("model.path", found, "the folder of the model that the run began with").into());
        }
        // One that is gone is refused where it is needed.
        let teacher = recipe.learner.distillation.as_ref().and_then(|distillation| distillation.folder());
        let teacher = teacher.filter(|teacher| teacher.exists());
        let (changed_model, changed_data) = changed_inputs(&record.path, &model, teacher)?;
        Ok(Self { record, recipe, model, changed_model, changed_data })
    }

    /// Refuses files that are not those that the run was recorded with.
    pub(crate) fn require_unchanged(&self, changes: &[String]) -> Result<()> {
        match changes {
            [] => Ok(()),
            changes => bail!("run `{}` was recorded with other files: {}", self.record.run_id, changes.join("; ")),
        }
    }
}
