//! The receipt of a run: what the lines of its chain say, and when they are written.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use evenkeel_host::{FileDigest, sha256};
use evenkeel_proto::Label;
use evenkeel_proto::v1::{RunState, WeightsRef};
use evenkeel_run::{
    AuditSeen, CONFIG_FILE, DATA_FILE, Determined, Heads, INPUTS_FILE, InputRecord, LineKind, LineMark, Observed,
    PROGRAM, Parent, ProofSeen, RUN_FILE, ReceiptFile, RunDirectory, RunFilesError, StepContent, WARM_START_FILE,
    accepted_changes, read_receipt,
};
use evenkeel_trust::ProofReport;

use super::step_groups::SampledStep;
use crate::clients::Retrier;
use crate::error::{Halt, RunError};

/// The files that a run begins with, or goes on with.
const START_FILES: [&str; 5] = [RUN_FILE, CONFIG_FILE, INPUTS_FILE, DATA_FILE, WARM_START_FILE];

/// What all steps of a process have in common.
#[derive(Debug, Clone)]
pub(super) struct ReceiptBasis {
    /// Digests of settings and inputs.
    settings: String,
    inputs: String,
}

impl ReceiptBasis {
    pub(super) fn of(record: &InputRecord) -> Self {
        Self { settings: record.settings_digest(), inputs: record.inputs_digest() }
    }
}

/// Digests of what was written of a step, and what is not kept any more.
pub(super) struct WrittenStep {
    pub(super) content: StepContent,
    pub(super) metrics: String,
    pub(super) prompts: String,
    pub(super) rollouts: Option<String>,
    pub(super) thinned: Vec<u64>,
}

/// The weights that a step made, and who sampled and checked it.
pub(super) struct SeenStep {
    version: u64,
    weights: String,
    observed: Observed,
}

impl SeenStep {
    /// `weights` are those that the step made, by their digest.
    pub(super) fn new(sampled: &SampledStep, proof: Option<&ProofReport>, version: u64, weights: &str) -> Self {
        let groups = sampled.batch.groups.iter().chain(&sampled.batch.dropped);
        let samples = groups.flat_map(|group| group.samples()).filter(|sample| sample.is_generated());
        let engines: BTreeSet<&str> = samples.flat_map(|sample| sample.engines.iter().map(String::as_str)).collect();
        let observed = Observed {
            engines: Some(engines.len() as u64),
            proof: proof.map(|proof| ProofSeen {
                engines: proof.engines as u64,
                suspicions: proof.suspicions.len() as u64,
                excluded: proof.suspicions.iter().filter(|suspicion| suspicion.excluded).count() as u64,
            }),
            audit: sampled
                .audit
                .as_ref()
                .map(|audit| AuditSeen { samples: audit.sequences, missing: audit.missing + audit.not_possible }),
            ..Observed::default()
        };
        Self { version, weights: weights.to_owned(), observed }
    }
}

/// The receipt of a run that is written.
pub(super) struct RunReceipt {
    file: ReceiptFile,
    directory: RunDirectory,
    basis: ReceiptBasis,
    /// Evaluations that no line has yet.
    evaluations: BTreeMap<u64, String>,
    /// Whether this process has written the line of a start.
    has_started: bool,
    retrier: Retrier,
}

impl RunReceipt {
    pub(super) fn open(directory: RunDirectory, basis: ReceiptBasis, retrier: Retrier) -> Result<Self, RunError> {
        let file = ReceiptFile::open(directory.path())?;
        Ok(Self { file, directory, basis, evaluations: BTreeMap::new(), has_started: false, retrier })
    }

    /// The heads after the last step, which stay when the run goes on; `None` before the first step has begun.
    pub(super) fn heads(&self) -> Option<&Heads> {
        self.file.lasting_heads()
    }

    /// How many lines there are up to that of a step.
    pub(super) fn count_up_to(&self, step: u64) -> u64 {
        self.file.count_up_to(step)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.file.is_empty()
    }

    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    pub(super) fn sync(&self) -> Result<(), RunFilesError> {
        self.file.sync()
    }

    /// Marks of the lines up to that of a step.
    pub(super) fn marks(&self, step: u64) -> Vec<LineMark> {
        self.file.marks(step)
    }

    pub(super) fn change(&self, marks: &[LineMark]) -> Option<String> {
        self.file.change(marks)
    }

    pub(super) async fn truncate_after(&mut self, step: u64) -> Result<(), Halt> {
        let path = self.file.path().to_owned();
        self.retrier.write(&path, || self.file.truncate_after(step)).await
    }

    /// An evaluation has got this line, without its line break.
    pub(super) fn evaluated(&mut self, step: u64, line: &str) {
        self.evaluations.insert(step, sha256(line));
    }

