//! `evenkeel train` and `evenkeel resume` as a launcher starts them on every rank: rank 0 is the run, the others are
//! ranks of its learner.

use std::process::ExitCode;

use anyhow::Result;
use evenkeel_learner::{LearnerSettings, RankEnd, RankPlace};
use evenkeel_recipe::Recipe;
use evenkeel_rpc::server::{ServerSettings, shutdown_signal};
use evenkeel_run::RunDirectory;

use crate::arguments::TrainOptions;
use crate::runs::require_run;
use crate::signals::Received;
use crate::terminal;

/// A rank after rank 0.
pub(crate) struct Follower {
    recipe: Recipe,
    place: RankPlace,
}

impl Follower {
    /// What this process is by its recipe and the launcher's environment; `None` for rank 0, and for a run without
    /// ranks.
    pub(crate) fn of(options: &TrainOptions, set: &[String]) -> Result<Option<Self>> {
        let recipe = match (&options.resume, &options.from) {
            // With ranks it is refused.
            (_, Some(_)) => return Ok(None),
            (Some(path), None) => {
                require_run(path)?;
                evenkeel_recipe::finish(RunDirectory::settings_of(path)?, set)?.settings
            }
            (None, None) => evenkeel_recipe::load(options.recipes(), set)?.settings,
        };
        let place = recipe.learner.rank_place().map_err(|error| error.within("learner"))?;
        Ok(place.filter(|place| place.division.rank() > 0).map(|place| Self { recipe, place }))
    }

    /// Trains as rank 0 says until it has nothing more to do.
    pub(crate) async fn follow(self) -> Result<ExitCode> {
        let Self { recipe, place } = self;
        // Where a fresh model is made, which is the same on every rank.
        let folder = tempfile::tempdir()?;
        let model = recipe.model_folder(folder.path(), terminal::note)?;
        let server = ServerSettings { drain: recipe.checkpoint.grace, ..ServerSettings::default() };
        let settings = LearnerSettings { server, model, ..recipe.learner_service() };
        let rank = place.division.rank();
        let ranks = place.division.ranks();
        let address = &place.address;
        terminal::note(&format!("rank {rank} of {ranks}: follows rank 0 at {address}, which writes the run"));
        Ok(exit_code(evenkeel_learner::follow(settings, place, shutdown_signal()).await?))
    }
}

/// Status 0 is that of a rank that has nothing more to do: a scheduler starts others again.
pub(crate) fn exit_code(ended: RankEnd) -> ExitCode {
    match ended {
        RankEnd::Finished => ExitCode::SUCCESS,
        RankEnd::Stopped => ExitCode::from(Received::Terminate.exit_status()),
    }
}
