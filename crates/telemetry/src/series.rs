//! The series of a process: each with its kind, its labels and what it means.
//!
//! A crate lists what it counts in a table of [`Series`] next to the code that counts. [`describe`] gives the recorder
//! help and unit of each, and begins counters and histograms at zero: a rate over a counter that first appears at 1
//! misses that first event.

use metrics::{Label, Unit};

/// What a series is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeriesKind {
    /// A count since the start; the name ends in `_total`.
    Counter,
    /// A value at this moment.
    Gauge,
    /// A distribution in buckets.
    Histogram,
}

impl SeriesKind {
    /// Name of the kind in Prometheus.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// The values that a label can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    Of(&'static [&'static str]),
    /// Known at run time only, and few; the text says what bounds their number.
    Few(&'static str),
}

/// A series, or one for each combination of its labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Series {
    /// Name of the series, with its unit as the suffix.
    pub name: &'static str,
    pub kind: SeriesKind,
    /// Labels of the series, in the order in which they are given when it is recorded.
    pub labels: &'static [(&'static str, Values)],
    /// Meaning, as a phrase.
    pub help: &'static str,
    /// Condition under which it appears; empty if every run has it.
    pub only: &'static str,
}

impl Series {
    /// A counter without labels.
    pub const fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: SeriesKind::Counter, labels: &[], help, only: "" }
    }

    /// A gauge without labels.
    pub const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: SeriesKind::Gauge, labels: &[], help, only: "" }
    }

    /// A histogram without labels.
    pub const fn histogram(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: SeriesKind::Histogram, labels: &[], help, only: "" }
    }

    /// Adds labels to the series.
    #[must_use]
    pub const fn by(self, labels: &'static [(&'static str, Values)]) -> Self {
        Self { labels, ..self }
    }

    /// Marks a series that appears only with or after something that not every run has.
    #[must_use]
    pub const fn only(self, only: &'static str) -> Self {
        Self { only, ..self }
    }

    /// The unit that its name ends in.
    pub fn unit(&self) -> Option<Unit> {
        let name = self.name.strip_suffix("_total").unwrap_or(self.name);
        match name.rsplit_once('_')?.1 {
            "seconds" => Some(Unit::Seconds),
            "bytes" => Some(Unit::Bytes),
            _ => None,
        }
    }

    /// Begins a counter or histogram at zero for every combination of its labels, those that are known at run time with
    /// the given values. Without a value for one of these nothing is begun.
    pub fn begin(&self, given: &[(&'static str, &'static str)]) {
        for labels in self.combinations(given).into_iter().flatten() {
            match self.kind {
                SeriesKind::Counter => metrics::counter!(self.name, labels).increment(0),
                SeriesKind::Histogram => drop(metrics::histogram!(self.name, labels)),
                // A gauge has no neutral initial value.
                SeriesKind::Gauge => {}
            }
        }
    }

    fn combinations(&self, given: &[(&'static str, &'static str)]) -> Option<Vec<Vec<Label>>> {
        let mut all = vec![Vec::new()];
        for (name, values) in self.labels {
            let given = given.iter().find(|(label, _)| label == name).map(|(_, value)| *value);
            let values: Vec<&'static str> = match (values, given) {
                (_, Some(value)) => vec![value],
                (Values::Of(values), None) => values.to_vec(),
                (Values::Few(_), None) => return None,
            };
            let with_label = |labels: Vec<Label>| {
                let values = values.iter();
                values.map(move |value| [labels.clone(), vec![Label::from_static_parts(name, value)]].concat())
            };
            all = all.into_iter().flat_map(with_label).collect();
        }
        Some(all)
    }
}

/// Gives the recorder of this process help and unit of each series, and begins those at zero whose labels are all
/// known.
pub fn describe<'a>(series: impl IntoIterator<Item = &'a Series>) {
    for series in series {
        let unit = series.unit().unwrap_or(Unit::Count);
        match series.kind {
            SeriesKind::Counter => metrics::describe_counter!(series.name, unit, series.help),
            SeriesKind::Gauge => metrics::describe_gauge!(series.name, unit, series.help),
            SeriesKind::Histogram => metrics::describe_histogram!(series.name, unit, series.help),
        }
        series.begin(&[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install_metrics;

    #[test]
    fn counters_and_histograms_begin_at_zero_with_help_and_gauges_where_they_are_set() {
        const COUNTED: Series = Series::counter("evenkeel_series_test_items_total", "items of a test")
            .by(&[("kind", Values::Of(&["a", "b"])), ("end", Values::Of(&["good", "bad"]))]);
        const TIMED: Series = Series::histogram("evenkeel_series_test_seconds", "seconds of a test");
        const OPEN: Series =
            Series::counter("evenkeel_series_test_open_total", "by host").by(&[("host", Values::Few("hosts"))]);
        const VALUE: Series = Series::gauge("evenkeel_series_test_bytes", "bytes of a test");
        let handle = install_metrics().unwrap();
        describe([&COUNTED, &TIMED, &OPEN, &VALUE]);
        metrics::counter!("evenkeel_series_test_items_total", "kind" => "a", "end" => "bad").increment(2);
        let text = handle.render();
        assert!(text.contains("# HELP evenkeel_series_test_items_total items of a test"), "{text}");
        for (kind, end, count) in [("a", "good", 0), ("a", "bad", 2), ("b", "good", 0), ("b", "bad", 0)] {
            let line = format!("evenkeel_series_test_items_total{{kind=\"{kind}\",end=\"{end}\"}} {count}");
            assert_eq!(text.matches(&line).count(), 1, "{line} in {text}");
        }
        assert!(text.contains("evenkeel_series_test_seconds_count 0"), "{text}");
        assert!(!text.contains("evenkeel_series_test_open_total"), "its hosts are not known");
        assert!(!text.contains("evenkeel_series_test_bytes"), "nobody has set it");
        OPEN.begin(&[("host", "reward")]);
        assert!(handle.render().contains("evenkeel_series_test_open_total{host=\"reward\"} 0"));
        assert_eq!((VALUE.unit(), TIMED.unit(), COUNTED.unit()), (Some(Unit::Bytes), Some(Unit::Seconds), None));
    }
}
