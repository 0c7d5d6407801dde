//! Names in running text: settings, metrics, commands and flags between backticks are ones that there are.

use std::collections::BTreeSet;

use clap::Command;

use evenkeel_engine::EngineSettings;
use evenkeel_generation::GenerationSettings;
use evenkeel_learner::LearnerSettings;
use evenkeel_orchestrator::OrchestratorSettings;
use evenkeel_reward::RewardSettings;
use evenkeel_reward::gateway::GatewaySettings;
use evenkeel_run::metric::table;

use super::pages::{self, Page};
use crate::arguments;
use crate::documentation::{all_keys, schema, schema_of};
use crate::tinker::TinkerService;

/// Endings of names that look like settings and are files.
const FILES: [&str; 10] = [".rs", ".proto", ".json", ".jsonl", ".py", ".md", ".toml", ".yaml", ".html", ".safetensors"];
/// Pages on which names of other systems stand beside ours.
const COMPARED: [&str; 3] = ["docs/verl.md", "docs/glossary.md", "docs/python.md"];

/// Text between backticks, outside of blocks.
fn code(page: &Page) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut is_block = false;
    for (index, line) in page.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
        } else if !is_block {
            found.extend(line.split('`').skip(1).step_by(2).map(|text| (index + 1, text.to_owned())));
        }
    }
    found
}

/// The settings of lists and of tables under a name of the user's are in no default.
fn is_within_a_list(key: &str) -> bool {
    [
        "data.sources",
        "data.verifiers",
        "evaluation.benchmarks",
        "data.filters",
        "shaping.weights",
        "data.template_arguments",
    ]
    .iter()
    .any(|list| key.starts_with(list))
}

/// A command as far as it is spelled: whether its subcommands and flags exist.
fn command(text: &str, root: &Command) -> Result<(), String> {
    let mut command = root;
    let mut may_be_subcommand = true;
    for word in text.split_whitespace().skip(1) {
        if matches!(word, "..." | "…" | "--" | "|" | ">") {
            break;
        }
        if let Some(flag) = word.trim_matches(['[', ']', ',']).strip_prefix("--") {
            let name = flag.split('=').next().unwrap_or(flag);
            let is_known = command.get_arguments().any(|argument| {
                argument.get_long() == Some(name) || argument.get_all_aliases().is_some_and(|all| all.contains(&name))
            });
            if !is_known && !matches!(name, "help" | "version") {
                return Err(format!("`{text}`: no --{name}"));
            }
            may_be_subcommand = false;
        } else if may_be_subcommand && command.has_subcommands() {
            let Some(found) = command.find_subcommand(word) else {
                // `evenkeel model --out DIR` has subcommands and none is needed; `a|b` names several.
                let all = word.split('|').all(|word| command.find_subcommand(word).is_some());
                let is_name = word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
                return if all || !is_name { Ok(()) } else { Err(format!("`{text}`: no command {word}")) };
            };
            command = found;
        }
    }
    Ok(())
}

/// What is named and does not exist.
fn faults(pages: &[Page]) -> Vec<String> {
    let mut keys: BTreeSet<String> = all_keys(&schema(), "").into_iter().collect();
    let sections: BTreeSet<String> = keys.iter().filter(|key| !key.contains('.')).cloned().collect();
    // Pages about a server name its settings without the section.
    for schema in [
        schema_of::<EngineSettings>(),
        schema_of::<GenerationSettings>(),
        schema_of::<LearnerSettings>(),
        schema_of::<TinkerService>(),
        schema_of::<OrchestratorSettings>(),
        schema_of::<RewardSettings>(),
        schema_of::<GatewaySettings>(),
    ] {
        keys.extend(all_keys(&schema, ""));
    }
    let roots: BTreeSet<&str> = table::all().filter_map(|metric| metric.name.split('/').next()).collect();
    let mut root = arguments::command();
    root.build();
    let mut faults = Vec::new();
    for page in pages {
        for (line, text) in code(page) {
            let mut fault = |why: String| faults.push(format!("{}:{line}: {why}", page.name));
            if text.starts_with("evenkeel ") {
                if let Err(why) = command(&text, &root) {
                    fault(why);
                }
                continue;
            }
            let key = text.split_once(['=', ' ']).map_or(text.as_str(), |(key, _)| key);
            let is_key = key.split_once('.').is_some_and(|(section, _)| sections.contains(section))
                && key.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '.'))
                && !key.ends_with('.')
                && !FILES.iter().any(|ending| key.ends_with(ending));
            let is_foreign = COMPARED.contains(&page.name.as_str());
            let is_metric = text.split_once('/').is_some_and(|(root, rest)| roots.contains(root) && !rest.is_empty())
                && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '/' | '@'));
            if is_metric && !is_foreign && table::find(&text).is_none() {
                fault(format!("no metric is called {text}"));
            }
            if is_key && !is_foreign && !keys.contains(key) && !is_within_a_list(key) {
                fault(format!("no setting is called {key}"));
            }
        }
    }
    faults
}

#[test]
fn every_setting_and_command_in_running_text_exists() {
    let faults = faults(&pages::all());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_name_that_is_not_is_found() {
    let found = |text: &str| faults(&[Page::new("a.md", text)]).len();
    assert_eq!(found("`sampling.group_size = 4`, `evenkeel data check --json FILE`, `data.json`, `engine.rs`"), 0);
    assert_eq!(found("`critic/score/mean`, `actor/grad_norm`, `docs/data.md`"), 0);
    assert_eq!(found("`critic/scores/mean`"), 1);
    assert_eq!(found("`sampling.group_sise`"), 1);
    assert_eq!(found("`evenkeel data chek`"), 1);
    assert_eq!(found("`evenkeel show RUN --wrongs`"), 1);
}
