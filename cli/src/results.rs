//! The results of a run as a terminal prints them at its end.

use std::path::Path;

use evenkeel_orchestrator::RunOutcome;
use evenkeel_run::at_k::AVERAGE;
use evenkeel_run::{ATTENTION, ENDS, Evaluated, Heads, Quantity, Summary};

/// The summary, where the report is, and how to go on. What is not known has no line.
pub(crate) fn results(outcome: RunOutcome, summary: &Summary, path: &Path) -> String {
    let mut text = String::new();
    match outcome {
        // A sum of no seconds is -0.
        RunOutcome::Completed => text += &format!("{} steps in {:.0} s\n", summary.steps, summary.seconds.total.abs()),
        RunOutcome::Stopped => text += &format!("stopped after {} of {} steps\n", summary.steps, summary.total_steps),
    }
    // Up to ten steps the first ten are the last ten, and nothing has changed between them.
    let has_ends = summary.steps > ENDS as u64;
    let of_steps = |first: Option<f64>, last: Option<f64>| match (has_ends, first, last) {
        (false, Some(mean), _) => Some(format!("{mean:.3}")),
        (true, Some(first), Some(last)) => Some(format!("{first:.3} → {last:.3}")),
        _ => None,
    };
    let rewards = if has_ends { "first to last ten steps" } else { "mean of all steps" };
    if let Some(reward) = of_steps(summary.reward_first_ten, summary.reward_last_ten) {
        text += &format!("  {:<35}{reward}\n", format!("reward, {rewards}"));
    }
    if let Some(evaluated) = summary.evaluated()
        && let Some(course) = course(&evaluated, summary.steps)
    {
        text += &format!("  {:<35}{course}\n", unseen(evaluated.quantity));
    }
    if let Some(lengths) = of_steps(summary.response_length_first_ten, summary.response_length_last_ten) {
        text += &format!("  response length in tokens          {lengths}\n");
    }
    if summary.benchmarks.iter().any(|benchmark| benchmark.name == AVERAGE) {
        let table = crate::columns::benchmarks(&summary.benchmarks);
        text += &table.lines().map(|line| format!("  {line}\n")).collect::<String>();
    }
    if let Some(left_out) = &summary.left_out {
        text += &format!("  answers left out                   {}\n", left_out.left_out.answers);
        text += &format!("    {}\n", left_out.sentence());
    }
    let answers = summary.left_out.map_or(0, |left_out| left_out.left_out.answers);
    if summary.invalid_samples > answers {
        let samples = summary.invalid_samples - answers;
        text += &format!("  samples left out, not sampled      {samples}\n");
    }
    if let Some(undecided) = &summary.undecided {
        text += &format!("  undecided verdicts                 {undecided}\n");
        if undecided.is_notable() {
            text += "    a share this large may bias training: see docs/math.md, \"Undecided\"\n";
        }
    }
    if let Some(weights) = &summary.weights {
        text += &format!("  engine weights                     {weights}\n");
    }
    if let Some(attention) = summary.versions.get(ATTENTION) {
        text += &format!("  attention                          {attention}\n");
    }
    if let Some(Heads { determined, whole }) = &summary.receipt {
        text += &format!("  head of the receipt                {determined}\n");
        text += &format!("    with what was observed           {whole}\n");
    }
    text += &format!("  report                             {}\n", path.join("report.html").display());
    if outcome == RunOutcome::Stopped {
        text += &format!("  continue with                      evenkeel resume {}\n", path.display());
    }
    text
}

/// What is known of problems that are never trained on.
fn unseen(quantity: Quantity) -> String {
    format!("{} on unseen problems", quantity.words())
}

