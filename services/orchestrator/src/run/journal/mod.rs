//! What a run writes into its directory: lines of metrics, the summary, the report.

mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use evenkeel_proto::v1::{RunState, StepKind};
use evenkeel_run::metric::table;
use evenkeel_run::{
    Curves, EVALUATION_FILE, LineMark, METRICS_FILE, MetricsFile, MetricsLine, PROMPTS_FILE, PromptFile, RECEIPT_FILE,
    REPORT_FILE, RolloutFolder, RunDirectory, RunPlan, SUMMARY_FILE, Summary, WARM_START_FILE, WeightsProof,
    WrittenLines, accepted_changes, other_rollouts, read_data, read_prompts, read_receipt,
};
use evenkeel_run_report::{Audit, EventFiles, GalleryCache, RunData, TrainingCache, run_page};

use super::position::Position;
use super::receipt::{ReceiptBasis, RunReceipt};
use super::run_context::RunContext;
use crate::clients::Retrier;
use crate::error::{Halt, RunError};
use crate::events::{Event, Events};
use crate::instruments;
use crate::recipe::ResolvedRecipe;

/// The files of one run. Writes are retried while the disk is full.
pub(super) struct RunJournal {
    directory: RunDirectory,
    resolved: ResolvedRecipe,
    steps: MetricsFile,
    warm_start: MetricsFile,
    evaluations: MetricsFile,
    /// What became of the prompts of each step.
    prompts: PromptFile,
    /// Lines of steps that are done again, as they were the first time.
    repeated: BTreeMap<u64, MetricsLine>,
    /// The samples of each step.
    rollouts: RolloutFolder,
    receipt: RunReceipt,
    has_noted_thinning: bool,
    /// Whether this process has looked for files of samples that the run did not write.
    has_checked_rollouts: bool,
    /// Where the settings ask for them.
    tensorboard: Option<EventFiles>,
    /// The answers that the report shows.
    gallery: GalleryCache,
    /// The samples of training that it shows.
    training: TrainingCache,
    /// Versions of the services, for the summary.
    versions: BTreeMap<String, String>,
    retrier: Retrier,
    events: Events,
}

impl RunJournal {
    pub(super) fn open(context: &RunContext, resolved: ResolvedRecipe, basis: ReceiptBasis) -> Result<Self, RunError> {
        let directory = context.directory.clone();
        let file = |name, kind| MetricsFile::open(directory.path(), name, kind);
        let steps = file(METRICS_FILE, StepKind::Train)?;
        let warm_start = file(WARM_START_FILE, StepKind::WarmStart)?;
        let evaluations = file(EVALUATION_FILE, StepKind::Evaluation)?;
        let prompts = PromptFile::open(directory.path())?;
        let rollouts = RolloutFolder::open(directory.path(), resolved.settings.run.rollouts_disk.bytes())?;
        let receipt = RunReceipt::open(directory.clone(), basis, context.services.retrier().clone())?;
        let tensorboard = if resolved.settings.run.tensorboard {
            Some(shown(directory.path(), [&warm_start, &steps, &evaluations])?)
        } else {
            None
        };
        Ok(Self {
            directory,
            resolved,
            steps,
            warm_start,
            evaluations,
            prompts,
            repeated: BTreeMap::new(),
            rollouts,
            receipt,
            has_noted_thinning: false,
            has_checked_rollouts: false,
            tensorboard,
            gallery: GalleryCache::default(),
            training: TrainingCache::default(),
            versions: BTreeMap::new(),
            retrier: context.services.retrier().clone(),
            events: context.services.events().clone(),
        })
    }

    /// GRPO and warm-start steps with a metrics line.
    pub(super) fn steps_done(&self) -> (u64, u64) {
        (self.steps.count(), self.warm_start.count())
    }

    /// Whether the evaluation after that many GRPO steps has a line.
    pub(super) fn has_evaluation(&self, step: u64) -> bool {
        self.evaluations.has(step)
    }

    /// The evaluations with a line, by the GRPO steps before them.
    pub(super) fn evaluated(&self) -> BTreeSet<u64> {
        self.evaluations.steps().collect()
    }

    /// The line of an evaluation.
    pub(super) fn evaluation(&self, step: u64) -> Result<Option<MetricsLine>, RunError> {
        Ok(self.evaluations.read()?.into_iter().find(|line| line.step == step))
    }

