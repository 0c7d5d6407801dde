//! The values of a run's lines as gauges, as the table of metrics has them: what `metrics.jsonl`, `evaluation.jsonl`
//! and `warm_start.jsonl` have, as of the newest line.
//!
//! A value that the newest line of its kind does not have is NaN, so that no chart shows an older one in its place.

use std::sync::LazyLock;

use evenkeel_proto::v1::StepKind;
use evenkeel_run::MetricsLine;
use evenkeel_run::metric::{Gauge, LineKind, Metric, Shown, table};
use evenkeel_telemetry::{Series, Values};
use metrics::{Label, gauge};

/// The gauges of the table, in the order in which it first names them.
pub(super) static VALUES: LazyLock<Vec<Series>> = LazyLock::new(|| {
    let mut gauges: Vec<&'static Gauge> = Vec::new();
    for (_, shown) in all_shown() {
        if !gauges.contains(&shown.gauge) {
            gauges.push(shown.gauge);
        }
    }
    gauges.into_iter().map(series).collect()
});

/// Every metric that is shown, with where.
fn all_shown() -> impl Iterator<Item = (&'static Metric, &'static Shown)> {
    table::all().flat_map(|metric| metric.gauges.iter().map(move |shown| (metric, shown)))
}

/// A gauge as a series. What it is made of lives as long as the process, like the series of all other tables.
fn series(gauge: &'static Gauge) -> Series {
    let values = |place: usize| match gauge.bounds.get(place) {
        Some(bound) => Values::Few(bound),
        None => {
            let given = all_shown().filter(|(_, shown)| shown.gauge == gauge).map(|(_, shown)| shown.labels[place]);
            let mut values: Vec<&'static str> = Vec::new();
            for value in given {
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            Values::Of(values.leak())
        }
    };
    let labels: Vec<_> = gauge.labels.iter().enumerate().map(|(place, label)| (*label, values(place))).collect();
    Series::gauge(gauge.name, gauge.help).by(labels.leak()).only(gauge.only)
}

pub(super) fn show(line: &MetricsLine) {
    show_of(line.kind, |name| line.get(name));
    let Some(kind) = kind_of(line.kind) else { return };
    for (name, value) in &line.values {
        let Some(metric) = table::find(name).filter(|metric| metric.lines.contains(&kind)) else { continue };
        for shown in metric.gauges.iter().filter(|shown| shown.gauge.is_by_parts()) {
            let parts = metric.parts(name).unwrap_or_default();
            let (choice, labels) = match shown.choice {
                "" => ("", &parts[..]),
                _ => parts.split_last().map_or(("", &[][..]), |(choice, labels)| (*choice, labels)),
            };
            if choice == shown.choice {
                let labels = shown.gauge.labels.iter().zip(labels);
                let labels: Vec<_> = labels.map(|(label, value)| Label::new(*label, (*value).to_owned())).collect();
                gauge!(shown.gauge.name, labels).set(*value);
            }
        }
    }
}

/// Forgets the values of an earlier run.
pub(super) fn forget() {
    show_of(StepKind::WarmStart, |_| None);
    show_of(StepKind::Train, |_| None);
}

fn kind_of(kind: StepKind) -> Option<LineKind> {
    match kind {
        StepKind::Train => Some(LineKind::Train),
        StepKind::WarmStart => Some(LineKind::WarmStart),
        StepKind::Evaluation => Some(LineKind::Evaluation),
        StepKind::Progress | StepKind::Unspecified => None,
    }
}

/// Shows the metrics of lines of a kind whose names are known without a line.
fn show_of(kind: StepKind, value: impl Fn(&str) -> Option<f64>) {
    // A gauge of GRPO steps is not one of supervised ones, whose lines have some values of the same name.
    let first = kind_of(kind);
    for (metric, shown) in
        all_shown().filter(|(metric, shown)| !shown.gauge.is_by_parts() && metric.lines.first().copied() == first)
    {
        let name = metric.choosing(shown.choice);
        let labels = shown.gauge.labels.iter().zip(shown.labels);
        let labels: Vec<_> = labels.map(|(label, value)| Label::from_static_parts(label, value)).collect();
        gauge!(shown.gauge.name, labels).set(value(name.as_str()).unwrap_or(f64::NAN));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gauge_is_described_once_and_every_metric_that_is_shown_names_its_labels() {
        for (metric, shown) in all_shown() {
            let series: Vec<_> = VALUES.iter().filter(|series| series.name == shown.gauge.name).collect();
            assert_eq!(series.len(), 1, "{}", shown.gauge.name);
            for ((label, values), given) in series[0].labels.iter().zip(shown.labels) {
                assert!(matches!(values, Values::Of(values) if values.contains(given)), "{}: {label}", metric.name);
            }
        }
        let series = |name: &str| VALUES.iter().find(|series| series.name == name).unwrap();
        assert_eq!(series("evenkeel_run_reward").labels, [("reward", Values::Of(&["raw", "shaped"]))]);
        assert_eq!(series("evenkeel_run_loss").labels, [("kind", Values::Of(&["train", "warm_start"]))]);
        assert_eq!(series("evenkeel_run_source_reward").only, "two or more data sources");
        assert!(matches!(
            series("evenkeel_run_evaluation_accuracy_ratio").labels,
            [(_, Values::Few(_)), (_, Values::Few(_))]
        ));
    }
}
