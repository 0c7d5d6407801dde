//! `evenkeel config`: the resolved settings, each with what it is.

use std::process::ExitCode;

use anyhow::Result;
use evenkeel_config::{Loaded, nearest};
use evenkeel_proto::FieldError;
use evenkeel_recipe::Recipe;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;
use toml::Table;

use crate::arguments::ConfigOptions;
use crate::terminal::{note, print_result};

/// Columns of a comment.
const WIDTH: usize = 110;

pub(crate) fn print(options: &ConfigOptions) -> Result<ExitCode> {
    if options.list {
        let recipes = evenkeel_recipe::list();
        let width = recipes.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let line = |(name, what)| format!("{}\n", format!("{name:<width$}  {what}").trim_end());
        print_result(&recipes.into_iter().map(line).collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let loaded = evenkeel_recipe::load(&options.recipe, &options.set)?;
    for said in evenkeel_recipe::notes_on(&options.recipe, &loaded)? {
        note(&said);
    }
    if options.changed {
        print_result(&format!("{}{}", rule(&loaded), changed(&loaded.settings)?))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !options.keys.is_empty() {
        let texts = options.keys.iter().map(|key| one(key, &loaded)).collect::<Result<Vec<_>>>()?;
        print_result(&texts.join("\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut objective = rule(&loaded);
    let recipe = loaded.settings;
    comment(&Some(format!("What the learner computes: {}", recipe.learner.formula())), &mut objective);
    print_result(&format!("{objective}\n{}", documented(&recipe.to_toml()?)))?;
    Ok(ExitCode::SUCCESS)
}

/// The aggregation rule as a comment, with where it was written.
fn rule(loaded: &Loaded<Recipe>) -> String {
    let rule = loaded.settings.learner.objective.aggregation;
    let mut text = String::new();
    let origin = loaded.origin("learner.objective.aggregation");
    comment(&Some(format!("Aggregation rule: {rule} (written in: {origin})")), &mut text);
    text
}

/// The settings of a recipe that differ from the defaults, as TOML. Nothing where none does.
pub(crate) fn changed(recipe: &Recipe) -> Result<String> {
    let tables = [recipe.to_toml()?, Recipe::default().to_toml()?];
    let [ours, theirs] = tables.map(|toml| toml.parse::<Table>());
    Ok(differing(ours?, &theirs?).to_string())
}

/// What one table says otherwise than another.
fn differing(ours: Table, theirs: &Table) -> Table {
    let differs = |(key, value): (String, toml::Value)| match (value, theirs.get(&key)) {
        (toml::Value::Table(ours), Some(toml::Value::Table(theirs))) => {
            let found = differing(ours, theirs);
            (!found.is_empty()).then(|| (key, found.into()))
        }
        (value, found) => (found != Some(&value)).then_some((key, value)),
    };
    ours.into_iter().filter_map(differs).collect()
}

/// A setting with its value, where it was written and what it is; of a section each of its keys.
pub(crate) fn one(key: &str, loaded: &Loaded<Recipe>) -> Result<String> {
    let value_in = |toml: &str| -> Result<Option<toml::Value>> {
        let table = toml::Value::Table(toml.parse()?);
        Ok(key.split('.').try_fold(&table, |place, part| place.get(part)).cloned())
    };
    // With what other settings derive, such as the learner's temperature.
    let value = value_in(&loaded.to_toml()?)?;
    let default = value_in(&Recipe::default().to_toml()?)?;
    let schema = schema();
    let field = key.split('.').try_fold(&schema, |place, part| property(place, part));
    let (None, None) = (&value, field) else {
        let mut text = String::new();
        if let Some(toml::Value::Table(table)) = &value {
            comment(&field.and_then(described), &mut text);
            for (name, value) in table.iter().filter(|(_, value)| !value.is_table()) {
                let path = format!("{key}.{name}");
                text += &format!("{path} = {value}  # {}\n", loaded.origin(&path));
            }
            return Ok(text);
        }
        comment(&field.and_then(described), &mut text);
        match &value {
            Some(value) => text += &format!("{key} = {value}\n"),
            None => text += &format!("# {key} = (absent)\n"),
        }
        text += &format!("# written in: {}\n", loaded.origin(key));
        if default != value {
            text += &format!(
                "# default: {}\n",
                default.map_or_else(|| "(absent)".to_owned(), |default| default.to_string())
            );
        }
        return Ok(text);
    };
    let known = all_keys(&schema, "");
    let near = nearest(key, known.iter().map(String::as_str)).map(|near| format!(", such as {near}"));
    let allowed = format!("a setting or a section{} (evenkeel config prints all)", near.unwrap_or_default());
    Err(FieldError::quoted("KEY", key, allowed).into())
}

/// The paths of all settings and sections.
pub(crate) fn all_keys(schema: &Value, path: &str) -> Vec<String> {
    let properties = options(schema).filter_map(|option| option["properties"].as_object()).flatten();
    let within = |(key, field): (&String, &Value)| {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let inner = all_keys(field, &path);
        std::iter::once(path).chain(inner).collect::<Vec<_>>()
    };
    properties.flat_map(within).collect()
}

/// What the settings of a recipe are read into.
pub(crate) fn schema() -> Value {
    schema_of::<Recipe>()
}

/// What settings are read into.
pub(crate) fn schema_of<T: JsonSchema>() -> Value {
    SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

/// A recipe's TOML with a comment over every key: the doc comment of the field that it is read into. Keys without a
/// value stand as comments at the end of their section.
fn documented(toml: &str) -> String {
    let schema = schema();
    let mut text = String::new();
    let mut section = Section::default();
    let mut keys = Vec::new();
    for line in toml.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section.end(&schema, &keys, &mut text);
            section = Section { path: name.split('.').map(str::to_owned).collect() };
            keys.clear();
            comment(&section.field(&schema).and_then(described), &mut text);
        } else if let Some((key, _)) = line.split_once(" = ") {
            comment(&section.key(&schema, key).and_then(described), &mut text);
            keys.push(key);
        }
        text += line;
        text.push('\n');
    }
    section.end(&schema, &keys, &mut text);
    text
}

/// A table of a recipe.
#[derive(Default)]
struct Section {
    path: Vec<String>,
}

impl Section {
    /// Field in the schema.
    fn field<'a>(&self, schema: &'a Value) -> Option<&'a Value> {
        self.path.iter().try_fold(schema, |place, key| property(place, key))
    }

    /// The field of one of its keys.
    fn key<'a>(&self, schema: &'a Value, key: &str) -> Option<&'a Value> {
        property(self.field(schema)?, key)
    }

    /// Adds what is known of keys without a value, before the blank line that ends the section.
    fn end(&self, schema: &Value, keys: &[&str], text: &mut String) {
        let Some(properties) = self.field(schema).and_then(|field| field["properties"].as_object()) else { return };
        // Tables are sections of their own.
        let absent = properties.iter().filter(|(key, field)| !keys.contains(&key.as_str()) && !is_table(field));
        if self.path.is_empty() {
            return;
        }
        let blank = text.ends_with("\n\n");
        text.truncate(text.len() - usize::from(blank));
        for (key, field) in absent {
            comment(&described(field), text);
            *text += &format!("# {key} = (absent)\n");
        }
        text.push_str(if blank { "\n" } else { "" });
    }
}

fn comment(described: &Option<String>, text: &mut String) {
    for line in described.iter().flat_map(|described| wrap(described)) {
        *text += &format!("# {line}\n");
    }
}

/// A schema, and what it may be instead: an optional table is one of itself and null.
pub(crate) fn options(schema: &Value) -> impl Iterator<Item = &Value> {
    std::iter::once(schema).chain(schema["anyOf"].as_array().into_iter().flatten())
}

fn property<'a>(schema: &'a Value, key: &str) -> Option<&'a Value> {
    options(schema).map(|option| &option["properties"][key]).find(|found| !found.is_null())
}