    /// The lines of the last steps, at most `most`.
    pub(super) fn last_steps(&self, most: usize) -> Result<Vec<MetricsLine>, RunError> {
        let mut lines = self.steps.read()?;
        Ok(lines.split_off(lines.len().saturating_sub(most)))
    }

    /// How many engines were never verified in the steps that have a line.
    pub(super) fn unverified_engines(&self) -> Result<u64, RunError> {
        Ok(WeightsProof::unverified_engines(&self.steps.read()?))
    }

    pub(super) fn set_versions(&mut self, versions: BTreeMap<String, String>) {
        self.versions.extend(versions);
    }

    /// Appends a line to the file of its kind.
    pub(super) async fn append(&mut self, line: &MetricsLine) -> Result<(), Halt> {
        self.directory.check_place()?;
        let line = &self.marked(line.clone());
        let file = match line.kind {
            StepKind::WarmStart => &mut self.warm_start,
            StepKind::Evaluation => &mut self.evaluations,
            StepKind::Train | StepKind::Progress | StepKind::Unspecified => &mut self.steps,
        };
        let path = file.path().to_owned();
        self.retrier.write(&path, || file.append(line)).await?;
        if line.kind == StepKind::Evaluation {
            self.receipt.evaluated(line.step, &line.to_json());
        }
        let before = if line.kind == StepKind::Train { self.repeated.remove(&line.step) } else { None };
        if let Some(message) = before.and_then(|before| other_rewards(&before, line)) {
            self.events.emit(Event::Warning { message });
        }
        if let Some(files) = &mut self.tensorboard {
            let path = files.path(line.kind).to_owned();
            self.retrier.write(&path, || files.append(line)).await?;
        }
        instruments::line(line);
        Ok(())
    }

    /// Warns once of files of samples that the run did not write, which a resume leaves as they are.
    async fn check_rollouts(&mut self) {
        if std::mem::replace(&mut self.has_checked_rollouts, true) {
            return;
        }
        let run = self.directory.path().to_owned();
        // All of them are read, which takes a while.
        let others = tokio::task::spawn_blocking(move || other_rollouts(&run, &read_receipt(&run)?)).await;
        let message = match others {
            Ok(Ok(others)) if others.is_empty() => return,
            Ok(Ok(others)) => {
                let steps = others.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
                format!(
                    "rollouts/ has samples that this run did not write, of step {steps}: they belong to another run, or \
                     were changed"
                )
            }
            Ok(Err(error)) => format!("rollouts/ is not compared with {RECEIPT_FILE}: {error}"),
            Err(error) => format!("rollouts/ is not compared with {RECEIPT_FILE}: {error}"),
        };
        self.events.emit(Event::Warning { message });
    }

    /// Reports a line that was appended.
    pub(super) fn announce(&self, line: MetricsLine) {
        self.events.emit(Event::Line(self.marked(line)));
    }

    /// The line of a forked run names the step from which that run went its own way; lines that it inherited do not.
    fn marked(&self, mut line: MetricsLine) -> MetricsLine {
        line.set(table::FORKED_AT, self.directory.forked_from().map(|origin| origin.step as f64));
        line
    }

    /// Marks of the lines before a position, by the names of their files: those that a return to it keeps.
    pub(super) fn marks(&self, position: &Position) -> BTreeMap<String, Vec<LineMark>> {
        let [steps, warm_start, evaluations] = self.bounds(position);
        let marks = [
            (METRICS_FILE, self.steps.marks(steps)),
            (WARM_START_FILE, self.warm_start.marks(warm_start)),
            (EVALUATION_FILE, self.evaluations.marks(evaluations)),
            (PROMPTS_FILE, self.prompts.marks(steps)),
            (RECEIPT_FILE, self.receipt.marks(position.step())),
        ];
        marks.into_iter().filter(|(_, marks)| !marks.is_empty()).map(|(name, marks)| (name.to_owned(), marks)).collect()
    }

    /// Where the lines before a position are not those that it was written with, a sentence for each file.
    pub(super) fn changes(&self, position: &Position) -> Vec<String> {
        let marks = |name: &str| position.lines().get(name).map_or(&[][..], Vec::as_slice);
        let changes = [
            self.steps.change(marks(METRICS_FILE)),
            self.warm_start.change(marks(WARM_START_FILE)),
            self.evaluations.change(marks(EVALUATION_FILE)),
            self.prompts.change(marks(PROMPTS_FILE)),
            self.receipt.change(marks(RECEIPT_FILE)),
        ];
        changes.into_iter().flatten().collect()
    }

