//! A run that starts from a step of another one, with other settings.

use std::path::Path;

use evenkeel_config::Loader;
use evenkeel_errors::FieldError;
use evenkeel_proto::v1::StepKind;
use toml::Table;

use super::{ForkOrigin, RecipeRecord, RunDirectory, RunRecord};
use crate::config::flat_settings;
use crate::error::RunFilesError;
use crate::layout::{CONFIG_FILE, EVALUATION_FILE, METRICS_FILE, WARM_START_FILE};
use crate::lines::{MetricsFile, PromptFile, read_prompts};
use crate::receipt::{Determined, Heads, ReceiptLine, read_receipt, receipt_up_to};

impl RunDirectory {
    /// The settings of a run for one that is forked from it: the name of the other run is not its own.
    ///
    /// # Errors
    /// As [`settings_of`](Self::settings_of).
    pub fn settings_for_fork(path: &Path) -> Result<Loader, RunFilesError> {
        Ok(Self::settings_of(path)?.text("fork", "[run]\nname = \"\"")?)
    }

    /// Creates the directory of a run that starts from a step of the run in another one. It inherits that run's lines
    /// of metrics up to the step, so that its curves are whole; the learner must have the checkpoint. Otherwise as
    /// [`create`](Self::create).
    ///
    /// # Errors
    /// As [`create`](Self::create); a run of the same name; a warm start of another length; lines that are missing.
    pub fn fork(path: &Path, recipe: RecipeRecord<'_>, origin: &Path, step: u64) -> Result<Self, RunFilesError> {
        let RunRecord { path: origin, run_id, mut steps, warm_start, mut evaluations, .. } = RunRecord::read(origin)?;
        steps.retain(|line| line.step <= step);
        evaluations.retain(|line| line.step <= step);
        if steps.len() as u64 != step {
            let message = format!("{METRICS_FILE} has {} lines up to step {step}", steps.len());
            return Err(RunFilesError::directory(&origin, message));
        }
        let done = warm_start.len() as u64;
        let wanted = recipe.warm_start_steps;
        if done != wanted {
            let allowed = format!("{done}, the supervised steps that run `{run_id}` did");
            return Err(FieldError::new("warm_start.steps", wanted, allowed).into());
        }
        let changed = changes(&origin, recipe.toml)?;
        let mut directory = Self::create(path, recipe)?;
        if directory.run_id == run_id {
            let allowed = "a name other than that of the run that it is forked from";
            return Err(FieldError::quoted("run.name", &directory.run_id, allowed).into());
        }
        for (name, kind, lines) in [
            (METRICS_FILE, StepKind::Train, steps),
            (WARM_START_FILE, StepKind::WarmStart, warm_start),
            (EVALUATION_FILE, StepKind::Evaluation, evaluations),
        ] {
            let mut file = MetricsFile::open(directory.path(), name, kind)?;
            lines.iter().try_for_each(|line| file.append(line))?;
            file.sync()?;
        }
        let mut prompts = PromptFile::open(directory.path())?;
        let inherited = read_prompts(&origin)?;
        inherited.iter().filter(|line| line.step <= step).try_for_each(|line| prompts.append(line))?;
        prompts.sync()?;
        let receipt = heads_after(&origin, step);
        let changed_inputs = Vec::new();
        directory.forked_from = Some(ForkOrigin { run_id, step, directory: origin, changed, changed_inputs, receipt });
        Ok(directory)
    }
}

impl ForkOrigin {
    /// What the user should know when the run starts, a sentence each.
    pub fn notes(&self) -> Vec<String> {
        let Self { run_id, step, changed, changed_inputs, .. } = self;
        let settings = if changed.is_empty() {
            "with the same settings".to_owned()
        } else {
            format!("with other settings: {}", changed.join("; "))
        };
        let inputs = if changed_inputs.is_empty() {
            String::new()
        } else {
            format!(", and with other inputs: {}", changed_inputs.join("; "))
        };
        let mut notes = vec![format!("forked from run `{run_id}` after step {step}, {settings}{inputs}")];
        let decides_held_out = |change: &String| {
            ["data.", "run.seed:", "evaluation.problems:"].iter().any(|prefix| change.starts_with(prefix))
        };
        let other_data =
            changed_inputs.iter().any(|change| change.contains("data file") || change.contains("evaluation file"));
        if changed.iter().any(decides_held_out) || other_data {
            notes.push(format!(
                "the data, run.seed or evaluation.problems changed: run `{run_id}` may have trained on problems that \
                are held out now"
            ));
        }
        notes
    }

