//! The table against what is written about it, and against the code that sets metrics.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use evenkeel_run::metric::{Metric, table};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The table as the page has it.
fn written() -> String {
    let mut text = "| name | unit | kind | lines | gauge | what it is |\n|---|---|---|---|---|---|\n".to_owned();
    for Metric { name, unit, kind, lines, help, only, gauges, .. } in table::all() {
        let lines: Vec<_> = lines.iter().map(|line| line.label()).collect();
        let gauges: Vec<_> = gauges
            .iter()
            .map(|shown| match shown.choice {
                "" => format!("`{}`", shown.gauge.name),
                choice => format!("`{}` ({choice})", shown.gauge.name),
            })
            .collect();
        let only = if only.is_empty() { String::new() } else { format!("; only where {only}") };
        let unit = unit.label();
        let kind = kind.label();
        // Links are those of a page in docs/, or of the page about runs.
        let help = format!("{help}{only}").replace("](", "](../").replace("](../#", "](../orchestrator.md#");
        text += &format!("| `{name}` | {unit} | {kind} | {} | {} | {help} |\n", lines.join(", "), gauges.join(", "));
    }
    text
}

const PAGE: &str = "docs/reference/metrics.md";
const TITLE: &str = "# Metrics of a run

<!-- Written by a test: EVENKEEL_GENERATE=1 cargo test --release --workspace --test table -->

What a line of `metrics.jsonl`, `warm_start.jsonl` or `evaluation.jsonl` has, besides `kind`, `step` and `policy_version` \
([the run](../orchestrator.md#metrics)). Names are verl's where verl has the quantity. What stands in braces differs: `{mean,max,min}` is one \
of these, `{rule}` a name of the run's. A *count* adds up over steps, a *value* is of its own step. Under the same name TensorBoard has the \
value; *gauge* is the series of Prometheus that shows it. What the learner reports under other names is in the lines as well.

";

#[test]
fn the_page_lists_every_metric_as_the_table_has_it() {
    let path = root().join(PAGE);
    let expected = TITLE.to_owned() + &written();
    if std::env::var_os("EVENKEEL_GENERATE").is_some() {
        std::fs::write(&path, &expected).unwrap();
        return;
    }
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(page == expected, "{PAGE} differs: EVENKEEL_GENERATE=1 with this test writes it");
}

/// The sources of these folders without their tests, each with its path.
fn sources(folders: &[&str]) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path, text.split("#[cfg(test)]").next().unwrap().to_owned()));
            }
        }
    }
    found
}

const TABLE: &str = "crates/run/src/metric/table";

/// The names of the rows as the code spells them.
fn declared() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (_, text) in sources(&[TABLE]) {
        let Some((_, rows)) = text.split_once("rows! {") else { continue };
        for line in rows.lines() {
            let Some((name, _)) = line.trim_start().split_once(" =") else { continue };
            if name.chars().all(|char| char.is_ascii_uppercase() || char.is_ascii_digit() || char == '_') {
                names.insert(name.to_owned());
            }
        }
    }
    names
}

/// The rows that some code names: `metric::NAME` or `table::NAME`.
fn named(sources: &[(PathBuf, String)]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (_, text) in sources {
        for prefix in ["metric::", "table::"] {
            for (at, _) in text.match_indices(prefix) {
                let rest = &text[at + prefix.len()..];
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                names.insert(rest[..end].to_owned());
            }
        }
    }
    names
}

/// Folders of code that sets metrics: what runs and what trains. The files that read lines are elsewhere.
const SETTERS: [&str; 3] = ["services/orchestrator/src", "services/learner/src", "crates/run/src"];

#[test]
fn every_row_is_set_somewhere() {
    let mut setters = sources(&SETTERS);
    setters.retain(|(path, _)| !path.starts_with(root().join(TABLE)));
    let declared = declared();
    let named = named(&setters);
    assert_eq!(declared.len(), table::all().count(), "a row is not seen here");
    let never: Vec<_> = declared.difference(&named).collect();
    assert!(never.is_empty(), "no code sets {never:?}");
}

/// Whether some code spells a name out where a line takes one.
fn spells_a_name(code: &str) -> bool {
    ["set(", "set_named(", "set_statistics("].iter().any(|call| {
        code.match_indices(&format!("line.{call}")).any(|(at, found)| {
            let argument = code[at + found.len()..].trim_start();
            ["\"", "format!", "&format!"].iter().any(|literal| argument.starts_with(literal))
        })
    })
}

/// A line takes the name of a row, or by `set_named` one from elsewhere: no other code may spell a name out.
#[test]
fn no_code_sets_a_name_that_is_not_a_rows() {
    let is_test = |path: &Path| path.components().any(|part| part.as_os_str() == "tests");
    let all = sources(&["services", "crates"]);
    let spelled: Vec<_> = all.iter().filter(|(path, code)| !is_test(path) && spells_a_name(code)).collect();
    assert!(spelled.is_empty(), "{spelled:?}");
}

#[test]
fn a_row_that_is_never_set_and_a_name_without_a_row_are_found() {
    let without_entropy: Vec<_> = sources(&SETTERS)
        .into_iter()
        .map(|(path, code)| (path, code.replace("metric::ENTROPY.", "metric::OTHER.")))
        .collect();
    let declared = declared();
    let named = named(&without_entropy);
    assert_eq!(declared.difference(&named).collect::<Vec<_>>(), ["ENTROPY"]);
    assert!(
        spells_a_name("line.set_named(\"actor/new\", 1.0)") && spells_a_name("line.set_named(format!(\"a/{b}\"), 1.0)")
    );
    assert!(!spells_a_name("line.set_named(name.as_str(), 1.0); line.set(metric::ENTROPY, 1.0)"));
    assert_eq!(table::find("actor/new"), None);
}

/// Names that code reads from lines: texts that look like a metric's in the code that reads them.
#[test]
fn every_name_that_is_read_has_a_row() {
    let readers = [
        "crates/comparison/src",
        "crates/run-report/src",
        "crates/run/src/summary.rs",
        "cli/src",
        "services/orchestrator/src",
    ];
    let folders: Vec<&str> = readers.into_iter().filter(|path| !path.ends_with(".rs")).collect();
    let mut all = sources(&folders);
    let summary = root().join("crates/run/src/summary.rs");
    all.push((summary.clone(), std::fs::read_to_string(summary).unwrap()));
    let roots: BTreeSet<&str> = table::all().filter_map(|metric| metric.name.split('/').next()).collect();
    let mut seen = 0;
    for (path, text) in all {
        for text in text.split('"').skip(1).step_by(2) {
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '@');
            let has_root = text.split_once('/').is_some_and(|(root, rest)| roots.contains(root) && !rest.is_empty());
            if has_root && text.chars().all(is_name) && !text.ends_with('/') {
                assert!(table::find(text).is_some(), "{}: no row has {text}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "{seen}");
}
