//! Recipes that the program contains.

use std::borrow::Cow;

/// Recipes and overlays: name and text.
const RECIPES: &[(&str, &str)] = &[
    ("arithmetic", include_str!("../../../../deploy/recipes/arithmetic.toml")),
    ("code", include_str!("../../../../deploy/recipes/code.toml")),
    ("dapo", include_str!("../../../../deploy/recipes/dapo.toml")),
    ("calculator", include_str!("../../../../deploy/recipes/calculator.toml")),
    ("smollm2", include_str!("../../../../deploy/recipes/smollm2.toml")),
    ("smollm2-distill", include_str!("../../../../deploy/recipes/smollm2-distill.toml")),
    ("smollm2-steps", include_str!("../../../../deploy/recipes/smollm2-steps.toml")),
    ("verl-exact", include_str!("../../../../deploy/recipes/verl-exact.toml")),
    ("verl-token-mean", include_str!("../../../../deploy/recipes/verl-token-mean.toml")),
];

/// The family of tasks whose warm starts differ in what length says about an answer, and what they have in common.
const TRAILS: &[(&str, &str)] = &[
    ("wrong-longer", include_str!("../../../../deploy/recipes/trails/wrong-longer.toml")),
    ("wrong-shorter", include_str!("../../../../deploy/recipes/trails/wrong-shorter.toml")),
    ("equal-varied", include_str!("../../../../deploy/recipes/trails/equal-varied.toml")),
    ("equal-narrow", include_str!("../../../../deploy/recipes/trails/equal-narrow.toml")),
    ("shaped", include_str!("../../../../deploy/recipes/trails/shaped.toml")),
];
const TRAILS_BASE: (&str, &str) = ("base", include_str!("../../../../deploy/recipes/trails/base.toml"));

/// Common settings of all runs of the paper.
const PAPER: (&str, &str) = ("base", include_str!("../../../../deploy/recipes/paper/base.toml"));
const MODELS: &[(&str, &str)] = &[
    ("qwen2.5-math-7b", include_str!("../../../../deploy/recipes/paper/models/qwen2.5-math-7b.toml")),
    ("qwen3-1.7b", include_str!("../../../../deploy/recipes/paper/models/qwen3-1.7b.toml")),
];
const DATA: &[(&str, &str)] = &[
    ("dapo", include_str!("../../../../deploy/recipes/paper/data/dapo.toml")),
    ("polaris", include_str!("../../../../deploy/recipes/paper/data/polaris.toml")),
];
/// The rules that it compares, the one of its Appendix B, and the one that verl calls a token mean.
const RULES: &[(&str, &str)] = &[
    ("token", include_str!("../../../../deploy/recipes/paper/rules/token.toml")),
    ("sequence", include_str!("../../../../deploy/recipes/paper/rules/sequence.toml")),
    ("balanced", include_str!("../../../../deploy/recipes/paper/rules/balanced.toml")),
    ("balanced-mass", include_str!("../../../../deploy/recipes/paper/rules/balanced-mass.toml")),
    ("batch-token", include_str!("../../../../deploy/recipes/paper/rules/batch-token.toml")),
];

/// The names that `--recipe` takes besides files: recipes, overlays, the family of tasks, and the runs of the paper.
/// Parts of the last two (`trails/base`, `paper/base`, `paper/models/...`, and `paper/MODEL-DATA` without a rule) are
/// no runs of their own and not among them.
pub(super) fn names() -> Vec<String> {
    let mut names: Vec<String> = RECIPES.iter().map(|(name, _)| (*name).to_owned()).collect();
    names.extend(TRAILS.iter().map(|(name, _)| format!("trails/{name}")));
    names.extend(paper_runs().map(|run| run.name()));
    names
}