    /// The first steps, supervised steps and evaluations whose lines a return to a position removes.
    fn bounds(&self, position: &Position) -> [u64; 3] {
        let step = position.step();
        let warm_start_steps = position.warm_start_steps();
        let after_warm_start = warm_start_steps == self.resolved.settings.warm_start.steps;
        // Evaluations are of the weights after that many steps: the one at the checkpoint itself stays.
        [step + 1, warm_start_steps + 1, if after_warm_start { step + 1 } else { 0 }]
    }

    /// Waits until all lines are on the disk.
    pub(super) async fn sync(&self) -> Result<(), Halt> {
        for file in [&self.warm_start, &self.steps, &self.evaluations] {
            self.retrier.write(file.path(), || file.sync()).await?;
        }
        self.retrier.write(self.rollouts.path(), || self.rollouts.sync()).await?;
        self.retrier.write(self.prompts.path(), || self.prompts.sync()).await?;
        self.retrier.write(self.receipt.path(), || self.receipt.sync()).await
    }

    /// Removes the lines of steps that will be repeated from a position on. Lines before it must exist: they were on
    /// the disk before the checkpoint was requested.
    pub(super) async fn truncate(&mut self, position: &Position) -> Result<(), Halt> {
        let marked = position.lines().get(RECEIPT_FILE).and_then(|marks| marks.last()).map_or(0, |mark| mark.lines);
        let found = self.receipt.count_up_to(position.step());
        if found < marked {
            let message = format!(
                "{RECEIPT_FILE} has {found} lines up to step {}, and had {marked} at the checkpoint: lines were removed",
                position.step()
            );
            return Err(RunError::directory(self.directory.path(), message).into());
        }
        let [steps, warm_start, evaluations] = self.bounds(position);
        if self.steps.count() > position.step() {
            let again = self.steps.read()?.into_iter().filter(|line| line.step >= steps);
            self.repeated = again.map(|line| (line.step, line)).collect();
        }
        let files =
            [(&mut self.steps, steps), (&mut self.warm_start, warm_start), (&mut self.evaluations, evaluations)];
        for (file, step) in files {
            let path = file.path().to_owned();
            self.retrier.write(&path, || file.truncate(step)).await?;
            if let Some(shown) = &mut self.tensorboard {
                let path = shown.path(file.kind()).to_owned();
                self.retrier.write(&path, || shown.forget_from(file.kind(), step)).await?;
            }
        }
        let path = self.prompts.path().to_owned();
        self.retrier.write(&path, || self.prompts.truncate(steps)).await?;
        let path = self.rollouts.path().to_owned();
        self.retrier.write(&path, || self.rollouts.truncate(position.step())).await?;
        self.receipt.truncate_after(position.step()).await?;
        let done = [(&self.steps, position.step()), (&self.warm_start, position.warm_start_steps())];
        for (file, expected) in done {
            if file.count() != expected {
                let name = file.path().file_name().unwrap_or_default().to_string_lossy();
                let count = file.count();
                let message =
                    format!("{name} has {count} lines, the checkpoint is after step {expected}: lines were removed");
                return Err(RunError::directory(self.directory.path(), message).into());
            }
        }
        self.check_rollouts().await;
        Ok(())
    }

    /// Writes `summary.json` and `report.html` at the end of a run. One that ended well waits for a full disk, a failed
    /// one does not.
    pub(super) async fn finish(&mut self, state: RunState, wait: bool) -> Result<Summary, RunError> {
        let step = self.steps.count();
        let ended = self.receipt.end(step, state, wait).await;
        if let Some(Halt::Error(error)) = ended.err().filter(|_| wait) {
            return Err(error);
        }
        if !wait {
            return self.write_summary(state);
        }
        let path = self.directory.path().join(SUMMARY_FILE);
        let mut summary = None;
        let write = || self.write_summary(state).map(|written| summary = Some(written));
        match self.retrier.write(&path, write).await {
            Err(Halt::Error(error)) => Err(error),
            // A stop ends the wait; what could not be written is the error then.
            Err(_) => self.write_summary(state),
            Ok(()) => summary.ok_or_else(|| RunError::Defect("the summary was not written".to_owned())),
        }
    }

