//! The command line, as it is declared.

use std::fmt::Write;

use clap::{Arg, ArgAction, Command};

use super::super::shell;
use super::{cell, hold};
use crate::arguments;

const TITLE: &str = "# The command line

`evenkeel COMMAND --help` prints a summary of this page: one line for each argument.";

/// Most lines and columns of a command's help.
const SCREEN: (usize, usize) = (45, 100);

/// A command with its arguments, and those within it.
fn section(command: &mut Command, text: &mut String) {
    let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
    let usage = command.render_usage().to_string();
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let usage = usage.trim_start_matches("Usage: ");
    write!(text, "\n## {name}\n\n{}\n\n```text\n{usage}\n```\n", sentence(&about)).unwrap();
    write!(text, "\nFor example:\n\n```sh\n{}\n```\n", example(command)).unwrap();
    let is_root = command.get_name() == "evenkeel";
    let shown = |arg: &&Arg| !arg.is_hide_set() && (is_root || !arg.is_global_set()) && !is_help(arg);
    let mut arguments: Vec<&Arg> = command.get_positionals().filter(shown).collect();
    arguments.extend(command.get_arguments().filter(|arg| !arg.is_positional()).filter(shown));
    if !arguments.is_empty() {
        *text += "\n| argument | |\n|---|---|\n";
    }
    for argument in arguments {
        writeln!(text, "| `{}` | {} |", cell(&written(argument)), cell(&explained(argument))).unwrap();
    }
    let subcommands: Vec<String> = command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    for name in subcommands {
        let command = command.find_subcommand_mut(&name).unwrap();
        if !command.is_hide_set() {
            section(command, text);
        }
    }
}

/// The example of a command's help.
fn example(command: &Command) -> String {
    let example = command.get_after_help().map(ToString::to_string);
    example.unwrap_or_else(|| panic!("{} has no example", command.get_name())).trim().to_owned()
}

fn is_help(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version)
}

/// An argument as it is written: `--set KEY=VALUE`, `-v, --verbose`, `RECIPE...`.
fn written(argument: &Arg) -> String {
    let short = argument.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
    let long = argument.get_long().map(|long| format!("--{long}")).unwrap_or_default();
    let takes_value = argument.get_action().takes_values();
    let values: Vec<String> =
        argument.get_value_names().into_iter().flatten().map(ToString::to_string).filter(|_| takes_value).collect();
    let several = argument.is_positional() && matches!(argument.get_action(), ArgAction::Append);
    let value = values.join(" ") + if several { "..." } else { "" };
    let gap = if long.is_empty() || value.is_empty() { "" } else { " " };
    format!("{short}{long}{gap}{value}")
}

/// Description of an argument: help, values, default and other name.
fn explained(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut text = sentence(&help.replace("\n\n", "\u{2029}").replace('\n', " ").replace('\u{2029}', "\n"));
    let is_flag = !argument.get_action().takes_values();
    for value in argument.get_possible_values().iter().filter(|value| !is_flag && !value.is_hide_set()) {
        let meaning = value.get_help().map(|help| format!(": {help}")).unwrap_or_default();
        text += &format!("\n- `{}`{}", value.get_name(), sentence(&meaning));
    }
    let defaults: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if !is_flag && !argument.is_hide_default_value_set() && !defaults.is_empty() {
        text += &format!("\nDefault: `{}`.", defaults.join(" "));
    }
    let aliases: Vec<String> =
        argument.get_visible_aliases().into_iter().flatten().map(|alias| format!("`--{alias}`")).collect();
    if !aliases.is_empty() {
        text += &format!("\nAlso {}.", aliases.join(", "));
    }
    if argument.is_required_set() {
        text += " Required.";
    }
    text
}

/// With a full stop, which the derived help leaves out.
fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() || text.ends_with(['.', ']', ':']) { text.to_owned() } else { format!("{text}.") }
}

fn page() -> String {
    let mut command = arguments::command();
    let mut text = String::new();
    command.build();
    section(&mut command, &mut text);
    text
}

#[test]
fn the_page_of_commands_is_what_the_code_says() {
    hold("commands.md", TITLE, &page());
}

#[test]
fn each_command_has_a_section_and_each_argument_a_word() {
    let page = page();
    for name in ["evenkeel train", "evenkeel data check", "evenkeel gpu plan", "evenkeel model untie"] {
        assert!(page.contains(&format!("\n## {name}\n")), "{name}");
    }
    assert!(page.contains("| `--set KEY=VALUE` | ") && page.contains("| `RECIPE...` | "), "{page}");
    assert!(!page.contains("sandbox-worker") && !page.contains("--with-parent"), "what is hidden stays hidden");
    assert!(!page.lines().any(|line| line.starts_with("| `") && line.ends_with("|  |")), "{page}");
}

/// A command and those within it, but for hidden ones.
fn each(command: &mut Command, check: &mut impl FnMut(&mut Command)) {
    check(command);
    command.get_subcommands_mut().filter(|command| !command.is_hide_set()).for_each(|command| each(command, check));
}

#[test]
fn the_help_of_each_command_fits_a_screen() {
    let (most_lines, most_columns) = SCREEN;
    let mut command = arguments::command();
    command.build();
    each(&mut command, &mut |command: &mut Command| {
        let help = command.render_help().to_string();
        let longest = help.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(help.lines().count() <= most_lines, "{help}");
        assert!(longest.chars().count() <= most_columns, "{longest}");
    });
}

#[test]
fn help_begins_with_what_a_command_does_and_an_example_that_the_program_takes() {
    let mut command = arguments::command();
    command.build();
    each(&mut command, &mut |command: &mut Command| {
        let help = command.render_help().to_string();
        let example = example(command);
        let about = command.get_about().unwrap();
        assert!(help.starts_with(&format!("{about}\n\n  {example}\n\nUsage: ")), "{help}");
        let typed = example.split(" > ").next().unwrap();
        for words in shell::commands(typed).unwrap() {
            let taken = arguments::command().try_get_matches_from(words);
            assert!(taken.is_ok(), "{example}: {}", taken.unwrap_err());
        }
    });
}

#[test]
fn both_help_flags_print_the_same() {
    let help = |flag| arguments::command().try_get_matches_from(["evenkeel", "train", flag]).unwrap_err().to_string();
    assert_eq!(help("-h"), help("--help"));
    assert!(help("-h").contains("\nDry run:\n"), "{}", help("-h"));
}
