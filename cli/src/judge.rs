//! `evenkeel judge check`: a judge beside labels that people gave, and beside itself.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use evenkeel_judge::{Agreement, DefaultRecord, Judge, JudgeError, LabelledScore, Question};
use evenkeel_proto::FieldError;
use evenkeel_proto::shown::one_line;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::arguments::{JudgeCheckOptions, JudgeCommand};
use crate::terminal::print_result;
use crate::verify::{InvalidLines, open_lines};

/// Answers that are shown, those on which the judge is farthest from the label.
const SHOWN: usize = 5;
/// Difference from which on an answer is shown.
const FAR: f64 = 0.25;
/// Characters of an answer.
const WIDTH: usize = 60;

pub(crate) async fn run(command: JudgeCommand) -> Result<ExitCode> {
    match command {
        JudgeCommand::Check(options) => check(&options).await,
    }
}

/// A row of the file.
struct LabelledRow {
    line: usize,
    label: f64,
    question: Question,
}

async fn check(options: &JudgeCheckOptions) -> Result<ExitCode> {
    let recipe = evenkeel_recipe::load(&options.recipe, &options.set)?.settings;
    let allowed = "a judge: endpoint, model and rubric";
    let settings = recipe.reward_service().judge.ok_or_else(|| FieldError::missing("reward.judge", allowed))?;
    let judge = Judge::open(&settings, DefaultRecord::Never).map_err(|error| match error {
        JudgeError::Setting(error) => error.within("reward.judge").into(),
        error => anyhow::Error::new(error).context("reward.judge"),
    })?;
    let mut invalid = InvalidLines::default();
    let (rows, invalid_rows) = read(&options.file, options.limit, &judge, &mut invalid)?;
    invalid.end();
    if rows.is_empty() {
        bail!("{} has no row that can be judged", options.file.display());
    }
    let mut asked = JoinSet::new();
    for (index, row) in rows.iter().enumerate() {
        let (judge, question, label) = (judge.clone(), row.question.clone(), row.label);
        asked.spawn(async move {
            // One after the other: the same question at the same time would be asked once.
            let first = judge.judge(question.clone()).await;
            (index, LabelledScore { label, judgements: [first, judge.judge(question).await] })
        });
    }
    let mut scores = asked.join_all().await;
    scores.sort_by_key(|(index, _)| *index);
    let scores: Vec<LabelledScore> = scores.into_iter().map(|(_, score)| score).collect();
    let found = Agreement::of(&scores);
    print_result(&text(&found, judge.spent(), &far(&rows, &scores)))?;
    Ok(if invalid_rows == 0 && found.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The rows of a file, and how many cannot be read.
fn read(
    path: &Path,
    limit: Option<usize>,
    judge: &Judge,
    invalid: &mut InvalidLines,
) -> Result<(Vec<LabelledRow>, usize)> {
    let mut lines = open_lines(path, "FILE")?;
    let mut rows = Vec::new();
    let mut invalid_rows = 0;
    while rows.len() < limit.unwrap_or(usize::MAX) {
        let Some(line) = lines.next_line().with_context(|| path.display().to_string())? else { break };
        let number = line.number;
        let read = || -> Result<LabelledRow> {
            let row: Value = serde_json::from_str(line.text.as_deref().map_err(Clone::clone)?)?;
            let answer = row.get("completion").and_then(Value::as_str);
            let answer = answer.ok_or_else(|| FieldError::missing("completion", "the answer to judge, a text"))?;
            let label = label(row.get("label"))?;
            let question = judge.settings().question(&row, answer.to_owned())?;
            Ok(LabelledRow { line: number, label, question })
        };
        match read() {
            Ok(row) => rows.push(row),
            Err(error) => {
                invalid_rows += 1;
                invalid.report(path, number, &error);
            }
        }
    }
    Ok((rows, invalid_rows))
}

/// A label: 0 to 1, or whether the answer is good.
fn label(value: Option<&Value>) -> Result<f64, FieldError> {
    let allowed = "0 to 1, or true or false";
    let Some(value) = value else { return Err(FieldError::missing("label", allowed)) };
    let number = value.as_bool().map(|good| f64::from(u8::from(good))).or_else(|| value.as_f64());
    number.filter(|number| (0.0..=1.0).contains(number)).ok_or_else(|| FieldError::new("label", value, allowed))
}

/// The answers on which the judge is farthest from the label, a line each.
fn far(rows: &[LabelledRow], scores: &[LabelledScore]) -> Vec<String> {
    let scored = rows.iter().zip(scores).filter_map(|(row, score)| {
        let judged = score.judgements[0].as_ref().ok()?;
        Some((row, judged.score, (judged.score - row.label).abs()))
    });
    let mut far: Vec<_> = scored.filter(|(_, _, difference)| *difference >= FAR).collect();
    far.sort_by(|(_, _, one), (_, _, other)| other.total_cmp(one));
    let shown = |(row, score, _): (&LabelledRow, f64, f64)| {
        let answer = one_line(&row.question.answer, WIDTH);
        format!("  line {}: label {}, score {score:.3}: {answer}", row.line, row.label)
    };
    far.into_iter().take(SHOWN).map(shown).collect()
}

fn text(found: &Agreement, (calls, tokens): (u64, u64), far: &[String]) -> String {
    let Agreement { rows, scored, same_side, repeated, repeated_equal, .. } = found;
    let mut text = format!("{rows} answers, {calls} calls, {tokens} tokens\n");
    let direction = if found.bias < 0.0 { "below" } else { "above" };
    let bias = found.bias.abs();
    // Writing to a text cannot fail.
    let _ = writeln!(
        text,
        "with the labels: {same_side} of {scored} scores on the same side of 0.5, mean difference {:.3}, on average \
         {bias:.3} {direction} the label",
        found.mean_difference
    );
    let _ = writeln!(
        text,
        "with itself: {repeated_equal} of {repeated} scores equal when asked twice, mean difference {:.3}",
        found.mean_repeated_difference
    );
    for (reason, count) in &found.failures {
        let _ = writeln!(text, "no verdict: {reason}, {count} times");
    }
    if !far.is_empty() {
        let _ = writeln!(text, "farthest from the label:\n{}", far.join("\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_label_is_a_number_from_0_to_1_or_a_truth() {
        let read_label = |value: Value| label(Some(&value));
        assert_eq!(
            [read_label(json!(true)), read_label(json!(false)), read_label(json!(0.25))],
            [Ok(1.0), Ok(0.0), Ok(0.25)]
        );
        for wrong in [json!(2), json!(-0.5), json!("good"), json!(null)] {
            assert!(read_label(wrong.clone()).unwrap_err().to_string().starts_with("label is "), "{wrong}");
        }
        assert_eq!(label(None).unwrap_err().to_string(), "label is absent, required: 0 to 1, or true or false");
    }
}
