//! Another run, whose curves lie under those of the run where a reader asks for it.

use std::path::Path;

use evenkeel_charts::{Chart, Point, Series, Style};
use evenkeel_proto::v1::StepKind;
use evenkeel_run::{
    Curves, EVALUATION_FILE, METRICS_FILE, MetricsLine, Quantity, RunFilesError, RunManifest, headline, read_lines,
};

/// The colour of its lines, which no other line of these charts has.
const COLOUR: usize = 5;

/// A run that another one is compared with at a glance. No sentence and no axis counts its points.
#[derive(Debug, Clone, Default)]
pub struct EarlierRun {
    name: String,
    steps: Curves,
    evaluations: Vec<MetricsLine>,
}

impl EarlierRun {
    /// The run of a directory.
    ///
    /// # Errors
    /// A directory without a run; files that cannot be read.
    pub fn read(directory: &Path) -> Result<Self, RunFilesError> {
        let absent = || RunFilesError::directory(directory, "holds no run (there is no run.json)");
        let manifest = RunManifest::read(directory)?.ok_or_else(absent)?;
        let lines = |name, kind| read_lines(&directory.join(name), kind);
        Ok(Self {
            name: manifest.run_id,
            steps: Curves::of(&lines(METRICS_FILE, StepKind::Train)?),
            evaluations: lines(EVALUATION_FILE, StepKind::Evaluation)?,
        })
    }

    /// Adds its course of a metric to a chart.
    pub(super) fn under(this: Option<&Self>, chart: Chart, metric: &str) -> Chart {
        let Some(run) = this else { return chart };
        let points = run.steps.column(metric).iter().map(|(step, value)| Point::new(*step as f64, *value));
        chart.with(run.series(Style::Averaged, points))
    }

    /// Adds its accuracies or mean rewards to a chart.
    pub(super) fn evaluated(this: Option<&Self>, chart: Chart, quantity: Quantity) -> Chart {
        let Some(run) = this else { return chart };
        let found = |line: &MetricsLine| headline(line).filter(|(found, _)| *found == quantity);
        let points = run.evaluations.iter().filter_map(|line| Some(Point::new(line.step as f64, found(line)?.1)));
        chart.with(run.series(Style::Line, points))
    }

    fn series(&self, style: Style, points: impl Iterator<Item = Point>) -> Series {
        Series::new(format!("run {}", self.name), style, points).coloured(COLOUR).beside()
    }
}