    /// What the last step before the fork determined, from the other run's receipt; `None` where that is not there, or
    /// does not lead to the first head with which the fork's own `receipt` begins.
    pub fn last_step(&self, receipt: &[ReceiptLine]) -> Option<Determined> {
        let heads = receipt.first()?.heads_before();
        let lines = read_receipt(&self.directory).ok()?;
        let (last, before) = receipt_up_to(&lines, self.step).split_last()?;
        let previous = before.last().map_or_else(|| last.heads_before(), |line| line.heads.clone());
        let is_parent = last.heads_after(&previous).determined == heads.determined;
        last.determined.clone().filter(|_| is_parent)
    }
}

/// Heads of a run's receipt after a step. A receipt that cannot be read is none.
fn heads_after(run: &Path, step: u64) -> Option<Heads> {
    let lines = read_receipt(run).unwrap_or_default();
    receipt_up_to(&lines, step).last().map(|line| line.heads.clone())
}

/// The settings that differ from those of the run in a directory.
fn changes(origin: &Path, ours: &str) -> Result<Vec<String>, RunFilesError> {
    let path = origin.join(CONFIG_FILE);
    let theirs = evenkeel_host::read(&path, u64::MAX).map_err(|error| RunFilesError::file(&path)(error.into()))?;
    let theirs = String::from_utf8_lossy(&theirs)
        .parse()
        .map_err(|error| RunFilesError::directory(origin, format!("{CONFIG_FILE}: {error}")))?;
    let ours = ours.parse().map_err(|error: toml::de::Error| RunFilesError::Defect(error.to_string()))?;
    Ok(differences(&theirs, &ours))
}

