//! The result in a sentence or two, and in numbers.

use std::fmt::Write;

use evenkeel_charts::{Html, duration, number, percent, thousands};
use evenkeel_proto::v1::RunState;
use evenkeel_run::{AcceptedChanges, ENDS, Evaluated, ForkOrigin, Quantity, Summary};

use crate::quantity::in_words;

/// What the top of the page says.
pub(super) fn overview(summary: &Summary) -> Html {
    let tiles = Html::element("div", &[("class", "tiles")], tiles(summary));
    Html::element("p", &[("class", "lead")], lead(summary)).with(tiles)
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
        let _ = write!(text, " After step {step} it continued with changed inputs: {}.", changes.join("; "));
    }
    if let (Some(first), Some(last)) = (summary.reward_first_ten, summary.reward_last_ten)
        && summary.steps >= 20
    {
        let first = number(first);
        let last = number(last);
        let _ = write!(text, " Mean reward went from {first} in the first ten steps to {last} in the last ten.");
    }
    if let Some(Evaluated { quantity, before, after }) = summary.evaluated() {
        let what = quantity.words();
        let problems = summary.evaluated_problems.unwrap_or_default();
        let _ = write!(text, " On {problems} problems it never trained on, {what} ");
        let shown = |value| in_words(quantity, value, None);
        let _ = match (before, after) {
            (Some(before), Some((after, _))) => write!(text, "went from {} to {}", shown(before), shown(after)),
            (None, Some((after, _))) => write!(text, "was {}", shown(after)),
            (Some(before), None) => write!(text, "was {} before the first step", shown(before)),
            (None, None) => Ok(()),
        };
        if let Some((_, step)) = after.filter(|(_, step)| step != steps) {
            let _ = write!(text, " after {step} steps");
        }
        text.push('.');
        if quantity == Quantity::Accuracy {
            text.extend(correct_by_default(summary));
        }
    }
    if let Some(aggregation) = &summary.aggregation {
        let _ = write!(text, " Token terms were summed by {aggregation} aggregation.");
    }
    text
}

/// Which answers are correct where several reward functions judge them and no setting says so: a high reward alone is
/// not enough.
fn correct_by_default(summary: &Summary) -> Option<String> {
    let keys = || summary.changed_settings.iter().filter_map(|setting| setting.key.strip_prefix("data.verifiers."));
    let (verifier, _) = keys().find_map(|key| key.split_once(".functions."))?;
    let of_verifier = |part: &str| format!("{verifier}.{part}");
    let functions: Vec<&str> = keys().filter_map(|key| key.strip_prefix(&of_verifier("functions."))).collect();
    if functions.len() < 2 || keys().any(|key| key.starts_with(&of_verifier("correct"))) {
        return None;
    }
    let functions = functions.join(", ");
    Some(format!(
        " An answer is correct if each of {functions} gives its highest reward; data.verifiers.{verifier}.correct sets \
         another rule."
    ))
}

