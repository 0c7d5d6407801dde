//! Benchmarks: curves with their standard errors, and the table of peaks.

use evenkeel_charts::{Chart, Html, HtmlTable, Point, Series, Style, percent};
use evenkeel_comparison::{PeakByChance, Score};
use evenkeel_run::{BenchmarkSummary, BenchmarkValue, MetricsLine, Summary, at_k, benchmark_names};

use super::earlier::EarlierRun;

/// A chart of mean@k and one of best@k, with a series for each benchmark.
pub(super) fn charts(evaluations: &[MetricsLine], earlier: Option<&EarlierRun>) -> Vec<Chart> {
    let names = benchmark_names(evaluations);
    let chart = |title: &str, caption: &str, metric: &str| {
        let all = names.iter().map(|(name, k)| series(evaluations, name, *k, metric));
        let chart = Chart::new(title, caption).from(0.0).over("steps done").measured_in("share of problems, 0 to 1");
        all.fold(chart, Chart::with)
    };
    let mean = "share of right answers to problems that are never trained on, with its standard error over problems";
    let best = "share of problems with a right answer among those sampled, with its standard error over problems";
    let accuracies = chart("Held-out accuracy (mean@k)", mean, "mean");
    // Of several benchmarks the earlier run may have had others.
    let mut all = vec![EarlierRun::accuracies(earlier.filter(|_| names.len() == 1), accuracies)];
    // With one sample it is the accuracy.
    if names.iter().any(|(_, k)| *k > 1) {
        all.push(chart("Best of k samples (best@k)", best, "best"));
    }
    all
}

fn series(evaluations: &[MetricsLine], name: &str, k: u32, metric: &str) -> Series {
    let metric = format!("{metric}@{k}");
    let core = at_k::core(name, &metric);
    let error = at_k::standard_error(name, &metric);
    let point = |line: &MetricsLine| Some(Point::with_error(line.step as f64, line.get(&core)?, line.get(&error)));
    Series::new(name, Style::ErrorBars, evaluations.iter().filter_map(point))
}

/// Peak and last accuracies of each benchmark and the drop between them, with the part of peaks and drops that chance
/// is expected to make.
pub(super) fn table(summary: &Summary, evaluations: &[MetricsLine]) -> Html {
    let mut table = HtmlTable::new([
        "benchmark",
        "k",
        "peak mean@k",
        "peak best@k",
        "last mean@k",
        "last best@k",
        "drop of mean@k",
        "drop of best@k",
    ]);
    for BenchmarkSummary { name, samples, peak_mean, peak_best, last_mean, last_best } in &summary.benchmarks {
        let chance = |metric: &str| chance(evaluations, name, &format!("{metric}@{samples}"));
        let mean = chance("mean");
        let best = chance("best");
        let cells = [
            with_chance(cell(peak_mean.as_ref(), true), mean),
            with_chance(cell(peak_best.as_ref(), true), best),
            cell(last_mean.as_ref(), false),
            cell(last_best.as_ref(), false),
            with_chance(drop(peak_mean.as_ref(), last_mean.as_ref()), mean),
            with_chance(drop(peak_best.as_ref(), last_best.as_ref()), best),
        ];
        table.row([name.clone(), samples.to_string()].into_iter().chain(cells));
    }
    if table.is_empty() {
        return Html::new();
    }
    let mut html = Html::element("h3", &[], "Benchmarks").with(table.to_html());
    if summary.benchmarks.iter().all(|benchmark| benchmark.samples < 2) {
        html.push(Html::element("p", &[("class", "soft")], "best@k is not shown: k = 1."));
    }
    if evaluations.len() > 1 {
        let text = format!(
            "In brackets: the peak or drop that the noise of {} evaluations alone would produce. ≤ where only the \
             standard error over problems is known, which is larger than the noise of repeated sampling.",
            evaluations.len()
        );
        html.push(Html::element("p", &[("class", "soft")], text));
    }
    html
}

