//! Where the time of a run went, by service.

use evenkeel_charts::{Bar, Bars, Chart, Html, HtmlTable, Series, Style, duration, figures, percent};
use evenkeel_run::{Curves, Summary};

use super::charts::points;

/// Consecutive parts of a step: the service that a step waits for, and the metric.
const PARTS: [(&str, &str); 5] = [
    ("generation", "timing_s/gen"),
    ("reward", "timing_s/reward"),
    ("learner", "timing_s/update_actor"),
    ("new weights", "timing_s/update_weights"),
    ("proof of weights", "timing_s/proof"),
];

pub(super) fn section(summary: &Summary, steps: &Curves) -> Html {
    let seconds = &summary.seconds;
    let mut html = Html::new();
    let total = steps.sum("timing_s/step");
    if !steps.is_empty() && total > 0.0 {
        let parts = PARTS.map(|(label, name)| (label, steps.sum(name)));
        // Training overlaps with generation, so that the learner's part is only what is left of it.
        let other = total - parts.iter().map(|(_, seconds)| seconds).sum::<f64>();
        let count = steps.count() as f64;
        let parts = parts.into_iter().chain([("other", other.max(0.0))]).filter(|(_, seconds)| *seconds > 0.0);
        let bar = |(index, (label, seconds)): (usize, (&str, f64))| {
            let text = format!("{} · {}", duration(seconds / count), percent(seconds / total, None));
            Bar::new(label, seconds / count).written(text).coloured(index + 1)
        };
        let caption = "mean over all steps: what a step waits for, one after the other. Verification and training \
                       overlap with generation; only what they take beyond it counts here";
        let mean = Bars::new("Time of a step by service", caption, parts.enumerate().map(bar));
        let chart = Chart::new("Seconds of a step", "the same parts over steps").from(0.0).measured_in("seconds");
        let line = |(label, name): (&str, &str)| Series::new(label, Style::Line, points(steps, name));
        html.push(figures([mean.into(), PARTS.map(line).into_iter().fold(chart, Chart::with).into()]));
    }
    let mut table = HtmlTable::new(["phase", "time", "share"]);
    for (name, part) in [("steps", total), ("warm start", seconds.warm_start), ("evaluations", seconds.evaluation)] {
        if part > 0.0 {
            table.row([name.to_owned(), duration(part), percent(part / seconds.total, None)]);
        }
    }
    html.with(table.to_html())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{lines, summary};
    use super::*;

    #[test]
    fn the_parts_of_a_step_add_up_to_it() {
        let steps = Curves::of(&lines(4, |line| {
            line.set_named("timing_s/gen", 2.0);
            line.set_named("timing_s/update_actor", 1.0 + (line.step - 1) as f64);
            line.set_named("timing_s/step", 4.0 + (line.step - 1) as f64);
        }));
        let html = section(&summary(&steps), &steps).into_string();
        assert!(
            html.contains("2.0 s · 36.4 %") && html.contains("2.5 s · 45.5 %") && html.contains("1.0 s · 18.2 %"),
            "{html}"
        );
        assert!(section(&summary(&Curves::default()), &Curves::default()).is_empty());
    }
}