    /// Reports what the record of prompts shows, where there is one.
    pub(super) fn report_audit(&self) {
        if self.steps.count() == 0 {
            return;
        }
        let event = match read_prompts(self.directory.path()).map(|lines| Audit::of(&lines, self.steps.count())) {
            Ok(audit) if audit.is_clean() => Event::Note { message: format!("audit: {}", audit.sentence()) },
            Ok(audit) => Event::Warning { message: format!("audit: {}", audit.sentence()) },
            Err(error) => Event::Warning { message: format!("no audit: {error}") },
        };
        self.events.emit(event);
    }

    /// Writes both in the middle of a run, so that an active run can be inspected. A failure is only a warning.
    pub(super) fn refresh_summary(&self) {
        if let Err(error) = self.write_summary(self.events.state()) {
            self.events.emit(Event::Warning { message: format!("no report: {error}") });
        }
    }

    fn write_summary(&self, state: RunState) -> Result<Summary, RunError> {
        let steps = Curves::of(&self.steps.read()?);
        let warm_start = Curves::of(&self.warm_start.read()?);
        let evaluations = self.evaluations.read()?;
        let run_id = self.directory.run_id();
        let ResolvedRecipe { settings, toml, aggregation, objective, .. } = &self.resolved;
        let plan = RunPlan { steps: settings.run.steps, seed: settings.run.seed };
        let rule = aggregation.as_deref();
        let written = WrittenLines { steps: &steps, warm_start: &warm_start, evaluations: &evaluations };
        let mut summary = Summary::of(run_id, plan, rule, state, &written, &self.versions);
        summary.objective = objective.clone();
        summary.changed_settings = self.resolved.changed.clone();
        summary.forked_from = self.directory.forked_from().cloned();
        summary.accepted_changes = accepted_changes(self.directory.path());
        summary.receipt = self.receipt.heads().cloned();
        self.directory.replace_json(SUMMARY_FILE, &summary)?;
        let gallery = self.gallery.get(self.directory.path(), &evaluations);
        let rows = read_data(self.directory.path());
        let training = self.training.get(self.directory.path());
        let data = RunData {
            summary: &summary,
            config: toml,
            steps: &steps,
            warm_start: &warm_start,
            evaluations: &evaluations,
            data: rows.as_ref(),
            gallery: &gallery,
            training: &training,
            earlier: None,
        };
        self.directory.replace(REPORT_FILE, &run_page(&data).to_document())?;
        Ok(summary)
    }
}

/// The event files, with the lines that they do not show yet: those that a forked run inherited.
fn shown(directory: &Path, files: [&MetricsFile; 3]) -> Result<EventFiles, RunError> {
    let mut shown = EventFiles::open(directory)?;
    for file in files {
        file.read()?.iter().try_for_each(|line| shown.append(line))?;
    }
    Ok(shown)
}

/// What tells the answers of a step from others.
const LENGTHS: [&str; 3] = ["response_length/mean", "response_length/max", "response_length/min"];
/// The mean of its raw rewards.
const SCORE: &str = "critic/score/mean";

/// That a step which was done again has the answers that it had and other rewards: a verifier that is no function of
/// the answer, or another one.
fn other_rewards(before: &MetricsLine, now: &MetricsLine) -> Option<String> {
    let has_same_answers = LENGTHS.iter().all(|name| before.get(name) == now.get(name));
    let was = before.get(SCORE)?;
    let is = now.get(SCORE)?;
    (has_same_answers && was != is).then(|| {
        format!(
            "step {} was done before, with answers of the same lengths and a mean reward of {was} instead of {is}: the \
             same answers do not get the same rewards",
            now.step
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_is_done_again_with_other_rewards_for_its_answers_is_noticed() {
        let line = |length: f64, score: f64| {
            let mut line = MetricsLine::new(StepKind::Train, 6, 7);
            line.values.extend(LENGTHS.map(|name| (name.to_owned(), length)));
            line.values.insert(SCORE.to_owned(), score);
            line
        };
        let said = other_rewards(&line(20.0, 0.5), &line(20.0, 0.25)).unwrap();
        assert!(said.starts_with("step 6 was done before") && said.contains("0.5 instead of 0.25"), "{said}");
        assert_eq!(other_rewards(&line(20.0, 0.5), &line(20.0, 0.5)), None);
        assert_eq!(other_rewards(&line(20.0, 0.5), &line(21.0, 0.25)), None, "other answers may get other rewards");
    }
}
