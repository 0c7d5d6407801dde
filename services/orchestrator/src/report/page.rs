//! The page around the charts.

use std::fmt::Write;

use super::benchmarks;
use super::html::escape;
use super::panels::charts;
use super::scale::{duration, number};
use crate::directory::ForkPoint;
use crate::metrics::MetricsLine;
use crate::summary::Summary;

/// Rows of the table of steps.
const ROWS: usize = 12;

/// The whole page.
pub(crate) fn page(
    summary: &Summary,
    config: &str,
    metrics: &[MetricsLine],
    warm_start: &[MetricsLine],
    evaluations: &[MetricsLine],
) -> String {
    let run = escape(&summary.run_id);
    let mut figures = String::new();
    for chart in charts(metrics, warm_start, evaluations) {
        figures.push_str(&chart.to_html());
    }
    if figures.is_empty() {
        figures.push_str("<p class=\"soft\">No step is done yet.</p>");
    }
    let versions = summary.versions.iter().map(|(name, version)| format!("{name} {version}"));
    let versions = escape(&versions.collect::<Vec<_>>().join(" · "));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{run} · Evenkeel</title>\n\
         <style>\n{}</style>\n</head>\n<body>\n<main>\n<p class=\"soft\">Evenkeel · training run</p>\n<h1>{run}</h1>\n\
         <p class=\"lead\">{}</p>\n<div class=\"tiles\">{}</div>\n<h2>Curves</h2>\n<div class=\"charts\">\n{figures}</div>\n\
         {}<h2>Settings</h2>\n<details><summary>config.toml</summary><pre>{}</pre></details>\n\
         <footer>Seed {}. {versions}</footer>\n</main>\n</body>\n</html>\n",
        include_str!("style.css"),
        lead(summary),
        tiles(summary),
        benchmarks::table(summary) + &table(metrics),
        escape(config),
        summary.seed,
    )
}

/// The result, in a sentence or two.
fn lead(summary: &Summary) -> String {
    let mut text = match summary.state.as_str() {
        "completed" => format!("All {} steps are done.", summary.steps),
        "failed" => format!(
            "The run ended with an error after {} of {} steps; it can be resumed.",
            summary.steps, summary.total_steps
        ),
        "stopped" => {
            format!("The run was stopped after {} of {} steps; it can be resumed.", summary.steps, summary.total_steps)
        }
        _ => format!("The run is active; {} of {} steps are done.", summary.steps, summary.total_steps),
    };
    if let Some(ForkPoint { run_id, step, changed, .. }) = &summary.forked_from {
        let _ = write!(text, " It was forked from run {} after step {step}", escape(run_id));
        match changed.is_empty() {
            true => text.push_str(" with the same settings."),
            false => {
                let _ = write!(text, " with other settings: {}.", escape(&changed.join("; ")));
            }
        }
    }
    if let (Some(first), Some(last)) = (summary.reward_first_ten, summary.reward_last_ten)
        && summary.steps >= 20
    {
        let _ = write!(
            text,
            " Mean reward went from {} in the first ten steps to {} in the last ten.",
            number(first),
            number(last)
        );
    }
    if let (Some(before), Some(after)) = (summary.accuracy_before, summary.accuracy_after) {
        let problems = summary.evaluated_problems.unwrap_or_default();
        let _ = write!(
            text,
            " On {problems} problems it never trained on, accuracy went from {} to {}.",
            percent(before),
            percent(after)
        );
    }
    if let Some(aggregation) = &summary.aggregation {
        let _ = write!(text, " Token terms were summed by <b>{}</b> aggregation.", escape(aggregation));
    }
    text
}

fn tiles(summary: &Summary) -> String {
    let change = |before: Option<f64>, after: Option<f64>, show: fn(f64) -> String| match (before, after) {
        (Some(before), Some(after)) => format!("<i>{} →</i> {}", show(before), show(after)),
        (Some(only), None) | (None, Some(only)) => show(only),
        (None, None) => "–".to_owned(),
    };
    let seconds = &summary.seconds;
    let tiles = [
        ("Reward, first to last ten", change(summary.reward_first_ten, summary.reward_last_ten, number)),
        ("Accuracy, unseen problems", change(summary.accuracy_before, summary.accuracy_after, percent)),
        (
            "Response length, tokens",
            change(summary.response_length_first_ten, summary.response_length_last_ten, number),
        ),
        ("Steps", format!("{} <i>of {}</i>", summary.steps, summary.total_steps)),
        ("Tokens", thousands(summary.tokens)),
        ("Time", duration(seconds.total)),
    ];
    let left_out = [("Samples left out", summary.invalid_samples.to_string())];
    let left_out = left_out.iter().filter(|_| summary.invalid_samples > 0);
    tiles
        .iter()
        .chain(left_out)
        .map(|(name, value)| format!("<div class=\"tile\"><span>{name}</span><b>{value}</b></div>"))
        .collect()
}

/// Evenly spaced steps, including the first and the last.
fn table(metrics: &[MetricsLine]) -> String {
    const COLUMNS: [(&str, &str); 8] = [
        ("reward", "critic/score/mean"),
        ("length", "response_length/mean"),
        ("length gap", "aggregation/length_gap"),
        ("entropy", "actor/entropy"),
        ("gradient norm", "actor/grad_norm"),
        ("clipped", "actor/pg_clipfrac"),
        ("seconds", "timing_s/step"),
        ("tokens/s", "perf/throughput"),
    ];
    if metrics.is_empty() {
        return String::new();
    }
    let mut html = "<h2>Steps</h2>\n<div class=\"scroll\"><table><thead><tr><th>step</th>".to_owned();
    for (title, _) in COLUMNS {
        let _ = write!(html, "<th>{title}</th>");
    }
    html.push_str("</tr></thead><tbody>\n");
    let rows = metrics.len().min(ROWS);
    for row in 0..rows {
        let line = &metrics[row * (metrics.len() - 1) / (rows - 1).max(1)];
        let _ = write!(html, "<tr><td>{}</td>", line.step + 1);
        for (_, name) in COLUMNS {
            let _ = write!(html, "<td>{}</td>", line.get(name).map_or_else(|| "–".to_owned(), number));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
    html
}

fn percent(value: f64) -> String {
    format!("{:.1} %", value * 100.0)
}

fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            // A narrow space that does not break.
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::{RunState, StepKind};

    use super::*;
    use crate::settings::LoopSettings;
    use crate::summary::WrittenLines;

    #[test]
    fn a_page_is_self_contained_and_escapes_its_input() {
        let settings = LoopSettings::default();
        let config = format!(
            "note = \"</pre><script>alert(1)</script>\"
{}",
            toml::to_string(&settings).unwrap()
        );
        for count in [0, 1, 25] {
            let metrics: Vec<MetricsLine> = (0..count)
                .map(|step| {
                    let mut line = MetricsLine::new(StepKind::Train, step, step);
                    line.set("critic/score/mean", step as f64 / 25.0);
                    line
                })
                .collect();
            let written = WrittenLines { steps: &metrics, warm_start: &[], evaluations: &[] };
            let summary =
                Summary::of("a<b", &settings, Some("balanced"), RunState::Stopped, &written, &Default::default());
            let html = page(&summary, &config, &metrics, &[], &[]);
            assert!(!html.contains("<script") && !html.contains("http") && !html.contains("a<b"), "{count}");
            assert_eq!(html.matches("<figure>").count(), usize::from(count > 0));
        }
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!([7, 1234, 1_234_567].map(thousands), ["7", "1\u{202f}234", "1\u{202f}234\u{202f}567"]);
    }
}
