//! What each aggregation rule would have made of the same answers, and where the run is in the plane of the paper's
//! criterion.

use std::collections::BTreeMap;

use evenkeel_charts::{Bar, Bars, Chart, Figure, Html, Plane, Point, Series, Style, Trajectory, figures, number};
use evenkeel_comparison::PlanePoint;
use evenkeel_run::{Curves, ENDS, Summary};

use super::charts::{lengths, points};
use super::legend::{colour, labelled, rules};
use super::{probe, rule_profiles};

/// A loss below it is 0 but for rounding.
const ROUNDING: f64 = 1e-9;
/// A relative change of a mean below it counts as no change in what the criterion expects.
const CHANGE: f64 = 0.1;

const VARIATION: &str = "aggregation/length_cv";
const GAP: &str = "aggregation/length_gap";
const LENGTH: &str = "response_length/mean";

/// The loss of each rule at each step, on the answers of that step and before any update: minus the sum of weight times
/// advantage.
type Losses<'a> = BTreeMap<&'a str, Vec<Point>>;

pub(super) fn section(summary: &Summary, steps: &Curves) -> Html {
    if steps.is_empty() {
        return Html::new();
    }
    let losses = losses(steps);
    let used = summary.aggregation.as_deref();
    let mut html = Html::new();
    if !losses.is_empty() {
        html.push(Html::paragraph(introduction(&losses, used)));
    }
    let mut all: Vec<Figure> = vec![loss_chart(&losses, used, steps).into(), distances(&losses, used).into()];
    all.push(plane(&summary.run_id, steps).into());
    let [_, gap, variation] = lengths(steps, None);
    all.extend([gap, variation]);
    html.push(figures(all));
    html.push(rule_profiles::section(used, steps)).push(probe::section(used, steps));
    if let Some(text) = criterion(steps) {
        let summary = Html::element("summary", &[], "What the paper's criterion expects");
        html.push(Html::element("details", &[("data-key", "criterion")], summary.with(Html::paragraph(text))));
    }
    html
}

fn losses(steps: &Curves) -> Losses<'_> {
    let mut all = Losses::new();
    for rule in rules(steps) {
        let positive = steps.column(&format!("aggregation/{rule}/pull_positive"));
        let negative = steps.column(&format!("aggregation/{rule}/pull_negative"));
        let pairs = positive.iter().zip(negative).filter(|(positive, negative)| positive.0 == negative.0);
        let points = pairs.map(|((step, positive), (_, negative))| Point::new(*step as f64, negative - positive));
        all.insert(rule, points.collect());
    }
    all
}

fn is_zero(points: &[Point]) -> bool {
    points.iter().all(|point| point.y.abs() < ROUNDING)
}

fn introduction(losses: &Losses<'_>, used: Option<&str>) -> String {
    let zero: Vec<&str> = losses.iter().filter(|(_, points)| is_zero(points)).map(|(rule, _)| *rule).collect();
    let mut text = match used {
        Some(rule) => format!("This run was trained with {rule}. "),
        None => String::new(),
    };
    text.push_str(
        "The other rules were computed on the very same answers, before any update: each gives the terms of an answer \
         another weight. Where answers with a negative advantage are longer than those with a positive one, a rule \
         that weighs tokens equally pulls more towards the negative side, and its loss is above 0.",
    );
    if !zero.is_empty() {
        text.push_str(&format!(
            " The loss is 0 at every step under {}: both sides pull equally there, so they are not drawn.",
            zero.join(", ")
        ));
    }
    text
}

/// The loss as it was, and as each rule would have made it.
fn loss_chart(losses: &Losses<'_>, used: Option<&str>, steps: &Curves) -> Chart {
    let mut chart = Chart::new(
        "Loss on the same answers",
        "loss of a step's answers under each rule before the first update, compared with the loss that the \
         learner reported (over all updates of the step); bold: centred mean of five steps",
    )
    .measured_in("loss");
    for (rule, points) in losses.iter().filter(|(_, points)| !is_zero(points)) {
        chart = chart
            .with(Series::new(labelled(rule, used), Style::Averaged, points.iter().copied()).coloured(colour(rule)));
    }
    let reported: Vec<Point> = points(steps, "actor/pg_loss").collect();
    // With one update a step it is the loss of the rule in use.
    let same = used.and_then(|rule| losses.get(rule)).is_some_and(|points| {
        points.len() == reported.len()
            && points.iter().zip(&reported).all(|(a, b)| (a.y - b.y).abs() <= 1e-4 * a.y.abs().max(1e-3))
    });
    if same || (is_zero(&reported) && chart_has(losses)) {
        return chart;
    }
    chart.with(Series::new("reported", Style::Averaged, reported).coloured(8))
}

fn chart_has(losses: &Losses<'_>) -> bool {
    losses.values().any(|points| !is_zero(points))
}

/// How far from 0 the loss of each rule is on average.
fn distances(losses: &Losses<'_>, used: Option<&str>) -> Bars {
    let bars = losses.iter().map(|(rule, points)| {
        let mean = points.iter().map(|point| point.y.abs()).sum::<f64>() / points.len().max(1) as f64;
        Bar::new(labelled(rule, used), if mean < ROUNDING { 0.0 } else { mean }).coloured(colour(rule))
    });
    let caption = "mean distance of that loss from 0 over all steps: how unequally a rule lets its two sides pull";
    Bars::new("Imbalance by rule", caption, bars)
}

