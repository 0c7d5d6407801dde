//! The runs of a folder: a list, and their curves over each other.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use evenkeel_charts::{
    COLOURS, Chart, Figure, Html, HtmlTable, Page, Plane, Point, Section, Series, Style, Trajectory, figures, number,
};
use evenkeel_proto::Label;
use evenkeel_proto::v1::StepKind;
use evenkeel_run::metric::{Metric, MetricName, table as metric};
use evenkeel_run::{Curves, EVALUATION_FILE, METRICS_FILE, MetricsLine, RunFilesError, accuracy};

use super::tail::{Sink, Tail};
use super::view::{RateLimit, RenderedPage};
use crate::overviews::{RunOverview, overviews};
use crate::report::{capitalized, with_unit};

/// Runs of a folder that are listed, the newest.
const MAX_LISTED: usize = 200;
/// Pages of different choices that are kept.
const MAX_CHOICES: usize = 8;

/// What is drawn of several runs, besides accuracies.
fn drawn_metrics() -> [(Metric, MetricName); 5] {
    [
        (metric::SCORE, metric::SCORE.choosing("mean")),
        (metric::RESPONSE_LENGTH, metric::RESPONSE_LENGTH.choosing("mean")),
        (metric::ENTROPY, metric::ENTROPY.into()),
        (metric::POLICY_LOSS, metric::POLICY_LOSS.into()),
        (metric::GRADIENT_NORM, metric::GRADIENT_NORM.into()),
    ]
}
const VARIATION: &str = metric::LENGTH_VARIATION.name;
const GAP: &str = metric::LENGTH_GAP.name;

/// The runs of a folder, for all who look at them.
#[derive(Debug)]
pub struct RunsView {
    folder: PathBuf,
    choices: Mutex<HashMap<Vec<String>, ChosenRuns>>,
}

/// The page of a choice of runs.
#[derive(Debug, Default)]
struct ChosenRuns {
    runs: HashMap<PathBuf, Curve>,
    rate_limit: RateLimit,
    rendered: Arc<RenderedPage>,
}

/// The curves of one run, only those that are drawn here.
#[derive(Debug)]
struct Curve {
    steps: (Tail, SelectedCurves),
    evaluations: (Tail, Vec<MetricsLine>),
}

#[derive(Debug, Default)]
struct SelectedCurves(Curves);

impl Sink for SelectedCurves {
    fn clear(&mut self) {
        self.0 = Curves::default();
    }

    fn push(&mut self, line: MetricsLine) {
        let drawn = drawn_metrics();
        let is_drawn =
            |name: &str| name == VARIATION || name == GAP || drawn.iter().any(|(_, drawn)| drawn.as_str() == name);
        self.0.push_only(&line, is_drawn);
    }
}

impl Curve {
    fn new(directory: &Path) -> Self {
        Self {
            steps: (Tail::new(directory.join(METRICS_FILE), StepKind::Train), SelectedCurves::default()),
            evaluations: (Tail::new(directory.join(EVALUATION_FILE), StepKind::Evaluation), Vec::new()),
        }
    }

    fn read(&mut self) -> std::io::Result<()> {
        self.steps.0.read(&mut self.steps.1)?;
        self.evaluations.0.read(&mut self.evaluations.1)
    }
}

impl RunsView {
    /// The runs of a folder.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, choices: Mutex::default() }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The page with the curves of the chosen runs, or of the newest. Blocks.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn page(&self, chosen: &[String]) -> Result<Arc<RenderedPage>, RunFilesError> {
        let mut choices = self.choices.lock().unwrap_or_else(PoisonError::into_inner);
        if !choices.contains_key(chosen) && choices.len() >= MAX_CHOICES {
            choices.clear();
        }
        let choice = choices.entry(chosen.to_vec()).or_default();
        if !choice.rate_limit.is_due() {
            return Ok(Arc::clone(&choice.rendered));
        }
        let began = Instant::now();
        choice.rendered = Arc::new(RenderedPage::of(self.render(chosen, &mut choice.runs)?));
        choice.rate_limit.took(began.elapsed());
        Ok(Arc::clone(&choice.rendered))
    }

    fn render(&self, chosen: &[String], curves: &mut HashMap<PathBuf, Curve>) -> Result<Page, RunFilesError> {
        let (mut runs, skipped) = overviews(&self.folder)?;
        let listed = runs.len();
        runs.truncate(MAX_LISTED);
        let is_drawn = |run: &&RunOverview| chosen.is_empty() || chosen.contains(&run.name);
        // Oldest first, so that a new run does not change the colours of the others while there are few.
        let mut drawn: Vec<&RunOverview> = runs.iter().filter(is_drawn).take(COLOURS).collect();
        drawn.reverse();
        curves.retain(|path, _| drawn.iter().any(|run| run.path == *path));
        for run in &drawn {
            let curve = curves.entry(run.path.clone()).or_insert_with(|| Curve::new(&run.path));
            curve.read().map_err(RunFilesError::file(&run.path))?;
        }
        let named: Vec<(&str, &Curve)> =
            drawn.iter().filter_map(|run| Some((run.name.as_str(), curves.get(&run.path)?))).collect();
        let mut list = list(&runs, &drawn);
        if listed > MAX_LISTED {
            list.push(Html::paragraph(format_args!("The newest {MAX_LISTED} of {listed} runs are listed.")));
        }
        let skipped: Html = skipped
            .iter()
            .map(|skipped| Html::element("li", &[], format!("{}: {}", skipped.name, skipped.reason)))
            .collect();
        if !skipped.is_empty() {
            let summary = Html::element("summary", &[], "Skipped directories");
            let skipped = Html::element("ul", &[("class", "said")], skipped);
            list.push(Html::element("details", &[("data-key", "skipped")], summary.with(skipped)));
        }
        Ok(Page {
            title: self.folder.file_name().map_or_else(|| "runs".into(), |name| name.to_string_lossy().into_owned()),
            kicker: Html::text("Evenkeel · runs"),
            sections: vec![
                Section::new("live", "", Html::new()),
                Section::new("runs", "Runs", list),
                Section::new("curves", "Overlay", figures(drawn_over(&named))),
            ],
            footer: Html::text(self.folder.display()),
        })
    }
}

