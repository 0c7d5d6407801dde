//! Agreement with labelled pairs and with benchmarks, where their folder is there. It is found by `EVENKEEL_MATH_DATA`, or beside the
//! project as `../shared/data/math`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use evenkeel_math::{Fuel, Gold, Marker, Outcome, Policy, Profile, Submission, Value, check, parse};
use serde_json::Value as Json;

fn rows(file: &str) -> Option<Vec<Json>> {
    let folder = std::env::var_os("EVENKEEL_MATH_DATA")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/data/math"), PathBuf::from);
    let path = folder.join(file);
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("skipped: {} is not there", path.display());
        return None;
    };
    Some(text.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// Whether values of this kind are read today, beyond being kept as text.
fn is_covered(value: &Value) -> bool {
    match value {
        Value::Number(_) => true,
        Value::List(items) => items.iter().all(is_covered),
        Value::Text(_) => false,
    }
}

/// Rows whose label needs what is not read yet, or another rule than ours; each with its reason.
const OTHERS: &[(&str, &str)] = &[
    ("t0021", "refused only since a formula between single dollars should not run over lines"),
    ("t0022", "the same"),
    ("t0086", "boxes hold intermediate results; our rule takes the last one before any answer line"),
    ("t0125", "a decimal comma, which is a list here"),
    ("t0126", "the same"),
    ("t0137", "the same"),
    ("t0363", "lists without brackets have no order here"),
];

#[test]
fn labelled_pairs_agree_where_they_are_covered() {
    let Some(rows) = rows("triples.jsonl") else { return };
    let others: BTreeMap<_, _> = OTHERS.iter().copied().collect();
    let (mut covered, mut agreed, mut wrong) = (0, 0, Vec::new());
    for row in &rows {
        let text = |field: &str| row[field].as_str().unwrap();
        let (id, gold, answer, expected) = (text("id"), text("gold"), text("pred"), row["expected"].as_bool().unwrap());
        let marked = ["\\boxed", "\\fbox", "####"].iter().any(|mark| answer.contains(mark));
        let completion = text("form") == "completion";
        let policy = if completion && !marked { Profile::Unmarked } else { Profile::Default }.policy();
        let submission = if completion { Submission::Completion(answer) } else { Submission::Extracted(answer) };
        let verdict = check(gold, submission, &policy);
        agreed += usize::from(verdict.is_equal() == expected);
        let gold_covered = Gold::read(gold, &policy).is_ok_and(|gold| is_covered(gold.value()));
        let answer_covered = verdict.value.as_ref().is_some_and(is_covered);
        // A reward must be right whatever was read; a refusal where both sides were.
        if !(verdict.is_equal() || (gold_covered && answer_covered)) {
            continue;
        }
        covered += 1;
        if verdict.is_equal() != expected && !others.contains_key(id) {
            wrong.push(format!("{id}: {gold} and {answer}: {}, expected {expected}", verdict.reason));
        }
    }
    println!("{covered} of {} pairs are covered; {agreed} agree in all", rows.len());
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(covered > 150, "{covered} pairs");
}

fn number(row: &Json) -> String {
    match row {
        Json::String(text) => text.trim().to_owned(),
        Json::Array(items) => number(&items[0]),
        other => other.to_string(),
    }
}

#[test]
fn gold_answers_of_benchmarks_equal_themselves() {
    for (file, pointer) in [
        ("math500.jsonl", "/answer"),
        ("aime24.jsonl", "/reward_model/ground_truth"),
        ("aime25.jsonl", "/reward_model/ground_truth"),
        ("amc23.jsonl", "/answer"),
        ("minerva.jsonl", "/reward_model/ground_truth"),
        ("olympiadbench.jsonl", "/final_answer"),
        ("gsm8k.jsonl", "/answer"),
    ] {
        let Some(rows) = rows(file) else { continue };
        let policy = Policy::default();
        let (mut equal, mut bad) = (0, Vec::new());
        for row in &rows {
            let field = number(row.pointer(pointer).unwrap());
            let gold = field.rsplit_once("#### ").map_or(field.as_str(), |(_, answer)| answer);
            match Gold::read(gold, &policy) {
                Ok(read)
                    if read.check(Submission::Completion(&format!("so \\boxed{{{gold}}}")), &policy).is_equal() =>
                {
                    equal += 1
                }
                other => bad.push(format!("{gold}: {other:?}")),
            }
        }
        println!("{file}: {equal} of {} equal themselves", rows.len());
        assert!(bad.len() <= rows.len() / 250, "{file}: {bad:#?}");
    }
}

#[test]
fn integers_of_benchmarks_differ_from_their_neighbours() {
    let Some(rows) = rows("gsm8k.jsonl") else { return };
    let policy = Profile::Gsm8k.policy();
    for row in &rows {
        let solution = row["answer"].as_str().unwrap();
        let gold = solution.rsplit_once("#### ").unwrap().1;
        assert!(check(gold, Submission::Completion(solution), &policy).is_equal(), "{gold}");
        let integer: i64 = gold.replace(',', "").parse().unwrap();
        for (answer, equal) in [
            (format!("{integer}.00"), true),
            (format!("{}", integer + 1), false),
            (format!("-{integer}"), integer == 0),
        ] {
            let completion = format!("\\boxed{{{answer}}}");
            let verdict = check(gold, Submission::Completion(&completion), &policy);
            assert_eq!(verdict.is_equal(), equal, "{gold} and {answer}");
        }
    }
}

#[test]
fn generations_agree_with_three_graders_where_both_sides_are_read() {
    let Some(rows) = rows("generations.jsonl") else { return };
    let policy = Policy { markers: vec![Marker::Boxed], ..Policy::default() };
    let (mut compared, mut differ) = (0, Vec::new());
    for row in &rows {
        let verdicts =
            ["qwen_verdict", "mathverify_verdict", "opencompass_verdict"].map(|field| row[field].as_bool().unwrap());
        let (gold, prediction) = (number(&row["gold"]), number(&row["pred"]));
        let read = |text: &str| parse::parse(text, &mut Fuel::new(100_000)).is_ok_and(|value| is_covered(&value));
        if verdicts.iter().any(|verdict| *verdict != verdicts[0]) || !read(&gold) || !read(&prediction) {
            continue;
        }
        compared += 1;
        let verdict = check(&gold, Submission::Extracted(&prediction), &policy);
        if (verdict.outcome() == Outcome::Equal) != verdicts[0] {
            differ.push(format!("{}: {gold} and {prediction}: {}", row["id"], verdict.reason));
        }
    }
    println!("{compared} of {} generations compared", rows.len());
    assert!(differ.is_empty(), "{differ:#?}");
}
