//! The charts of a run and their captions.

use evenkeel_charts::{Chart, Figure, Point, Series, Style};
use evenkeel_run::metric::{Metric, table as metric};
use evenkeel_run::{Curves, MetricsLine};

use super::benchmarks;
use super::earlier::EarlierRun;

const SCORE: &str = "critic/score/mean";

/// A column as points over steps.
pub(super) fn points(curves: &Curves, name: &str) -> impl Iterator<Item = Point> {
    curves.column(name).iter().map(|(step, value)| Point::new(*step as f64, *value))
}

/// A column as a line with an average over the last steps.
pub(super) fn averaged(curves: &Curves, label: &str, colour: usize, name: &str) -> Series {
    Series::new(label, Style::Averaged, points(curves, name)).coloured(colour)
}

pub(super) fn results(steps: &Curves, evaluations: &[MetricsLine], earlier: Option<&EarlierRun>) -> Vec<Figure> {
    let reward = Chart::new(
        "Training reward",
        "mean raw reward of the answers of a step; the bold line is the centred mean of five steps",
    );
    let reward = reward.from(0.0).up_to(1.0).measured_in("raw reward");
    let mut all = vec![EarlierRun::under(earlier, reward.with(averaged(steps, "reward", 1, SCORE)), SCORE)];
    if !evaluations.is_empty() {
        all.extend(benchmarks::charts(evaluations, earlier));
    }
    all.into_iter().map(Figure::from).collect()
}

/// A chart of a metric under its title and caption in the table.
fn chart_of(metric: Metric) -> Chart {
    Chart::new(capitalized(metric.title), metric.caption()).from(0.0).measured_in(with_unit(metric))
}

/// What is on the axis of a metric: its title with its unit.
pub(crate) fn with_unit(metric: Metric) -> String {
    let title = metric.title.to_lowercase();
    match metric.unit.label() {
        "" => title,
        unit => format!("{title}, {unit}"),
    }
}

/// A title as a heading.
pub(crate) fn capitalized(title: &str) -> String {
    let mut characters = title.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

pub(super) fn lengths(steps: &Curves, earlier: Option<&EarlierRun>) -> [Figure; 3] {
    let are_known = [metric::CORRECT_LENGTH, metric::INCORRECT_LENGTH].iter().any(|of| steps.mean(of.name).is_some());
    let caption = if are_known {
        "mean tokens of answers, of those that are correct, and of those that are not"
    } else {
        "mean tokens of answers"
    };
    let all = Chart::new("Response length", caption).from(0.0).measured_in("tokens");
    let all = all
        .with(averaged(steps, "incorrect", 2, metric::INCORRECT_LENGTH.name))
        .with(averaged(steps, "correct", 3, metric::CORRECT_LENGTH.name))
        .with(averaged(steps, "all", 1, metric::RESPONSE_LENGTH.choosing("mean").as_str()));
    let all = EarlierRun::under(earlier, all, metric::RESPONSE_LENGTH.choosing("mean").as_str());
    let gap = chart_of(metric::LENGTH_GAP).with(averaged(steps, "gap", 1, metric::LENGTH_GAP.name));
    let variation = chart_of(metric::LENGTH_VARIATION);
    let variation = variation.with(averaged(steps, "variation", 1, metric::LENGTH_VARIATION.name));
    [all.into(), gap.into(), variation.into()]
}

/// What the learner reports.
pub(super) fn training(steps: &Curves, earlier: Option<&EarlierRun>) -> Vec<Figure> {
    let one = |metric: Metric| {
        let chart = chart_of(metric).with(averaged(steps, &metric.title.to_lowercase(), 1, metric.name));
        EarlierRun::under(earlier, chart, metric.name)
    };
    let mut all: Vec<Chart> =
        [metric::ENTROPY, metric::GRADIENT_NORM, metric::CLIPPED, metric::POLICY_KL, metric::TRUNCATED].map(one).into();
    // Beside entropy and norms, which follow from it.
    all.insert(2, pulls(steps));
    if !steps.column(metric::UPDATE_NORM.name).is_empty() {
        all.insert(3, one(metric::UPDATE_NORM));
    }
    let zero = "groups whose answers are all correct, and those of which none is";
    let zero = Chart::new("Groups that agree", zero).from(0.0).measured_in("groups of a step");
    let zero = zero.with(averaged(steps, "all correct", 3, metric::ALL_CORRECT.name));
    all.push(zero.with(averaged(steps, "all incorrect", 2, metric::ALL_INCORRECT.name)));
    let rate = Series::new(metric::LEARNING_RATE.title, Style::Line, points(steps, metric::LEARNING_RATE.name));
    all.push(chart_of(metric::LEARNING_RATE).with(rate));
    let [length, ..] = lengths(steps, earlier);
    std::iter::once(length).chain(all.into_iter().map(Figure::from)).collect()
}

/// The positive and the negative pull under the rule in use.
fn pulls(steps: &Curves) -> Chart {
    let caption = "sum of weight times absolute advantage over tokens with a positive and with a negative advantage, \
        under the rule in use";
    let chart = Chart::new("Positive and negative pull", caption).from(0.0).measured_in("pull");
    let positive = averaged(steps, "positive", 3, metric::PULL.choosing("positive").as_str());
    chart.with(positive).with(averaged(steps, "negative", 2, metric::PULL.choosing("negative").as_str()))
}

/// The loss of the supervised steps.
pub(super) fn warm_start(warm_start: &Curves) -> Figure {
    let loss = Series::new("loss", Style::Line, points(warm_start, metric::WARM_START_LOSS.name));
    chart_of(metric::WARM_START_LOSS).over("supervised step").with(loss).into()
}
