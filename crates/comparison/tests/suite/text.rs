//! The text for a terminal.

use crate::support::{arm, around, compare, failed, run};

#[test]
fn the_text_has_arms_pairs_and_conclusions() {
    let mut runs = [arm("balanced", &around(0.6, 8, 1)), arm("token", &around(0.5, 8, 2))].concat();
    runs.push(failed(run("token", 8, &[]), "killed\u{1b}[2J"));
    let text = compare(&runs).to_text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "sums, k = 8");
    let cells = |start: &str, has: &str| {
        let line = lines.iter().find(|line| line.starts_with(start) && line.contains(has)).unwrap();
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(cells("balanced ", "")[..4], ["balanced", "8", "0", "0"]);
    assert_eq!(cells("token ", "")[..4], ["token", "8", "1", "0"]);
    let last = cells("balanced − token ", " last mean@k ");
    assert_eq!((&last[1..4], last[last.len() - 1]), (&["last mean@k", "8", "0.103"][..], "*"));
    assert!(text.contains("- The last mean@k of balanced is higher"), "{text}");
    let is_primary_or_shown = |line: &&&str| line.contains(" last mean@k ") || line.ends_with('*');
    let rows: Vec<_> = lines.iter().filter(|line| line.starts_with("balanced − token ")).collect();
    assert_eq!(rows.iter().filter(|line| is_primary_or_shown(line)).count(), rows.len(), "{text}");
    assert!(text.contains("in other measures, none of them shown."), "{text}");
    assert!(text.contains(r"(killed\u{1b}[2J)") && !text.contains('\u{1b}'), "{text}");
    assert!(lines.iter().all(|line| line.trim_end() == *line));
}

#[test]
fn nothing_is_starred_without_a_finding() {
    let text = compare(&[arm("balanced", &around(0.6, 5, 1)), arm("token", &around(0.5, 5, 2))].concat()).to_text();
    assert!(!text.contains('*') && text.contains("below 8 seeds"), "{text}");
}