/// The text of a recipe or a part of one.
pub(super) fn text(name: &str) -> Option<Cow<'static, str>> {
    let find = |list: &[(&str, &'static str)], name: &str| {
        list.iter().find(|(known, _)| *known == name).map(|(_, text)| Cow::Borrowed(*text))
    };
    if let Some(part) = name.strip_prefix("trails/") {
        return find(TRAILS, part).or_else(|| find(&[TRAILS_BASE], part));
    }
    let Some(part) = name.strip_prefix("paper/") else { return find(RECIPES, name) };
    match part.split_once('/') {
        Some(("models", name)) => find(MODELS, name),
        Some(("data", name)) => find(DATA, name),
        Some(("rules", name)) => find(RULES, name),
        Some(_) => None,
        None => find(&[PAPER], part)
            .or_else(|| paper_tasks().find(|task| task.name() == name).map(|task| Cow::Owned(task.text())))
            .or_else(|| paper_runs().find(|run| run.name() == name).map(|run| Cow::Owned(run.text()))),
    }
}

/// A model of the paper on one of its data sets, without a rule: `paper/MODEL-DATA`, a task of the study.
#[derive(Clone, Copy)]
struct PaperTask {
    model: &'static str,
    data: &'static str,
}

impl PaperTask {
    fn name(&self) -> String {
        format!("paper/{}-{}", self.model, self.data)
    }

    fn text(&self) -> String {
        let Self { model, data } = self;
        let base = PAPER.0;
        format!(
            "# {model} on {data} as in the paper, for a study that varies the rule.\n\
             base = [\"paper/{base}\", \"paper/models/{model}\", \"paper/data/{data}\"]\n\
             named_after = [\"model.path\", \"data.files\"]\n"
        )
    }
}

/// A run of the paper: `paper/MODEL-DATA-RULE`.
#[derive(Clone, Copy)]
struct PaperRun {
    model: &'static str,
    data: &'static str,
    rule: &'static str,
}

impl PaperRun {
    fn name(&self) -> String {
        format!("paper/{}-{}-{}", self.model, self.data, self.rule)
    }

    /// The recipe as TOML. It consists of the three parts and nothing else.
    fn text(&self) -> String {
        let Self { model, data, rule } = self;
        let base = PAPER.0;
        let whose = match *rule {
            "balanced" => " (weighted by numbers of responses)",
            "balanced-mass" => " (weighted by advantages, its Appendix B)",
            "batch-token" => " (ours: verl's token mean)",
            _ => "",
        };
        format!(
            "# The paper's run of {model} on {data} with the rule {rule}{whose}.\n\
             base = [\"paper/{base}\", \"paper/models/{model}\", \"paper/data/{data}\", \"paper/rules/{rule}\"]\n\
             named_after = [\"model.path\", \"data.files\", \"learner.objective.aggregation\"]\n"
        )
    }
}

fn paper_tasks() -> impl Iterator<Item = PaperTask> {
    MODELS.iter().flat_map(|(model, _)| DATA.iter().map(move |(data, _)| PaperTask { model, data }))
}

fn paper_runs() -> impl Iterator<Item = PaperRun> {
    paper_tasks()
        .flat_map(|PaperTask { model, data }| RULES.iter().map(move |(rule, _)| PaperRun { model, data, rule }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_of_the_paper_has_a_name_and_a_text() {
        let runs: Vec<_> = names().into_iter().filter(|name| name.starts_with("paper/")).collect();
        assert_eq!(runs.len(), 20, "two models, two data sets, three rules, that of Appendix B and verl's token mean");
        assert!(runs.contains(&"paper/qwen3-1.7b-dapo-balanced".to_owned()), "{runs:?}");
        assert!(runs.contains(&"paper/qwen2.5-math-7b-polaris-batch-token".to_owned()), "{runs:?}");
        assert!(names().iter().all(|name| text(name).is_some()));
    }

    #[test]
    fn parts_have_texts_and_other_names_have_none() {
        let task = "paper/qwen3-1.7b-polaris";
        for part in ["paper/base", "paper/models/qwen3-1.7b", "paper/data/polaris", "paper/rules/token", task] {
            assert!(text(part).is_some(), "{part}");
        }
        for other in ["", "paper/", "paper", "paper/qwen3-1.7b", "paper/rules/", "paper/other/token", "base"] {
            assert!(text(other).is_none(), "{other}");
        }
    }
}
