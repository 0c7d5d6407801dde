//! The position of a run: everything that it must know to continue.

use std::collections::BTreeMap;
use std::ops::Range;

use evenkeel_run::LineMark;
use serde::{Deserialize, Serialize};

use super::state::{LoopState, PublishedWeights};
use crate::error::StateProblem;

/// The format that is written and read. Earlier ones had fields in place of the state of the loop.
const FORMAT: u32 = 4;

/// How large a position may get, half of what a learner keeps. A larger one is written without what is in flight.
const MOST_BYTES: usize = 1 << 19;

/// The position of a run. It is stored inside of the learner's checkpoints, so that both sides return to the same
/// moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    format: u32,
    /// Identity of the recipe: a checkpoint of other settings belongs to another run.
    identity: String,
    warm_start_steps: u64,
    /// The loop as it is, with what is in flight.
    #[serde(rename = "loop")]
    state: LoopState,
    /// Marks of the lines that the run had written, by the names of their files.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    lines: BTreeMap<String, Vec<LineMark>>,
}

/// What every format begins with.
#[derive(Deserialize)]
struct Head {
    format: u32,
}

impl Position {
    /// The start of a run.
    pub(super) fn start(identity: &str) -> Self {
        let identity = identity.to_owned();
        let state = LoopState::default();
        Self { format: FORMAT, identity, warm_start_steps: 0, state, lines: BTreeMap::new() }
    }

    pub(super) fn warm_start_steps(&self) -> u64 {
        self.warm_start_steps
    }

    /// The last step that is done.
    pub(super) fn step(&self) -> u64 {
        self.state.step()
    }

    /// Version of the weights after it.
    pub(super) fn version(&self) -> u64 {
        self.state.version()
    }

    /// The loop as it is, with what is in flight.
    pub(super) fn state(&self) -> &LoopState {
        &self.state
    }

    /// The loop, to be changed.
    pub(super) fn state_mut(&mut self) -> &mut LoopState {
        &mut self.state
    }

    /// Versions before this one of published weights that a run needs which returns here, in order.
    pub(super) fn earlier_versions(&self) -> Vec<u64> {
        let versions = self.state.published().map(PublishedWeights::version);
        versions.filter(|&version| version < self.version()).collect()
    }

    /// Marks of the lines that the run had written at a checkpoint, by the names of their files.
    pub(super) fn lines(&self) -> &BTreeMap<String, Vec<LineMark>> {
        &self.lines
    }

    pub(super) fn set_lines(&mut self, lines: BTreeMap<String, Vec<LineMark>>) {
        self.lines = lines;
    }

    /// Numbers of the prompts that were in flight, for steps that are not trained yet. Empty where they are not in a
    /// row, as in order of completion.
    pub(super) fn in_flight(&self) -> Range<u64> {
        let first = self.state.unfinished().next().unwrap_or_default();
        let end = self.state.unfinished().last().map_or(first, |last| last + 1);
        if self.state.left_by_completion().is_some() { first..first } else { first..end }
    }

    /// A supervised step is done.
    pub(super) fn finish_warm_start_step(&mut self, version: u64) {
        self.warm_start_steps += 1;
        self.state.set_version(version);
    }

    /// This position with nothing in flight.
    pub(super) fn at_rest(&self) -> Self {
        Self { state: self.state.at_rest(), ..self.clone() }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let write = |position: &Self| serde_json::to_vec(position).expect("numbers and texts can be serialized");
        let whole = write(self);
        if whole.len() > MOST_BYTES { write(&self.at_rest()) } else { whole }
    }

