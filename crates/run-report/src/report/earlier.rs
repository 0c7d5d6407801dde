//! An earlier run, whose curves lie under those of the run.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

use evenkeel_charts::{Chart, Point, Series, Style};
use evenkeel_proto::v1::StepKind;
use evenkeel_run::{
    Curves, EVALUATION_FILE, InputKind, InputRecord, METRICS_FILE, MetricsLine, RUN_FILE, RunManifest, accuracy,
    read_lines,
};

/// Directories of a folder that are looked at.
const MOST_RUNS: usize = 200;
/// Bytes of a file of metrics that is read for this.
const MOST_BYTES: u64 = 64 << 20;
/// The colour of its lines, which no other line of these charts has.
const COLOUR: usize = 5;

/// The run that a run is compared with at a glance: the one that it was forked from, or else the last one before it in
/// the same folder that was trained on the same data.
#[derive(Debug, Clone, Default)]
pub struct EarlierRun {
    name: String,
    steps: Curves,
    evaluations: Vec<MetricsLine>,
}

/// The earlier run of a directory, which is looked for once.
#[derive(Debug, Default)]
pub struct EarlierCache(OnceLock<Option<EarlierRun>>);

impl EarlierCache {
    /// The earlier run, if there is one.
    pub fn get(&self, directory: &Path) -> Option<&EarlierRun> {
        self.0.get_or_init(|| EarlierRun::of(directory)).as_ref()
    }
}

impl EarlierRun {
    fn of(directory: &Path) -> Option<Self> {
        let manifest = RunManifest::read(directory).ok()??;
        match manifest.forked_from {
            Some(origin) => Self::read(&origin.directory),
            None => Self::read(&before(directory)?),
        }
    }

    fn read(directory: &Path) -> Option<Self> {
        let manifest = RunManifest::read(directory).ok()??;
        let is_large = |name: &str| std::fs::metadata(directory.join(name)).is_ok_and(|data| data.len() > MOST_BYTES);
        if is_large(METRICS_FILE) {
            return None;
        }
        let lines = |name, kind| read_lines(&directory.join(name), kind).ok();
        let steps = Curves::of(&lines(METRICS_FILE, StepKind::Train)?);
        let evaluations = lines(EVALUATION_FILE, StepKind::Evaluation)?;
        (steps.count() > 1).then_some(Self { name: manifest.run_id, steps, evaluations })
    }

    /// Adds its course of a metric to a chart.
    pub(super) fn under(this: Option<&Self>, chart: Chart, metric: &str) -> Chart {
        let Some(Self { name, steps, .. }) = this else { return chart };
        let points = steps.column(metric).iter().map(|(step, value)| Point::new(*step as f64, *value));
        chart.with(Series::new(format!("earlier run {name}"), Style::Averaged, points).coloured(COLOUR))
    }

    /// Adds its accuracies to a chart.
    pub(super) fn accuracies(this: Option<&Self>, chart: Chart) -> Chart {
        let Some(Self { name, evaluations, .. }) = this else { return chart };
        let points = evaluations.iter().filter_map(|line| Some(Point::new(line.step as f64, accuracy(line)?)));
        chart.with(Series::new(format!("earlier run {name}"), Style::Line, points).coloured(COLOUR))
    }
}

/// The directory beside this one whose run was begun last before it, of those on the same data.
fn before(directory: &Path) -> Option<PathBuf> {
    let began = |directory: &Path| std::fs::metadata(directory.join(RUN_FILE)).and_then(|data| data.modified()).ok();
    let data = |directory: &Path| -> Option<Vec<String>> {
        let inputs = InputRecord::read(directory).ok()??.inputs;
        let digests = inputs.into_iter().filter(|input| input.kind == InputKind::TrainingData);
        Some(digests.map(|input| input.digest).collect())
    };
    let ours = began(directory)?;
    let our_data = data(directory)?;
    let own = directory.file_name()?;
    let entries = std::fs::read_dir(directory.parent()?).ok()?.flatten().take(MOST_RUNS);
    let others = entries.filter(|entry| entry.file_name() != own).map(|entry| entry.path());
    let mut earlier: Vec<(SystemTime, PathBuf)> =
        others.filter_map(|path| Some((began(&path).filter(|began| *began < ours)?, path))).collect();
    earlier.sort();
    earlier.into_iter().rev().map(|(_, path)| path).find(|path| data(path).as_ref() == Some(&our_data))
}
