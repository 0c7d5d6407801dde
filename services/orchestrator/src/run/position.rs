//! The position of a run: everything that the loop must know to continue.

use std::collections::BTreeMap;
use std::ops::Range;

use evenkeel_proto::v1::{WeightsRef, weights_ref};
use serde::{Deserialize, Serialize};

use crate::directory::LineMark;
use crate::error::StateProblem;

/// The newest format: 2 has published weights, 3 prompts that wait. A position is written in the oldest one that has what it needs.
const FORMAT: u32 = 3;

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
    /// The published weights before these, in order, that steps which are not trained yet are sampled with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    published: Vec<PublishedWeights>,
    /// Number of the first prompt that no step had begun: those before it are in flight, and drawn again after a return.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    begun: Option<u64>,
    /// Numbers before `cursor` that were started and are in no step, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    waiting: Vec<u64>,
    /// Marks of the lines that the run had written, by the names of their files.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    lines: BTreeMap<String, Vec<LineMark>>,
}

/// Weights that were published: the reference that engines need to load them again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PublishedWeights {
    /// GRPO steps done before them.
    step: u64,
    version: u64,
    digest: String,
    /// Their folder, as the learner sees it.
    path: String,
    size_bytes: u64,
}

impl PublishedWeights {
    /// The reference to the weights after `step` GRPO steps. `None` where it has no folder.
    pub(super) fn new(step: u64, weights: &WeightsRef) -> Option<Self> {
        let Some(weights_ref::Source::Path(at)) = &weights.source else { return None };
        let (digest, path, size_bytes) = (weights.digest.clone(), at.path.clone(), at.size_bytes);
        Some(Self { step, version: weights.version, digest, path, size_bytes })
    }

    /// GRPO steps done before them.
    pub(super) fn step(&self) -> u64 {
        self.step
    }

    /// Their version.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The reference as engines take it.
    pub(super) fn reference(&self) -> WeightsRef {
        WeightsRef::at_path(self.version, self.digest.as_str(), self.path.as_str(), self.size_bytes)
    }
}

