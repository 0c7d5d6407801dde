//! Settings by the names that other trainers have for them.

use std::fmt::Write;

use evenkeel_config::Settings;
use evenkeel_recipe::Recipe;

use super::{cell, hold};

const TITLE: &str = "# Names of verl and TRL

What a name of another trainer is here; a recipe or `--set` with such a name is refused with the same words. \
[From verl](../verl.md) and [from TRL](../trl.md) say where the meaning differs.";

#[test]
fn the_page_of_other_names_is_the_table() {
    let mut text = String::new();
    for names in Recipe::OTHER_NAMES.iter().filter(|names| ["TRL's", "verl's"].contains(&names.whose)) {
        write!(text, "\n## {}\n\n| there | here |\n|---|---|\n", names.whose.trim_end_matches("'s")).unwrap();
        for (theirs, here) in names.settings {
            writeln!(text, "| `{theirs}` | `{here}` |").unwrap();
        }
        for (theirs, words) in names.words {
            writeln!(text, "| `{theirs}` | {} |", cell(words)).unwrap();
        }
    }
    hold("other-names.md", TITLE, &text);
}
