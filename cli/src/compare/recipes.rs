//! What recipes mean to a comparison.

use anyhow::Result;
use evenkeel_comparison::{ComparedRecipes, ComparedSettings};
use evenkeel_config::Loader;
use evenkeel_recipe::{Recipe, comes_with_program, finish, load};
use evenkeel_run::flat_settings;
use toml::Table;

/// The recipes of this program.
pub(super) struct Recipes;

impl ComparedRecipes for Recipes {
    fn is_built_in(&self, name: &str) -> bool {
        comes_with_program(name)
    }

    fn resolve(&self, recipe: &str, set: &[String]) -> Result<ComparedSettings> {
        compared(&load(&[recipe.to_owned()], set)?.settings)
    }

    fn complete(&self, settings: Loader) -> Result<ComparedSettings> {
        compared(&finish(settings, &[])?.settings)
    }
}

fn compared(recipe: &Recipe) -> Result<ComparedSettings> {
    let table: Table = recipe.to_toml()?.parse()?;
    Ok(ComparedSettings {
        values: flat_settings(&table),
        identity: recipe.resolved()?.identity,
        seed: recipe.run.seed,
        steps: recipe.run.steps,
        has_warm_start: recipe.warm_start.steps > 0,
        evaluates_after: recipe.evaluation.after,
        held_out: recipe.data.name(),
    })
}

#[cfg(test)]
mod tests {
    use evenkeel_comparison::{ComparisonPlan, ComparisonRequest, Study, StudyChanges, Varied};

    use super::*;

    fn refused(varied: &[&str]) -> String {
        let asked = ComparisonRequest {
            recipes: vec!["arithmetic".to_owned()],
            varied: varied.iter().map(|text| Varied::parse(text).unwrap()).collect(),
            threads: 1,
            seeds: 1,
            ..ComparisonRequest::default()
        };
        format!("{:#}", ComparisonPlan::new(asked, &Recipes).unwrap_err())
    }

    #[test]
    fn what_cannot_be_varied_is_refused_with_the_arm() {
        let error = refused(&["learner.objective.agregation=token,balanced"]);
        assert!(error.contains("nearest allowed: `learner.objective.aggregation`"), "{error}");
        let error = refused(&["learner.objective.aggregation=token,balance"]);
        assert!(error.contains("arithmetic, balance") && error.contains("learner.objective.aggregation"), "{error}");
        let error = refused(&["checkpoint.keep=1,2"]);
        assert!(error.contains("settings that change a result (arithmetic: 1 computes the same)"), "{error}");
        let error = refused(&["sampling.max_tokens=40,80", "shaping.overlong_buffer_tokens=0,60"]);
        assert!(error.contains("max_tokens=40, overlong_buffer_tokens=60"), "{error}");
    }

    #[test]
    fn the_studies_that_come_with_the_program_are_read() {
        for name in Study::built_in() {
            let study = Study::find(name).unwrap().unwrap();
            let asked = study.request(StudyChanges::default(), &Recipes).unwrap().comparison;
            assert!(!asked.varied.is_empty() && ComparisonPlan::new(asked, &Recipes).is_ok(), "{name}");
        }
    }
}
