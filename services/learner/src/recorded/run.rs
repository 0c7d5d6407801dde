//! The recorded steps of a run directory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use evenkeel_model_folder::{Folder, Tokenizer};
use evenkeel_run::metric::table as metric;
use evenkeel_run::{
    METRICS_FILE, MetricsLine, PROGRAM, PromptLine, Rollout, RolloutReader, RunRecord, list_rollouts, read_prompts,
    read_receipt, rollout_name, thinned_rollouts,
};

use super::error::{Deviation, ReplayError};
use super::groups::{GroupReader, SentSamples, UnreadGroups};
use crate::group::ResponseGroup;

/// A run directory, for reading its steps. Nothing is locked or written.
pub struct RecordedRun {
    record: RunRecord,
    prompts: BTreeMap<u64, PromptLine>,
    rollouts: BTreeMap<u64, PathBuf>,
    thinned: BTreeSet<u64>,
    tokenizer: Tokenizer,
    rewards: SentSamples,
    /// Digests of published weights by their version, as the receipt has them; in a fork also those that it began
    /// with, where the receipt of the other run is there.
    weights: BTreeMap<u64, String>,
}

/// A GRPO step as a run recorded it.
#[derive(Clone, Debug)]
pub struct RecordedStep {
    /// Number of the step, from 1.
    pub step: u64,
    /// Version of the weights that it was trained from.
    pub base_version: u64,
    /// The groups that the learner got, in order.
    pub groups: Vec<ResponseGroup>,
    /// All samples of the step: first those of these groups, in order, then filtered ones.
    pub rollouts: Vec<Rollout>,
    /// The metrics of the step.
    pub line: MetricsLine,
    /// Whether this version of the program recorded it.
    pub is_of_this_version: bool,
}

impl RecordedRun {
    /// Reads the lists of a run; steps are read one by one. `model` is the folder with its tokenizer.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub fn open(record: RunRecord, model: &Path, rewards: SentSamples) -> Result<Self, ReplayError> {
        let tokenizer = Tokenizer::require(&Folder::new(model)).map_err(crate::LearnerError::Folder)?;
        let prompts = read_prompts(&record.path)?.into_iter().map(|line| (line.step, line)).collect();
        let rollouts = list_rollouts(&record.path)?;
        let thinned = thinned_rollouts(&record.path)?;
        let receipt = read_receipt(&record.path)?;
        let inherited = record.forked_from.as_ref().and_then(|origin| origin.last_step(&receipt));
        let determined = inherited.into_iter().chain(receipt.into_iter().filter_map(|line| line.determined));
        let weights = determined.map(|part| (part.version, part.weights)).collect();
        Ok(Self { record, prompts, rollouts, thinned, tokenizer, rewards, weights })
    }

    /// What the run directory says of the run: settings, seed and versions.
    pub fn record(&self) -> &RunRecord {
        &self.record
    }

    /// Reads a step.
    ///
    /// # Errors
    /// [`ReplayError::Missing`] with what is missing, [`ReplayError::Different`] for files that contradict each other,
    /// files that cannot be read.
    pub fn step(&self, step: u64) -> Result<RecordedStep, ReplayError> {
        let contradiction = |file: String, what: String| Deviation { file, what }.at(step);
        let (line, prompts, path) = self.files(step)?;
        let rollouts: Vec<Rollout> = RolloutReader::open(path)?.collect::<Result<_, _>>()?;
        let name = rollout_name(step);
        if let Some(other) = rollouts.iter().find(|rollout| rollout.step != step) {
            return Err(contradiction(name, format!("has samples of step {}", other.step)));
        }
        let base_version = prompts.base_version;
        if line.policy_version != base_version + 1 {
            let (found, after) = (line.policy_version, base_version + 1);
            let what = format!("has version {found} after the step, and {after} follows from prompts.jsonl");
            return Err(contradiction(METRICS_FILE.to_owned(), what));
        }
        let reader = GroupReader {
            rewards: &self.rewards,
            base_version,
            is_exact: line.get(metric::PROOF_EQUAL_TOKENS.name).is_some_and(|tokens| tokens > 0.0),
            encode: &|text| self.tokenizer.encode(text, false).map_err(|error| error.to_string()),
        };
        let groups = reader.groups(prompts, &rollouts).map_err(|unread| match unread {
            UnreadGroups::NotKept(reason) => ReplayError::missing(step, reason),
            UnreadGroups::Contradiction(what) => contradiction(name.clone(), what),
        })?;
        let known: BTreeSet<u64> = prompts.groups.iter().map(|group| group.prompt).collect();
        if let Some(other) = rollouts.iter().find(|rollout| !known.contains(&rollout.group)) {
            return Err(contradiction(name, format!("prompt {} has samples and is not in prompts.jsonl", other.group)));
        }
        let is_of_this_version = self.record.program_version == PROGRAM;
        Ok(RecordedStep { step, base_version, groups, rollouts, line: line.clone(), is_of_this_version })
    }

    /// The name of a folder within the directory of the run, as people read it.
    pub(super) fn name_of(&self, folder: &Path) -> String {
        folder.strip_prefix(&self.record.path).unwrap_or(folder).display().to_string()
    }

    /// The digest of a published version, where the run has a receipt that covers it.
    pub(super) fn weights(&self, version: u64) -> Option<&str> {
        self.weights.get(&version).map(String::as_str)
    }

    /// The lines of a step and the file of its samples.
    ///
    /// # Errors
    /// [`ReplayError::Missing`] with what is missing.
    pub(super) fn files(&self, step: u64) -> Result<(&MetricsLine, &PromptLine, &Path), ReplayError> {
        let missing = |reason: String| ReplayError::missing(step, reason);
        if let Some(origin) = self.record.forked_from.as_ref().filter(|origin| step <= origin.step) {
            let (run, directory) = (&origin.run_id, origin.directory.display());
            return Err(missing(format!(
                "it is a step of run `{run}`, from which this one was forked: see {directory}"
            )));
        }
        let line = self.record.steps.iter().find(|line| line.step == step);
        let (Some(line), Some(prompts)) = (line, self.prompts.get(&step)) else {
            return Err(missing(format!("the run has {} recorded steps", self.record.steps.len())));
        };
        let Some(path) = self.rollouts.get(&step) else {
            let reason = if self.thinned.contains(&step) {
                "its rollouts were removed to stay within run.rollouts_disk (rollouts/thinned.json lists such steps)"
            } else {
                "its rollouts are not there (run.rollouts = \"all\" keeps them)"
            };
            return Err(missing(reason.to_owned()));
        };
        Ok((line, prompts, path.as_path()))
    }
}
