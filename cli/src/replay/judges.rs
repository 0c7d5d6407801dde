//! The verifiers of a run, started again to judge its recorded answers.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use evenkeel_orchestrator::{Endpoints, JudgedAgain, Rejudge, Repeats, rejudge};
use evenkeel_recipe::{Recipe, interpreters};
use evenkeel_rpc::server::RunningServer;
use evenkeel_run::Rollout;

use crate::programs::announce;
use crate::terminal::note;
use crate::verifiers::{VerifierProcesses, start_reward};

/// Verifiers, and the data of a run. Dropping it ends what was started.
pub(crate) struct Judges {
    again: Rejudge,
    _reward: RunningServer,
    _programs: VerifierProcesses,
}

impl Judges {
    /// Starts the reward service with the judge of the recipe, and with [`Repeats::All`] its reward functions and
    /// programs; reads the data of the run in a folder.
    ///
    /// # Errors
    /// Data, functions or programs that cannot be read or started; an environment whose verdicts cannot be repeated.
    pub(crate) async fn start(mut recipe: Recipe, run: &Path, repeats: Repeats) -> Result<Self> {
        recipe.model.pin(note)?;
        let mut reward = recipe.reward_service();
        let declared = recipe.data.verifiers.clone();
        if repeats == Repeats::All {
            if let Some(missing) = interpreters::missing_interpreters(&recipe).into_iter().next() {
                return Err(missing.into());
            }
            announce(&recipe);
        } else {
            reward.functions.clear();
        }
        reward.judge_records = Some(run.to_owned());
        let custom = reward.custom_verifiers();
        let reward = start_reward(reward).await?;
        let own = vec![reward.endpoint().to_owned()];
        let (programs, verifiers) = match repeats {
            Repeats::All => {
                let programs = VerifierProcesses::start(&declared).await?;
                let of_service = custom.into_iter().map(|name| (name, own.clone()));
                let verifiers = of_service.chain(programs.endpoints()).collect();
                (programs, verifiers)
            }
            // The judge alone has an address: without functions no other verifier is asked.
            Repeats::OfProgram => {
                let address = |name: &String| if custom.contains(name) { own.clone() } else { Vec::new() };
                let verifiers = declared.keys().map(|name| (name.clone(), address(name))).collect();
                (VerifierProcesses::start(&BTreeMap::new()).await?, verifiers)
            }
        };
        // Verifiers alone are called.
        let endpoints = Endpoints {
            generation: String::new(),
            reward: own,
            learner: String::new(),
            environment: vec![String::new()],
            described: Default::default(),
            verifiers,
        };
        let again = rejudge(&recipe.resolved_for_this_process()?, run, &endpoints, repeats)?;
        Ok(Self { again, _reward: reward, _programs: programs })
    }

    /// Judges the answers of a step.
    ///
    /// # Errors
    /// As [`Rejudge::judge`].
    pub(crate) async fn judge(&self, rollouts: Vec<Rollout>) -> Result<Vec<JudgedAgain>> {
        Ok(self.again.judge(rollouts).await?)
    }

    /// The first sample that the data or its own tokens contradict, and what it has.
    ///
    /// # Errors
    /// As [`Rejudge::contradiction`].
    pub(crate) fn contradiction(&self, rollouts: &[Rollout]) -> Result<Option<(usize, String)>> {
        Ok(self.again.contradiction(rollouts)?)
    }
}
