//! Aggregation rules as charts and tables show them.

use crate::metrics::{Curves, Statistics};

/// Colours of rules, the same on every page.
const COLOURS: [(&str, usize); 8] = [
    ("token", 2),
    ("batch-token", 6),
    ("sequence", 1),
    ("balanced", 3),
    ("balanced-count", 4),
    ("sequence-sum", 5),
    ("vl-norm", 7),
    ("vlnorm", 7),
];

/// The colour of a rule.
pub(super) fn colour(rule: &str) -> usize {
    COLOURS.iter().find(|(name, _)| *name == rule).map_or(8, |(_, colour)| *colour)
}

/// A rule's name in a legend.
pub(super) fn labelled(rule: &str, used: Option<&str>) -> String {
    if used == Some(rule) { format!("{rule} (in use)") } else { rule.to_owned() }
}

/// The rules whose pulls the steps have.
pub(super) fn rules(steps: &Curves) -> impl Iterator<Item = &str> {
    steps.names().filter_map(|name| name.strip_prefix("aggregation/")?.strip_suffix("/pull_positive"))
}

/// Mean over the steps that have it.
pub(super) fn mean(steps: &Curves, name: &str) -> Option<f64> {
    Statistics::of(steps.column(name).iter().map(|(_, value)| *value)).mean()
}