    /// Reads the state of a run of that identity.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn from_bytes(bytes: &[u8], identity: &str) -> Result<Self, StateProblem> {
        let position = Self::parse(bytes)?;
        if position.identity != identity {
            return Err(StateProblem::Identity);
        }
        Ok(position)
    }

    /// Reads the state of another run, from which a run of that identity goes on.
    ///
    /// # Errors
    /// As [`from_bytes`](Self::from_bytes).
    pub(super) fn forked(bytes: &[u8], identity: &str) -> Result<Self, StateProblem> {
        let position = Self::parse(bytes)?;
        // Lines are of the other run's files.
        let identity = identity.to_owned();
        let state = position.state.forked();
        let lines = BTreeMap::new();
        Ok(Self { identity, state, lines, ..position })
    }

    fn parse(bytes: &[u8]) -> Result<Self, StateProblem> {
        let Head { format } = serde_json::from_slice(bytes).map_err(StateProblem::Foreign)?;
        if format != FORMAT {
            return Err(StateProblem::Format { found: format, allowed: FORMAT });
        }
        serde_json::from_slice(bytes).map_err(StateProblem::Foreign)
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::example;
    use super::*;

    fn position() -> Position {
        Position { state: example::two_steps_in_flight(), ..Position::start("sha256:ab") }
    }

    #[test]
    fn a_position_is_read_back_and_others_are_refused() {
        let position = position();
        let read = |bytes: &[u8]| Position::from_bytes(bytes, "sha256:ab").map_err(|error| error.to_string());
        assert_eq!(read(&position.to_bytes()), Ok(position.clone()));
        assert!(read(b"").unwrap_err().starts_with("was not written by this program"));
        assert!(matches!(Position::from_bytes(&position.to_bytes(), "sha256:cd"), Err(StateProblem::Identity)));
        let newer = Position { format: 5, ..position };
        assert_eq!(read(&newer.to_bytes()).unwrap_err(), "has format 5, allowed: 4");
        let older = br#"{"format":1,"identity":"a","warm_start_steps":2,"step":3,"cursor":12,"version":5}"#;
        assert_eq!(read(older).unwrap_err(), "has format 1, allowed: 4");
    }

    #[test]
    fn supervised_steps_make_versions_before_the_first_step() {
        let mut position = Position::start("sha256:ab");
        position.finish_warm_start_step(400);
        assert_eq!((position.warm_start_steps(), position.step(), position.version()), (1, 0, 400));
    }

    #[test]
    fn prompts_in_flight_and_weights_are_read_back_and_a_fork_has_none() {
        let again = Position::from_bytes(&position().to_bytes(), "sha256:ab").unwrap();
        assert_eq!(
            (again.in_flight(), again.earlier_versions()),
            (position().in_flight(), position().earlier_versions())
        );
        assert!(!again.in_flight().is_empty() && !again.earlier_versions().is_empty());
        let forked = Position::forked(&position().to_bytes(), "sha256:cd").unwrap();
        assert_eq!((forked.step(), forked.version()), (position().step(), position().version()));
        assert!(forked.in_flight().is_empty() && forked.earlier_versions().is_empty());
        assert_eq!(Position::from_bytes(&forked.to_bytes(), "sha256:cd").unwrap(), forked);
    }

    #[test]
    fn a_position_that_a_learner_would_not_keep_is_written_without_what_is_in_flight() {
        let large = Position { state: example::many_in_flight(), ..Position::start("sha256:ab") };
        let bytes = large.to_bytes();
        assert!(bytes.len() < MOST_BYTES, "{}", bytes.len());
        let again = Position::from_bytes(&bytes, "sha256:ab").unwrap();
        assert_eq!(again.state.resumed(Default::default()), large.state.resumed(Default::default()));
    }

    #[test]
    fn marks_of_lines_are_read_back_and_a_fork_has_none() {
        let mut position = position();
        let marks = vec![LineMark { lines: 3, digest: "07".repeat(16) }];
        position.set_lines(BTreeMap::from([("metrics.jsonl".to_owned(), marks)]));
        assert_eq!(Position::from_bytes(&position.to_bytes(), "sha256:ab").unwrap(), position);
        assert!(Position::forked(&position.to_bytes(), "sha256:cd").unwrap().lines().is_empty());
    }
}
