//! Steps in order of completion: what it did to lengths.

use evenkeel_charts::{Chart, Figure, Html, figures};
use evenkeel_run::Curves;

use super::charts::averaged;

/// A note and a chart. Empty for runs in data order.
pub(super) fn section(steps: &Curves) -> Html {
    if steps.column("pipeline/completion/taken_length").is_empty() {
        return Html::new();
    }
    let text = "Steps took the groups that were complete first (pipeline.order = \"completion\"). The run does not \
                replay: which step a prompt is in depended on how long its answers took. No group was dropped for \
                that; the audit has the lengths of what waited.";
    let lengths = Chart::new(
        "Length taken and left",
        "mean tokens of the answers that a step took, and of those that had ended by then and were left for later \
        steps",
    );
    let lengths = lengths
        .from(0.0)
        .measured_in("tokens")
        .with(averaged(steps, "taken", 1, "pipeline/completion/taken_length"))
        .with(averaged(steps, "left", 2, "pipeline/completion/left_length"));
    Html::element("h3", &[], "Order of completion")
        .with(Html::paragraph(text))
        .with(figures(vec![Figure::from(lengths)]))
}
