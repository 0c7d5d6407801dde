//! Samples of older weights: how far the policy of a step is from those that sampled its tokens.

use evenkeel_charts::{Chart, Figure, Html, HtmlTable, Series, Style, figures, number, percent};
use evenkeel_run::Curves;

use super::charts::points;
use super::legend::mean;

/// Charts and a table by lag. Empty for runs whose samples are all of the step's own weights.
pub(super) fn section(steps: &Curves) -> Html {
    let mut lags: Vec<u32> =
        steps.names().filter_map(|name| name.strip_prefix("lag/")?.strip_suffix("/share")?.parse().ok()).collect();
    lags.sort_unstable();
    if lags.is_empty() {
        return Html::new();
    }
    let chart = |title: &str, caption: &str, metric: &str| {
        let series = lags.iter().zip(1..).map(|(lag, colour)| {
            let name = format!("lag/{lag}/{metric}");
            Series::new(format!("lag {lag}"), Style::Averaged, points(steps, &name)).coloured(colour)
        });
        let unit = if metric == "kl_k3" { "nats" } else { "share, 0 to 1" };
        Figure::from(series.fold(Chart::new(title, caption).from(0.0).measured_in(unit), Chart::with))
    };
    let all = [
        chart(
            "KL to the sampler by lag",
            "estimate k3 between the weights that sampled and those of the step, in nats",
            "kl_k3",
        ),
        chart("Effective samples by lag", "of the correction's factors, as a share of the tokens", "ess"),
        chart(
            "Masked or truncated tokens by lag",
            "share of tokens to which a bound of the correction applied",
            "bounded_fraction",
        ),
    ];
    let text = "The lag of a token is the number of versions that the weights which sampled it are behind those of its \
                step. A token's ratio is the step's probability over the sampler's.";
    Html::element("h3", &[], "Samples of older weights")
        .with(Html::paragraph(text))
        .with(figures(all))
        .with(table(&lags, steps))
}

/// Means over the steps.
fn table(lags: &[u32], steps: &Curves) -> Html {
    let header =
        ["lag", "tokens", "ratio, 1 %", "median", "99 %", "effective", "masked or truncated", "KL, k1", "KL, k3"];
    let mut table = HtmlTable::new(header);
    for lag in lags {
        let value = |metric: &str| mean(steps, &format!("lag/{lag}/{metric}"));
        let plain = |metric: &str| value(metric).map_or_else(|| "–".to_owned(), number);
        let share = |metric: &str| value(metric).map_or_else(|| "–".to_owned(), |share| percent(share, None));
        let ratios = ["ratio/p1", "ratio/p50", "ratio/p99"].map(plain);
        let cells = [lag.to_string(), share("share")].into_iter().chain(ratios);
        table.row(cells.chain([share("ess"), share("bounded_fraction"), plain("kl_k1"), plain("kl_k3")]));
    }
    let note = "Means over steps, of the tokens that went through the model.";
    table.to_html().with(Html::element("p", &[("class", "soft")], note))
}

#[cfg(test)]
mod tests {
    use super::super::tests::lines;
    use super::*;

    #[test]
    fn each_lag_has_a_row_in_the_order_of_lags() {
        let steps = Curves::of(&lines(6, |line| {
            for (lag, share) in [("10", 0.25), ("2", 0.75)] {
                line.set_named(format!("lag/{lag}/share"), share);
                line.set_named(format!("lag/{lag}/ratio/p50"), 1.0);
                line.set_named(format!("lag/{lag}/ess"), 0.5);
                line.set_named(format!("lag/{lag}/kl_k3"), 0.01 * (1.0 + (line.step - 1) as f64));
            }
        }));
        let html = section(&steps).into_string();
        let first = html.find("<td>2</td>").unwrap();
        let second = html.find("<td>10</td>").unwrap();
        assert!(first < second && html.contains("KL to the sampler by lag"), "{html}");
        assert!(section(&Curves::default()).is_empty());
    }
}
