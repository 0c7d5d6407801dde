//! The position of a run: everything that the loop must know to continue.

use serde::{Deserialize, Serialize};

const FORMAT: u32 = 1;

/// The state of the loop. It is stored inside of the learner's checkpoints, so that both sides return to the same moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    format: u32,
    /// Of the recipe: a checkpoint of other settings belongs to another run.
    identity: String,
    /// Supervised steps done.
    warm_start_steps: u64,
    /// GRPO steps done.
    step: u64,
    /// Number of the next prompt in the data order.
    cursor: u64,
    /// Version of the weights.
    version: u64,
}

impl Position {
    /// The start of a run.
    pub(super) fn start(identity: &str) -> Self {
        Self { format: FORMAT, identity: identity.to_owned(), warm_start_steps: 0, step: 0, cursor: 0, version: 0 }
    }

    /// Supervised steps done.
    pub(super) fn warm_start_steps(&self) -> u64 {
        self.warm_start_steps
    }

    /// GRPO steps done.
    pub(super) fn step(&self) -> u64 {
        self.step
    }

    /// Number of the next prompt in the data order.
    pub(super) fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Version of the weights.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// A supervised step is done.
    pub(super) fn finish_warm_start_step(&mut self, version: u64) {
        self.warm_start_steps += 1;
        self.version = version;
    }

    /// A GRPO step is done; the next one begins with prompt `cursor`.
    pub(super) fn finish_step(&mut self, cursor: u64, version: u64) {
        self.step += 1;
        self.cursor = cursor;
        self.version = version;
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and a text can be serialized")
    }

    /// Reads the state of a run of that identity.
    ///
    /// # Errors
    /// What is wrong with it, to follow its name.
    pub(super) fn from_bytes(bytes: &[u8], identity: &str) -> Result<Self, String> {
        let position = Self::parse(bytes)?;
        if position.identity != identity {
            return Err("belongs to a run with other settings".to_owned());
        }
        Ok(position)
    }

    /// Reads the state of another run, from which a run of that identity goes on.
    ///
    /// # Errors
    /// As [`from_bytes`](Self::from_bytes).
    pub(super) fn forked(bytes: &[u8], identity: &str) -> Result<Self, String> {
        Ok(Self { identity: identity.to_owned(), ..Self::parse(bytes)? })
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let position: Self =
            serde_json::from_slice(bytes).map_err(|error| format!("was not written by this program: {error}"))?;
        if position.format != FORMAT {
            return Err(format!("has format {}, allowed: {FORMAT}", position.format));
        }
        Ok(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_back_and_others_are_refused() {
        let mut position = Position::start("sha256:ab");
        position.finish_warm_start_step(400);
        position.finish_step(131, 401);
        assert_eq!(
            (position.warm_start_steps(), position.step(), position.cursor(), position.version()),
            (1, 1, 131, 401)
        );
        let read = |bytes: &[u8]| Position::from_bytes(bytes, "sha256:ab");
        assert_eq!(read(&position.to_bytes()), Ok(position.clone()));
        assert!(read(b"").unwrap_err().starts_with("was not written by this program"));
        assert!(Position::from_bytes(&position.to_bytes(), "sha256:cd").unwrap_err().contains("other settings"));
        let forked = Position::forked(&position.to_bytes(), "sha256:cd").unwrap();
        assert_eq!((forked.step(), forked.cursor(), forked.version()), (1, 131, 401));
        assert_eq!(Position::from_bytes(&forked.to_bytes(), "sha256:cd"), Ok(forked));
        let newer = Position { format: 2, ..position };
        assert_eq!(read(&newer.to_bytes()).unwrap_err(), "has format 2, allowed: 1");
    }
}