    /// The run begins or goes on after that many steps. `weights` are the published ones that it begins with, in its
    /// first line.
    pub(super) async fn start(
        &mut self,
        step: u64,
        weights: Option<&WeightsRef>,
        services: &BTreeMap<String, String>,
        mut evaluations: BTreeMap<u64, String>,
        thinned: &BTreeSet<u64>,
    ) -> Result<(), Halt> {
        // What earlier lines say of evaluations stays.
        for line in read_receipt(self.directory.path()).map_err(RunError::from)? {
            evaluations.retain(|step, _| !line.observed.evaluations.contains_key(step));
        }
        let mut files = BTreeMap::new();
        for name in START_FILES {
            let path = self.directory.path().join(name);
            if path.exists() {
                let digest = FileDigest::of(&path).map_err(RunError::file(&path))?;
                files.insert(name.to_owned(), digest.to_string());
            }
        }
        let origin = self.directory.forked_from().filter(|_| self.is_empty());
        let parent = origin.map(|origin| Parent { run_id: origin.run_id.clone(), heads: origin.receipt.clone() });
        // Where a parent's chain goes on, its last line has the weights.
        let continues = parent.as_ref().is_some_and(|parent| parent.heads.is_some());
        let determined =
            weights.filter(|_| !continues).map(|weights| self.determined(weights.version, &weights.digest, None));
        self.evaluations = evaluations;
        let observed = Observed {
            files,
            services: without_names(services),
            accepted_changes: accepted_changes(self.directory.path()).len() as u64,
            parent,
            thinned: thinned.iter().copied().collect(),
            ..Observed::default()
        };
        self.append(step, LineKind::Start, determined, observed).await?;
        self.has_started = true;
        Ok(())
    }

    /// A step is done.
    pub(super) async fn step(&mut self, step: u64, seen: SeenStep, written: WrittenStep) -> Result<(), Halt> {
        let WrittenStep { content, metrics, prompts, rollouts, thinned } = written;
        let determined = self.determined(seen.version, &seen.weights, Some(content));
        let (metrics, prompts) = (Some(metrics), Some(prompts));
        let observed = Observed { thinned, metrics, prompts, rollouts, ..seen.observed };
        self.append(step, LineKind::Step, Some(determined), observed).await
    }

    /// A checkpoint after a step is on the disk, or was returned to.
    pub(super) async fn checkpoint(&mut self, step: u64, digest: &str) -> Result<(), Halt> {
        if self.is_empty() {
            return Ok(());
        }
        let observed = Observed { checkpoint: Some(digest.to_owned()), ..Observed::default() };
        self.append(step, LineKind::Checkpoint, None, observed).await
    }

    /// The run ends after a step. One that failed does not wait for a full disk.
    pub(super) async fn end(&mut self, step: u64, state: RunState, wait: bool) -> Result<(), Halt> {
        if !self.has_started {
            return Ok(());
        }
        let observed = Observed { state: Some(state.label().to_owned()), ..Observed::default() };
        if wait {
            return self.append(step, LineKind::End, None, observed).await;
        }
        let observed = Observed { evaluations: std::mem::take(&mut self.evaluations), ..observed };
        Ok(self.file.append(&Heads::default(), (step, LineKind::End), None, observed).map_err(RunError::from)?)
    }

    fn determined(&self, version: u64, weights: &str, content: Option<StepContent>) -> Determined {
        Determined {
            program: PROGRAM.to_owned(),
            settings: self.basis.settings.clone(),
            inputs: self.basis.inputs.clone(),
            version,
            weights: weights.to_owned(),
            content,
        }
    }

    async fn append(
        &mut self,
        step: u64,
        kind: LineKind,
        determined: Option<Determined>,
        observed: Observed,
    ) -> Result<(), Halt> {
        self.directory.check_place()?;
        let before = self.directory.forked_from().and_then(|origin| origin.receipt.clone()).unwrap_or_default();
        let observed = Observed { evaluations: std::mem::take(&mut self.evaluations), ..observed };
        let path = self.file.path().to_owned();
        let append = || self.file.append(&before, (step, kind), determined.clone(), observed.clone());
        self.retrier.write(&path, append).await
    }
}

/// Versions by service. Engines are called after their addresses, which the receipt does not publish.
fn without_names(versions: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let (engines, services): (Vec<_>, Vec<_>) = versions.iter().partition(|(name, _)| name.starts_with("engine "));
    let mut services: BTreeMap<String, String> =
        services.into_iter().map(|(name, version)| (name.clone(), version.clone())).collect();
    let engines: BTreeSet<&str> = engines.into_iter().map(|(_, version)| version.as_str()).collect();
    if !engines.is_empty() {
        services.insert("engines".to_owned(), engines.into_iter().collect::<Vec<_>>().join(", "));
    }
    services
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_engines_are_not_published() {
        let versions = [("learner", "1.0"), ("engine http://a:1", "0.32"), ("engine http://b:1", "0.32")];
        let versions = versions.map(|(name, version)| (name.to_owned(), version.to_owned())).into();
        let expected =
            [("engines", "0.32"), ("learner", "1.0")].map(|(name, version)| (name.to_owned(), version.to_owned()));
        assert_eq!(without_names(&versions), expected.into());
    }
}
