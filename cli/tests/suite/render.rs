//! Conversations of a file as a model's template renders them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};

use crate::support::{evenkeel, refused, succeed};

/// The tokenizer of crates/chat's goldens with a template of its own, in a folder named `small`.
fn folder(dir: &Path) -> PathBuf {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/chat/tests/golden");
    let folder = dir.join("small");
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(golden.join("tokenizer.json"), folder.join("tokenizer.json")).unwrap();
    let template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{{ extra | tojson }}";
    std::fs::write(folder.join("chat_template.jinja"), template).unwrap();
    folder
}

fn lines(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn each_row_of_the_folder_has_its_text_or_its_error_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let folder = folder(dir.path());
    let file = dir.path().join("rows.jsonl");
    let messages = r#"[{"role": "user", "content": "é"}]"#;
    let rows = [
        format!(
            r#"{{"id": "a", "messages": {messages}, "arguments": {{"extra": {{"b": 1.0, "a": 1180591620717411303424}}}}, "text": 3}}"#
        ),
        format!(r#"{{"id": "b", "model": "large", "messages": {messages}, "arguments": {{}}}}"#),
        format!(r#"{{"id": [3], "model": "small", "messages": {messages}, "arguments": {{}}}}"#),
        r#"{"messages": [], "arguments": {}}"#.to_owned(),
    ];
    std::fs::write(&file, rows.join("\n")).unwrap();
    let mut command = evenkeel(&["data", "render", "--model"]);
    command.arg(&folder).arg("--json").arg(&file);
    let found = lines(&succeed(command));
    assert_eq!(found.len(), 3);
    let text = "user: é\n{\"b\": 1.0, \"a\": 1180591620717411303424}";
    assert_eq!((&found[0]["id"], &found[0]["text"]), (&json!("a"), &json!(text)));
    assert_eq!(found[0]["token_ids"].as_array().unwrap().len(), text.len(), "the tokenizer has a token for each byte");
    let undefined = json!({"id": [3], "error": "Object of type Undefined is not JSON serializable"});
    assert_eq!(found[1], undefined);
    let empty = "Cannot apply chat template to an empty conversation. Provide at least one message.";
    assert_eq!(found[2], json!({"id": null, "error": empty}));
}

#[test]
fn a_line_that_is_no_row_is_named_and_stops_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let folder = folder(dir.path());
    let file = dir.path().join("rows.jsonl");
    std::fs::write(&file, "{\"id\": 1}\n").unwrap();
    let mut command = evenkeel(&["data", "render", "--model"]);
    command.arg(&folder).arg("--json").arg(&file);
    let message = refused(command);
    assert!(message.contains("rows.jsonl line 1: missing field `messages`"), "{message}");
}
