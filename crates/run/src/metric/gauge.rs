//! How Prometheus shows a metric.

/// A series of Prometheus that shows one metric or several, each under its own labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gauge {
    /// The name, with the unit as its suffix.
    pub name: &'static str,
    /// The labels in their order.
    pub labels: &'static [&'static str],
    /// For each label whose values replace the braces in a metric's name: what bounds the number of these values.
    /// Empty if the metrics themselves give the values.
    pub bounds: &'static [&'static str],
    /// Meaning, as a phrase.
    pub help: &'static str,
    /// Condition under which the series appears; empty if every run has it.
    pub only: &'static str,
}

impl Gauge {
    /// A gauge of one metric.
    pub const fn of_one(name: &'static str, help: &'static str) -> Self {
        Self { name, labels: &[], bounds: &[], help, only: "" }
    }

    /// A gauge of several metrics, which give its label.
    pub const fn by(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self { name, labels, bounds: &[], help, only: "" }
    }

    /// A gauge whose labels are what the braces of a metric's name stand for.
    pub const fn by_parts(
        name: &'static str,
        labels: &'static [&'static str],
        bounds: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, labels, bounds, help, only: "" }
    }

    /// The gauge where it needs something to appear.
    #[must_use]
    pub const fn only(self, only: &'static str) -> Self {
        Self { only, ..self }
    }

    /// Whether its labels are what the braces of a metric's name stand for.
    pub const fn is_by_parts(&self) -> bool {
        !self.bounds.is_empty()
    }
}

/// Where a metric is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// Which of the choices in the last braces of the metric's name; empty where there is no choice.
    pub choice: &'static str,
    pub gauge: &'static Gauge,
    /// Values of the gauge's labels, where the metric gives them.
    pub labels: &'static [&'static str],
}

impl Shown {
    /// Shown by a gauge without labels, or by one whose labels the name gives.
    pub const fn by(gauge: &'static Gauge) -> Self {
        Self { choice: "", gauge, labels: &[] }
    }

    /// Shown by a gauge under a value of its label.
    pub const fn under(gauge: &'static Gauge, labels: &'static [&'static str]) -> Self {
        Self { choice: "", gauge, labels }
    }

    /// One choice of the last braces alone.
    #[must_use]
    pub const fn choosing(self, choice: &'static str) -> Self {
        Self { choice, ..self }
    }
}
