//! The calls and messages of the protocol, as the `.proto` files declare them.

use std::fmt::Write;

use super::{cell, hold};
use crate::book::{pages, root};

const TITLE: &str = "# Calls and messages

The files in [`proto/evenkeel/v1`](../../proto/evenkeel/v1) as one page. [What the APIs share](../protocol.md).";

/// A line that declares something, with the comment above it.
struct Line<'f> {
    comment: String,
    text: &'f str,
}

/// The lines of a file that declare something. What a file says of itself stands above its `syntax`.
fn lines(file: &str) -> Vec<Line<'_>> {
    let mut comment = String::new();
    let mut lines = Vec::new();
    for line in file.lines().map(str::trim) {
        match line.strip_prefix("//") {
            Some(words) => comment = format!("{comment} {}", words.trim()).trim().to_owned(),
            None if line.is_empty() => comment.clear(),
            None => lines.push(Line { comment: std::mem::take(&mut comment), text: line }),
        }
    }
    lines
}

/// A section for a service, message or enumeration: its heading, its comment and a table.
fn open(text: &mut String, kind: &str, name: &str, comment: &str, is_empty: bool) {
    let columns = match kind {
        "service" => "| call | request | response | |\n|---|---|---|---|",
        "enum" => "| value | |\n|---|---|",
        _ => "| field | type | |\n|---|---|---|",
    };
    let kind = if kind == "service" { " (service)" } else { "" };
    write!(text, "\n### {name}{kind}\n\n{comment}\n").unwrap();
    if !is_empty {
        write!(text, "\n{columns}\n").unwrap();
    }
}

/// The row of a call: `rpc Verify(stream VerifyRequest) returns (stream Verdict);`.
fn call(declared: &str, comment: &str) -> String {
    let parts: Vec<&str> = declared.split(['(', ')']).map(str::trim).collect();
    let [name, request, _, response, _] = parts[..] else { panic!("{declared} is no call") };
    format!("| `{name}` | `{request}` | `{response}` | {} |", cell(comment))
}

/// The row of a field or value: `optional uint64 deadline_ms = 2;`, `CODE_OK = 1;`. `choice` is the `oneof` around it.
fn field(declared: &str, comment: &str, choice: Option<&str>) -> String {
    let (declared, _) = declared.split_once(" = ").unwrap_or_else(|| panic!("{declared} is no field"));
    let choice = choice.map(|choice| format!("One of `{choice}`. ")).unwrap_or_default();
    let comment = cell(&format!("{choice}{comment}"));
    match declared.rsplit_once(' ') {
        Some((kind, name)) => format!("| `{name}` | `{kind}` | {comment} |"),
        None => format!("| `{declared}` | {comment} |"),
    }
}

/// The sections of a file.
fn sections(file: &str, text: &mut String) {
    let mut choice = None;
    for Line { comment, text: line } in lines(file) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [kind @ ("service" | "message" | "enum"), name, brace @ ("{" | "{}")] => {
                open(text, kind, name, &comment, brace == "{}");
            }
            ["oneof", name, "{"] => choice = Some(name),
            ["}"] => choice = None,
            ["syntax" | "package" | "import" | "reserved", ..] => {}
            ["rpc", ..] => {
                let declared = line.trim_start_matches("rpc ");
                writeln!(text, "{}", call(declared, &comment)).unwrap();
            }
            _ => writeln!(text, "{}", field(line, &comment, choice)).unwrap(),
        }
    }
}

#[test]
fn calls_and_messages_are_those_of_the_protocol() {
    let mut text = String::new();
    for path in pages::files(&root().join("proto/evenkeel"), ".proto") {
        write!(text, "\n## {}\n", path.file_name().unwrap().display()).unwrap();
        sections(&std::fs::read_to_string(path).unwrap(), &mut text);
    }
    hold("protocol.md", TITLE, &text);
}

#[test]
fn a_field_is_written_with_its_type_and_comment() {
    let mut text = String::new();
    let file = "// All.\nsyntax = \"proto3\";\n\n// An item.\nmessage Item {\n  // Required.\n  oneof task {\n    // An answer,\n    \
                // or none.\n    Answer answer = 1;\n  }\n  reserved 2;\n  // Names.\n  map<string, double> names = 3;\n}\n";
    sections(file, &mut text);
    assert_eq!(
        text,
        "\n### Item\n\nAn item.\n\n| field | type | |\n|---|---|---|\n| `answer` | `Answer` | One of `task`. An answer, or \
         none. |\n| `names` | `map<string, double>` | Names. |\n"
    );
}
