//! What every aggregation rule makes of the same responses, compared with the one in use.

use evenkeel_charts::{Bar, Bars, Chart, Figure, Html, HtmlTable, Series, Style, figures, number, percent};
use evenkeel_run::Curves;

use super::charts::points;
use super::legend::{colour, labelled, mean, rules};

/// Parts of a step's answers by length, from the shortest to the longest.
const QUARTERS: usize = 4;
/// Two numbers that differ by less are the same in a drawing.
const SAME: f64 = 5e-4;

/// What a rule gives to each quarter of the answers, mean over steps.
struct Profile<'a> {
    rule: &'a str,
    share: [f64; QUARTERS],
    weight: [f64; QUARTERS],
}

impl<'a> Profile<'a> {
    fn of(rule: &'a str, steps: &Curves) -> Option<Self> {
        let quarters = |what: &str| {
            let means: Option<Vec<f64>> =
                (1..=QUARTERS).map(|quarter| mean(steps, &format!("aggregation/{rule}/{what}_q{quarter}"))).collect();
            means?.try_into().ok()
        };
        Some(Self { rule, share: quarters("share")?, weight: quarters("weight")? })
    }

    fn is_like(&self, other: &Self) -> bool {
        let same = |a: &[f64; QUARTERS], b: &[f64; QUARTERS]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < SAME);
        same(&self.share, &other.share) && same(&self.weight, &other.weight)
    }
}

/// Charts and a table of all rules. Empty for runs of versions that did not write them.
pub(super) fn section(used: Option<&str>, steps: &Curves) -> Html {
    let profiles: Vec<Profile<'_>> = rules(steps).filter_map(|rule| Profile::of(rule, steps)).collect();
    if profiles.is_empty() {
        return Html::new();
    }
    let all: [Figure; 3] =
        [shares(&profiles, used).into(), weights(&profiles, used).into(), longest(&profiles, used, steps).into()];
    let text = "One batch, every rule: the answers of each step that have an advantage are put into four quarters by \
                their length, and each rule is asked what it gives to them. A share is that of the sum of weight times \
                advantage over tokens, which is the share of the gradient as far as tokens have gradients of one size. \
                Rules that give the same are drawn as one.";
    Html::element("h3", &[], "Every rule on the same answers")
        .with(Html::paragraph(text))
        .with(figures(all))
        .with(table(&profiles, used, steps))
}

