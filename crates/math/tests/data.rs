//! Agreement with labelled pairs: those in `tests/golden/pairs.jsonl`, and larger sets and benchmarks outside the
//! repository.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]
#![allow(clippy::print_stdout, reason = "rates are worth seeing")]

use std::path::Path;
use std::process::ExitCode;

use evenkeel_math::{CheckInput, CheckOutcome, Gold, Profile, Rules, check};
use evenkeel_testkit::{outside, run, test};
use serde_json::Value as Json;

fn main() -> ExitCode {
    let mut tests = vec![
        test("every_committed_pair_is_judged_as_labelled", committed_pairs),
        test("every_committed_gold_answer_equals_itself", committed_golds),
        outside("outside::labelled_pairs_are_judged_as_expected", &["data/math/triples.jsonl"], labelled_pairs),
        outside("outside::reports_are_judged_as_expected", &["data/math/reports.jsonl"], reports),
        outside("outside::more_reports_are_judged_as_expected", &["data/math/reports-2.jsonl"], more_reports),
        outside("outside::no_gold_answer_of_math500_is_copied", &["data/math/math500.jsonl"], copies),
        outside("outside::most_solutions_in_prose_are_accepted", &["data/math/math500.jsonl"], prose),
        outside("outside::solutions_end_with_their_answer", &["data/math/gsm8k.jsonl"], solutions),
        outside(
            "outside::generations_agree_with_three_graders_where_these_agree",
            &["data/math/generations.jsonl"],
            generations,
        ),
    ];
    for benchmark in BENCHMARKS {
        let name = benchmark.0;
        let file = format!("data/math/{}.jsonl", benchmark.0);
        tests.push(outside(&format!("outside::{name}::gold_answers_equal_themselves"), &[&file], move |data| {
            gold_answers(data, benchmark);
        }));
        tests.push(outside(
            &format!("outside::{name}::variants_are_equal_and_neighbours_are_not"),
            &[&file],
            move |data| {
                numeric_variants(data, benchmark);
            },
        ));
    }
    run(tests)
}

