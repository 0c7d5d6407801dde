//! The settings that decide what a run computes, and which of them differ.

use std::collections::BTreeMap;

use serde_json::Value;

/// Settings by their whole keys, as JSON writes them: `sampling.group_size` is `8`.
pub type Rules = BTreeMap<String, String>;

/// Sections of the orchestrator are written without this in a recipe.
const ORCHESTRATOR: &str = "orchestrator.";

/// All values of settings, each by its key in a recipe.
pub fn flat(settings: &Value) -> Rules {
    let mut rules = Rules::new();
    flatten(&mut rules, String::new(), settings);
    let in_recipe = |key: String| key.strip_prefix(ORCHESTRATOR).map(str::to_owned).unwrap_or(key);
    rules.into_iter().map(|(key, value)| (in_recipe(key), value)).collect()
}

fn flatten(rules: &mut Rules, key: String, value: &Value) {
    match value {
        Value::Object(section) if !section.is_empty() => {
            for (name, value) in section {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                flatten(rules, key, value);
            }
        }
        // Tables in a list have settings of their own.
        Value::Array(tables) if tables.iter().any(Value::is_object) => {
            for (index, table) in tables.iter().enumerate() {
                flatten(rules, format!("{key}[{index}]"), table);
            }
        }
        value => {
            rules.insert(key, value.to_string());
        }
    }
}

/// Whether a setting only says where files are. What is in them is an input of its own.
pub fn names_files(key: &str) -> bool {
    let of_data = key.starts_with("data.") || key.starts_with("evaluation.benchmarks[");
    ["model.path", "learner.distillation.teacher"].contains(&key)
        || of_data && (key.ends_with(".files") || key.ends_with(".held_out_files"))
}

/// A setting without what differs between machines: paths and addresses. `None` where nothing else is in it: what is in
/// the files of data and of models is an input of its own, and an adapter to start from decides the first weights.
pub(super) fn without_place(key: &str, value: &str) -> Option<String> {
    if names_files(key) || key == "learner.lora.start" {
        return None;
    }
    if !["data.environment", "data.environments"].contains(&key) {
        return Some(value.to_owned());
    }
    let names = |value: Value| match value {
        Value::String(name) => Value::String(environment_name(&name)),
        other => other,
    };
    let named = match serde_json::from_str(value).ok()? {
        Value::Array(all) => Value::Array(all.into_iter().map(names).collect()),
        one => names(one),
    };
    Some(named.to_string())
}

/// The kind of an environment and the name of its file; no address of a server.
fn environment_name(name: &str) -> String {
    let (kind, place) = name.split_once(':').map_or(("", name), |(kind, place)| (kind, place));
    if place.contains("://") {
        return format!("{kind}:");
    }
    let file = place.rsplit('/').next().unwrap_or_default();
    if kind.is_empty() { file.to_owned() } else { format!("{kind}:{file}") }
}

/// The keys whose values differ, with the value of each side.
pub fn differences<'a>(theirs: &'a Rules, ours: &'a Rules) -> Vec<(&'a str, Option<&'a String>, Option<&'a String>)> {
    let mut keys: Vec<&str> = theirs.keys().chain(ours.keys()).map(String::as_str).collect();
    keys.sort_unstable();
    keys.dedup();
    let both = keys.into_iter().map(|key| (key, theirs.get(key), ours.get(key)));
    both.filter(|(_, theirs, ours)| theirs != ours).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_have_the_keys_of_a_recipe() {
        let settings = json!({
            "orchestrator": { "run": { "seed": 3 }, "data": { "sources": [{ "files": ["a"] }, { "files": [] }] } },
            "learner": { "epochs": 1, "stops": [1, 2], "none": {} },
        });
        let rules = flat(&settings);
        let expected = [
            ("data.sources[0].files", "[\"a\"]"),
            ("data.sources[1].files", "[]"),
            ("learner.epochs", "1"),
            ("learner.none", "{}"),
            ("learner.stops", "[1,2]"),
            ("run.seed", "3"),
        ];
        assert_eq!(rules.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect::<Vec<_>>(), expected);
        let mut other = rules.clone();
        other.remove("learner.stops");
        other.insert("run.seed".to_owned(), "4".to_owned());
        let keys: Vec<_> = differences(&rules, &other).into_iter().map(|(key, ..)| key).collect();
        assert_eq!(keys, ["learner.stops", "run.seed"]);
    }

    #[test]
    fn a_setting_has_no_path_and_no_address_of_an_environment() {
        let cases = [
            ("data.environment", r#""calculator""#, r#""calculator""#),
            ("data.environment", r#""/home/a/shop.py""#, r#""shop.py""#),
            ("data.environment", r#""openenv:ws://10.0.0.1:8000""#, r#""openenv:""#),
            ("data.environments", r#"["agent:/x/solve","verifiers:wordle"]"#, r#"["agent:solve","verifiers:wordle"]"#),
            ("run.seed", "3", "3"),
        ];
        for (key, value, expected) in cases {
            assert_eq!(without_place(key, value).as_deref(), Some(expected), "{key}");
        }
        assert_eq!(without_place("learner.lora.start", r#""/x/adapter""#), None);
        assert_eq!(without_place("model.path", r#""/x/model""#), None);
    }

    #[test]
    fn where_files_are_is_told_apart_from_how_they_are_read() {
        for key in [
            "model.path",
            "learner.distillation.teacher",
            "data.files",
            "data.held_out_files",
            "data.sources[1].files",
            "evaluation.benchmarks[0].files",
        ] {
            assert!(names_files(key), "{key}");
        }
        for key in
            ["model.publish_type", "data.suffix", "data.sources[0].suffix", "evaluation.problems", "learner.files"]
        {
            assert!(!names_files(key), "{key}");
        }
    }
}