/// What chance is expected to make of a peak over these evaluations. Absent with a single one, and where the noise of
/// one is unknown.
fn chance(evaluations: &[MetricsLine], benchmark: &str, metric: &str) -> Option<PeakByChance> {
    let score = |line: &MetricsLine| {
        let value = line.get(&at_k::core(benchmark, metric))?;
        let aux = |what: &str| line.get(&at_k::aux(benchmark, &format!("acc/{metric}/{what}")));
        Some(Score { value, sampling_error: aux("sampling_error"), standard_error: aux("standard_error") })
    };
    let scores: Vec<Score> = evaluations.iter().filter_map(score).collect();
    if scores.len() < 2 { None } else { PeakByChance::of(scores) }
}

fn with_chance(text: String, chance: Option<PeakByChance>) -> String {
    let Some(PeakByChance { expected, is_bound }) = chance else { return text };
    format!("{text} [{}{}]", if is_bound { "≤ " } else { "" }, percent(expected, None))
}

fn drop(peak: Option<&BenchmarkValue>, last: Option<&BenchmarkValue>) -> String {
    peak.zip(last).map_or_else(|| "–".to_owned(), |(peak, last)| percent(peak.value - last.value, None))
}

fn cell(value: Option<&BenchmarkValue>, with_step: bool) -> String {
    let Some(BenchmarkValue { step, value, standard_error }) = value else { return "–".to_owned() };
    let text = percent(*value, *standard_error);
    if with_step { format!("{text} at {step}") } else { text }
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::{RunState, StepKind};
    use evenkeel_run::{Curves, RunPlan, WrittenLines};

    use super::*;

    #[test]
    fn every_benchmark_has_a_curve_and_points_without_an_error_have_none() {
        let line = |step: u64, error: Option<f64>| {
            let mut line = MetricsLine::new(StepKind::Evaluation, step, step);
            for name in ["average", "aime"] {
                line.set_named(at_k::core(name, "mean@8"), 0.5);
                line.set_named(at_k::standard_error(name, "mean@8"), error);
            }
            line
        };
        let all = charts(&[line(0, None), line(20, Some(0.25))], None);
        let [mean, best] = all.as_slice() else { panic!("two charts, since k is 8") };
        assert!(best.is_empty());
        let csv = "steps done,average,average low,average high,aime,aime low,aime high\n0,0.5,,,0.5,,\n\
                   20,0.5,0.25,0.75,0.5,0.25,0.75\n";
        assert_eq!(mean.to_csv(), csv);
    }

    /// 25 evaluations of a standard error of 0.01: two points of chance, as docs/statistics.md has it.
    #[test]
    fn peaks_and_drops_stand_beside_what_chance_makes_of_them() {
        let line = |step: u64| {
            let mut line = MetricsLine::new(StepKind::Evaluation, step, step);
            line.set_named(at_k::core("aime", "mean@8"), 0.5 + if step == 10 { 0.03 } else { 0.0 });
            line.set_named(at_k::aux("aime", "acc/mean@8/sampling_error"), 0.01);
            line.set_named(at_k::core("aime", "best@8"), 0.75);
            line.set_named(at_k::standard_error("aime", "best@8"), 0.01);
            line
        };
        let lines: Vec<MetricsLine> = (0..25).map(line).collect();
        let steps = Curves::default();
        let written = WrittenLines { steps: &steps, warm_start: &steps, evaluations: &lines };
        let summary = Summary::of("a", RunPlan::default(), None, RunState::Completed, &written, &Default::default());
        let html = table(&summary, &lines).into_string();
        assert!(html.contains("<td>53.0 % at 10 [2.0 %]</td>") && html.contains("<td>3.0 % [2.0 %]</td>"), "{html}");
        assert!(html.contains("[≤ 2.0 %]") && html.contains("the noise of 25 evaluations alone"), "{html}");
        assert!(!table(&summary, &lines[..1]).into_string().contains('['));
    }

    #[test]
    fn a_value_is_a_percentage_with_its_error_and_step() {
        let value = BenchmarkValue { step: 40, value: 0.1234, standard_error: Some(0.02) };
        assert_eq!(cell(Some(&value), true), "12.3 ± 2.0 % at 40");
        assert_eq!((cell(Some(&value), false).as_str(), cell(None, true).as_str()), ("12.3 ± 2.0 %", "–"));
    }
}