fn rows(file: &Path) -> Vec<Json> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn pairs() -> Vec<Json> {
    rows(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/pairs.jsonl")))
}

fn committed_pairs() {
    let rules = Rules::default();
    let mut count = [0, 0];
    let mut wrong = Vec::new();
    for row in pairs() {
        let text = |field: &str| row[field].as_str().unwrap();
        let answer = text("answer");
        let submission = match text("form") {
            "completion" => CheckInput::Completion(answer),
            _ => CheckInput::Extracted(answer),
        };
        let verdict = check(text("gold"), submission, &rules);
        let expected = row["equal"].as_bool().unwrap();
        count[usize::from(expected)] += 1;
        if verdict.is_equal() != expected {
            wrong.push(format!("{}: {} and {answer}: {}", text("id"), text("gold"), verdict.reason));
        }
    }
    println!("{} pairs that are equal, {} that are not", count[1], count[0]);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn committed_golds() {
    let golds = pairs().into_iter().map(|row| row["gold"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let (_, wrong) = not_equal_to_themselves(&golds);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A benchmark, where its rows hold the gold answer, and how many of these must equal themselves.
type Benchmark = (&'static str, &'static str, usize);

const BENCHMARKS: [Benchmark; 7] = [
    ("math500", "/answer", 500),
    ("aime24", "/reward_model/ground_truth", 30),
    ("aime25", "/reward_model/ground_truth", 30),
    ("amc23", "/answer", 40),
    ("gsm8k", "/answer", 1319),
    ("olympiadbench", "/final_answer", 674),
    ("minerva", "/reward_model/ground_truth", 271),
];

/// The gold answers of a benchmark; of several that are accepted the first, of a solution what it marks.
fn golds(data: &Path, (name, pointer, _): Benchmark) -> Vec<String> {
    let text = |value: &Json| match value {
        Json::String(text) => text.trim().to_owned(),
        Json::Array(items) => items.first().and_then(Json::as_str).unwrap().trim().to_owned(),
        other => other.to_string(),
    };
    let answer = |text: String| text.rsplit_once("#### ").map_or(text.clone(), |(_, answer)| answer.to_owned());
    let rows = rows(&data.join(format!("data/math/{name}.jsonl")));
    rows.iter().map(|row| answer(text(row.pointer(pointer).unwrap()))).collect()
}

fn equal(gold: &str, answer: &str) -> bool {
    check(gold, CheckInput::Extracted(answer), &Rules::default()).is_equal()
}

fn labelled_pairs(data: &Path) {
    let rows = rows(&data.join("data/math/triples.jsonl"));
    let mut forced = 0;
    let mut right = 0;
    let mut rewarded = Vec::new();
    let mut policies = 0;
    let mut policies_right = 0;
    let mut differ = Vec::new();
    for row in &rows {
        let text = |field: &str| row[field].as_str().unwrap();
        let id = text("id");
        let gold = text("gold");
        let answer = text("pred");
        let expected = row["expected"].as_bool().unwrap();
        let marked = ["boxed", "\\fbox", "####"].iter().any(|mark| answer.contains(mark));
        let completion = text("form") == "completion";
        let rules = if completion && !marked { Profile::Unmarked } else { Profile::Default }.rules();
        let submission = if completion { CheckInput::Completion(answer) } else { CheckInput::Extracted(answer) };
        let verdict = check(gold, submission, &rules);
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

fn reports(data: &Path) {
    judge_reports(&data.join("data/math/reports.jsonl"), 95);
}

fn more_reports(data: &Path) {
    judge_reports(&data.join("data/math/reports-2.jsonl"), 97);
}

/// None is rewarded wrongly, and this percentage is as expected.
fn judge_reports(file: &Path, least: usize) {
    let rows = rows(file);
    let mut right = 0;
    let mut rewarded = Vec::new();
    for row in &rows {
        let text = |field: &str| row[field].as_str().unwrap();
        let rules = text("profile").parse::<Profile>().unwrap().rules();
        let input = text("input");
        let completion = text("form") == "completion";
        let submission = if completion { CheckInput::Completion(input) } else { CheckInput::Extracted(input) };
        let Ok(gold) = Gold::read(text("gold"), &rules) else { continue };
        let is_equal = gold.check_for(row["prompt"].as_str(), submission, &rules).is_equal();
        let expected = text("expected") == "equal";
        right += usize::from(is_equal == expected);
        if is_equal && !expected {
            rewarded.push(text("id").to_owned());
        }
    }
    println!("{right} of {} as expected, {rewarded:?} wrongly rewarded", rows.len());
    assert!(rewarded.is_empty(), "{rewarded:?}");
    assert!(right * 100 >= rows.len() * least, "{right} of {}", rows.len());
}

/// No gold answer is a copy, in any disguise that keeps it as written, and formulas of a problem that equal its answer
/// are.
fn copies(data: &Path) {
    let rules = Rules::default();
    let mut checked = 0;
    let mut wrong = Vec::new();
    for row in rows(&data.join("data/math/math500.jsonl")) {
        let problem = row["problem"].as_str().unwrap();
        let gold = row["answer"].as_str().unwrap();
        let read = Gold::read(gold, &rules).unwrap();
        for answer in [gold.to_owned(), format!("{{{gold}}}"), gold.replace("\\frac", "\\dfrac")] {
            let verdict = read.check_for(Some(problem), CheckInput::Extracted(&answer), &rules);
            checked += 1;
            if verdict.reason.code() == "copied" {
                wrong.push(format!("{answer}: {problem}"));
            }
        }
    }
    println!("{checked} gold answers of MATH-500");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What people write around a box is no reason to doubt it: the published solutions end with the gold answer.
fn prose(data: &Path) {
    let rules = Rules::default();
    let rows = rows(&data.join("data/math/math500.jsonl"));
    let is_accepted = |row: &&Json| {
        let text = |field: &str| row[field].as_str().unwrap();
        let gold = Gold::read(text("answer"), &rules).unwrap();
        gold.check_for(Some(text("problem")), CheckInput::Completion(text("solution")), &rules).is_equal()
    };
    let accepted = rows.iter().filter(is_accepted).count();
    println!("{accepted} of {} solutions of MATH-500", rows.len());
    assert!(accepted * 100 >= rows.len() * 94, "{accepted} of {}", rows.len());
}

/// How many gold answers equal themselves in a box, and the others with the reason.
fn not_equal_to_themselves(golds: &[String]) -> (usize, Vec<String>) {
    let rules = Rules::default();
    let mut count = 0;
    let mut wrong = Vec::new();
    for gold in golds {
        let boxed = format!("so \\boxed{{{gold}}}");
        match Gold::read(gold, &rules).map(|read| read.check(CheckInput::Completion(&boxed), &rules).reason) {
            Ok(reason) if reason.outcome() == CheckOutcome::Equal => count += 1,
            Ok(reason) => wrong.push(format!("{gold}: {reason}")),
            Err(error) => wrong.push(format!("{gold}: {error}")),
        }
    }
    (count, wrong)
}

fn gold_answers(data: &Path, benchmark: Benchmark) {
    let (name, _, least) = benchmark;
    let golds = golds(data, benchmark);
    let (count, wrong) = not_equal_to_themselves(&golds);
    println!("{name}: {count} of {} equal themselves", golds.len());
    assert!(count >= least, "{name}: {wrong:#?}");
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
    let above: i64 = above.parse().ok()?;
    let below: i64 = below.parse().ok()?;
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

fn numeric_variants(data: &Path, benchmark: Benchmark) {
    let name = benchmark.0;
    let golds = golds(data, benchmark);
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
    println!("{name}: {checked} variants");
    assert!(checked > 0, "{name} has no numbers");
}

fn solutions(data: &Path) {
    let rows = rows(&data.join("data/math/gsm8k.jsonl"));
    let rules = Profile::Gsm8k.rules();
    for row in &rows {
        let solution = row["answer"].as_str().unwrap();
        let gold = solution.rsplit_once("#### ").unwrap().1;
        let verdict = check(gold, CheckInput::Completion(solution), &rules);
        assert!(verdict.is_equal(), "{}: {solution}", verdict.reason);
    }
}

fn generations(data: &Path) {
    let rows = rows(&data.join("data/math/generations.jsonl"));
    let mut compared = 0;
    let mut differ = Vec::new();
    let mut refused = 0;
    for row in &rows {
        let verdicts =
            ["qwen_verdict", "mathverify_verdict", "opencompass_verdict"].map(|field| row[field].as_bool().unwrap());
        let gold = row["gold"].as_str().unwrap();
        let prediction = row["pred"].as_str().unwrap();
        let verdict = check(gold, CheckInput::Extracted(prediction), &Rules::default());
        if verdicts.iter().any(|verdict| *verdict != verdicts[0]) {
            // One of the graders takes no `10{,}000`.
            assert!(verdict.is_equal(), "{gold} is {prediction}");
            refused += 1;
            continue;
        }
        compared += 1;
        if (verdict.outcome() == CheckOutcome::Equal) != verdicts[0] {
            differ.push(format!("{}: {gold} and {prediction}: {}", row["id"], verdict.reason));
        }
    }
    println!("{compared} of {} generations compared, {refused} that the graders differ on", rows.len());
    assert!(differ.is_empty(), "{differ:#?}");
}
