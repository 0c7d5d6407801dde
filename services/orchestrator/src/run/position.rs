//! Where a run is, and how it gets back there: the learner's checkpoint is the truth, the files follow it.

use evenkeel_proto::v1::RunState;
use serde::{Deserialize, Serialize};

use super::drive::Driver;
use crate::error::{Halt, RunError};

const FORMAT: u32 = 1;

/// Everything that the loop must know to go on. Kept inside of the learner's checkpoints, so that both sides go back to one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    format: u32,
    /// Of the recipe: a checkpoint of other settings is another run's.
    identity: String,
    /// Supervised steps done.
    pub(super) warm_start_steps: u64,
    /// GRPO steps done.
    pub(super) step: u64,
    /// Place of the next prompt in the data order.
    pub(super) cursor: u64,
    /// Version of the weights.
    pub(super) version: u64,
}

impl Position {
    fn beginning(identity: String) -> Self {
        Self { format: FORMAT, identity, warm_start_steps: 0, step: 0, cursor: 0, version: 0 }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and a text can be written")
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let position: Self =
            serde_json::from_slice(bytes).map_err(|error| format!("is not one of this program: {error}"))?;
        if position.format != FORMAT {
            return Err(format!("has format {}, allowed: {FORMAT}", position.format));
        }
        Ok(position)
    }
}

impl Driver {
    /// The beginning of a new run.
    pub(super) async fn locate_beginning(&mut self) -> Result<Position, Halt> {
        let status = self.services.learner_status().await?;
        let run_id = self.directory.run_id();
        // Untouched weights are anybody's, once the learner gives them.
        if !status.run_id.is_empty() && status.run_id != run_id && status.version != 0 {
            let message = format!(
                "the learner holds version {} of run `{}`, it must be started anew for `{run_id}`",
                status.version, status.run_id
            );
            return Err(RunError::Mismatch(message).into());
        }
        if status.version != 0 {
            let message = format!(
                "the learner holds version {} and a new run begins with 0, it must be started anew",
                status.version
            );
            return Err(RunError::Mismatch(message).into());
        }
        Ok(Position::beginning(self.directory.identity().to_owned()))
    }

    /// The last checkpoint, or the beginning where there is none; the files are cut back to it.
    pub(super) async fn locate_checkpoint(&mut self) -> Result<Position, Halt> {
        self.events.enter(RunState::Starting);
        let position = match self.services.load_checkpoint(self.directory.run_id()).await? {
            // Without a checkpoint the run begins anew; a learner that did steps before answers with its stored reports.
            None => Position::beginning(self.directory.identity().to_owned()),
            Some(loaded) => {
                let broken = |message: String| {
                    let path = loaded.checkpoint.as_ref().map_or("", |checkpoint| checkpoint.path.as_str());
                    RunError::Mismatch(format!("the state of the run in checkpoint {path} {message}"))
                };
                let position = Position::from_bytes(&loaded.client_state).map_err(broken)?;
                if position.identity != self.directory.identity() {
                    return Err(broken("is that of a run with other settings".to_owned()).into());
                }
                position
            }
        };
        self.cut_back(&position).await?;
        Ok(position)
    }

    /// Takes away the lines of steps that will be done again. Lines before it must be there: they were on the disk before the
    /// checkpoint was asked for.
    async fn cut_back(&mut self, position: &Position) -> Result<(), Halt> {
        let retrier = self.services.retrier.clone();
        let after_warm_start = position.warm_start_steps == self.recipe.warm_start.steps;
        let files = [
            (&mut self.metrics, position.step),
            (&mut self.warm_starts, position.warm_start_steps),
            // Evaluations are of the weights after so many steps: that of the checkpoint itself stays.
            (&mut self.evaluations, if after_warm_start { position.step + 1 } else { 0 }),
        ];
        for (lines, step) in files {
            let path = lines.path().to_owned();
            retrier.write(&path, || lines.truncate(step)).await?;
        }
        for (lines, wanted) in [(&self.metrics, position.step), (&self.warm_starts, position.warm_start_steps)] {
            if lines.count() != wanted {
                let name = lines.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
                let message = format!(
                    "{name} has {} lines, the checkpoint is after step {wanted}: lines were taken away",
                    lines.count()
                );
                return Err(RunError::directory(self.directory.path(), message).into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_comes_back_and_others_are_refused() {
        let position = Position { step: 7, cursor: 131, version: 407, ..Position::beginning("sha256:ab".into()) };
        assert_eq!(Position::from_bytes(&position.to_bytes()), Ok(position.clone()));
        assert!(Position::from_bytes(b"").unwrap_err().starts_with("is not one of this program"));
        let newer = Position { format: 2, ..position };
        assert_eq!(Position::from_bytes(&newer.to_bytes()).unwrap_err(), "has format 2, allowed: 1");
    }
}
