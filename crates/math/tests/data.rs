//! Agreement with labelled pairs and with benchmarks, where their folder is there. It is found by `EVENKEEL_MATH_DATA`, or beside the
//! project as `../shared/data/math`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

use std::path::PathBuf;

use evenkeel_math::{Gold, Outcome, Policy, Profile, Submission, check};
use serde_json::Value as Json;

fn rows(file: &str) -> Option<Vec<Json>> {
    let folder = std::env::var_os("EVENKEEL_MATH_DATA")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/math"), PathBuf::from);
    let path = folder.join(file);
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("skipped: {} is not there", path.display());
        return None;
    };
    Some(text.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// Benchmarks, where their gold answers stand, and how many of them must equal themselves.
const BENCHMARKS: [(&str, &str, usize); 7] = [
    ("math500.jsonl", "/answer", 500),
    ("aime24.jsonl", "/reward_model/ground_truth", 30),
    ("aime25.jsonl", "/reward_model/ground_truth", 30),
    ("amc23.jsonl", "/answer", 40),
    ("gsm8k.jsonl", "/answer", 1319),
    ("olympiadbench.jsonl", "/final_answer", 674),
    ("minerva.jsonl", "/reward_model/ground_truth", 271),
];

/// The gold answers of a benchmark; of several that are accepted the first, of a solution what it marks.
fn golds(file: &str, pointer: &str) -> Option<Vec<String>> {
    let text = |value: &Json| match value {
        Json::String(text) => text.trim().to_owned(),
        Json::Array(items) => items.first().and_then(Json::as_str).unwrap().trim().to_owned(),
        other => other.to_string(),
    };
    let answer = |text: String| text.rsplit_once("#### ").map_or(text.clone(), |(_, answer)| answer.to_owned());
    Some(rows(file)?.iter().map(|row| answer(text(row.pointer(pointer).unwrap()))).collect())
}

fn equal(gold: &str, answer: &str) -> bool {
    check(gold, Submission::Extracted(answer), &Policy::default()).is_equal()
}

#[test]
fn labelled_pairs_are_judged_as_expected() {
    let Some(rows) = rows("triples.jsonl") else { return };
    let (mut forced, mut right, mut rewarded) = (0, 0, Vec::new());
    let (mut policies, mut policies_right, mut differ) = (0, 0, Vec::new());
    for row in &rows {
        let text = |field: &str| row[field].as_str().unwrap();
        let (id, gold, answer, expected) = (text("id"), text("gold"), text("pred"), row["expected"].as_bool().unwrap());
        let marked = ["boxed", "\\fbox", "####"].iter().any(|mark| answer.contains(mark));
        let completion = text("form") == "completion";
        let policy = if completion && !marked { Profile::Unmarked } else { Profile::Default }.policy();
        let submission = if completion { Submission::Completion(answer) } else { Submission::Extracted(answer) };
        let verdict = check(gold, submission, &policy);
        let is_right = verdict.is_equal() == expected;
        if !is_right {
            differ.push(format!("{id}: {} where {expected} is expected", verdict.reason));
        }
        if text("basis") == "policy" {
            policies += 1;
            policies_right += usize::from(is_right);
            continue;
        }
        forced += 1;
        right += usize::from(is_right);
        if verdict.is_equal() && !expected {
            rewarded.push(id.to_owned());
        }
    }
    println!(
        "{right} of {forced} as expected, {rewarded:?} wrongly rewarded; {policies_right} of {policies} by policy"
    );
    println!("{}", differ.join("\n"));
    assert!(right * 1000 >= forced * 985, "{differ:#?}");
    assert!(rewarded.len() <= 2, "{rewarded:?}");
    assert!(policies_right * 10 >= policies * 9, "{differ:#?}");
}

#[test]
fn gold_answers_equal_themselves() {
    for (file, pointer, least) in BENCHMARKS {
        let Some(golds) = golds(file, pointer) else { continue };
        let policy = Policy::default();
        let (mut count, mut bad) = (0, Vec::new());
        for gold in &golds {
            let boxed = format!("so \\boxed{{{gold}}}");
            match Gold::read(gold, &policy) {
                Ok(read) if read.check(Submission::Completion(&boxed), &policy).is_equal() => count += 1,
                Ok(read) => bad.push(format!("{gold}: {}", read.check(Submission::Completion(&boxed), &policy).reason)),
                Err(error) => bad.push(format!("{gold}: {error}")),
            }
        }
        println!("{file}: {count} of {} equal themselves", golds.len());
        assert!(count >= least, "{file}: {bad:#?}");
    }
}

/// A gold answer that is an integer or a fraction of two, in other spellings, and answers that are near it.
fn variants(gold: &str) -> Option<(Vec<String>, Vec<String>)> {
    let is_grouped = gold.split(',').skip(1).all(|group| group.len() == 3);
    if let Ok(n) = gold.trim_end_matches(".0").replace(',', "").parse::<i64>()
        && is_grouped
    {
        let equal = vec![
            format!("{n}.0"),
            format!("x={n}"),
            format!("{n}.00"),
            format!("\\frac{{{}}}{{2}}", 2 * n),
            format!("${n}$"),
        ];
        let different = vec![
            (n + 1).to_string(),
            (n - 1).to_string(),
            format!("{n}.5"),
            format!("{}", 10 * n + 10),
            format!("\\sqrt{{{}}}", n * n + 1),
        ];
        return Some((equal, different));
    }
    let inner = gold.strip_prefix("\\frac{").or_else(|| gold.strip_prefix("\\dfrac{"))?;
    let (above, below) = inner.strip_suffix('}')?.split_once("}{")?;
    let (above, below): (i64, i64) = (above.parse().ok()?, below.parse().ok()?);
    let equal = vec![
        format!("\\dfrac{{{above}}}{{{below}}}"),
        format!("{above}/{below}"),
        format!("\\frac{{{}}}{{{}}}", 3 * above, 3 * below),
        format!("x = \\tfrac{{{above}}}{{{below}}}"),
    ];
    let different =
        vec![format!("{}/{below}", above + 1), format!("{above}/{}", below + 1), format!("-{above}/{below}")];
    Some((equal, different))
}

#[test]
fn simple_variants_equal_and_neighbours_do_not() {
    for (file, pointer, _) in BENCHMARKS {
        let Some(golds) = golds(file, pointer) else { continue };
        let mut checked = 0;
        for (gold, next) in golds.iter().zip(golds.iter().cycle().skip(1)) {
            if let Some((same, other)) = variants(gold) {
                checked += same.len() + other.len();
                for answer in same {
                    assert!(equal(gold, &answer), "{gold} is {answer}");
                }
                for answer in other {
                    assert!(!equal(gold, &answer), "{gold} is not {answer}");
                }
            }
            // The neighbour's answer, unless it is the same in both directions.
            if equal(gold, next) {
                assert!(equal(next, gold) && gold.len().abs_diff(next.len()) <= 8, "{gold} is not {next}");
            }
        }
        println!("{file}: {checked} variants");
        assert!(checked > 0, "{file} has no numbers");
    }
}

#[test]
fn solutions_end_with_their_answer() {
    let Some(rows) = rows("gsm8k.jsonl") else { return };
    let policy = Profile::Gsm8k.policy();
    for row in &rows {
        let solution = row["answer"].as_str().unwrap();
        let gold = solution.rsplit_once("#### ").unwrap().1;
        assert!(check(gold, Submission::Completion(solution), &policy).is_equal(), "{gold}");
    }
}

#[test]
fn generations_agree_with_three_graders_where_these_agree() {
    let Some(rows) = rows("generations.jsonl") else { return };
    let (mut compared, mut differ, mut refused) = (0, Vec::new(), 0);
    for row in &rows {
        let verdicts =
            ["qwen_verdict", "mathverify_verdict", "opencompass_verdict"].map(|field| row[field].as_bool().unwrap());
        let (gold, prediction) = (row["gold"].as_str().unwrap(), row["pred"].as_str().unwrap());
        let verdict = check(gold, Submission::Extracted(prediction), &Policy::default());
        if verdicts.iter().any(|verdict| *verdict != verdicts[0]) {
            // One of the graders takes no `10{,}000`.
            assert!(verdict.is_equal(), "{gold} is {prediction}");
            refused += 1;
            continue;
        }
        compared += 1;
        if (verdict.outcome() == Outcome::Equal) != verdicts[0] {
            differ.push(format!("{}: {gold} and {prediction}: {}", row["id"], verdict.reason));
        }
    }
    println!("{compared} of {} generations compared, {refused} that the graders differ on", rows.len());
    assert!(differ.is_empty(), "{differ:#?}");
}