/// The run's course through the plane of the criterion.
fn plane(run: &str, steps: &Curves) -> Plane {
    let gaps = steps.column(GAP).iter();
    let points = gaps.filter_map(|(step, gap)| Some((*step as f64, steps.at(VARIATION, *step)?, *gap)));
    let caption = "length variation within groups and how many tokens longer answers with a negative advantage are: \
                   the two quantities of the paper's criterion (arXiv 2605.04077), from the first step (ring) to the \
                   last (dot)";
    Plane::new("Length variation and length gap", caption, "length variation", "length gap, tokens")
        .with(Trajectory::new(run, points))
}

/// What the paper's criterion says about this course, in words.
fn criterion(steps: &Curves) -> Option<String> {
    let cv0 = steps.first(VARIATION, ENDS)?;
    let cv1 = steps.last(VARIATION, ENDS)?;
    let gap0 = steps.first(GAP, ENDS)?;
    let gap1 = steps.last(GAP, ENDS)?;
    let length = steps.last(LENGTH, ENDS);
    let change = |from: f64, to: f64| match (to - from) / from.abs().max(1e-12) {
        change if change > CHANGE => 1,
        change if change < -CHANGE => -1,
        _ => 0,
    };
    let share = length.filter(|length| *length > 0.0);
    let share = share.map_or(String::new(), |length| format!(" ({:.0} % of a mean answer)", 100.0 * gap1 / length));
    let plane_point = |cv: f64, gap: f64, length: Option<f64>| Some(PlanePoint { variation: cv, gap, length: length? });
    let start = plane_point(cv0, gap0, steps.first(LENGTH, ENDS));
    let end = plane_point(cv1, gap1, length);
    let expected = start.zip(end).map_or_else(String::new, |(start, end)| expectation(&start, &end));
    let course = match (change(cv0, cv1), change(gap0.abs(), gap1.abs())) {
        (1, 0 | -1) | (0, -1) => {
            "The run moved to where the criterion prefers token over sequence more than it did at the start."
        }
        (-1, 0 | 1) | (0, 1) => {
            "The run moved to where the criterion prefers sequence over token more than it did at the start."
        }
        (0, 0) => "Neither changed by more than a tenth, so the criterion expects the same at the end as at the start.",
        _ => "Both moved the same way, so the criterion does not say which of token and sequence the course favours.",
    };
    let sign = match gap1 {
        gap if gap < 0.0 => {
            " Answers with a negative advantage are the shorter ones at the end: the paper describes the opposite case."
        }
        _ => "",
    };
    Some(format!(
        "Between the first and the last {ENDS} steps (fewer where the run has fewer) the length variation went from {} \
         to {} and the length gap from {} to {} tokens{share}. The paper's criterion: token is preferable to sequence \
         where the variation is large and the gap mild; sequence is where the variation is small and the gap large; \
         balanced is robust in both. It gives no threshold for large and small, so no line is drawn in the plane, and \
         a single run cannot test it: that takes runs with other rules and the same seeds (evenkeel compare). \
         {course}{sign}{expected}",
        number(cv0),
        number(cv1),
        number(gap0),
        number(gap1),
    ))
}

/// What the criterion prefers at either end, by the convention of comparisons.
fn expectation(start: &PlanePoint, end: &PlanePoint) -> String {
    let read = "By the convention of comparisons (token where the gap is at most half a deviation of length, sequence \
        where it is one or more)";
    let first = start.preference();
    let last = end.preference();
    let deviations = |place: &PlanePoint| place.deviations().map_or_else(|| "–".to_owned(), number);
    let from = deviations(start);
    let to = deviations(end);
    if first == last {
        format!(" {read} the criterion {} from start to end: the gap is {from} deviations, then {to}.", first.text())
    } else {
        format!(
            " {read} the criterion {} at the start, with a gap of {from} deviations, and {} at the end, with {to}.",
            first.text(),
            last.text()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{lines, summary};
    use super::*;

    fn steps(rules: &[(&str, f64)]) -> Curves {
        Curves::of(&lines(30, |line| {
            let wave = 1.0 + ((line.step - 1) % 3) as f64 / 10.0;
            for (rule, loss) in rules {
                line.set_named(format!("aggregation/{rule}/pull_positive"), 0.5);
                line.set_named(format!("aggregation/{rule}/pull_negative"), 0.5 + loss * wave);
            }
            line.set_named("actor/pg_loss", 0.0);
            line.set_named(VARIATION, 0.2 + (line.step - 1) as f64 / 100.0);
            line.set_named(GAP, 5.0 - (line.step - 1) as f64 / 10.0);
            line.set_named("response_length/mean", 20.0);
        }))
    }

    #[test]
    fn rules_without_a_loss_are_named_and_the_others_drawn() {
        let steps = steps(&[("token", 0.25), ("sequence", 0.0), ("balanced", 1e-17)]);
        let html = section(&summary(&steps), &steps).into_string();
        assert!(html.contains("0 at every step under balanced, sequence"), "{html}");
        assert!(html.contains("token (in use)") && html.contains("Imbalance by rule"));
        let losses = losses(&steps);
        assert_eq!(losses["token"][0], Point::new(1.0, 0.25));
    }

    #[test]
    fn the_course_is_put_into_words_and_no_threshold_is_invented() {
        let text = criterion(&steps(&[])).unwrap();
        assert!(
            text.contains("variation went from 0.245 to 0.445") && text.contains("gap from 4.55 to 2.55 tokens"),
            "{text}"
        );
        assert!(text.contains("prefers token over sequence more") && text.contains("no threshold"), "{text}");
        // 4.55 of 20 tokens over 0.245, and 2.55 of 20 over 0.445.
        assert!(
            text.contains("prefers neither token nor sequence at the start, with a gap of 0.929 deviations"),
            "{text}"
        );
        assert!(text.contains("prefers token to sequence at the end, with 0.287"), "{text}");
        assert_eq!(criterion(&Curves::default()), None);
    }
}
