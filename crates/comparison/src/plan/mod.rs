//! What a comparison runs: tasks, arms and seeds. It is kept in the folder of the comparison, so that the same command
//! continues it.

mod planned_arm;
mod study;
mod study_file;
mod varied;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use evenkeel_errors::FieldError;
use evenkeel_run::recipe_stem;
use serde::{Deserialize, Serialize};

use crate::recipes::ComparedRecipes;
pub use planned_arm::PlannedArm;
pub use study::{Study, StudyChanges, StudyRequest};
pub use varied::Varied;

/// Seeds of each task and arm where nothing else is asked for.
pub const SEEDS: u64 = 8;

/// The file in the folder of a comparison.
const FILE: &str = "plan.json";
const FORMAT: u32 = 1;

/// What a comparison runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparisonPlan {
    format: u32,
    /// Recipes by the name of their task.
    tasks: BTreeMap<String, String>,
    varied: Vec<Varied>,
    /// What tasks vary instead, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    varied_in: BTreeMap<String, Vec<Varied>>,
    /// Settings of all runs, as `--set` takes them.
    set: Vec<String>,
    /// Threads of each run: their number decides bits.
    threads: usize,
    /// Runs of each task and arm, with the seeds from 0 on. It may grow.
    pub seeds: u64,
    /// What each task and arm computes, with the first seed: a recipe may change between two calls of the command.
    identities: BTreeMap<String, String>,
}

/// What a comparison is asked to run.
#[derive(Debug, Clone, Default)]
pub struct ComparisonRequest {
    /// Built-in recipes or files, one for each task.
    pub recipes: Vec<String>,
    /// Settings whose combinations are the arms.
    pub varied: Vec<Varied>,
    /// What tasks vary instead, by their names.
    pub varied_in: BTreeMap<String, Vec<Varied>>,
    /// Settings of all runs, as `--set` takes them.
    pub set: Vec<String>,
    /// Threads of each run.
    pub threads: usize,
    /// Runs of each task and arm.
    pub seeds: u64,
}

impl ComparisonPlan {
    /// A plan whose settings are all accepted.
    ///
    /// # Errors
    /// Two recipes of one name, a setting that is varied twice or does not exist, values that a recipe refuses, arms
    /// that compute the same.
    pub fn new(asked: ComparisonRequest, source: &impl ComparedRecipes) -> Result<(Self, Vec<PlannedArm>)> {
        let ComparisonRequest { recipes, varied, varied_in, set, threads, seeds } = asked;
        let at_least_one = |field: &str, value: u64| match value {
            0 => Err(FieldError::new(field, value, "at least 1")),
            _ => Ok(()),
        };
        at_least_one("--seeds", seeds)?;
        at_least_one("--threads", threads as u64)?;
        for (index, Varied { key, .. }) in varied.iter().enumerate() {
            if varied[..index].iter().any(|other| other.key == *key) {
                return Err(FieldError::new("--vary", format_args!("{key:?} twice"), "each setting once").into());
            }
        }
        for Varied { key, .. } in varied.iter().chain(varied_in.values().flatten()) {
            if set.iter().any(|setting| setting.split_once('=').is_some_and(|(set, _)| set.trim() == key)) {
                let allowed = "either set for all runs or varied";
                return Err(FieldError::new(key.as_str(), "set and varied", allowed).into());
            }
        }
        let mut tasks = BTreeMap::new();
        for name in &recipes {
            let task = recipe_stem(name).to_owned();
            if let Some(other) = tasks.insert(task.clone(), name.clone()) {
                let allowed = format!("recipes of different names (`{other}` is called {task} as well)");
                return Err(FieldError::quoted("RECIPE", name, allowed).into());
            }
        }
        let mut plan =
            Self { format: FORMAT, tasks, varied, varied_in, set, threads, seeds, identities: BTreeMap::new() };
        let arms = plan.arms(source)?;
        for arm in &arms {
            let identity = arm.settings.identity.clone();
            let same =
                plan.identities.iter().find(|(name, known)| **known == identity && name.starts_with(&arm.prefix()));
            if let Some((other, _)) = same {
                let allowed = format!("settings that change a result ({other} computes the same)");
                return Err(FieldError::new("--vary", arm.name(), allowed).into());
            }
            plan.identities.insert(arm.name(), identity);
        }
        Ok((plan, arms))
    }