/// From before the run to the last evaluation, which says where it is if that is not the end.
fn course(Evaluated { before, after, .. }: &Evaluated, steps: u64) -> Option<String> {
    let when = |step: u64| if step == steps { String::new() } else { format!(" (after {step} of {steps} steps)") };
    Some(match (before, after) {
        (Some(before), Some((after, step))) => format!("{before:.3} → {after:.3}{}", when(*step)),
        (None, Some((after, step))) => format!("{after:.3}{}", when(*step)),
        (Some(before), None) => format!("{before:.3} (before the first step)"),
        (None, None) => return None,
    })
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::{RunState, StepKind};
    use evenkeel_run::{Curves, MetricsLine, RunPlan, WrittenLines};

    use super::*;

    /// What is printed of a run of twelve steps with these evaluations: step, metric, value.
    fn printed(evaluations: &[(u64, &str, f64)]) -> String {
        let line = |(step, name, value): &(u64, &str, f64)| {
            let mut line = MetricsLine::new(StepKind::Evaluation, *step, *step);
            line.set_named(*name, *value);
            line
        };
        let evaluations: Vec<_> = evaluations.iter().map(line).collect();
        let steps: Vec<_> = (1..=12).map(|step| MetricsLine::new(StepKind::Train, step, step)).collect();
        let (steps, warm_start) = (Curves::of(&steps), Curves::default());
        let written = WrittenLines { steps: &steps, warm_start: &warm_start, evaluations: &evaluations };
        let versions = [(ATTENTION.to_owned(), "in blocks of queries: no cuDNN".to_owned())].into();
        let summary = Summary::of("a", RunPlan::default(), None, RunState::Stopped, &written, &versions);
        results(RunOutcome::Stopped, &summary, Path::new("runs/a"))
    }

    #[test]
    fn a_run_without_steps_has_no_lines_of_what_steps_tell() {
        let written = WrittenLines { steps: &Curves::default(), warm_start: &Curves::default(), evaluations: &[] };
        let versions = Default::default();
        let summary = Summary::of("a", RunPlan::default(), None, RunState::Completed, &written, &versions);
        let text = results(RunOutcome::Completed, &summary, Path::new("runs/a"));
        assert_eq!(text, "0 steps in 0 s\n  report                             runs/a/report.html\n");
    }

    #[test]
    fn samples_left_out_have_lines_whether_they_were_sampled_or_not() {
        let mut line = MetricsLine::new(StepKind::Train, 1, 1);
        for (name, value) in [("invalid_samples", 5.0), ("left_out/answers", 3.0), ("left_out/length_q4", 3.0)] {
            line.set_named(format!("rollout/{name}"), value);
        }
        let (steps, warm_start) = (Curves::of(&[line]), Curves::default());
        let written = WrittenLines { steps: &steps, warm_start: &warm_start, evaluations: &[] };
        let versions = Default::default();
        let summary = Summary::of("a", RunPlan::default(), None, RunState::Completed, &written, &versions);
        let text = results(RunOutcome::Completed, &summary, Path::new("runs/a"));
        assert!(text.contains("  answers left out                   3\n"), "{text}");
        assert!(text.contains("  samples left out, not sampled      2\n"), "{text}");
    }

    #[test]
    fn slow_attention_has_a_line() {
        let text = printed(&[]);
        assert!(text.contains("  attention                          in blocks of queries: no cuDNN\n"), "{text}");
    }

    #[test]
    fn a_stopped_run_says_what_was_evaluated_and_when() {
        const ACCURACY: &str = "val-core/sums/acc/mean@1";
        let text = printed(&[(0, ACCURACY, 0.5), (5, ACCURACY, 0.75), (10, ACCURACY, 0.875)]);
        assert!(text.contains("  accuracy on unseen problems        0.500 → 0.875 (after 10 of 12 steps)\n"), "{text}");
        let text = printed(&[(0, ACCURACY, 0.5), (12, ACCURACY, 0.875)]);
        assert!(text.contains("  accuracy on unseen problems        0.500 → 0.875\n"), "{text}");
        let text = printed(&[(0, ACCURACY, 0.5)]);
        assert!(text.contains("  accuracy on unseen problems        0.500 (before the first step)\n"), "{text}");
        assert!(!printed(&[]).contains("unseen"));
    }

    #[test]
    fn a_run_of_which_nobody_knows_what_is_correct_has_a_mean_reward_and_no_accuracy() {
        const REWARD: &str = "val-core/words/reward/mean@1";
        let text = printed(&[(0, REWARD, 0.5), (12, REWARD, 0.912)]);
        assert!(text.contains("  mean reward on unseen problems     0.500 → 0.912\n"), "{text}");
        assert!(!text.contains("accuracy"), "{text}");
    }
}
