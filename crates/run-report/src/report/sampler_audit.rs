//! Whether samples came from the policy: the evidence of each check, and what the run could see.

use evenkeel_charts::{Chart, Figure, Html, Series, Style, figures, number};
use evenkeel_run::Curves;

use super::charts::points;

const CHECKS: [(&str, &str); 5] = [
    ("temperature", "temperature"),
    ("truncation", "truncation"),
    ("end token", "end_token"),
    ("log-probabilities", "log_probabilities"),
    ("copies", "copies"),
];

/// Empty for runs without an audit.
pub(super) fn section(steps: &Curves) -> Html {
    let last = |name: &str| steps.column(&format!("sampler_audit/{name}")).last().map(|(_, value)| *value);
    let Some(tokens) = last("tokens") else { return Html::new() };
    let caption = "decimal logarithm, for the engine with most of it; an honest engine stays near 0";
    let series = CHECKS.iter().zip(1..).map(|((label, key), colour)| {
        Series::new(*label, Style::Line, points(steps, &format!("sampler_audit/evidence/{key}"))).coloured(colour)
    });
    let chart = series
        .fold(Chart::new("Evidence against the sampler", caption).measured_in("log10 of the evidence"), Chart::with);
    let sum = |name: &str| steps.column(&format!("sampler_audit/{name}")).iter().map(|(_, value)| value).sum::<f64>();
    let mut says = format!(
        "The learner scored {} samples ({} tokens) under the versions that sampled them; {} of those chosen could not \
         be generated and {} not be scored. {} answers were equal to an earlier one of their prompt, {} were to be \
         expected.",
        number(sum("samples")),
        number(tokens),
        number(sum("missing_samples")),
        number(sum("not_possible")),
        number(last("copies").unwrap_or_default()),
        number(last("expected_copies").unwrap_or_default()),
    );
    if let (Some(two), Some(ten)) = (last("tokens_for_2_percent"), last("tokens_for_10_percent")) {
        says.push_str(&format!(
            " With the variance that was seen a temperature that is off by 2 % shows after about {} tokens, by 10 % \
            after {}.",
            number(two),
            number(ten)
        ));
    }
    Html::element("h3", &[], "Audit of the sampler").with(Html::paragraph(says)).with(figures([Figure::from(chart)]))
}

#[cfg(test)]
mod tests {
    use super::super::tests::lines;
    use super::*;

    #[test]
    fn the_page_says_what_was_audited_and_what_could_be_seen() {
        let steps = Curves::of(&lines(3, |line| {
            line.set_named("sampler_audit/samples", 8.0);
            line.set_named("sampler_audit/tokens", 100.0 * line.step as f64);
            line.set_named("sampler_audit/evidence/temperature", 0.25);
            line.set_named("sampler_audit/tokens_for_2_percent", 62_500.0);
            line.set_named("sampler_audit/tokens_for_10_percent", 2_500.0);
        }));
        let html = section(&steps).into_string();
        assert!(html.contains("scored 24 samples (300 tokens)") && html.contains("after about 62"), "{html}");
        assert!(section(&Curves::default()).is_empty());
    }
}