/// The values that differ, as `section.key: theirs → ours`; names of runs do not count.
fn differences(theirs: &Table, ours: &Table) -> Vec<String> {
    let flat = |table: &Table| {
        let mut values = flat_settings(table);
        values.remove("run.name");
        values
    };
    let theirs = flat(theirs);
    let ours = flat(ours);
    let mut keys: Vec<&String> = theirs.keys().chain(ours.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    let shown = |value: Option<&String>| value.map_or_else(|| "absent".to_owned(), String::clone);
    let changed = keys.into_iter().map(|key| (key, theirs.get(key), ours.get(key)));
    let changed = changed.filter(|(_, theirs, ours)| theirs != ours);
    changed.map(|(key, theirs, ours)| format!("{key}: {} → {}", shown(theirs), shown(ours))).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    use super::super::test_recipe::{TestRecipe, begin, begin_with};
    use crate::inputs::InputRecord;
    use crate::lines::{PromptLine, read_lines};
    use crate::metrics::MetricsLine;
    use crate::receipt::{LineKind, Observed, Parent, ReceiptFile};

    /// A run of five steps with an evaluation before each.
    fn origin(folder: &Path) -> PathBuf {
        let directory = RunDirectory::create(&folder.join("old"), TestRecipe::new(&[]).record()).unwrap();
        begin(&directory);
        for (name, kind) in [(METRICS_FILE, StepKind::Train), (EVALUATION_FILE, StepKind::Evaluation)] {
            let mut file = MetricsFile::open(directory.path(), name, kind).unwrap();
            let first = u64::from(kind == StepKind::Train);
            (first..first + 5).for_each(|step| file.append(&MetricsLine::new(kind, step, step)).unwrap());
        }
        let mut prompts = PromptFile::open(directory.path()).unwrap();
        (1..6).for_each(|step| prompts.append(&PromptLine { step, ..PromptLine::default() }).unwrap());
        directory.path().to_owned()
    }

    #[test]
    fn a_fork_inherits_the_lines_before_its_step_and_its_manifest_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let origin = origin(dir.path());
        let path = dir.path().join("new");
        let recipe = TestRecipe::new(&[("sampling.top_k", "3")]);
        let directory = RunDirectory::fork(&path, recipe.record(), &origin, 3).unwrap();
        let steps = |name, kind| read_lines(&path.join(name), kind).unwrap().len();
        assert_eq!((steps(METRICS_FILE, StepKind::Train), steps(EVALUATION_FILE, StepKind::Evaluation)), (3, 4));
        assert_eq!(read_prompts(&path).unwrap().len(), 3);
        begin_with(&directory, &InputRecord::new(recipe.rules.clone(), Vec::new()));
        drop(directory);
        let again = RunDirectory::resume(&path, recipe.record()).unwrap();
        let changed = vec!["sampling.top_k: 0 → 3".to_owned()];
        let changed_inputs = Vec::new();
        let receipt = None;
        let expected =
            ForkOrigin { run_id: "old".to_owned(), step: 3, directory: origin, changed, changed_inputs, receipt };
        assert_eq!(again.forked_from(), Some(&expected));
        assert_eq!(
            expected.notes(),
            ["forked from run `old` after step 3, with other settings: sampling.top_k: 0 → 3"]
        );
    }

    #[test]
    fn a_fork_that_was_refused_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new");
        let directory = RunDirectory::fork(&path, TestRecipe::new(&[]).record(), &origin(dir.path()), 3).unwrap();
        directory.discard();
        assert!(!path.exists());
    }

    #[test]
    fn what_cannot_be_forked_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let origin = origin(dir.path());
        let path = dir.path().join("new");
        let refused = |changes: &[(&str, &str)], origin: &Path, step| {
            let error =
                RunDirectory::fork(&path, TestRecipe::new(changes).record(), origin, step).unwrap_err().to_string();
            assert!(!path.exists());
            error
        };
        let error = refused(&[("warm_start.steps", "9")], &origin, 3);
        assert!(
            error.contains("warm_start.steps is 9, allowed: 0, the supervised steps that run `old` did"),
            "{error}"
        );
        let error = refused(&[("run.name", "\"old\"")], &origin, 3);
        assert!(error.contains("run.name is \"old\", allowed: a name other than"), "{error}");
        let error = refused(&[], &origin, 9);
        assert!(error.contains("metrics.jsonl has 5 lines up to step 9"), "{error}");
        assert!(refused(&[], dir.path(), 3).contains("holds no run"));
    }

    #[test]
    fn a_change_of_what_is_held_out_is_pointed_out() {
        let with_change = |changed: &str| ForkOrigin {
            run_id: "old".to_owned(),
            step: 3,
            directory: PathBuf::new(),
            changed: vec![changed.to_owned()],
            changed_inputs: Vec::new(),
            receipt: None,
        };
        assert!(
            with_change("run.seed: 0 → 1").notes()[1].contains("may have trained on problems that are held out now")
        );
        assert_eq!(with_change("run.steps: 5 → 9").notes().len(), 1);
    }

    #[test]
    fn the_step_before_a_fork_is_that_of_a_run_which_leads_to_its_first_head() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = ReceiptFile::open(dir.path()).unwrap();
        let [program, settings, inputs, weights] = ["1", "a", "b", "c"].map(str::to_owned);
        let part = Determined { program, settings, inputs, version: 5, weights, content: None };
        for (step, kind) in [(0, LineKind::Start), (1, LineKind::Step), (2, LineKind::Step)] {
            file.append(&Heads::default(), (step, kind), Some(part.clone()), Observed::default()).unwrap();
        }
        let origin = |step| ForkOrigin {
            run_id: "old".to_owned(),
            step,
            directory: dir.path().to_owned(),
            changed: Vec::new(),
            changed_inputs: Vec::new(),
            receipt: None,
        };
        let fork_after = |heads| {
            let parent = Some(Parent { run_id: "old".to_owned(), heads });
            let observed = Observed { parent, ..Observed::default() };
            [ReceiptLine::after(&Heads::default(), 2, LineKind::Start, None, observed)]
        };
        let fork = fork_after(heads_after(dir.path(), 2));
        assert_eq!(origin(2).last_step(&fork), Some(part));
        assert_eq!(origin(1).last_step(&fork), None, "that step has another head");
        assert_eq!(origin(2).last_step(&fork_after(None)), None);
        let gone = ForkOrigin { directory: dir.path().join("gone"), ..origin(2) };
        assert_eq!(gone.last_step(&fork), None);
    }
}
