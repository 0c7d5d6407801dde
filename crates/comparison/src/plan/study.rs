//! Studies: what a comparison runs, written down, so that one name is the whole of it.

use std::path::{Path, PathBuf};

use anyhow::Result;
use evenkeel_config::{Loader, nearest, parse, parse_file};
use evenkeel_errors::FieldError;
use evenkeel_run::recipe_stem;

use super::ComparisonRequest;
use super::study_file::{StudyFile, assignments, varied};
use crate::recipes::ComparedRecipes;

const BUILT_IN: &[(&str, &str)] = &[
    ("studies/four-regimes", include_str!("../../../../deploy/studies/four-regimes.toml")),
    ("studies/real-model", include_str!("../../../../deploy/studies/real-model.toml")),
    ("studies/lora", include_str!("../../../../deploy/studies/lora.toml")),
    ("studies/paper", include_str!("../../../../deploy/studies/paper.toml")),
];
const FOLDER: &str = "studies/";
/// The section by which a file is known as a study, which no recipe has.
const SECTION: &str = "study";
/// What follows the name of a study's folder that was run quickly.
const QUICK: &str = "-quick";

/// A study, ready to be run.
#[derive(Debug, Clone)]
pub struct Study {
    /// What the folder of its comparison is called after.
    name: String,
    /// Where the recipes lie that it names by files.
    folder: PathBuf,
    written: StudyFile,
}

impl Study {
    /// Names of the built-in studies.
    pub fn built_in() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// The study of a name or a path; `None` where it is that of something else.
    ///
    /// # Errors
    /// A name among the studies' that none has; a file that is no study but begins as one.
    pub fn find(name: &str) -> Result<Option<Self>> {
        let (origin, table, folder) = if let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            (name.to_owned(), parse(name, text)?, PathBuf::new())
        } else if name.ends_with(".toml") {
            let path = Path::new(name);
            // What cannot be read is reported as a recipe that cannot be.
            let Ok(table) = parse_file(path) else { return Ok(None) };
            (path.display().to_string(), table, path.parent().map_or_else(PathBuf::new, Path::to_owned))
        } else if name.starts_with(FOLDER) && !Path::new(name).exists() {
            let near = nearest(name, Self::built_in()).map(|near| format!(" (nearest: {near})")).unwrap_or_default();
            let allowed = format!("one of {}, or a TOML file{near}", Self::built_in().collect::<Vec<_>>().join(", "));
            return Err(FieldError::quoted("RECIPE", name, allowed).into());
        } else {
            return Ok(None);
        };
        if !table.contains_key(SECTION) {
            return Ok(None);
        }
        let written = Loader::new().table(&origin, table)?.load::<StudyFile>()?.settings;
        Ok(Some(Self { name: recipe_stem(name).to_owned(), folder, written }))
    }

    /// What the study runs, with the caller's changes over it.
    ///
    /// # Errors
    /// A quick version that the study does not have, and settings that cannot be varied.
    pub fn request(&self, changes: StudyChanges, recipes: &impl ComparedRecipes) -> Result<StudyRequest> {
        let StudyFile { study, vary, vary_in, set, quick } = &self.written;
        if changes.quick && quick.seeds == 0 {
            let allowed = format!("absent: {} has no section `quick`", self.name);
            return Err(FieldError::new("--quick", "given", allowed).into());
        }
        let mut settings = assignments(set);
        let mut seeds = study.seeds;
        let mut folder = self.name.clone();
        if changes.quick {
            settings.extend(assignments(&quick.set));
            seeds = quick.seeds;
            folder.push_str(QUICK);
        }
        settings.extend(changes.set);
        let recipe = |name: &String| {
            if recipes.is_built_in(name) { name.clone() } else { self.folder.join(name).display().to_string() }
        };
        let own = vary_in.iter().map(|(task, table)| Ok((task.clone(), varied("vary_in", table)?)));
        let comparison = ComparisonRequest {
            recipes: study.recipes.iter().map(recipe).collect(),
            varied: varied("vary", vary)?,
            varied_in: own.collect::<Result<_, FieldError>>()?,
            set: settings,
            threads: changes.threads.unwrap_or(study.threads),
            seeds: changes.seeds.unwrap_or(seeds),
        };
        let primary = Some(study.primary.clone()).filter(|name| !name.is_empty());
        Ok(StudyRequest { comparison, primary, reward: study.reward, folder })
    }
}

/// What a caller changes of a study.
#[derive(Debug, Clone, Default)]
pub struct StudyChanges {
    /// Whether the quick version is asked for.
    pub quick: bool,
    /// Settings of all runs over those of the study, as `--set` takes them.
    pub set: Vec<String>,
    /// Threads of each run.
    pub threads: Option<usize>,
    /// Runs of each task and arm.
    pub seeds: Option<u64>,
}

/// What a study asks for.
#[derive(Debug, Clone)]
pub struct StudyRequest {
    pub comparison: ComparisonRequest,
    /// Name of the primary measure, where the study says one.
    pub primary: Option<String>,
    /// The reward to which steps are counted, where the study says one.
    pub reward: Option<f64>,
    /// What the folder of the comparison is called.
    pub folder: String,
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::recipes::fake::FakeRecipes;

