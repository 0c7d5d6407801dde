//! Reason codes, as verdicts, rows, calls and items carry them.

use std::fmt::Write;

use evenkeel_proto::{JudgeFailure, Label};

use super::{cell, hold};

const TITLE: &str = "# Reason codes

What a verdict, a dropped row, a failed call or a failed item says of why. The names are stable.";

/// Enumerations of the protocol that say why, by file.
const ENUMS: &[(&str, &str)] =
    &[("reward", "Outcome"), ("reward", "InvalidReason"), ("common", "FinishReason"), ("common", "FailureCode")];

fn table(text: &mut String, heading: &str, what: &str, columns: &str, rows: impl Iterator<Item = Vec<String>>) {
    let rule = "|---".repeat(columns.matches('|').count() - 1);
    write!(text, "\n## {heading}\n\n{what}\n\n{columns}\n{rule}|\n").unwrap();
    for row in rows {
        writeln!(text, "| {} |", row.join(" | ")).unwrap();
    }
}

/// The values of an enumeration of a `.proto` file with their comments, without the first, which stands for nothing.
fn values(proto: &str, name: &str) -> Vec<(String, String)> {
    let (_, body) = proto.split_once(&format!("\nenum {name} {{\n")).unwrap_or_else(|| panic!("no enum {name}"));
    let (body, _) = body.split_once("\n}").unwrap();
    let mut found = Vec::new();
    let mut comment = Vec::new();
    for line in body.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("// ") {
            comment.push(text);
        } else if let Some((name, _)) = line.split_once(" = ") {
            found.push((name.to_owned(), comment.join(" ")));
            comment.clear();
        }
    }
    assert!(found.first().is_some_and(|(name, _)| name.ends_with("_UNSPECIFIED")), "{found:?}");
    found.split_off(1)
}

/// What the values of an enumeration begin with: `FINISH_REASON_`.
fn prefix(name: &str) -> String {
    let letter = |(index, c): (usize, char)| {
        if c.is_ascii_uppercase() && index > 0 { format!("_{c}") } else { c.to_ascii_uppercase().to_string() }
    };
    name.chars().enumerate().map(letter).collect::<String>() + "_"
}

fn page() -> String {
    let mut text = String::new();
    let code = |code: &str| format!("`{code}`");
    table(
        &mut text,
        "Mathematical answers",
        "`reason` of verdict rows and of the verdict metric, `reason_code` in the protocol. It determines the outcome \
        ([mathematical answers](../math.md)).",
        "| reason | outcome | |",
        evenkeel_math::Reason::ALL
            .iter()
            .map(|reason| vec![code(reason.code()), code(reason.outcome().name()), cell(reason.meaning())]),
    );
    table(
        &mut text,
        "Programs",
        "The last six are `INVALID` and have no reward. Programs that need something that the sandbox lacks have \
         `unsupported`, whatever the outcome ([programs](../code.md)).",
        "| reason | outcome | |",
        evenkeel_sandbox::Reason::ALL
            .iter()
            .map(|reason| vec![code(reason.code()), code(reason.outcome().name()), cell(reason.meaning())]),
    );
    table(
        &mut text,
        "Judges",
        "All are `INVALID` and have no reward; a verdict of a judge has the reason `judged` ([judges](../judges.md)).",
        "| reason | |",
        JudgeFailure::ALL.iter().map(|failure| vec![code(failure.label()), cell(failure.meaning())]),
    );
    table(
        &mut text,
        "Rows of data sets",
        "Why a row yields no prompt. With `data.invalid_rows = \"refuse\"` those that are a fault of the row refuse \
         the run; otherwise the row is left out and counted ([data sets](../data.md)).",
        "| reason | fault | |",
        evenkeel_data::Reason::ALL.iter().map(|reason| {
            let fault = if reason.is_fault() { "yes" } else { "no" };
            vec![code(reason.name()), fault.to_owned(), cell(reason.meaning())]
        }),
    );
    table(
        &mut text,
        "Failed calls and items",
        "`google.rpc.ErrorInfo.reason` of a call, `Failure.reason` of an item ([what each code \
        means](../protocol.md#errors-of-calls)).",
        "| reason | |",
        evenkeel_rpc::error::Reason::ALL.iter().map(|reason| vec![code(reason.as_str()), cell(reason.meaning())]),
    );
    for (file, name) in ENUMS {
        let proto =
            std::fs::read_to_string(crate::book::root().join(format!("proto/evenkeel/v1/{file}.proto"))).unwrap();
        let prefix = prefix(name);
        let values = values(&proto, name);
        let row = |(value, comment): &(String, String)| {
            vec![code(value.strip_prefix(&prefix).unwrap_or(value)), cell(comment)]
        };
        let what = format!("`evenkeel.v1.{name}`; in full with the prefix `{prefix}`.");
        table(&mut text, name, &what, "| value | |", values.iter().map(row));
    }
    text
}

#[test]
fn the_page_of_reasons_is_what_the_code_says() {
    hold("reasons.md", TITLE, &page());
}

#[test]
fn a_value_of_the_protocol_has_its_comment() {
    let proto = "\n// Why.\nenum EndReason \
        {\n  // Not set.\n  END_REASON_UNSPECIFIED = 0;\n  // It is\n  // over.\n  END_REASON_OVER = 1;\n}\n";
    assert_eq!(values(proto, "EndReason"), [("END_REASON_OVER".to_owned(), "It is over.".to_owned())]);
    assert_eq!(prefix("EndReason"), "END_REASON_");
}
