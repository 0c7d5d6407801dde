//! The samples of steps: the digest of each file, and what the samples in it say.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;
use toml::Value;

use super::{Covered, ReceiptCheck, digest_of, listed};
use crate::error::RunFilesError;
use crate::layout::CONFIG_FILE;
use crate::receipt::{LineKind, ReceiptLine, StepContent, StepDigests};
use crate::rollouts::{RolloutReader, list_rollouts, rollout_file, rollout_name};

/// What the samples in a file show.
enum Recorded {
    /// Where they are not those that the step was made of.
    Differs(String),
    Equal,
    /// Not all can be compared: they have no tokens, or not all groups were kept.
    Incomplete,
}

/// What the settings of the run say is kept of a step.
#[derive(Clone, Copy)]
struct Kept {
    /// At least so many groups, where a step has them.
    groups: u64,
    tokens: bool,
}

impl Kept {
    /// Where the settings say nothing, or others were in force.
    const UNKNOWN: Self = Self { groups: 0, tokens: false };

    /// What `config.toml` says, and after which step.
    fn of(run: &Path, covered: &Covered<'_>) -> Result<(Self, u64), RunFilesError> {
        #[derive(Default, Deserialize)]
        struct Config {
            run: Section,
        }
        #[derive(Default, Deserialize)]
        struct Section {
            rollouts: Option<Value>,
            rollout_tokens: Option<bool>,
        }
        let text = crate::lines::read_text(&run.join(CONFIG_FILE))?;
        let Config { run: Section { rollouts, rollout_tokens } } = toml::from_str(&text).unwrap_or_default();
        let groups = match &rollouts {
            Some(Value::String(words)) if words == "all" => u64::MAX,
            Some(Value::Integer(groups)) => u64::try_from(*groups).unwrap_or_default(),
            _ => 0,
        };
        let starts = || covered.lines.iter().filter(|line| line.kind == LineKind::Start).rev();
        let settings = |line: &ReceiptLine| line.observed.files.get(CONFIG_FILE).cloned();
        let last = starts().next().and_then(settings);
        let since = starts().take_while(|line| settings(line) == last).last().map_or(u64::MAX, |line| line.step);
        Ok((Self { groups, tokens: rollout_tokens == Some(true) }, since))
    }
}

/// Steps whose files of samples are not those that the receipt has digests of: they are another run's, or were changed.
///
/// # Errors
/// A file that cannot be read.
pub fn other_rollouts(run: &Path, receipt: &[ReceiptLine]) -> Result<Vec<u64>, RunFilesError> {
    let mut others = Vec::new();
    for line in receipt.iter().filter(|line| line.kind == LineKind::Step) {
        let Some(expected) = &line.observed.rollouts else { continue };
        if matches_digest(&rollout_file(run, line.step), expected)? == Some(false) {
            others.push(line.step);
        }
    }
    Ok(others)
}

/// Whether a file has this digest; `None` where there is no file.
fn matches_digest(path: &Path, expected: &str) -> Result<Option<bool>, RunFilesError> {
    Ok(digest_of(path)?.map(|found| found.to_string() == expected))
}

pub(super) fn compare(run: &Path, covered: &Covered<'_>, check: &mut ReceiptCheck) -> Result<(), RunFilesError> {
    let thinned: BTreeSet<u64> = covered.lines.iter().flat_map(|line| &line.observed.thinned).copied().collect();
    let (mut not_kept, mut incomplete) = (Vec::new(), Vec::new());
    let (kept, since) = Kept::of(run, covered)?;
    for (&step, line) in &covered.steps {
        let name = rollout_name(step);
        let path = rollout_file(run, step);
        let Some(expected) = &line.observed.rollouts else {
            if path.exists() {
                check.differs(name, Some(step), "is there, and the run kept none of this step");
            } else {
                not_kept.push(step);
            }
            continue;
        };
        match matches_digest(&path, expected)? {
            None if thinned.contains(&step) => not_kept.push(step),
            None => check.differs(name, Some(step), "is gone: it was kept and not thinned out"),
            Some(is_equal) => {
                let content = line.determined.as_ref().and_then(|part| part.content.as_ref());
                let recorded = match content {
                    None => Recorded::Incomplete,
                    Some(content) if step > since => recorded(&path, step, content, kept),
                    Some(content) => recorded(&path, step, content, Kept::UNKNOWN),
                };
                match recorded {
                    Recorded::Differs(what) => check.differs(name, Some(step), what),
                    _ if !is_equal => check.differs(name, Some(step), "is not what the run wrote"),
                    Recorded::Incomplete => incomplete.push(step),
                    Recorded::Equal => {}
                }
            }
        }
    }
    let files = list_rollouts(run)?.into_keys();
    for step in files.filter(|step| !covered.steps.contains_key(step)) {
        // Samples are written before the line of their step.
        if step <= covered.first {
            continue;
        }
        if step == covered.last + 1 && !covered.has_ended {
            check.notes.push(format!("samples of step {step} are not in the receipt yet"));
        } else {
            check.differs(rollout_name(step), Some(step), "belongs to no step of the receipt");
        }
    }
    if !not_kept.is_empty() {
        check.notes.push(format!("samples that were not kept: steps {}", listed(&not_kept)));
    }
    if !incomplete.is_empty() {
        let steps = listed(&incomplete);
        check.notes.push(format!(
            "samples kept without their tokens, which were not compared, or of some groups, of which only the file was: \
             steps {steps}"
        ));
    }
    Ok(())
}

/// Compares the samples of a file with what the step was made of.
fn recorded(path: &Path, step: u64, content: &StepContent, kept: Kept) -> Recorded {
    let mut digests = StepDigests::default();
    let (mut with_tokens, mut samples) = (0, 0);
    let rollouts = match RolloutReader::open(path) {
        Ok(rollouts) => rollouts,
        Err(error) => return Recorded::Differs(format!("cannot be read: {error}")),
    };
    for rollout in rollouts {
        match rollout {
            Ok(rollout) if rollout.step != step => {
                return Recorded::Differs(format!("has samples of step {}", rollout.step));
            }
            Ok(rollout) => {
                with_tokens += u64::from(digests.add_recorded(&rollout));
                samples += 1;
            }
            Err(error) => return Recorded::Differs(format!("cannot be read: {error}")),
        }
    }
    if let Some(what) = digests.contradictions().first() {
        return Recorded::Differs(what.clone());
    }
    let has_tokens = with_tokens == samples;
    // A step is kept with all its tokens or none.
    if !has_tokens && (kept.tokens || with_tokens > 0) {
        let without = samples - with_tokens;
        return Recorded::Differs(format!(
            "has samples without their tokens ({without} of {samples}), which the run kept"
        ));
    }
    let found = digests.finish();
    if found.groups < content.groups {
        if found.groups < kept.groups.min(content.groups) {
            let (groups, all) = (found.groups, content.groups);
            return Recorded::Differs(format!("has samples of {groups} of {all} prompts, and the run kept more"));
        }
        return Recorded::Incomplete;
    }
    // Verdicts and advantages need no tokens.
    let is_compared = |part: &&str| has_tokens || ["verdicts", "advantages"].contains(part);
    match found.differing(content).into_iter().filter(is_compared).collect::<Vec<_>>().as_slice() {
        [] if has_tokens => Recorded::Equal,
        [] => Recorded::Incomplete,
        parts => Recorded::Differs(format!("has other {} than the step was made of", parts.join(", "))),
    }
}
