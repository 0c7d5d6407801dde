//! The result in a sentence or two, and in numbers.

use std::fmt::Write;

use evenkeel_charts::{Html, duration, number, percent, thousands};
use evenkeel_proto::v1::RunState;
use evenkeel_run::{AcceptedChanges, ENDS, ForkOrigin, Summary};

/// What the top of the page says.
pub(super) fn overview(summary: &Summary) -> Html {
    let tiles = Html::element("div", &[("class", "tiles")], tiles(summary));
    let html = Html::element("p", &[("class", "lead")], lead(summary)).with(tiles);
    match &summary.objective {
        Some(objective) => html.with(Html::element("p", &[("class", "soft")], format!("Objective: {objective}."))),
        None => html,
    }
}

fn lead(summary: &Summary) -> String {
    let Summary { steps, total_steps, .. } = summary;
    let mut text = match summary.state.known() {
        Some(RunState::Completed) => format!("All {steps} steps are done."),
        Some(RunState::Failed) => {
            format!("The run ended with an error after {steps} of {total_steps} steps; it can be resumed.")
        }
        Some(RunState::Stopped) => {
            format!("The run was stopped after {steps} of {total_steps} steps; it can be resumed.")
        }
        _ => format!("The run is active; {steps} of {total_steps} steps are done."),
    };
    if let Some(ForkOrigin { run_id, step, changed, changed_inputs, .. }) = &summary.forked_from {
        let _ = write!(text, " It was forked from run {run_id} after step {step}");
        if changed.is_empty() {
            text.push_str(" with the same settings.")
        } else {
            let _ = write!(text, " with other settings: {}.", changed.join("; "));
        }
        if !changed_inputs.is_empty() {
            let _ = write!(text, " What it reads differs: {}.", changed_inputs.join("; "));
        }
    }
    for AcceptedChanges { step, changes } in &summary.accepted_changes {
        let _ = write!(text, " After step {step} it went on with inputs that had changed: {}.", changes.join("; "));
    }
    if let (Some(first), Some(last)) = (summary.reward_first_ten, summary.reward_last_ten)
        && summary.steps >= 20
    {
        let first = number(first);
        let last = number(last);
        let _ = write!(text, " Mean reward went from {first} in the first ten steps to {last} in the last ten.");
    }
    if let (Some(before), Some(after)) = (summary.accuracy_before, summary.accuracy_after) {
        let problems = summary.evaluated_problems.unwrap_or_default();
        let before = percent(before, None);
        let after = percent(after, None);
        let _ = write!(text, " On {problems} problems it never trained on, accuracy went from {before} to {after}.");
    }
    if let Some(aggregation) = &summary.aggregation {
        let _ = write!(text, " Token terms were summed by {aggregation} aggregation.");
    }
    text
}

fn tiles(summary: &Summary) -> Html {
    let change = |before: Option<f64>, after: Option<f64>, show: fn(f64) -> String| match (before, after) {
        (Some(before), Some(after)) => {
            let after = Html::element("span", &[("class", "whole")], show(after));
            Html::element("i", &[], format!("{} →", show(before))).with(" ").with(after)
        }
        (Some(only), None) | (None, Some(only)) => show(only).into(),
        (None, None) => "–".into(),
    };
    let share = |value| percent(value, None);
    // Up to ten steps the first ten are the last ten, and nothing has changed between them.
    let ends = |first, last| {
        if summary.steps > ENDS as u64 { change(first, last, number) } else { change(first, None, number) }
    };
    let rewards = if summary.steps > ENDS as u64 { "Reward, first to last ten" } else { "Reward, mean" };
    let steps =
        Html::text(summary.steps).with(" ").with(Html::element("i", &[], format!("of {}", summary.total_steps)));
    let mut tiles = vec![
        (rewards, ends(summary.reward_first_ten, summary.reward_last_ten)),
        ("Accuracy, unseen problems", change(summary.accuracy_before, summary.accuracy_after, share)),
        ("Response length, tokens", ends(summary.response_length_first_ten, summary.response_length_last_ten)),
        ("Steps", steps),
        ("Tokens", thousands(summary.tokens).into()),
        ("Time", duration(summary.seconds.total).into()),
    ];
    if summary.invalid_samples > 0 {
        tiles.push(("Samples left out", thousands(summary.invalid_samples).into()));
    }
    let tile = |(name, value): (&str, Html)| {
        let content = Html::element("span", &[], name).with(Html::element("b", &[], value));
        Html::element("div", &[("class", "tile")], content)
    };
    tiles.into_iter().map(tile).collect()
}
