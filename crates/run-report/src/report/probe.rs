//! The gradients of all aggregation rules on the batches of some steps, if the run was asked for them.

use evenkeel_charts::{Chart, Figure, Html, HtmlTable, Series, Style, figures, number};
use evenkeel_run::Curves;

use super::charts::points;
use super::legend::{colour, labelled, mean};

pub(super) fn section(used: Option<&str>, steps: &Curves) -> Html {
    let rules: Vec<&str> =
        steps.names().filter_map(|name| name.strip_prefix("probe/")?.strip_suffix("/grad_norm")).collect();
    if rules.is_empty() {
        return Html::new();
    }
    let chart = |(title, unit): (&str, &str), caption: &str, name: &dyn Fn(&str) -> String| {
        let series = rules.iter().map(|rule| {
            Series::new(labelled(rule, used), Style::Line, points(steps, &name(rule))).coloured(colour(rule))
        });
        Figure::from(series.fold(Chart::new(title, caption).measured_in(unit), Chart::with))
    };
    let norm = "before clipping, over the whole batch and before any update of the step";
    let rate = "at which a step in proportion to the clipped gradient would be as long as that of the rule in use";
    let mut all = vec![
        chart(("Gradient norm by rule", "gradient norm"), norm, &|rule| format!("probe/{rule}/grad_norm")),
        chart(("Learning rate for an equal step", "learning rate"), rate, &|rule| {
            format!("probe/{rule}/learning_rate")
        }),
    ];
    if let Some(used) = used {
        let caption = format!("of the gradient of each rule to that of {used}, on the same batch");
        all.push(chart(("Cosine to the rule in use", "cosine"), &caption, &|rule| cosine(steps, rule, used)));
    }
    let text = "A rule does not only share the gradient out among answers: it also makes it longer or shorter, as if \
                the learning rate had been changed. AdamW divides a gradient by its own running size, so that there a \
                constant factor matters only until the moments have adapted, and through clipping and epsilon; plain \
                gradient descent takes it as it is.";
    Html::element("h3", &[], "Gradients of all rules")
        .with(Html::paragraph(text))
        .with(figures(all))
        .with(table(&rules, used, steps))
}

/// The metric of a pair's cosine, which is written once.
fn cosine(steps: &Curves, one: &str, other: &str) -> String {
    let [straight, turned] = [format!("probe/{one}/cosine/{other}"), format!("probe/{other}/cosine/{one}")];
    if steps.column(&straight).is_empty() { turned } else { straight }
}

/// Means over the steps that were probed: norms, learning rates, and the cosine of every pair.
fn table(rules: &[&str], used: Option<&str>, steps: &Curves) -> Html {
    let norm = |rule: &str| mean(steps, &format!("probe/{rule}/grad_norm"));
    let of_used = used.and_then(norm).filter(|norm| *norm > 0.0);
    let shown = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), number);
    let mut table = HtmlTable::new(
        ["rule", "norm", "× in use", "learning rate for an equal step"]
            .map(str::to_owned)
            .into_iter()
            .chain(rules.iter().map(|rule| format!("cosine to {rule}"))),
    );
    for rule in rules {
        let own = norm(rule);
        let times = own.zip(of_used).map(|(own, used)| own / used);
        let rate = mean(steps, &format!("probe/{rule}/learning_rate"));
        let cosine =
            |other: &&str| if other == rule { "1".to_owned() } else { shown(mean(steps, &cosine(steps, rule, other))) };
        let cells = [labelled(rule, used), shown(own), shown(times), shown(rate)];
        table.row(cells.into_iter().chain(rules.iter().map(cosine)));
    }
    let probed = rules.first().map_or(0, |rule| steps.column(&format!("probe/{rule}/grad_norm")).len());
    let note = format!("Means over the {probed} steps that were probed.");
    table.to_html().with(Html::element("p", &[("class", "soft")], note))
}

#[cfg(test)]
mod tests {
    use super::super::tests::lines;
    use super::*;

    #[test]
    fn rules_stand_beside_the_one_in_use() {
        let steps = Curves::of(&lines(9, |line| {
            if (line.step - 1) % 4 == 0 {
                let wave = 1.0 + (line.step - 1) as f64;
                line.set_named("probe/balanced/grad_norm", 0.5 * wave);
                line.set_named("probe/token/grad_norm", wave);
                line.set_named("probe/balanced/learning_rate", 1e-3);
                line.set_named("probe/token/learning_rate", 5e-4);
                line.set_named("probe/balanced/cosine/token", 0.75);
            }
        }));
        let html = section(Some("token"), &steps).into_string();
        assert!(
            html.contains("<td>balanced</td><td>2.5</td><td>0.5</td><td>0.001</td><td>1</td><td>0.75</td>"),
            "{html}"
        );
        assert!(html.contains("token (in use)") && html.contains("the 3 steps that were probed"), "{html}");
        assert!(section(None, &Curves::default()).is_empty());
    }
}
