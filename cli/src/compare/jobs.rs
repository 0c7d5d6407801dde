//! The runs of a comparison as jobs: shared warm starts, and the runs that start from them.

use std::path::{Path, PathBuf};

use evenkeel_comparison::{Arm, ComparisonPlan, PlannedArm};

/// A run that is to be done.
#[derive(Debug, Clone)]
pub(super) struct Job {
    /// Name in messages.
    pub(super) name: String,
    pub(super) directory: PathBuf,
    pub(super) start: Start,
    /// Over those of the recipe, or of the run that it starts from.
    pub(super) settings: Vec<String>,
    /// GRPO steps that it does.
    pub(super) steps: u64,
    /// The job that must be done before, by its index.
    pub(super) after: Option<usize>,
    /// Run that it contributes; absent for a warm start.
    pub(super) result: Option<RunKey>,
}

/// What a run contributes to the comparison.
#[derive(Debug, Clone)]
pub(super) struct RunKey {
    pub(super) task: String,
    pub(super) arm: Arm,
    pub(super) seed: u64,
}

/// Where a run starts.
#[derive(Debug, Clone)]
pub(super) enum Start {
    Recipe(String),
    /// The warm start in a directory.
    WarmStart(PathBuf),
}

/// All jobs, seed by seed, so that whole pairs are done early. A job comes after the one that it needs.
pub(super) fn jobs(plan: &ComparisonPlan, arms: &[PlannedArm], folder: &Path) -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    for seed in 0..plan.seeds {
        // By task and by the varied settings that a warm start depends on.
        let mut shared: Vec<(&str, Arm, usize)> = Vec::new();
        for planned in arms {
            let of_task = folder.join(&planned.task);
            let name = |what: &str| format!("{}, seed {seed}, {what}", planned.task);
            let seeded = format!("run.seed={seed}");
            let result = RunKey { task: planned.task.clone(), arm: planned.arm.clone(), seed };
            let directory = of_task.join(format!("{}-seed-{seed}", planned.arm.file_name()));
            let own = planned.arm.settings();
            if !planned.settings.has_warm_start {
                jobs.push(Job {
                    name: name(&planned.arm.label()),
                    directory,
                    start: Start::Recipe(planned.recipe.clone()),
                    settings: plan.common().chain(own).chain([seeded]).collect(),
                    steps: planned.settings.steps,
                    after: None,
                    result: Some(result),
                });
                continue;
            }
            let base = planned.warm_start();
            let known = shared.iter().find(|(task, known, _)| *task == planned.task && *known == base);
            let after = known.map(|(_, _, index)| *index).unwrap_or_else(|| {
                let mark = if base.0.is_empty() { String::new() } else { format!("-{}", base.file_name()) };
                let only = ["run.steps=0", "evaluation.after=false"].map(str::to_owned);
                jobs.push(Job {
                    name: name("warm start"),
                    directory: of_task.join(format!("warm-start{mark}-seed-{seed}")),
                    start: Start::Recipe(planned.recipe.clone()),
                    settings: plan.common().chain(base.settings()).chain([seeded]).chain(only).collect(),
                    steps: 0,
                    after: None,
                    result: None,
                });
                shared.push((&planned.task, base, jobs.len() - 1));
                jobs.len() - 1
            });
            let again = [
                format!("run.steps={}", planned.settings.steps),
                format!("evaluation.after={}", planned.settings.evaluates_after),
            ];
            jobs.push(Job {
                name: name(&planned.arm.label()),
                directory,
                start: Start::WarmStart(jobs[after].directory.clone()),
                settings: own.chain(again).collect(),
                steps: planned.settings.steps,
                after: Some(after),
                result: Some(result),
            });
        }
    }
    jobs
}

#[cfg(test)]
mod tests {
    use evenkeel_comparison::{ComparisonRequest, Varied};

    use super::super::recipes::Recipes;
    use super::*;

    fn of(set: &[&str]) -> Vec<Job> {
        let varied = Varied::parse("learner.objective.aggregation=token,balanced").unwrap();
        let set = set.iter().map(|&text| text.to_owned()).collect();
        let recipes = vec!["arithmetic".to_owned()];
        let varied = vec![varied];
        let asked = ComparisonRequest { recipes, varied, set, threads: 1, seeds: 2, ..ComparisonRequest::default() };
        let (plan, arms) = ComparisonPlan::new(asked, &Recipes).unwrap();
        jobs(&plan, &arms, Path::new("c"))
    }

    #[test]
    fn the_arms_of_a_seed_start_from_one_warm_start() {
        let jobs = of(&[]);
        let found: Vec<_> = jobs.iter().map(|job| (job.directory.to_str().unwrap(), job.after)).collect();
        assert_eq!(
            found,
            [
                ("c/arithmetic/warm-start-seed-0", None),
                ("c/arithmetic/token-seed-0", Some(0)),
                ("c/arithmetic/balanced-seed-0", Some(0)),
                ("c/arithmetic/warm-start-seed-1", None),
                ("c/arithmetic/token-seed-1", Some(3)),
                ("c/arithmetic/balanced-seed-1", Some(3)),
            ]
        );
        assert!(jobs[0].result.is_none() && jobs[1].result.is_some());
    }

    #[test]
    fn without_a_warm_start_every_run_stands_alone() {
        let jobs = of(&["warm_start.steps=0"]);
        assert_eq!(jobs.len(), 4);
        assert!(jobs.iter().all(|job| job.after.is_none() && job.steps == 80));
    }
}
