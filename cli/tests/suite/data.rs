//! `evenkeel data check`: what a run would make of files.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::support::{evenkeel, refused, succeed, written_model};

const TEMPLATE: &str = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}\
                        {% if add_generation_prompt %}[assistant]{% endif %}";

/// A folder with a tokenizer and our template.
fn chat_model(folder: &Path) -> PathBuf {
    let model = written_model(folder);
    std::fs::remove_file(model.join("config.json")).unwrap();
    std::fs::write(model.join("chat_template.jinja"), TEMPLATE).unwrap();
    model
}

fn write(folder: &Path, name: &str, rows: &[Value]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, rows.iter().map(|row| format!("{row}\n")).collect::<String>()).unwrap();
    path
}

fn check(model: &Path, arguments: &[&str], files: &[&Path]) -> Command {
    let mut command = evenkeel(&["data", "check", "--model"]);
    command.arg(model).args(arguments).args(files);
    command
}

fn lines(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).expect("the output is text");
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object on each line")).collect()
}

#[test]
fn each_prompt_is_a_line_as_the_model_sees_it_and_a_summary_ends_them() {
    let dir = tempfile::tempdir().unwrap();
    let model = chat_model(dir.path());
    let rows = [
        json!({"id": 7, "prompt": "1+1?", "answer": 2.50}),
        json!({"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "1+2?"}], "answer": ["3", "4"]}),
        json!({"id": "7", "problem": "1+1?", "answer": "2.5"}),
        json!({"prompt": "write f", "public_test_cases": [{"input": "1", "output": "2"}]}),
        json!({"prompt": "1+3?", "answer": null}),
    ];
    let first = write(dir.path(), "first.jsonl", &rows);
    let second = write(dir.path(), "second.jsonl", &[rows[0].clone(), json!({"prompt": "1+4?", "label": "5"})]);
    let output = succeed(check(&model, &["--json"], &[&first, &second]));
    let a = first.display().to_string();
    let b = second.display().to_string();
    let found = lines(&output);
    let seen = |line: &Value| [&line["source"], &line["id"], &line["text"], &line["gold"]].map(Value::clone);
    assert_eq!(seen(&found[0]), [json!(a), json!(7), json!("[user]1+1?[assistant]"), json!("2.5")]);
    let chat = "[system]s[user]1+2?[assistant]";
    assert_eq!(seen(&found[1]), [json!(a), json!(format!("{a}#2")), json!(chat), json!(["3", "4"])]);
    assert_eq!(found[1]["token_ids"].as_array().unwrap().len(), chat.len(), "a token for each character");
    assert_eq!(found[2]["gold"], Value::Null, "a program has tests");
    assert_eq!(seen(&found[3]), [json!(b), json!(format!("{b}#2")), json!("[user]1+4?[assistant]"), json!("5")]);
    let summary = json!({"summary": {
        a: {"rows": 5, "prompts": 3, "duplicates": 1, "dropped": {"empty-gold": 1}},
        b: {"rows": 2, "prompts": 1, "duplicates": 1, "dropped": {}},
    }});
    assert_eq!(found[4..], [summary]);
}

#[test]
fn prompts_that_spell_control_tokens_are_counted_and_can_be_refused() {
    let dir = tempfile::tempdir().unwrap();
    let model = chat_model(dir.path());
    let rows = [json!({"prompt": "1+1?<eos>", "answer": 2}), json!({"prompt": "1+2?", "answer": 3})];
    let file = write(dir.path(), "rows.jsonl", &rows);
    let output = succeed(check(&model, &["--json"], &[&file]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("1 prompts contain the text of control tokens"), "{said}");
    assert_eq!(lines(&output).len(), 3);
    let refusing = succeed(check(&model, &["--json", "--set", "data.control_text=refuse"], &[&file]));
    let found = lines(&refusing);
    assert_eq!(found.last().unwrap()["summary"][file.display().to_string()]["dropped"], json!({"control-text": 1}));
}

#[test]
fn a_file_without_a_prompt_fails_the_command_with_its_name_and_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let model = chat_model(dir.path());
    let good = write(dir.path(), "good.jsonl", &[json!({"prompt": "1+1?", "answer": 2})]);
    let golds = write(dir.path(), "golds.jsonl", &[json!({"prompt": "1+2?", "answer": " "})]);
    let roles = json!({"prompt": [{"role": "judge", "content": "1+3?"}], "answer": 4});
    let roles = write(dir.path(), "roles.jsonl", &[roles]);
    let cut = dir.path().join("cut.parquet");
    let empty = dir.path().join("empty.jsonl");
    let absent = dir.path().join("no.jsonl");
    std::fs::write(&cut, b"PAR1 and then nothing more").unwrap();
    std::fs::write(&empty, "").unwrap();
    let output = check(&model, &["--json"], &[&good, &golds, &roles, &cut, &empty, &absent]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let found = lines(&output);
    assert_eq!((found.len(), &found[0]["text"]), (2, &json!("[user]1+1?[assistant]")));
    let summary = &found[1]["summary"];
    assert_eq!(summary[golds.to_str().unwrap()]["dropped"], json!({"empty-gold": 1}));
    assert_eq!(summary[roles.to_str().unwrap()]["dropped"], json!({"invalid-messages": 1}));
    assert_eq!(summary[empty.to_str().unwrap()]["rows"], 0);
    assert!(summary.get(cut.to_str().unwrap()).is_none(), "{summary}");
    let said = String::from_utf8(output.stderr).unwrap();
    for words in [
        "golds.jsonl: yields no prompts: 1 rows, 0 prompts, 1 empty-gold; line 1: the gold answer is empty",
        "roles.jsonl: yields no prompts: 1 rows, 0 prompts, 1 invalid-messages; line 1: prompt[0].role is \"judge\"",
        "cut.parquet: is cut off",
        "empty.jsonl: has no rows",
        "no.jsonl: cannot be read",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!said.contains("good.jsonl"), "{said}");
}

#[test]
fn a_person_sees_a_table_prompts_and_golds() {
    let dir = tempfile::tempdir().unwrap();
    let model = chat_model(dir.path());
    let rows: Vec<_> =
        (0..7).map(|n| json!({"prompt": format!("half of {n}?"), "answer": format!("\\frac{{{n}}}{{2}}")})).collect();
    let file = write(dir.path(), "rows.jsonl", &[&rows[..], &[rows[0].clone(), json!({"text": "x"})]].concat());
    let output = succeed(check(&model, &[], &[&file]));
    let text = String::from_utf8(output.stdout).unwrap();
    for words in [
        "rows.jsonl  prompt-and-label     9        7           1  1 missing-prompt",
        "7 prompts, 27 tokens on average, 27 in the longest",
        "1 duplicate\n  ",
        "line 9: no prompt, allowed: one of prompt",
        "rows.jsonl#1 (27 tokens), as the model sees it\n[user]half of 0?[assistant]",
        "\\frac{3}{2}  →  3/2",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_eq!(text.matches("as the model sees it").count(), 5);
}

#[test]
fn settings_and_recipes_say_how_files_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let model = written_model(dir.path());
    let row = |level: usize| json!({"q": {"text": format!("{level}?")}, "a": level, "level": format!("{level}/8")});
    let file = write(dir.path(), "rows.jsonl", &(0..8).map(row).collect::<Vec<_>>());
    let settings = ["data.prompt_field=q.text", "data.answer_field=a", "data.suffix=!"];
    let filter = "data.filters=[{field=\"level\", min=\"1/8\", max=\"2/8\"}]";
    let arguments: Vec<_> = settings.into_iter().chain([filter]).flat_map(|setting| ["--set", setting]).collect();
    let found = lines(&succeed(check(&model, &[&arguments[..], &["--json"]].concat(), &[&file])));
    let texts: Vec<_> = found.iter().filter_map(|line| line["text"].as_str()).collect();
    assert_eq!(texts, ["1?!", "2?!"]);

    let recipe = dir.path().join("recipe.toml");
    let text = format!(
        "[model]\npath = {model:?}\n[[data.sources]]\nfiles = [\"{}/*.jsonl\"]\nprompt_field = \"q.text\"\n\
        answer_field = \"a\"\n",
        dir.path().display()
    );
    std::fs::write(&recipe, text).unwrap();
    let mut command = evenkeel(&["data", "check", "--json", "--recipe"]);
    command.arg(&recipe);
    assert_eq!(lines(&succeed(command)).len(), 9);
}

#[test]
fn prompts_of_an_environment_are_said_to_be_without_its_tools() {
    let dir = tempfile::tempdir().unwrap();
    let model = chat_model(dir.path());
    let file = write(dir.path(), "rows.jsonl", &[json!({"prompt": "1?", "answer": 1})]);
    let said = |arguments: &[&str]| {
        String::from_utf8(succeed(check(&model, arguments, &[&file])).stderr)
            .unwrap()
            .contains("without the system prompt")
    };
    assert!(said(&["--set", "data.environment=calculator"]) && !said(&[]));
}

#[test]
fn what_cannot_be_checked_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let model = chat_model(dir.path());
    let file = write(dir.path(), "rows.jsonl", &[json!({"prompt": "1?", "answer": 1})]);
    let message = refused(check(&model, &["--json"], &[&file, &file]));
    assert!(message.contains("rows.jsonl is given twice"), "{message}");
    let message = refused(check(&dir.path().join("none"), &["--json"], &[&file]));
    assert!(message.contains("which does not exist, allowed: the folder of a Hugging Face model"), "{message}");
    let message = refused(check(&model, &["--set", "data.invalid_row=drop"], &[&file]));
    assert!(message.contains("nearest allowed: `data.invalid_rows`"), "{message}");
}

#[test]
fn a_reader_that_has_seen_enough_ends_it_quietly() {
    let dir = tempfile::tempdir().unwrap();
    let model = chat_model(dir.path());
    let rows: Vec<_> = (0..20_000).map(|n| json!({"prompt": format!("{n}?"), "answer": n})).collect();
    let file = write(dir.path(), "rows.jsonl", &rows);
    let mut child = check(&model, &["--json"], &[&file]).stdout(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
