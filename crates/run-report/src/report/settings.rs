//! The settings of a run: first those that differ from their defaults.

use evenkeel_charts::{Html, HtmlTable};
use evenkeel_run::{ChangedSetting, Summary};

/// The changed settings as a table, where they are known, and all of them folded.
pub(super) fn section(summary: &Summary, config: &str) -> Html {
    let mut table = HtmlTable::new(["setting", "value", "default"]);
    for ChangedSetting { key, value, default } in &summary.changed_settings {
        let default = default.as_deref().unwrap_or("–");
        table.row([key.as_str(), value.as_str(), default]);
    }
    let mut html = Html::new();
    if let Some(objective) = &summary.objective {
        html.push(Html::element("h3", &[], "Objective"));
        html.push(Html::element("p", &[("class", "soft")], format!("{objective}.")));
    }
    if !table.is_empty() {
        html.push(Html::element("h3", &[], "Settings that differ from the default"));
        html.push(Html::element("div", &[("class", "changed")], table.to_html()));
    }
    let all = Html::element("summary", &[], "All settings (config.toml)").with(Html::element("pre", &[], config));
    html.with(Html::element("details", &[("class", "settings"), ("data-key", "config")], all))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use evenkeel_run::Curves;

    use super::super::tests::summary;
    use super::*;

    #[test]
    fn changed_settings_come_first_with_their_defaults() {
        let flat = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>()
        };
        let defaults = flat(&[("run.seed", "0"), ("run.steps", "80")]);
        let changed = ChangedSetting::between(&defaults, &flat(&[("run.seed", "0"), ("run.steps", "9"), ("x.y", "1")]));
        let summary = Summary { changed_settings: changed, ..summary(&Curves::default()) };
        let html = section(&summary, "[run]").into_string();
        assert!(html.contains("<td>run.steps</td><td>9</td><td>80</td>"), "{html}");
        assert!(html.contains("<td>x.y</td><td>1</td><td>–</td>") && !html.contains("run.seed"), "{html}");
    }
}