/// The list, as a form with which runs are chosen.
fn list(runs: &[RunOverview], drawn: &[&RunOverview]) -> Html {
    if runs.is_empty() {
        return Html::paragraph("There is no run yet.");
    }
    let columns = ["run", "drawn", "state", "steps", "reward", "length", "accuracy", "rule"];
    let mut table = HtmlTable::new(columns);
    for run in runs {
        let length = run.last_step.as_ref().and_then(|line| line.get("response_length/mean"));
        let shown = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), number);
        let accuracy = run.evaluated_in_words().unwrap_or_else(|| "–".to_owned());
        let mut tick = vec![
            ("type", "checkbox"),
            ("name", "run"),
            ("value", run.name.as_str()),
            ("aria-label", run.name.as_str()),
        ];
        if drawn.iter().any(|drawn| drawn.name == run.name) {
            tick.push(("checked", ""));
        }
        let link = Html::element("a", &[("href", &format!("/run/{}", encoded(&run.name)))], run.name.as_str());
        table.row([
            link,
            Html::element("label", &[], Html::void("input", &tick)),
            run.state.label().into(),
            format!("{} of {}", run.steps, run.total_steps).into(),
            shown(run.reward()).into(),
            shown(length).into(),
            accuracy.into(),
            run.aggregation.clone().unwrap_or_else(|| "–".to_owned()).into(),
        ]);
    }
    let button = Html::element("button", &[], format!("Draw the chosen runs, at most {COLOURS}"));
    let note = "Reward and length are those of the last step, accuracy that of the last evaluation.";
    let note = Html::element("p", &[("class", "soft")], note);
    let form = table.to_html().with(button);
    Html::element("form", &[("method", "get"), ("action", "/"), ("class", "choose")], form).with(note)
}

fn drawn_over(runs: &[(&str, &Curve)]) -> Vec<Figure> {
    let over = |(title, unit): (&str, &str), caption: &str, series: &dyn Fn(&Curve) -> Vec<Point>, style: Style| {
        let add = |chart: Chart, (index, (name, curve)): (usize, &(&str, &Curve))| {
            chart.with(Series::new(*name, style, series(curve)).coloured(index + 1))
        };
        runs.iter().enumerate().fold(Chart::new(title, caption).measured_in(unit), add)
    };
    let steps = |metric: MetricName| {
        move |curve: &Curve| -> Vec<Point> {
            let column = curve.steps.1.0.column(metric.as_str()).iter();
            column.map(|(step, value)| Point::new(*step as f64, *value)).collect()
        }
    };
    let evaluated = |curve: &Curve| -> Vec<Point> {
        let point = |line: &MetricsLine| Some(Point::new(line.step as f64, accuracy(line)?));
        curve.evaluations.1.iter().filter_map(point).collect()
    };
    let mut all: Vec<Figure> = drawn_metrics()
        .into_iter()
        .map(|(metric, name)| {
            let named = (capitalized(metric.title), with_unit(metric));
            over((&named.0, &named.1), &metric.caption(), &steps(name), Style::Averaged).into()
        })
        .collect();
    let caption = "share of correct answers to problems that are never trained on";
    all.insert(1, over(("Accuracy", "accuracy, 0 to 1"), caption, &evaluated, Style::Line).from(0.0).into());
    let caption =
        "the two quantities of the paper's criterion (arXiv 2605.04077), from the first step (ring) to the last (dot)";
    let plane = Plane::new("Length variation and length gap", caption, "length variation", "length gap, tokens");
    let trajectory = |(name, curve): &(&str, &Curve)| {
        let curves = &curve.steps.1.0;
        let points = curves.column(GAP).iter();
        let points = points.filter_map(|(step, gap)| Some((*step as f64, curves.at(VARIATION, *step)?, *gap)));
        Trajectory::new(*name, points)
    };
    all.push(runs.iter().map(trajectory).fold(plane, Plane::with).into());
    all
}

/// A name within a path.
pub fn encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    name.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
