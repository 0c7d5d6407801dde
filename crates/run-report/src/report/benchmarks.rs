//! Benchmarks: curves with their standard errors, and the table of peaks.

use evenkeel_charts::{Chart, Html, HtmlTable, Point, Series, Style};
use evenkeel_comparison::{PeakByChance, Score};
use evenkeel_run::at_k::AVERAGE;
use evenkeel_run::{BenchmarkSummary, BenchmarkValue, EvaluatedBenchmark, MetricsLine, Quantity, Summary};

use super::earlier::EarlierRun;
use crate::quantity::in_words;

/// The columns of best@k.
const BEST: [usize; 3] = [3, 5, 7];

/// A chart of mean@k and one of best@k of the accuracies, with a series for each benchmark; likewise of mean rewards.
pub(super) fn charts(evaluations: &[MetricsLine], earlier: Option<&EarlierRun>) -> Vec<Chart> {
    let mut all: Vec<_> = EvaluatedBenchmark::all(evaluations).into_iter().collect();
    all.sort_by_key(|found| !found.is_average);
    let with_quantity = |quantity| all.iter().filter(|found| found.quantity == quantity).copied().collect::<Vec<_>>();
    let accuracies = charts_of(Quantity::Accuracy, &with_quantity(Quantity::Accuracy), evaluations, earlier);
    accuracies
        .into_iter()
        .chain(charts_of(Quantity::Reward, &with_quantity(Quantity::Reward), evaluations, earlier))
        .collect()
}