pub(crate) fn is_table(schema: &Value) -> bool {
    // With keys of its own, or with any.
    options(schema).any(|option| option["type"].as_str() == Some("object"))
}

/// What a schema says about a field.
pub(crate) fn described(field: &Value) -> Option<String> {
    let text = field["description"].as_str()?;
    let text = text.replace("\n\n", "\u{2029}").replace('\n', " ").replace('\u{2029}', "\n");
    // Links of the code's own documentation lead nowhere here.
    let text = text.replace("[`", "`").replace("`]", "`");
    let choices = choices(field);
    Some(if choices.is_empty() { text } else { format!("{text}\n{}", choices.join("\n")) })
}

/// The allowed values of an enumeration: each with what it stands for, or in one line.
fn choices(schema: &Value) -> Vec<String> {
    let described = |schema: &Value| -> Vec<String> {
        schema["oneOf"].as_array().into_iter().flatten().filter_map(choice).collect()
    };
    let listed = |schema: &Value| -> Vec<String> {
        let names: Vec<String> = schema["enum"].as_array().into_iter().flatten().map(Value::to_string).collect();
        if names.is_empty() { Vec::new() } else { vec![format!("Allowed: {}.", names.join(", "))] }
    };
    options(schema)
        .map(|schema| [described(schema), listed(schema)].concat())
        .find(|found| !found.is_empty())
        .unwrap_or_default()
}

/// A value of an enumeration and what it stands for.
fn choice(schema: &Value) -> Option<String> {
    let name = schema["const"].as_str()?;
    let meaning = schema["description"].as_str()?;
    Some(format!("- \"{name}\": {}", meaning.replace('\n', " ").replace("[`", "`").replace("`]", "`")))
}

