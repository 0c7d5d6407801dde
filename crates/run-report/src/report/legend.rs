//! Aggregation rules as charts and tables show them.

use evenkeel_charts::COLOURS;
use evenkeel_objective::Aggregation;
use evenkeel_run::Curves;

/// The colour of a rule, the same on every page: that of its position among all rules. Those of other versions share
/// the last colour.
pub(super) fn colour(rule: &str) -> usize {
    let position = Aggregation::ALL.iter().position(|known| known.name() == rule);
    position.map_or(COLOURS, |position| 1 + position % COLOURS)
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
    steps.mean(name)
}
