//! Benchmarks: curves with their standard errors, and the table of peaks.

use evenkeel_report::{Chart, Html, Point, Series, Style, Table, percent};

use crate::metrics::{MetricsLine, at_k};
use crate::summary::{BenchmarkSummary, BenchmarkValue, Summary, benchmark_names};

/// A chart of mean@k and one of best@k, with a series for each benchmark.
pub(super) fn charts(evaluations: &[MetricsLine]) -> [Chart; 2] {
    let names = benchmark_names(evaluations);
    let chart = |title: &str, caption: &str, metric: &str| {
        let all = names.iter().map(|(name, k)| series(evaluations, name, *k, metric));
        all.fold(Chart::new(title, caption).from(0.0), Chart::with)
    };
    let mean = "share of right answers to problems that are never trained on, with its standard error over problems";
    let best = "share of problems with a right answer among those sampled, with its standard error over problems";
    [chart("Accuracy (mean@k)", mean, "mean"), chart("Best of k samples (best@k)", best, "best")]
}

fn series(evaluations: &[MetricsLine], name: &str, k: u32, metric: &str) -> Series {
    let metric = format!("{metric}@{k}");
    let (core, error) = (at_k::core(name, &metric), at_k::standard_error(name, &metric));
    let point = |line: &MetricsLine| Some(Point::with_error(line.step as f64, line.get(&core)?, line.get(&error)));
    Series::new(name, Style::ErrorBars, evaluations.iter().filter_map(point))
}

/// Peak and last accuracies of each benchmark.
pub(super) fn table(summary: &Summary, evaluations: usize) -> Html {
    let mut table = Table::new(["benchmark", "k", "peak acc@k", "peak best@k", "last acc@k", "last best@k"]);
    for BenchmarkSummary { name, samples, peak_mean, peak_best, last_mean, last_best } in &summary.benchmarks {
        let values = [(peak_mean, true), (peak_best, true), (last_mean, false), (last_best, false)];
        let values = values.map(|(value, with_step)| cell(value.as_ref(), with_step));
        table.row([name.clone(), samples.to_string()].into_iter().chain(values));
    }
    if table.is_empty() {
        return Html::new();
    }
    let mut html = Html::element("h3", &[], "Benchmarks").with(table.to_html());
    if evaluations > 1 {
        let text = "A peak is the highest of noisy values, and is above what the run can do by chance alone: more so the more \
                    evaluations it is taken from and the larger their standard errors. Compare it with ± one standard error.";
        html.push(Html::element("p", &[("class", "soft")], format!("{text} Here it is the highest of {evaluations}.")));
    }
    html
}

fn cell(value: Option<&BenchmarkValue>, with_step: bool) -> String {
    let Some(BenchmarkValue { step, value, standard_error }) = value else { return "–".to_owned() };
    let text = percent(*value, *standard_error);
    if with_step { format!("{text} at {step}") } else { text }
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
        let [mean, best] = charts(&[line(0, None), line(20, Some(0.25))]);
        assert!(best.is_empty());
        let csv = "step,average,average low,average high,aime,aime low,aime high\n0,0.5,,,0.5,,\n\
                   20,0.5,0.25,0.75,0.5,0.25,0.75\n";
        assert_eq!(mean.to_csv(), csv);
    }

    #[test]
    fn a_value_is_a_percentage_with_its_error_and_step() {
        let value = BenchmarkValue { step: 40, value: 0.1234, standard_error: Some(0.02) };
        assert_eq!(cell(Some(&value), true), "12.3 ± 2.0 % at 40");
        assert_eq!((cell(Some(&value), false).as_str(), cell(None, true).as_str()), ("12.3 ± 2.0 %", "–"));
    }
}