fn tiles(summary: &Summary) -> Html {
    let change = |before: Option<f64>, after: Option<f64>, show: fn(f64) -> String| match (before, after) {
        (Some(before), Some(after)) => {
            let after = Html::element("span", &[("class", "whole")], show(after));
            Some(Html::element("i", &[], format!("{} →", show(before))).with(" ").with(after))
        }
        (only, None) | (None, only) => only.map(|only| show(only).into()),
    };
    // Up to ten steps the first ten are the last ten, and nothing has changed between them.
    let ends = |first, last| {
        if summary.steps > ENDS as u64 { change(first, last, number) } else { change(first, None, number) }
    };
    let rewards = if summary.steps > ENDS as u64 { "Reward, first to last ten" } else { "Reward, mean" };
    let steps =
        Html::text(summary.steps).with(" ").with(Html::element("i", &[], format!("of {}", summary.total_steps)));
    let evaluated = summary.evaluated().map(|Evaluated { quantity, before, after }| {
        let (name, show): (_, fn(f64) -> String) = match quantity {
            Quantity::Accuracy => ("Accuracy, unseen problems", |value| percent(value, None)),
            Quantity::Reward => ("Mean reward, unseen problems", number),
        };
        (name, change(before, after.map(|(value, _)| value), show))
    });
    let rewards = Some((rewards, ends(summary.reward_first_ten, summary.reward_last_ten)));
    let lengths = ends(summary.response_length_first_ten, summary.response_length_last_ten);
    let measured = rewards.into_iter().chain(evaluated).chain([("Response length, tokens", lengths)]);
    let mut tiles: Vec<(&str, Html)> = measured.filter_map(|(name, value)| Some((name, value?))).collect();
    tiles.extend([
        ("Steps", steps),
        ("Tokens", thousands(summary.tokens).into()),
        ("Time", duration(summary.seconds.total).into()),
    ]);
    if summary.invalid_samples > 0 {
        tiles.push(("Samples left out", thousands(summary.invalid_samples).into()));
    }
    let tile = |(name, value): (&str, Html)| {
        let content = Html::element("span", &[], name).with(Html::element("b", &[], value));
        Html::element("div", &[("class", "tile")], content)
    };
    tiles.into_iter().map(tile).collect()
}

#[cfg(test)]
mod tests {
    use evenkeel_run::{ChangedSetting, Curves};

    use super::super::tests::summary;
    use super::*;

    #[test]
    fn a_run_without_steps_has_no_tile_of_what_steps_tell() {
        let html = tiles(&summary(&Curves::default())).into_string();
        assert!(!html.contains('–') && !html.contains("Reward") && html.contains("Steps"), "{html}");
    }

    #[test]
    fn a_stopped_run_says_what_was_evaluated_last_and_a_mean_reward_is_no_accuracy() {
        let stopped = Summary { steps: 12, ..summary(&Curves::default()) };
        let html = |summary: &Summary| overview(summary).into_string();
        assert!(!html(&stopped).contains("unseen"));
        let evaluated = Summary { accuracy_before: Some(0.5), evaluated_problems: Some(10), ..stopped.clone() };
        assert!(html(&evaluated).contains("accuracy was 50.0 % before the first step."), "{}", html(&evaluated));
        let later = Summary { accuracy_after: Some(0.75), last_evaluation: Some(10), ..evaluated };
        assert!(html(&later).contains("accuracy went from 50.0 % to 75.0 % after 10 steps."), "{}", html(&later));
        let rewards = Summary { mean_reward_after: Some(0.912), last_evaluation: Some(12), ..stopped };
        let html = html(&rewards);
        assert!(html.contains("mean reward was 0.912.") && html.contains("Mean reward, unseen problems"), "{html}");
        assert!(!html.contains("ccuracy"), "{html}");
    }

    #[test]
    fn with_several_functions_and_no_rule_the_page_says_which_answers_are_correct() {
        let said = |keys: &[&str]| {
            let setting = |key: &&str| ChangedSetting {
                key: format!("data.verifiers.{key}"),
                value: "1.0".to_owned(),
                default: None,
            };
            let changed_settings = keys.iter().map(setting).collect();
            let accuracy =
                Summary { accuracy_after: Some(0.0), last_evaluation: Some(12), ..summary(&Curves::default()) };
            lead(&Summary { changed_settings, ..accuracy })
        };
        let two = ["reward.functions.right", "reward.functions.short", "reward.range"];
        let rule =
            "An answer is correct if each of right, short gives its highest reward; data.verifiers.reward.correct";
        assert!(said(&two).contains(rule), "{}", said(&two));
        assert!(!said(&[&two[..], &["reward.correct.component"]].concat()).contains("highest reward"));
        assert!(!said(&["reward.functions.right", "other.functions.short"]).contains("highest reward"));
    }
}