    /// What a study in a file asks for with these changes, or what it is refused for.
    fn read(text: &str, changes: StudyChanges) -> Result<StudyRequest, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine.toml");
        fs::write(&path, text).unwrap();
        let message = |error: anyhow::Error| format!("{error:#}");
        let study = Study::find(&path.display().to_string()).map_err(message)?.ok_or("no study")?;
        study.request(changes, &FakeRecipes).map_err(message)
    }

    fn quick() -> StudyChanges {
        StudyChanges { quick: true, ..StudyChanges::default() }
    }

    const SMALL: &str = "[study]\nrecipes = [\"arithmetic\", \"own.toml\"]\nprimary = \"last-reward\"\n\
                         [vary]\nlearner.objective.aggregation = [\"token\", \"balanced\"]\n\
                         learner.optimizer.learning_rate = [1e-4, 2e-4]\n\
                         [set]\nrun.steps = 5\nrun.name = \"a\"\n[quick]\nseeds = 2\n[quick.set]\nrun.steps = 1\n";

    #[test]
    fn a_study_says_what_is_run_and_its_caller_changes_it() {
        let StudyRequest { comparison, primary, folder, .. } = read(SMALL, StudyChanges::default()).unwrap();
        assert_eq!(comparison.recipes[0], "arithmetic");
        assert!(comparison.recipes[1].ends_with("/own.toml"), "a file is next to the study: {}", comparison.recipes[1]);
        assert_eq!((comparison.seeds, comparison.threads, primary.as_deref()), (8, 1, Some("last-reward")));
        assert_eq!(comparison.set, ["run.name=\"a\"", "run.steps=5"]);
        assert_eq!(folder, "mine");
        let values: Vec<_> =
            comparison.varied.iter().map(|varied| (varied.key.as_str(), varied.values.join(" "))).collect();
        let rule = "learner.objective.aggregation";
        let rate = "learner.optimizer.learning_rate";
        assert_eq!(values, [(rule, "token balanced".to_owned()), (rate, "0.0001 0.0002".to_owned())]);
        let changes = StudyChanges { set: vec!["run.steps=9".to_owned()], seeds: Some(3), ..StudyChanges::default() };
        let changed = read(SMALL, changes).unwrap().comparison;
        assert_eq!((changed.seeds, changed.set[2].as_str()), (3, "run.steps=9"));
    }

    #[test]
    fn a_quick_study_is_less_of_the_same_in_a_folder_of_its_own() {
        let StudyRequest { comparison, folder, .. } = read(SMALL, quick()).unwrap();
        assert_eq!((comparison.seeds, comparison.varied.len()), (2, 2));
        assert_eq!(comparison.set, ["run.name=\"a\"", "run.steps=5", "run.steps=1"], "the last one wins");
        assert_eq!(folder, "mine-quick");
    }

    #[test]
    fn what_no_study_can_be_is_refused_by_name() {
        let error = |text: &str| read(text, StudyChanges::default()).unwrap_err();
        let error_with = |recipes: &str, rest: &str| {
            error(&format!("[study]\nrecipes = {recipes}\n[vary]\na.b = [\"1\", \"2\"]\n{rest}"))
        };
        for (said, words) in [
            (error("[study]\nrecipes = []\n[vary]\na.b = [1, 2]"), "`study.recipes` is absent"),
            (error("[study]\nrecipes = [\"arithmetic\"]"), "`vary` is absent"),
            (error("[study]\nrecipe = [\"arithmetic\"]"), "nearest allowed: `study.recipes`"),
            (error("[study]\nrecipes = [\"arithmetic\"]\n[vary]\na.b = 1"), "`vary.a.b` is 1"),
            (error("[study]\nrecipes = [\"arithmetic\"]\n[vary]\na.b = [1]"), "two values or more"),
            (error("[study]\nrecipes = [\"arithmetic\"]\n[vary]\nrun.seed = [1, 2]"), "--seeds says how many"),
            (error_with("[\"arithmetic\"]", "[set]\na.b = 1"), "`set.a.b` is 1"),
            (error_with("[\"arithmetic\"]", "[quick]\nseeds = 1\n[quick.set]\na.b = 1"), "`quick.set.a.b` is 1"),
            (error_with("[\"arithmetic\"]", "[quick.set]\na.c = 1"), "`quick.seeds` is 0"),
            (error_with("[\"arithmetic\"]", "[vary_in.code]\na.b = [1, 2]"), "`vary_in.code` is set"),
            (error_with("[\"arithmetic\"]", "[sampling]\ngroup_size = 2"), "unknown key `sampling`"),
        ] {
            assert!(said.contains(words), "{words}: {said}");
        }
        let without = "[study]\nrecipes = [\"arithmetic\"]\n[vary]\na.b = [1, 2]";
        assert!(read(without, quick()).unwrap_err().contains("mine has no section `quick`"));
    }

    #[test]
    fn a_name_that_no_study_has_is_refused_and_other_files_are_no_studies() {
        let error = Study::find("studies/for-regimes").unwrap_err().to_string();
        assert!(error.contains("nearest: studies/four-regimes"), "{error}");
        assert!(Study::find("arithmetic").unwrap().is_none());
        assert_eq!(read("[run]\nsteps = 3", StudyChanges::default()).unwrap_err(), "no study");
    }
}
