//! A row of the table.

use crate::metric::gauge::Shown;

/// What a value is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A number of things, or a ratio without a bound.
    None,
    /// A value from 0 to 1.
    Share,
    /// Tokens of the model.
    Tokens,
    Nats,
    /// Squared natural logarithms, for variances.
    SquaredNats,
    Decades,
    Seconds,
    /// Tokens in a second.
    TokensPerSecond,
    /// A unit of 2^30 bytes.
    GiB,
}

impl Unit {
    /// The unit as documentation writes it; empty for none.
    pub const fn label(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Share => "0 to 1",
            Self::Tokens => "tokens",
            Self::Nats => "nats",
            Self::SquaredNats => "nats²",
            Self::Decades => "log10",
            Self::Seconds => "s",
            Self::TokensPerSecond => "tokens/s",
            Self::GiB => "GiB",
        }
    }
}

/// How values of several steps belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    Count,
    /// Each is of its own step; several have a mean.
    Value,
}

impl MetricKind {
    /// The kind as documentation writes it.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Value => "value",
        }
    }
}

/// The lines of a run, by what a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    /// A GRPO step: `metrics.jsonl`.
    Train,
    /// A supervised step: `warm_start.jsonl`.
    WarmStart,
    /// An evaluation, in `evaluation.jsonl`.
    Evaluation,
}

impl LineKind {
    /// The name in lines.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::WarmStart => "warm_start",
            Self::Evaluation => "evaluation",
        }
    }
}

/// A metric: what a line may have under one name, or under one pattern of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// The name in lines. What stands in braces differs: `{rule}` is a name of the run's, `{mean,max}` is one of these.
    pub name: &'static str,
    /// What a value is measured in.
    pub unit: Unit,
    /// How values of several steps belong together.
    pub kind: MetricKind,
    /// The lines that may have it.
    pub lines: &'static [LineKind],
    /// Meaning, as a phrase.
    pub help: &'static str,
    /// Where alone it appears, as a clause; empty where every such line has it as long as it is defined.
    pub only: &'static str,
    /// Whether two runs of one seed may differ in it.
    pub varies: bool,
    /// The gauges that show it.
    pub gauges: &'static [Shown],
    /// What a chart or a column of it is called; empty where there is none.
    pub title: &'static str,
}

impl Metric {
    /// A metric of GRPO steps that adds up over them.
    pub const fn count(name: &'static str, unit: Unit, help: &'static str) -> Self {
        Self { kind: MetricKind::Count, ..Self::value(name, unit, help) }
    }

    /// A metric of GRPO steps, each of which has its own.
    pub const fn value(name: &'static str, unit: Unit, help: &'static str) -> Self {
        let lines = &[LineKind::Train];
        Self { name, unit, kind: MetricKind::Value, lines, help, only: "", varies: false, gauges: &[], title: "" }
    }

    /// The metric in lines of other kinds.
    #[must_use]
    pub const fn of_lines(self, lines: &'static [LineKind]) -> Self {
        Self { lines, ..self }
    }

    /// The metric where it appears only under a condition.
    #[must_use]
    pub const fn only(self, only: &'static str) -> Self {
        Self { only, ..self }
    }

    /// The metric where two runs of one seed may differ in it: times, the memory of a GPU, how often something was
    /// retried, and what begins anew after a resume.
    #[must_use]
    pub const fn varies(self) -> Self {
        Self { varies: true, ..self }
    }

    /// The metric with its gauges.
    #[must_use]
    pub const fn shown(self, gauges: &'static [Shown]) -> Self {
        Self { gauges, ..self }
    }

    /// The metric with a title for its charts and columns.
    #[must_use]
    pub const fn titled(self, title: &'static str) -> Self {
        Self { title, ..self }
    }

    /// The caption of a chart: what it means and in which unit.
    pub fn caption(&self) -> String {
        match self.unit {
            Unit::Nats | Unit::Tokens => format!("{}, in {}", self.help, self.unit.label()),
            Unit::Seconds => format!("{}, in seconds", self.help),
            _ => self.help.to_owned(),
        }
    }
}
