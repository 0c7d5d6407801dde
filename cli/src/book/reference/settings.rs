//! All settings: of a recipe, and of the servers that have others.

use std::fmt::Write;

use evenkeel_config::{human, to_table};
use evenkeel_learner::LearnerSettings;
use evenkeel_orchestrator::{OrchestratorSettings, VerifierSettings};
use evenkeel_recipe::Recipe;
use evenkeel_reward::gateway::GatewaySettings;
use evenkeel_weights_agent::WeightsAgentSettings;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{cell, hold};
use crate::documentation::{described, is_table, options, schema_of};
use crate::tinker::TinkerService;

const TITLE: &str = "# All settings

Each with its default and what it is, as `evenkeel config` prints them. The program's defaults, that is, without a recipe: recipes set others. \
A setting is written as `[section]` and `key = value` in a recipe, as `--set section.key=value`, or as the environment variable \
`EVENKEEL__SECTION__KEY`; [recipes](../recipes.md) has the rules.";

/// The tables of one tree of settings, a heading and a table for each section.
struct Tables<'a> {
    text: String,
    /// Defaults of all settings.
    defaults: toml::Value,
    /// Sections that are described elsewhere, and where.
    elsewhere: &'a [(&'a str, &'a str)],
    /// Text before each heading.
    of: &'a str,
}

impl Tables<'_> {
    /// A section and those within it. `shown` is how its keys are written, `path` where their defaults are, if
    /// anywhere.
    fn section(&mut self, shown: &str, path: &[&str], schema: &Value) {
        if let Some((_, other)) = self.elsewhere.iter().find(|(name, _)| *name == shown) {
            write!(self.text, "\n## {}{shown}\n\n{other}\n", self.of).unwrap();
            return;
        }
        let fields: Vec<(&String, &Value)> =
            options(schema).filter_map(|option| option["properties"].as_object()).flatten().collect();
        let (tables, keys): (Vec<_>, Vec<_>) = fields.into_iter().partition(|(_, field)| inner(field).is_some());
        let heading = format!("{}{shown}", self.of);
        if !heading.is_empty() {
            write!(self.text, "\n## {}\n", heading.trim_end_matches(": ")).unwrap();
            if let Some(text) = described(schema) {
                write!(self.text, "\n{text}\n").unwrap();
            }
        }
        if !keys.is_empty() {
            self.text += "\n| setting | default | |\n|---|---|---|\n";
        }
        for (key, field) in keys {
            let name = join(shown, key);
            let default = self.default(path, key, field);
            let text = described(field).unwrap_or_default();
            writeln!(self.text, "| `{name}` | {} | {} |", cell(&default), cell(&text)).unwrap();
        }
        for (key, field) in tables {
            let (form, schema) = inner(field).unwrap();
            let shown = join(shown, key) + form;
            let path = [path, &[key]].concat();
            // What stands at the field is about it; what stands at the type about any such table.
            let mut schema = schema.clone();
            if let Some(text) = field.get("description") {
                schema["description"] = text.clone();
            }
            self.section(&shown, &path, &schema);
        }
    }

    fn default(&self, path: &[&str], key: &str, field: &Value) -> String {
        let table = path.iter().try_fold(&self.defaults, |table, part| table.get(part));
        let value = table.and_then(|table| table.get(key)).map(toml::Value::to_string);
        let value = value.or_else(|| (path == VERIFIER).then(|| of_verifier(key)).flatten());
        // Within lists there is no default table; the schema knows what an absent key is.
        let of_schema = || field.get("default").filter(|value| !value.is_null()).map(Value::to_string);
        value.or_else(of_schema).map_or_else(|| "absent".to_owned(), |value| format!("`{}`", value.replace('\n', " ")))
    }
}

/// Where verifiers are declared.
const VERIFIER: [&str; 2] = ["data", "verifiers"];

/// The defaults of a verifier that are left out where settings are printed.
fn of_verifier(key: &str) -> Option<String> {
    let VerifierSettings { python, require_all, timeout, max_memory, processes, .. } = VerifierSettings::default();
    Some(match key {
        "python" => format!("\"{}\"", python.display()),
        // As `OnError::Limit` is written.
        "on_error" => "\"limit\"".to_owned(),
        "judge" => "false".to_owned(),
        "require_all" => require_all.to_string(),
        "timeout" => format!("\"{}\"", human(timeout)),
        "max_memory" => format!("\"{max_memory}\""),
        "processes" => processes.to_string(),
        _ => return None,
    })
}

/// The table that a field is, or has in a list or under any name, and how that is written.
fn inner(field: &Value) -> Option<(&'static str, &Value)> {
    let has_keys = |schema: &Value| options(schema).any(|option| option["properties"].is_object());
    if has_keys(field) {
        return Some(("", field));
    }
    options(field).find_map(|option| {
        let items = &option["items"];
        let named = &option["additionalProperties"];
        match () {
            () if has_keys(items) => Some(("[]", items)),
            () if has_keys(named) => Some((".NAME", named)),
            () => None,
        }
    })
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn tables<T: Default + JsonSchema + Serialize>(of: &str, elsewhere: &[(&str, &str)]) -> String {
    let defaults = toml::Value::Table(to_table(&T::default()).unwrap());
    let mut tables = Tables { text: String::new(), defaults, elsewhere, of };
    tables.section("", &[], &schema_of::<T>());
    tables.text
}

fn page() -> String {
    let mut text = "A section named `x[]` is a list, written as `[[x]]`; in `x.NAME` you choose the name.\n".to_owned();
    text += &tables::<Recipe>("", &[]);
    text += "\n# Settings of servers\n\n\
             `evenkeel serve` takes settings without the name of the section: `serve engine` those of `engine`, `serve \
             generation` those of `generation`, `serve reward` those of `reward`. The others have settings of their \
             own.\n";
    let server = ("server", "As [generation.server](#generationserver) of a recipe.");
    let client = ("client", "As [services.client](#servicesclient) of a recipe.");
    text +=
        &tables::<LearnerSettings>("serve learner: ", &[server, ("training", "As [learner](#learner) of a recipe.")]);
    text += &tables::<OrchestratorSettings>(
        "serve orchestrator: ",
        &[server, client, ("page", "As [page](#page) of a recipe.")],
    );
    text += &tables::<GatewaySettings>("serve gateway: ", &[server, client]);
    text += &tables::<WeightsAgentSettings>("serve weights: ", &[server, client]);
    text += &tables::<TinkerService>(
        "serve tinker: ",
        &[
            ("learner", "As [learner](#learner) of a recipe, with `lora` of rank 32 and alpha 32."),
            ("engine", "As [engine](#engine) of a recipe."),
            ("generation", "As [generation](#generation) of a recipe."),
            ("tinker.client", "As [services.client](#servicesclient) of a recipe."),
        ],
    );
    text
}

#[test]
fn the_page_of_settings_is_what_the_code_says() {
    hold("settings.md", TITLE, &page());
}

#[test]
fn no_setting_is_left_out_and_none_is_without_a_word() {
    let page = page();
    for key in crate::documentation::all_keys(&crate::documentation::schema(), "") {
        let is_there = page.contains(&format!("| `{key}` | ")) || page.contains(&format!("\n## {key}"));
        assert!(is_there, "{key}");
    }
    let silent: Vec<_> = page.lines().filter(|line| line.starts_with("| `") && line.ends_with("|  |")).collect();
    assert!(silent.is_empty(), "{silent:?}");
    assert!(page.contains("| `data.verifiers.NAME.timeout` | `\"10s\"` | "), "{page}");
    assert!(is_table(&schema_of::<Recipe>()["properties"]["run"]));
}