impl Position {
    /// The start of a run.
    pub(super) fn start(identity: &str) -> Self {
        Self {
            format: 1,
            identity: identity.to_owned(),
            warm_start_steps: 0,
            step: 0,
            cursor: 0,
            version: 0,
            published: Vec::new(),
            begun: None,
            waiting: Vec::new(),
            lines: BTreeMap::new(),
        }
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

    /// The published weights before these that a resumed run needs, in order.
    pub(super) fn published(&self) -> &[PublishedWeights] {
        &self.published
    }

    /// Replaces the published weights that a resumed run needs.
    pub(super) fn set_published(&mut self, published: Vec<PublishedWeights>) {
        self.published = published;
        self.set_format();
    }

    /// Numbers of prompts before the cursor that are in no step so far.
    pub(super) fn waiting(&self) -> &[u64] {
        &self.waiting
    }

    /// Replaces them.
    pub(super) fn set_waiting(&mut self, waiting: Vec<u64>) {
        self.waiting = waiting;
        self.set_format();
    }

    /// Marks of the lines that the run had written at a checkpoint, by the names of their files.
    pub(super) fn lines(&self) -> &BTreeMap<String, Vec<LineMark>> {
        &self.lines
    }

    /// Replaces them.
    pub(super) fn set_lines(&mut self, lines: BTreeMap<String, Vec<LineMark>>) {
        self.lines = lines;
    }

    fn set_format(&mut self) {
        self.format = match (self.published.is_empty(), self.waiting.is_empty()) {
            (_, false) => 3,
            (false, true) => 2,
            (true, true) => 1,
        };
    }

    /// Numbers of the prompts that were in flight, for steps that are not trained yet.
    pub(super) fn in_flight(&self) -> Range<u64> {
        self.cursor..self.begun.unwrap_or_default().max(self.cursor)
    }

    /// Notes that the prompts from the next one to before `begun` are in flight.
    pub(super) fn set_begun(&mut self, begun: u64) {
        self.begun = Some(begun).filter(|begun| *begun > self.cursor);
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
        let mut position = Self { identity: identity.to_owned(), ..Self::parse(bytes)? };
        // Its first steps are sampled with the weights that it starts with.
        position.set_published(Vec::new());
        position.begun = None;
        // They are of the other run's files.
        position.lines.clear();
        Ok(position)
    }

    fn parse(bytes: &[u8]) -> Result<Self, StateProblem> {
        let position: Self = serde_json::from_slice(bytes).map_err(StateProblem::Foreign)?;
        if !(1..=FORMAT).contains(&position.format) {
            return Err(StateProblem::Format { found: position.format, latest: FORMAT });
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
        let read = |bytes: &[u8]| Position::from_bytes(bytes, "sha256:ab").map_err(|error| error.to_string());
        assert_eq!(read(&position.to_bytes()), Ok(position.clone()));
        assert!(read(b"").unwrap_err().starts_with("was not written by this program"));
        assert!(matches!(Position::from_bytes(&position.to_bytes(), "sha256:cd"), Err(StateProblem::Identity)));
        let forked = Position::forked(&position.to_bytes(), "sha256:cd").unwrap();
        assert_eq!((forked.step(), forked.cursor(), forked.version()), (1, 131, 401));
        assert_eq!(Position::from_bytes(&forked.to_bytes(), "sha256:cd").unwrap(), forked);
        let newer = Position { format: 4, ..position };
        assert_eq!(read(&newer.to_bytes()).unwrap_err(), "has format 4, allowed: 1 to 3");
    }

    #[test]
    fn published_weights_are_read_back_and_a_fork_starts_without_them() {
        let mut position = Position::start("sha256:ab");
        let bytes = position.to_bytes();
        assert!(
            !String::from_utf8(bytes).unwrap().contains("published"),
            "as earlier versions of the program wrote it"
        );
        let weights = WeightsRef::at_path(400, format!("sha256:{:064x}", 7), "/weights/step-400", 12);
        position.set_published(vec![PublishedWeights::new(0, &weights).unwrap()]);
        let again = Position::from_bytes(&position.to_bytes(), "sha256:ab").unwrap();
        assert_eq!((again.format, again.published()[0].step(), again.published()[0].version()), (2, 0, 400));
        assert_eq!(again.published()[0].reference(), weights);
        assert!(Position::forked(&position.to_bytes(), "sha256:cd").unwrap().published().is_empty());
    }

    #[test]
    fn prompts_in_flight_are_read_back_and_a_fork_has_none() {
        let mut position = Position::start("sha256:ab");
        position.finish_step(8, 1);
        position.set_begun(8);
        assert!(position.in_flight().is_empty() && !String::from_utf8(position.to_bytes()).unwrap().contains("begun"));
        position.set_begun(20);
        let again = Position::from_bytes(&position.to_bytes(), "sha256:ab").unwrap();
        assert_eq!(again.in_flight(), 8..20);
        assert!(Position::forked(&position.to_bytes(), "sha256:cd").unwrap().in_flight().is_empty());
    }

    #[test]
    fn prompts_that_wait_are_read_back_also_by_a_fork() {
        let mut position = Position::start("sha256:ab");
        position.finish_step(9, 1);
        position.set_waiting(vec![2, 7]);
        let again = Position::from_bytes(&position.to_bytes(), "sha256:ab").unwrap();
        assert_eq!((again.format, again.waiting()), (3, &[2, 7][..]));
        assert_eq!(Position::forked(&position.to_bytes(), "sha256:cd").unwrap().waiting(), [2, 7]);
        position.set_waiting(Vec::new());
        assert_eq!(Position::from_bytes(&position.to_bytes(), "sha256:ab").unwrap().format, 1);
    }

    #[test]
    fn marks_of_lines_are_read_back_and_a_fork_has_none() {
        let mut position = Position::start("sha256:ab");
        let marks = vec![LineMark { lines: 3, digest: "07".repeat(16) }];
        position.set_lines(BTreeMap::from([("metrics.jsonl".to_owned(), marks)]));
        assert_eq!(Position::from_bytes(&position.to_bytes(), "sha256:ab").unwrap(), position);
        assert!(Position::forked(&position.to_bytes(), "sha256:cd").unwrap().lines().is_empty());
    }

    #[test]
    fn the_state_of_an_earlier_version_of_the_program_is_read() {
        let text = br#"{"format":1,"identity":"a","warm_start_steps":2,"step":3,"cursor":12,"version":5}"#;
        let position = Position::from_bytes(text, "a").unwrap();
        assert_eq!((position.step(), position.cursor(), position.version()), (3, 12, 5));
        assert!(position.published().is_empty());
        assert_eq!(position.to_bytes(), text);
    }
}
