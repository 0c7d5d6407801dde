//! What a recipe is named after, and who may change it.

use super::*;

const RUN: &str = "paper/qwen3-1.7b-dapo-balanced";

fn layers(texts: &[(&str, &str)], names: &[&str]) -> Result<Layers, String> {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in texts {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let is_file = |name: &str| texts.iter().any(|(file, _)| *file == name);
    let path = |name: &&str| {
        if is_file(name) { dir.path().join(name).display().to_string() } else { (*name).to_owned() }
    };
    Layers::of(&names.iter().map(path).collect::<Vec<_>>()).map_err(|error| error.to_string())
}

#[test]
fn an_overlay_that_changes_what_a_recipe_is_named_after_is_refused() {
    let error = layers(&[], &[RUN, "verl-token-mean"]).unwrap_err();
    assert!(
        error.starts_with("`learner.objective.aggregation` is \"batch-token\" in recipe verl-token-mean"),
        "{error}"
    );
    assert!(
        error.contains("allowed: \"balanced-count\", which recipe paper/qwen3-1.7b-dapo-balanced is named"),
        "{error}"
    );
    let other = ("mine.toml", "[model]\npath = \"/data/Qwen3-4B\"");
    assert!(layers(&[other], &[RUN, "mine.toml"]).unwrap_err().contains("`model.path` is \"/data/Qwen3-4B\""));
    let base = ("mine.toml", "base = [\"paper/qwen3-1.7b-dapo-balanced\", \"verl-token-mean\"]");
    assert!(layers(&[base], &["mine.toml"]).unwrap_err().contains("is named after"));
}

#[test]
fn what_changes_no_name_is_no_matter() {
    for names in [&[RUN, "verl-exact"][..], &["verl-token-mean", RUN], &["dapo", "verl-token-mean"]] {
        assert!(layers(&[], names).is_ok(), "{names:?}");
    }
    let moved = ("mine.toml", "[model]\npath = \"/data/Qwen3-1.7B\"\n[data]\nfiles = [\"/x/dapo-math-17k.parquet\"]");
    assert!(layers(&[moved], &[RUN, "mine.toml"]).is_ok(), "the same model and data in another place");
    let own =
        ("mine.toml", "base = \"paper/qwen3-1.7b-dapo-balanced\"\n[learner.objective]\naggregation = \"vl-norm\"");
    assert!(layers(&[own], &["mine.toml"]).is_ok(), "a recipe that builds on it has a name of its own");
}

#[test]
fn a_setting_on_the_command_line_changes_it_and_is_said() {
    let renamed = |set: &[&str]| {
        let layers = layers(&[], &[RUN]).unwrap();
        let loader = layers.loader().unwrap().set(set.iter().copied()).unwrap();
        Layers::of(&[RUN]).unwrap().renamed(&loader.load::<Recipe>().unwrap()).unwrap()
    };
    assert_eq!(renamed(&["learner.objective.aggregation=balanced-count", "run.seed=3"]), [""; 0]);
    let found = renamed(&["learner.objective.aggregation=token"]);
    assert!(
        found[0].contains("named after learner.objective.aggregation = \"balanced-count\", but it is \"token\""),
        "{found:?}"
    );
    assert!(found.len() == 1 && found[0].contains("--set"), "{found:?}");
}

#[test]
fn a_name_after_nothing_is_refused() {
    let error = layers(&[("a.toml", "named_after = \"run.seed\"")], &["a.toml"]).unwrap_err();
    assert!(
        error.contains("`named_after` is \"run.seed\"") && error.contains("that the recipe or its bases set"),
        "{error}"
    );
    let error = layers(&[("a.toml", "named_after = 3")], &["a.toml"]).unwrap_err();
    assert!(error.contains("the name of a setting, or a list of names"), "{error}");
}