    /// Every task with every arm.
    fn arms(&self, source: &impl ComparedRecipes) -> Result<Vec<PlannedArm>> {
        let mut arms = Vec::new();
        for (task, name) in &self.tasks {
            for arm in &varied::arms(self.varied_in.get(task).unwrap_or(&self.varied)) {
                let set: Vec<String> = self.common().chain(arm.settings()).collect();
                let settings = source.resolve(name, &set).with_context(|| format!("{task}, {}", arm.label()))?;
                let task = task.clone();
                let recipe = name.clone();
                arms.push(PlannedArm { task, arm: arm.clone(), recipe, settings });
            }
        }
        Ok(arms)
    }

    /// The settings of all runs.
    pub fn common(&self) -> impl Iterator<Item = String> {
        let threads = self.threads;
        // A study has too many runs for anyone to watch their pages.
        let page = "page.listen=off".to_owned();
        let threads = [page, format!("learner.compute.threads={threads}"), format!("engine.threads={threads}")];
        threads.into_iter().chain(self.set.iter().cloned())
    }

    /// Keeps the plan in a folder, or finds it there. A folder with another plan is refused, naming the difference;
    /// more seeds are welcome.
    ///
    /// # Errors
    /// Another plan, and a file that cannot be read or written.
    pub fn keep(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        if let Ok(text) = std::fs::read_to_string(&path) {
            let known: Self = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
            self.refuse_other(&known, folder)?;
        }
        let text = serde_json::to_string_pretty(self)? + "\n";
        evenkeel_host::replace(&path, text).with_context(|| path.display().to_string())
    }

    fn refuse_other(&self, known: &Self, folder: &Path) -> Result<(), FieldError> {
        let parts = [
            ("format", json(&self.format), json(&known.format)),
            ("RECIPE", json(&self.tasks), json(&known.tasks)),
            ("--vary", json(&self.varied), json(&known.varied)),
            ("vary_in", json(&self.varied_in), json(&known.varied_in)),
            ("--set", json(&self.set), json(&known.set)),
            ("--threads", json(&self.threads), json(&known.threads)),
        ];
        let folder = folder.display();
        for (part, own, other) in parts {
            if own != other {
                let allowed = format!("{other}, with which {folder} was begun (or another folder with --out)");
                return Err(FieldError::new(part, own, allowed));
            }
        }
        match self.identities.iter().find(|(name, identity)| known.identities.get(*name) != Some(identity)) {
            None => Ok(()),
            Some((name, _)) => {
                let allowed = format!("the recipe with which {folder} was begun (or another folder with --out)");
                Err(FieldError::new(name.as_str(), "another recipe than before", allowed))
            }
        }
    }
}

