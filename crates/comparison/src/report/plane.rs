//! Where the runs of a comparison lie in the plane of the paper's criterion.

use evenkeel_charts::{Html, HtmlTable, Plane, Trajectory};

use crate::criterion::{ArmCourse, Criterion, OrderedTasks, PlanePoint, Preference};
use crate::run::Lengths;
use crate::task::TaskComparison;

const NONE: &str = "–";

/// A table of places. Empty where lengths are unknown.
pub(super) fn of_task(task: &TaskComparison) -> Html {
    let Some(criterion) = &task.criterion else { return Html::new() };
    Html::element("h3", &[], "Where the runs lie, and what the paper's criterion expects there")
        .with(places(task, criterion))
}

/// The plane with a course for each arm.
pub(super) fn figure(task: &TaskComparison, criterion: &Criterion) -> Plane {
    let caption = "Mean over seeds, an arm in each colour, from the first step (ring) to the last (dot). The criterion \
                   (arXiv 2605.04077) prefers token to sequence towards the lower right, and sequence to token towards \
                   the upper left";
    let plane = Plane::new("Length variation and length gap", caption, "length variation", "length gap, tokens");
    criterion.arms.iter().fold(plane, |plane, ArmCourse { arm, course, .. }| {
        let point = |at: &Lengths| (at.step as f64, at.variation, at.gap);
        plane.with(Trajectory::new(task.arms[*arm].label.clone(), course.iter().map(point)))
    })
}

fn places(task: &TaskComparison, criterion: &Criterion) -> Html {
    let header = [
        "place",
        "length variation",
        "gap, tokens",
        "gap of an answer",
        "gap, deviations",
        "the criterion prefers",
        "what is expected of the arm",
    ];
    let mut table = HtmlTable::new(header);
    let verdicts = |arm: usize| {
        let of_arm = criterion.claims.iter().filter(|claim| claim.arm == arm);
        let words = of_arm.map(|claim| claim.words(&task.arms[claim.other].label));
        words.map(|words| Html::element("small", &[], words)).collect::<Html>()
    };
    let mut row = |name: String, place: &PlanePoint, preference: Preference, verdicts: Html| {
        let deviations = place.deviations().map_or_else(|| NONE.to_owned(), |of| format!("{of:.2}"));
        let [gap, share] = place.shown_gap();
        let numbers = [format!("{:.3}", place.variation), gap, share, deviations];
        let words = [name].into_iter().chain(numbers).chain([preference.name().to_owned()]);
        table.row(words.map(Html::text).chain([verdicts]));
    };
    row("first ten steps, all arms".to_owned(), &criterion.start, criterion.preference, Html::new());
    for ArmCourse { arm, end, preference, .. } in &criterion.arms {
        row(format!("last ten steps, {}", task.arms[*arm].label), end, *preference, verdicts(*arm));
    }
    table.to_html().with(Html::paragraph(
        "The paper gives no threshold. By convention the criterion is read here as preferring token where the gap is \
         at most half a deviation of length, sequence where it is one deviation or more, and neither in between. \
         Whether it held is judged by what it prefers at the start, by differences that are shown, in the primary \
         measure. Balanced is to be no worse than the others everywhere: that is a test of non-inferiority. Token is to \
         fall furthest from its peak: that is judged by the drop of mean@k.",
    ))
}

/// The tasks that are ordered in the plane, and whether token gained where the criterion expects it to.
pub(super) fn of_tasks(ordered: &[OrderedTasks]) -> Html {
    let mut table = HtmlTable::new([
        "more variation, smaller gap",
        "less variation, larger gap",
        "token − sequence, first minus second",
        "95 % interval",
        "seeds",
        "exact p",
        "Holm p",
        "the criterion",
    ]);
    for pair in ordered {
        let OrderedTasks { measure, difference, .. } = pair;
        let interval =
            difference.interval.map(|ends| format!("{} to {}", measure.shown(ends.low), measure.shown(ends.high)));
        table.row([
            pair.token_favoured.clone(),
            pair.sequence_favoured.clone(),
            measure.shown(difference.value),
            interval.unwrap_or_else(|| NONE.to_owned()),
            difference.seeds.to_string(),
            format!("{:.4}", pair.p),
            format!("{:.4}", pair.adjusted_p),
            pair.verdict.name().to_owned(),
        ]);
    }
    if table.is_empty() {
        return Html::new();
    }
    Html::element("h3", &[], "The criterion between tasks").with(table.to_html())
}