/// Lines of at most [`WIDTH`] columns.
fn wrap(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split_whitespace() {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line += word;
        }
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_every_section_is_documented() {
        let toml = evenkeel_recipe::load(&[], &[]).unwrap().settings.to_toml().unwrap();
        let text = documented(&toml);
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            if line.contains(" = ") && (!line.starts_with('#') || line.ends_with("(absent)")) {
                assert!(index > 0 && lines[index - 1].starts_with("# "), "{line} has no documentation");
            }
        }
        assert!(text.contains("# How token terms are summed: the weight of a token."), "{text}");
    }

    #[test]
    fn what_differs_from_the_defaults_is_a_recipe_that_says_the_same() {
        let set = ["sampling.group_size=4".to_owned(), "evaluation.benchmarks=[{files=['a.jsonl']}]".to_owned()];
        let loaded = evenkeel_recipe::load(&["dapo".to_owned()], &set).unwrap();
        let text = changed(&loaded.settings).unwrap();
        assert!(text.lines().count() < 60 && text.contains("group_size = 4"), "{text}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("again.toml");
        std::fs::write(&path, text).unwrap();
        let again = evenkeel_recipe::load(&[path.display().to_string()], &[]).unwrap();
        assert_eq!(again.settings, loaded.settings);
        assert_eq!(changed(&Recipe::default()).unwrap(), "");
    }

    #[test]
    fn a_setting_is_printed_with_where_it_was_written_its_default_and_what_it_is() {
        let loaded = evenkeel_recipe::load(&["dapo".to_owned()], &["sampling.group_size=4".to_owned()]).unwrap();
        let text = one("sampling.group_size", &loaded).unwrap();
        for words in ["# ", "\nsampling.group_size = 4\n", "# written in: --set sampling.group_size=4", "# default: "] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(one("sampling.max_tokens", &loaded).unwrap().contains("# written in: recipe dapo"));
        assert!(one("model.path", &loaded).unwrap().contains("# model.path = (absent)\n# written in: defaults"));
        let section = one("sampling", &loaded).unwrap();
        assert!(section.contains("sampling.dynamic = true  # recipe dapo"), "{section}");
        let error = one("sampling.group_sise", &loaded).unwrap_err().to_string();
        assert!(error.contains("such as sampling.group_size"), "{error}");
    }

    #[test]
    fn no_key_carries_a_unit_since_values_do() {
        let toml = evenkeel_recipe::load(&[], &[]).unwrap().settings.to_toml().unwrap();
        for key in toml.lines().filter_map(|line| line.split_once(" = ")).map(|(key, _)| key) {
            let unit = ["_ms", "_s", "_secs", "_seconds", "_bytes", "_mib"].iter().find(|unit| key.ends_with(**unit));
            assert_eq!(unit, None, "{key}");
        }
        assert!(toml.contains("call_deadline = \"10m\"") && toml.contains("max_message = \"32MiB\""), "{toml}");
    }

    #[test]
    fn every_choice_is_printed_with_its_allowed_values() {
        let text = documented(&evenkeel_recipe::load(&[], &[]).unwrap().settings.to_toml().unwrap());
        for (key, values) in [
            ("# kind", &["\"arithmetic\":", "\"files\":"][..]),
            ("overlong", &["\"refuse\":", "\"skip\":"]),
            ("publish_type", &["\"f32\":", "\"bf16\":", "\"f16\":"]),
            ("advantage", &["\"grpo\":", "\"rloo\":"]),
            ("aggregation", &["\"balanced\":", "\"token\":", "\"sequence\":", "\"sequence-sum\":"]),
            ("policy", &["\"ppo\":", "\"gspo\":", "\"cispo\":"]),
            ("correction", &["\"none\":", "\"token-truncate\":"]),
        ] {
            let (before, _) = text.split_once(&format!("\n{key} = ")).unwrap();
            let comments: Vec<&str> = before.lines().rev().take_while(|line| line.starts_with('#')).collect();
            for value in values {
                let named = |line: &&str| line.starts_with(&format!("# - {value}"));
                assert!(comments.iter().any(named), "{key}: no {value} in {comments:?}");
            }
        }
    }

    #[test]
    fn the_choices_of_the_objective_are_listed_with_their_formulas_and_aliases() {
        let text = documented(&evenkeel_recipe::load(&[], &[]).unwrap().settings.to_toml().unwrap());
        let flat = text.replace("\n# ", " ");
        for choice in [
            "- \"grpo\": `(r - mean) / sqrt(population variance + 1e-6)`",
            "- \"batch-token\": `1 / N`: The mean over the tokens of the mini-batch: verl's `token-mean`, TRL's \
            `dapo`. Also token-mean, dapo.",
            "- \"balanced\": `M_s / (P G Z_s), M_s = sum of abs(A)",
            "- \"cispo\": `sg(clip(rho, 0.8, 1.28)) A logp`",
            "- \"token-mask\": Each token's ratio inside",
            "- \"k3+\": The value of `k3` with the gradient of `k2`.",
            "- \"rollout\": The engine's",
        ] {
            assert!(flat.contains(choice), "{choice} is not in {text}");
        }
    }

    #[test]
    fn what_is_printed_is_a_recipe_again() {
        let loaded = evenkeel_recipe::load(&[], &["sampling.group_size=4".to_owned()]).unwrap();
        let text = documented(&loaded.settings.to_toml().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("again.toml");
        std::fs::write(&path, text).unwrap();
        let again = evenkeel_recipe::load(&[path.display().to_string()], &[]).unwrap();
        assert_eq!(again.settings, loaded.settings);
    }
}