/// A part of a plan, to be compared and shown.
fn json(part: &impl Serialize) -> String {
    serde_json::to_string(part).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipes::fake::FakeRecipes;

    fn plan(
        recipes: &[&str],
        varied: &[&str],
        set: &[&str],
        seeds: u64,
    ) -> Result<(ComparisonPlan, Vec<PlannedArm>), String> {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let asked = ComparisonRequest {
            recipes: owned(recipes),
            varied: varied.iter().map(|text| Varied::parse(text).unwrap()).collect(),
            set: owned(set),
            threads: 1,
            seeds,
            ..ComparisonRequest::default()
        };
        ComparisonPlan::new(asked, &FakeRecipes).map_err(|error| format!("{error:#}"))
    }

    fn names(arms: &[PlannedArm]) -> Vec<String> {
        arms.iter().map(PlannedArm::name).collect()
    }

    const RULES: &str = "learner.objective.aggregation=token,balanced";

    #[test]
    fn every_task_has_every_arm() {
        let (_, arms) = plan(&["code", "arithmetic"], &[RULES], &["run.steps=3"], 8).unwrap();
        assert_eq!(names(&arms), ["arithmetic: token", "arithmetic: balanced", "code: token", "code: balanced"]);
        for settings in arms.iter().map(|arm| &arm.settings) {
            assert_eq!((settings.steps, settings.values["learner.compute.threads"].as_str()), (3, "1"));
        }
    }

    #[test]
    fn a_task_may_have_arms_of_its_own() {
        let own = |text: &str| vec![Varied::parse(text).unwrap()];
        let asked = ComparisonRequest {
            recipes: ["code", "arithmetic"].map(str::to_owned).to_vec(),
            varied: own(RULES),
            varied_in: BTreeMap::from([("code".to_owned(), own("learner.objective.aggregation=token,sequence"))]),
            threads: 1,
            seeds: 1,
            ..ComparisonRequest::default()
        };
        let (_, arms) = ComparisonPlan::new(asked, &FakeRecipes).unwrap();
        assert_eq!(names(&arms), ["arithmetic: token", "arithmetic: balanced", "code: token", "code: sequence"]);
    }

    #[test]
    fn arms_share_a_warm_start_unless_it_depends_on_what_is_varied() {
        let (_, arms) = plan(&["arithmetic"], &[RULES, "learner.supervised.learning_rate=1e-3,2e-3"], &[], 1).unwrap();
        let shared: std::collections::BTreeSet<_> = arms.iter().map(PlannedArm::warm_start).collect();
        assert_eq!((arms.len(), shared.len()), (4, 2));
        let (_, arms) = plan(&["arithmetic"], &["pipeline.max_lag=0,1,2"], &[], 1).unwrap();
        assert!(arms.iter().all(|arm| arm.warm_start() == arms[0].warm_start()));
    }

    #[test]
    fn what_cannot_be_varied_is_refused_by_name() {
        let refused =
            |recipes: &[&str], varied: &[&str], set: &[&str], seeds| plan(recipes, varied, set, seeds).unwrap_err();
        let error = refused(&["arithmetic"], &["learner.objective.aggregation=token,refused"], &[], 1);
        assert!(error.starts_with("arithmetic, refused: "), "{error}");
        let error = refused(&["arithmetic"], &[RULES, RULES], &[], 1);
        assert!(error.contains("\"learner.objective.aggregation\" twice"), "{error}");
        let error = refused(&["arithmetic"], &[RULES], &["learner.objective.aggregation=token"], 1);
        assert!(error.contains("set and varied, allowed: either set for all runs or varied"), "{error}");
        let error = refused(&["arithmetic"], &["checkpoint.keep=1,2"], &[], 1);
        assert!(error.contains("settings that change a result (arithmetic: 1 computes the same)"), "{error}");
        let error = refused(&["arithmetic", "./arithmetic"], &[RULES], &[], 1);
        assert!(error.contains("recipes of different names"), "{error}");
        assert!(refused(&["arithmetic"], &[RULES], &[], 0).contains("--seeds is 0, allowed: at least 1"));
    }

    #[test]
    fn a_folder_goes_on_with_its_own_plan_and_with_more_seeds_only() {
        let dir = tempfile::tempdir().unwrap();
        let keep = |set: &[&str], varied: &str, seeds| {
            let (plan, _) = plan(&["arithmetic"], &[varied], set, seeds).unwrap();
            plan.keep(dir.path()).map_err(|error| error.to_string())
        };
        keep(&[], RULES, 2).unwrap();
        keep(&[], RULES, 4).unwrap();
        let error = keep(&["run.steps=3"], RULES, 4).unwrap_err();
        assert!(error.contains("--set is [\"run.steps=3\"], allowed: [], with which"), "{error}");
        assert!(keep(&[], "learner.objective.aggregation=token,sequence", 4).unwrap_err().starts_with("--vary is"));
    }
}