fn charts_of(
    quantity: Quantity,
    benchmarks: &[EvaluatedBenchmark<'_>],
    evaluations: &[MetricsLine],
    earlier: Option<&EarlierRun>,
) -> Vec<Chart> {
    if benchmarks.is_empty() {
        return Vec::new();
    }
    let (title, mean, best, axis) = match quantity {
        Quantity::Accuracy => (
            "Held-out accuracy",
            "share of correct answers to problems that are never trained on, with its standard error over problems",
            "share of problems with a correct answer among those sampled, with its standard error over problems",
            "share of problems, 0 to 1",
        ),
        Quantity::Reward => (
            "Held-out mean reward",
            "mean reward of answers to problems that are never trained on, with its standard error over problems",
            "mean over problems of the highest reward among those sampled, with its standard error over problems",
            "raw reward",
        ),
    };
    let chart = |title: String, caption: &str, metric: &str| {
        let all = benchmarks.iter().map(|benchmark| series(evaluations, benchmark, metric));
        all.fold(Chart::new(title, caption).from(0.0).over("steps done").measured_in(axis), Chart::with)
    };
    let means = chart(format!("{title} (mean@k)"), mean, "mean");
    // An earlier run may have had other benchmarks, where there are several.
    let mut all = vec![EarlierRun::evaluated(earlier.filter(|_| benchmarks.len() == 1), means, quantity)];
    // With one sample it is the mean.
    if benchmarks.iter().any(|benchmark| benchmark.samples > 1) {
        all.push(chart("Best of k samples (best@k)".to_owned(), best, "best"));
    }
    all
}

fn series(evaluations: &[MetricsLine], benchmark: &EvaluatedBenchmark<'_>, metric: &str) -> Series {
    let point = |line: &MetricsLine| {
        let (value, error) = benchmark.value(line, metric)?;
        Some(Point::with_error(line.step as f64, value, error))
    };
    Series::new(benchmark.name, Style::ErrorBars, evaluations.iter().filter_map(point))
}

/// Peak and last values of each benchmark and the drop between them, with the part of peaks and drops that chance is
/// expected to make; best@k where a benchmark has several samples for a problem.
pub(super) fn table(summary: &Summary, evaluations: &[MetricsLine]) -> Html {
    let has_best = summary.benchmarks.iter().any(|benchmark| benchmark.samples > 1);
    let titles = [
        "benchmark",
        "k",
        "peak mean@k",
        "peak best@k",
        "last mean@k",
        "last best@k",
        "drop of mean@k",
        "drop of best@k",
    ];
    let shown = |cells: [String; 8]| {
        cells.into_iter().enumerate().filter(|(at, _)| has_best || !BEST.contains(at)).map(|(_, cell)| cell)
    };
    let mut table = HtmlTable::new(shown(titles.map(str::to_owned)));
    for benchmark in &summary.benchmarks {
        let BenchmarkSummary { name, samples, quantity, peak_mean, peak_best, last_mean, last_best } = benchmark;
        let found = EvaluatedBenchmark { is_average: name == AVERAGE, name, samples: *samples, quantity: *quantity };
        let mean = chance(evaluations, &found, "mean");
        let best = chance(evaluations, &found, "best");
        let words = |value: f64, error| in_words(*quantity, value, error);
        let cell = |value: &Option<BenchmarkValue>, with_step| cell(*quantity, value.as_ref(), with_step);
        let with_chance = |text: String, chance: Option<PeakByChance>| {
            let Some(PeakByChance { expected, is_bound }) = chance else { return text };
            format!("{text} [{}{}]", if is_bound { "≤ " } else { "" }, words(expected, None))
        };
        let drop = |peak: &Option<BenchmarkValue>, last: &Option<BenchmarkValue>| {
            peak.as_ref()
                .zip(last.as_ref())
                .map_or_else(|| "–".to_owned(), |(peak, last)| words(peak.value - last.value, None))
        };
        let name = if *quantity == Quantity::Reward { format!("{name}, {}", quantity.words()) } else { name.clone() };
        table.row(shown([
            name,
            samples.to_string(),
            with_chance(cell(peak_mean, true), mean),
            with_chance(cell(peak_best, true), best),
            cell(last_mean, false),
            cell(last_best, false),
            with_chance(drop(peak_mean, last_mean), mean),
            with_chance(drop(peak_best, last_best), best),
        ]));
    }
    if table.is_empty() {
        return Html::new();
    }
    let mut html = Html::element("h3", &[], "Benchmarks").with(table.to_html());
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

fn cell(quantity: Quantity, value: Option<&BenchmarkValue>, with_step: bool) -> String {
    let Some(BenchmarkValue { step, value, standard_error }) = value else { return "–".to_owned() };
    let text = in_words(quantity, *value, *standard_error);
    if with_step { format!("{text} at {step}") } else { text }
}

/// What chance is expected to make of a peak over these evaluations. Absent with a single one, and where the noise of
/// one is unknown.
fn chance(evaluations: &[MetricsLine], benchmark: &EvaluatedBenchmark<'_>, metric: &str) -> Option<PeakByChance> {
    let score = |line: &MetricsLine| {
        let (value, standard_error) = benchmark.value(line, metric)?;
        Some(Score { value, sampling_error: line.get(&benchmark.about(metric, "sampling_error")), standard_error })
    };
    let scores: Vec<Score> = evaluations.iter().filter_map(score).collect();
    if scores.len() < 2 { None } else { PeakByChance::of(scores) }
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::{RunState, StepKind};
    use evenkeel_run::{Curves, RunPlan, WrittenLines, at_k};

    use super::*;

    #[test]
    fn every_benchmark_has_a_curve_and_points_without_an_error_have_none() {
        let line = |step: u64, error: Option<f64>| {
            let mut line = MetricsLine::new(StepKind::Evaluation, step, step);
            for name in ["average", "aime"] {
                line.set_named(at_k::core(name, Quantity::Accuracy, "mean@8"), 0.5);
                line.set_named(at_k::about(name, Quantity::Accuracy, "mean@8", "standard_error"), error);
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
            line.set_named(at_k::core("aime", Quantity::Accuracy, "mean@8"), 0.5 + if step == 10 { 0.03 } else { 0.0 });
            line.set_named(at_k::aux("aime", "acc/mean@8/sampling_error"), 0.01);
            line.set_named(at_k::core("aime", Quantity::Accuracy, "best@8"), 0.75);
            line.set_named(at_k::about("aime", Quantity::Accuracy, "best@8", "standard_error"), 0.01);
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
    fn with_one_sample_there_is_no_column_of_best_and_a_mean_reward_says_that_it_is_one() {
        let line = |step: u64| {
            let mut line = MetricsLine::new(StepKind::Evaluation, step, step);
            line.set_named(at_k::core("words", Quantity::Reward, "mean@1"), 0.5 + step as f64 / 50.0);
            line
        };
        let lines = [line(0), line(20)];
        let steps = Curves::default();
        let written = WrittenLines { steps: &steps, warm_start: &steps, evaluations: &lines };
        let summary = Summary::of("a", RunPlan::default(), None, RunState::Completed, &written, &Default::default());
        let html = table(&summary, &lines).into_string();
        assert!(
            !html.contains("best@k") && html.contains("<td>words, mean reward</td><td>1</td><td>0.9 at 20"),
            "{html}"
        );
        let titles: Vec<_> = charts(&lines, None).iter().map(|chart| chart.title().to_owned()).collect();
        assert_eq!(titles, ["Held-out mean reward (mean@k)"]);
    }

    #[test]
    fn a_value_is_a_percentage_with_its_error_and_step() {
        let value = BenchmarkValue { step: 40, value: 0.1234, standard_error: Some(0.02) };
        assert_eq!(cell(Quantity::Accuracy, Some(&value), true), "12.3 ± 2.0 % at 40");
        assert_eq!(cell(Quantity::Accuracy, Some(&value), false), "12.3 ± 2.0 %");
        assert_eq!(cell(Quantity::Reward, Some(&value), false), "0.123 ± 0.02");
        assert_eq!(cell(Quantity::Accuracy, None, true), "–");
    }
}
