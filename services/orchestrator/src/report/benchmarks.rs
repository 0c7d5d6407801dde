//! Benchmarks in the report: curves with their standard errors, and the table of peaks.

use std::fmt::Write;

use super::chart::{Chart, Series, Style};
use super::html::escape;
use crate::metrics::{MetricsLine, at_k};
use crate::summary::{BenchmarkSummary, BenchmarkValue, Summary, benchmark_names};

/// Colours of the page.
const COLOURS: usize = 8;

/// A chart of mean@k and one of best@k, with a series for each benchmark.
pub(super) fn charts(evaluations: &[MetricsLine]) -> Vec<Chart> {
    let names = benchmark_names(evaluations);
    let chart = |title, caption, metric: &str| {
        let series =
            (0..).zip(&names).map(|(index, (name, k)): (usize, _)| series(evaluations, name, *k, metric, index));
        let series = series.filter(|series| !series.points.is_empty()).collect();
        Chart { title, caption, series, floor: Some(0.0), ceiling: None, x_label: "step" }
    };
    let mean = "share of right answers to problems that are never trained on, with its standard error over problems";
    let best = "share of problems with a right answer among those sampled, with its standard error over problems";
    vec![chart("Accuracy (mean@k)", mean, "mean"), chart("Best of k samples (best@k)", best, "best")]
}

fn series(evaluations: &[MetricsLine], name: &str, k: u32, metric: &str, index: usize) -> Series {
    let metric = format!("{metric}@{k}");
    let (core, error) = (at_k::core(name, &metric), at_k::standard_error(name, &metric));
    let found = evaluations.iter().filter_map(|line| Some(((line.step as f64, line.get(&core)?), line.get(&error))));
    let (points, errors) = found.unzip();
    let colour = (index % COLOURS) as u8 + 1;
    Series { label: name.to_owned().into(), colour, style: Style::WithErrors, points, errors }
}

/// Peak and last accuracies of each benchmark.
pub(super) fn table(summary: &Summary) -> String {
    if summary.benchmarks.is_empty() {
        return String::new();
    }
    let mut html =
        "<h2>Benchmarks</h2>\n<div class=\"scroll\"><table><thead><tr><th>benchmark</th><th>k</th><th>peak acc@k</th>\
                    <th>peak best@k</th><th>last acc@k</th><th>last best@k</th></tr></thead><tbody>\n"
            .to_owned();
    for BenchmarkSummary { name, samples, peak_mean, peak_best, last_mean, last_best } in &summary.benchmarks {
        let _ = write!(html, "<tr><td>{}</td><td>{samples}</td>", escape(name));
        for (value, with_step) in [(peak_mean, true), (peak_best, true), (last_mean, false), (last_best, false)] {
            let _ = write!(html, "<td>{}</td>", cell(value.as_ref(), with_step));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
    html
}

fn cell(value: Option<&BenchmarkValue>, with_step: bool) -> String {
    let Some(BenchmarkValue { step, value, standard_error }) = value else { return "–".to_owned() };
    let mut text = format!("{:.1}", 100.0 * value);
    if let Some(error) = standard_error {
        let _ = write!(text, " ± {:.1}", 100.0 * error);
    }
    if with_step {
        let _ = write!(text, " at {step}");
    }
    text
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::StepKind;

    use super::*;

    #[test]
    fn every_benchmark_has_a_curve_and_points_without_an_error_have_none() {
        let line = |step: u64, error: Option<f64>| {
            let mut line = MetricsLine::new(StepKind::Evaluation, step, step);
            for name in ["average", "aime"] {
                line.set(at_k::core(name, "mean@8"), 0.5);
                line.set(at_k::standard_error(name, "mean@8"), error);
            }
            line
        };
        let charts = charts(&[line(0, None), line(20, Some(0.1))]);
        let [mean, best] = &charts[..] else { panic!("two charts") };
        assert!(best.is_empty());
        let labels: Vec<_> = mean.series.iter().map(|series| (&*series.label, series.errors.clone())).collect();
        assert_eq!(labels, [("average", vec![None, Some(0.1)]), ("aime", vec![None, Some(0.1)])]);
    }

    #[test]
    fn a_value_is_a_percentage_with_its_error_and_step() {
        let value = BenchmarkValue { step: 40, value: 0.1234, standard_error: Some(0.02) };
        assert_eq!(cell(Some(&value), true), "12.3 ± 2.0 at 40");
        assert_eq!((cell(Some(&value), false).as_str(), cell(None, true).as_str()), ("12.3 ± 2.0", "–"));
    }
}
