//! Whether the engines had the learner's weights: docs/orchestrator.md, "Proof of weights".

use evenkeel_charts::{Chart, Figure, Html, HtmlTable, Series, Style, figures, number};
use evenkeel_run::{Curves, ProofState, Summary};

use super::charts::points;

const SHARE: &str = "proof/stale_share/";
const ERROR: &str = "proof/stale_error/";
const EXCLUDED: &str = "proof/excluded/";
/// Half the width of an interval of 95 %, in standard errors.
const DEVIATIONS: f64 = 1.96;

/// The state of the proof, and the evidence on each failure mode. One sentence for a run without proofs.
pub(super) fn section(summary: &Summary, steps: &Curves) -> Html {
    let Some(weights) = &summary.weights else {
        return Html::paragraph("The engine weights were not verified.");
    };
    if weights.equal_tokens > 0 && weights.state == ProofState::Undecided {
        let tokens = weights.equal_tokens;
        return Html::paragraph(format!(
            "The engine weights are {weights}. The log-probabilities of {tokens} trained tokens are the learner's to the \
             bit. Nothing is known about the others."
        ));
    }
    if weights.equal_tokens > 0 {
        return Html::paragraph(format!(
            "The engine weights are {weights}. Engine and learner compute with the same arithmetic, so wrong weights \
             would have shown before the first update on their samples."
        ));
    }
    let tokens = steps.sum("proof/tokens");
    let text = format!(
        "The engine weights are {weights}, after {tokens:.0} scored tokens. What is undecided is neither shown \
         nor refuted: the weights have moved too little for the noise of the engines, or too few tokens were scored."
    );
    let chart = Chart::new(
        "Movement and noise",
        "root mean square change of a token's log-probability since the process began, and how far engines with the \
         right weights are off, in nats",
    )
    .measured_in("nats");
    let lines = [("movement", "proof/movement"), ("noise", "proof/noise"), ("mean gap", "proof/mean_gap")];
    let series = lines
        .into_iter()
        .zip(1..)
        .map(|((name, metric), colour)| Series::new(name, Style::Line, points(steps, metric)).coloured(colour));
    let chart = series.fold(chart.from(0.0), Chart::with);
    Html::paragraph(text).with(table(steps)).with(figures([Figure::from(chart)]))
}

/// What the last proof that knew of it says of each suspicion.
fn table(steps: &Curves) -> Html {
    let mut table = HtmlTable::new(["failure mode", "share of its effect that was found", "95 %", "state"]);
    let names: Vec<&str> = steps.names().filter_map(|name| name.strip_prefix(EXCLUDED)).collect();
    for name in names {
        let last = |prefix: &str| steps.column(&format!("{prefix}{name}")).last().map(|(_, value)| *value);
        let share = last(SHARE);
        let error = last(ERROR);
        let interval = share.zip(error).map(|(share, error)| {
            let half = DEVIATIONS * error;
            format!("{} to {}", number(share - half), number(share + half))
        });
        let state = if last(EXCLUDED) == Some(1.0) { "ruled out" } else { "undecided" };
        let unknown = || "–".to_owned();
        let words = match name {
            "unchanged" => "nothing loaded".to_owned(),
            "behind" => "one version behind".to_owned(),
            group => group.replace('_', " "),
        };
        table.row([words, share.map_or_else(unknown, number), interval.unwrap_or_else(unknown), state.to_owned()]);
    }
    let note = "The share is 0 for the right weights, and 1 for a part that still has its first weights. The engine \
        with the largest share is shown.";
    table.to_html().with(Html::element("p", &[("class", "soft")], note))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{lines, summary};
    use super::*;

    #[test]
    fn each_way_of_having_other_weights_has_a_row_with_its_state() {
        let steps = Curves::of(&lines(5, |line| {
            line.set_named("proof/engines", 2.0);
            line.set_named("proof/suspicions", 2.0);
            line.set_named("proof/excluded", 1.0);
            line.set_named("proof/tokens", 100.0);
            line.set_named("proof/movement", 0.01 * (1.0 + (line.step - 1) as f64));
            line.set_named("proof/excluded/unchanged", 1.0);
            line.set_named("proof/stale_share/unchanged", 0.001);
            line.set_named("proof/stale_error/unchanged", 0.01);
            line.set_named("proof/excluded/layers_0-7", 0.0);
        }));
        let html = section(&summary(&steps), &steps).into_string();
        assert!(html.contains("undecided on 2 engines") && html.contains("500 scored tokens"), "{html}");
        assert!(html.contains("<td>nothing loaded</td>") && html.contains("ruled out"), "{html}");
        assert!(html.contains("<td>layers 0-7</td>") && html.contains("undecided"), "{html}");
    }

    #[test]
    fn equal_bits_prove_the_weights_unless_an_engine_was_never_verified_or_knew_the_samples() {
        let said = |doubt: Option<&str>| {
            let steps = Curves::of(&lines(5, |line| {
                line.set_named("proof/equal_tokens", 100.0);
                doubt.iter().for_each(|name| line.set_named(*name, 1.0));
            }));
            section(&summary(&steps), &steps).into_string()
        };
        assert!(said(None).contains("verified by 500 trained tokens") && said(None).contains("would have shown"));
        for doubt in ["proof/unverified_engines", "sampler_audit/nonce_is_fixed"] {
            let html = said(Some(doubt));
            assert!(html.contains("undecided") && html.contains("500 trained tokens are the learner"), "{html}");
            assert!(!html.contains("would have shown"), "{html}");
        }
    }

    #[test]
    fn a_run_without_proofs_says_so() {
        let steps = Curves::of(&lines(2, |_| {}));
        assert!(section(&summary(&steps), &steps).into_string().contains("not verified"));
    }
}