/// The rules that give the same, with the first of them.
fn alike<'a>(profiles: &'a [Profile<'a>], used: Option<&str>) -> Vec<(String, &'a Profile<'a>)> {
    let mut all: Vec<(String, &Profile<'_>)> = Vec::new();
    for profile in profiles {
        match all.iter_mut().find(|(_, first)| first.is_like(profile)) {
            Some((label, _)) => *label = format!("{label}, {}", labelled(profile.rule, used)),
            None => all.push((labelled(profile.rule, used), profile)),
        }
    }
    all
}

/// The quarters, as headings.
const NAMES: [&str; QUARTERS] = ["shortest quarter", "second quarter", "third quarter", "longest quarter"];

fn by_quarter(
    (title, caption): (&str, &str),
    profiles: &[Profile<'_>],
    used: Option<&str>,
    of: fn(&Profile<'_>) -> [f64; QUARTERS],
) -> Bars {
    let alike = alike(profiles, used);
    let bar = |quarter: usize, place: usize| {
        let (label, profile) = &alike[place];
        let bar = Bar::new(label.as_str(), of(profile)[quarter]).coloured(colour(profile.rule));
        if place == 0 { bar.headed(NAMES[quarter]) } else { bar }
    };
    Bars::new(
        title,
        caption,
        (0..QUARTERS)
            .flat_map(|quarter| (0..alike.len()).map(move |place| (quarter, place)))
            .map(|(quarter, place)| bar(quarter, place)),
    )
}

fn shares(profiles: &[Profile<'_>], used: Option<&str>) -> Bars {
    let caption = "how much of the gradient each quarter of the answers by length gets, mean over steps";
    by_quarter(("Share of the gradient by answer length", caption), profiles, used, |profile| profile.share)
}

fn weights(profiles: &[Profile<'_>], used: Option<&str>) -> Bars {
    let caption = "of one token, relative to the mean token of the same rule, mean over steps";
    by_quarter(("Weight of a token by answer length", caption), profiles, used, |profile| profile.weight)
}

fn longest(profiles: &[Profile<'_>], used: Option<&str>, steps: &Curves) -> Chart {
    let chart =
        Chart::new("Share of the longest answers", "of the gradient: the longest quarter, over steps").from(0.0);
    let chart = chart.measured_in("share of the gradient, 0 to 1");
    alike(profiles, used).into_iter().fold(chart, |chart, (label, profile)| {
        let name = format!("aggregation/{}/share_q{QUARTERS}", profile.rule);
        chart.with(Series::new(label, Style::Averaged, points(steps, &name)).coloured(colour(profile.rule)))
    })
}

fn table(profiles: &[Profile<'_>], used: Option<&str>, steps: &Curves) -> Html {
    let header = [
        "rule",
        "positive pull",
        "negative pull",
        "positive / negative",
        "shortest quarter",
        "2",
        "3",
        "longest quarter",
    ];
    let mut table = HtmlTable::new(header);
    for profile in profiles {
        let pull = |side: &str| mean(steps, &format!("aggregation/{}/pull_{side}", profile.rule));
        let positive = pull("positive");
        let negative = pull("negative");
        let ratio = positive.zip(negative).filter(|(_, negative)| *negative > 0.0).map(|(one, other)| one / other);
        let shown = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), number);
        let cells = [labelled(profile.rule, used), shown(positive), shown(negative), shown(ratio)];
        table.row(cells.into_iter().chain(profile.share.map(|share| percent(share, None))));
    }
    let lengths: Vec<String> = (1..=QUARTERS)
        .filter_map(|quarter| mean(steps, &format!("aggregation/length_q{quarter}")))
        .map(number)
        .collect();
    let note = format!("Means over all steps. The quarters have answers of {} tokens on average.", lengths.join(", "));
    table.to_html().with(Html::element("p", &[("class", "soft")], note))
}

#[cfg(test)]
mod tests {
    use super::super::tests::lines;
    use super::*;

    fn steps() -> Curves {
        Curves::of(&lines(20, |line| {
            let drift = (line.step - 1) as f64 / 100.0;
            for (rule, share) in
                [("token", [0.1, 0.2, 0.3, 0.4]), ("batch-token", [0.1, 0.2, 0.3, 0.4]), ("sequence", [0.25; 4])]
            {
                line.set_named(format!("aggregation/{rule}/pull_positive"), 0.25);
                line.set_named(format!("aggregation/{rule}/pull_negative"), 0.5);
                for (quarter, share) in (1..).zip(share) {
                    line.set_named(format!("aggregation/{rule}/share_q{quarter}"), share);
                    line.set_named(format!("aggregation/{rule}/weight_q{quarter}"), 0.25 / share + drift);
                }
            }
            for quarter in 1..5 {
                line.set_named(format!("aggregation/length_q{quarter}"), f64::from(quarter * 10));
            }
        }))
    }

    #[test]
    fn rules_that_give_the_same_are_one_line_and_a_row_each() {
        let html = section(Some("sequence"), &steps()).into_string();
        assert!(
            html.contains(">batch-token, token</text>")
                && html.contains("batch-token, token 0.4")
                && html.contains("sequence (in use)"),
            "{html}"
        );
        assert!(html.contains("<td>token</td><td>0.25</td><td>0.5</td><td>0.5</td><td>10.0 %</td>"), "{html}");
        assert!(html.contains("answers of 10, 20, 30, 40 tokens"), "{html}");
    }

    #[test]
    fn a_run_without_these_values_has_no_section() {
        let old = Curves::of(&lines(3, |line| line.set_named("aggregation/token/pull_positive", 0.5)));
        assert!(section(None, &old).is_empty());
    }
}
