//! The service gives the verdicts of `evenkeel-math`: on the committed pairs, and on completions to problems whose text
//! decides.

use std::collections::BTreeMap;

use evenkeel_math::{CheckInput, Gold, Rules, Verdict};
use evenkeel_proto::v1::verify_item::Answer;
use evenkeel_proto::v1::{MathTask, VerifyItem};

use crate::support::{Stream, Worker, bounded, task};

/// A gold answer, the text of its task, and an answer to it.
struct Row {
    gold: String,
    prompt: Option<String>,
    answer: Answer,
}

/// What a client can compare: reward, reason, the answer as found and as read, whether copies were looked for.
type Seen = (Option<f64>, String, Option<String>, Option<String>, bool);

const PAIRS: &str = include_str!("../../../../crates/math/tests/golden/pairs.jsonl");

/// Problem, gold answer, completion.
const PROBLEMS: [[&str; 3]; 9] = [
    ["A zoo has 36 zebras. How many are there?", "36", "There are \\boxed{36 \\text{ zebras}}."],
    ["A zoo has 36 zebras. How many are there?", "36", "There are \\boxed{36 \\text{ wombats}}."],
    ["Compute $\\binom{31}{28}$.", "4495", "It is $\\boxed{\\binom{31}{28}}$."],
    ["Write 12 in base 7.", "15", "In base 7, it is \\boxed{15}."],
    ["What is 3 + 12?", "15", "In base 7, it is \\boxed{15}."],
    ["Each child says a number. What does Bob say?", "7", "So Bob says \\boxed{7}."],
    ["What is 3 + 4?", "7", "Bob says \\boxed{7}."],
    ["What is 6 * 7? (A) 41 (B) 42 (C) 43", "B", "It is \\boxed{B} (could be C)."],
    ["What is 6 * 6?", "36", "\\boxed{36} (just a guess, could be 37)"],
];

fn rows() -> Vec<Row> {
    let pairs = PAIRS.lines().map(|line| {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = |field: &str| row[field].as_str().unwrap().to_owned();
        let answer = match row["form"].as_str().unwrap() {
            "completion" => Answer::Completion(text("answer")),
            _ => Answer::Extracted(text("answer")),
        };
        Row { gold: text("gold"), prompt: None, answer }
    });
    let problems = PROBLEMS.iter().map(|[prompt, gold, completion]| Row {
        gold: (*gold).to_owned(),
        prompt: Some((*prompt).to_owned()),
        answer: Answer::Completion((*completion).to_owned()),
    });
    pairs.chain(problems).collect()
}

/// The verdict of the crate, in the terms of the service.
fn judged(row: &Row) -> Seen {
    let rules = Rules::default();
    let input = match &row.answer {
        Answer::Completion(text) => CheckInput::Completion(text),
        Answer::Extracted(text) => CheckInput::Extracted(text),
    };
    let seen = |verdict: &Verdict<'_>| {
        let reward = if verdict.is_equal() { 1.0 } else { 0.0 };
        let extracted = verdict.extracted.as_ref().map(ToString::to_string);
        (Some(reward), verdict.reason.code().to_owned(), extracted, verdict.canonical(), verdict.copies_checked)
    };
    match Gold::read(&row.gold, &rules) {
        Ok(gold) => seen(&gold.check_for(row.prompt.as_deref(), input, &rules)),
        Err(error) => (None, error.reason().code().to_owned(), None, None, false),
    }
}

#[test]
fn the_service_and_the_crate_give_the_same_verdicts() {
    bounded(async {
        let rows = rows();
        let worker = Worker::start().await;
        let mut stream = Stream::open(&worker).await;
        let mut found = BTreeMap::new();
        // Fewer at once than a worker takes.
        for chunk in (0..rows.len()).collect::<Vec<_>>().chunks(100) {
            for at in chunk {
                let row = &rows[*at];
                let math = MathTask { gold: row.gold.clone(), prompt: row.prompt.clone(), ..MathTask::default() };
                let item = VerifyItem { answer: Some(row.answer.clone()), ..task(at.to_string(), "", math) };
                stream.send(item).await;
            }
            for _ in chunk {
                let verdict = stream.verdict().await;
                let seen =
                    (verdict.reward, verdict.reason_code, verdict.extracted, verdict.canonical, verdict.copies_checked);
                found.insert(verdict.id.parse::<usize>().unwrap(), seen);
            }
        }
        for (at, row) in rows.iter().enumerate() {
            assert_eq!(found.get(&at), Some(&judged(row)), "{} and {:?}", row.gold, row.answer);
        }
        // Both verdicts occur among the problems: the text of a task decides.
        let rewards: Vec<Option<f64>> = found.into_values().map(|seen| seen.0).collect();
        let problems = &rewards[rewards.len() - PROBLEMS.len()..];
        assert_eq!(problems, [1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0].map(Some));
    });
}
