//! Values that several services need.
//!
//! Each is set in one place and derived everywhere else. A recipe need not repeat it; if it does with another value, it
//! is refused with the names of both settings.
//!
//! | value | is set as | and derived for |
//! |---|---|---|
//! | temperature | `sampling.temperature` | `learner.temperature`: the learner scores under the distribution that was sampled from |
//! | seed | `run.seed` | `engine.seed`, the fresh model, and the seed of every training step |
//! | maximum response length | `sampling.max_tokens` | `learner.objective.max_tokens`, which some aggregation rules divide by; 1 may be set, which divides by no length |
//! | retention | `checkpoint.keep`, `checkpoint.keep_weights` | every request to save a checkpoint or to publish; the learner has no setting of its own |
//! | time for a verdict | `reward.judge.timeout`, `reward.judge.retry_for` | `services.verify_deadline` of a run with a judge |
//! | type of weights | `model.publish_type`, `model.checkpoint_type` | `publish_dtype` (and so what engines load) and `checkpoint_dtype` of the learner's service |
//!
//! All but the last two are sections of a recipe themselves and derived here; the others are no keys of a recipe, and
//! [`Recipe::learner_service`] sets them.

use evenkeel_config::{ConfigError, Loaded, to_table};
use evenkeel_learner::LearnerSettings;
use evenkeel_orchestrator::EnginesWhileTraining;
use evenkeel_proto::FieldError;
use evenkeel_reward::{FunctionSettings, FunctionTables, JudgeSettings, RewardSettings};
use evenkeel_run::RunDirectory;
use toml::{Table, Value};

use super::Recipe;

/// Derives the values that the recipe does not repeat.
pub(super) fn derive(loaded: &mut Loaded<Recipe>) -> Result<(), FieldError> {
    let temperature_is_set = loaded.is_set("learner.temperature");
    let seed_is_set = loaded.is_set("engine.seed");
    let deadline_is_set = loaded.is_set("services.verify_deadline");
    let Recipe { run, sampling, learner, engine, services, reward, .. } = &mut loaded.settings;
    if let Some(judge) = reward.judge.as_ref().filter(|_| !deadline_is_set) {
        services.verify_deadline = services.verify_deadline.max(judge.longest_verdict());
    }
    let from = ("sampling.temperature", sampling.temperature);
    follow("learner.temperature", &mut learner.temperature, temperature_is_set, from)?;
    follow("engine.seed", &mut engine.seed, seed_is_set, ("run.seed", run.seed))?;
    let objective = &mut learner.objective;
    // 0 is not set; 1 divides by no length, whatever the longest response.
    if objective.aggregation.uses_max_tokens() && objective.max_tokens != 1 {
        let is_set = objective.max_tokens != 0;
        let from = ("sampling.max_tokens", sampling.max_tokens as usize);
        follow("learner.objective.max_tokens", &mut objective.max_tokens, is_set, from).map_err(|error| {
            FieldError { allowed: format!("{}, or 1 to divide by no length", error.allowed), ..error }
        })?;
    }
    Ok(())
}

/// A recipe as TOML without the values that [`derive()`] adds, so that the settings that they follow can be changed
/// when it is read again.
pub(super) fn without_derived(recipe: &Recipe) -> Result<Table, ConfigError> {
    let mut table = to_table(recipe)?;
    if let Some(learner) = table.get_mut("learner").and_then(Value::as_table_mut) {
        learner.remove("temperature");
        let objective = &recipe.learner.objective;
        let divides = objective.aggregation.uses_max_tokens() && objective.max_tokens != 1;
        if let Some(objective) = learner.get_mut("objective").and_then(Value::as_table_mut).filter(|_| divides) {
            objective.remove("max_tokens");
        }
    }
    let of_judge = recipe.reward.judge.as_ref().map(JudgeSettings::longest_verdict);
    if let Some(services) = table.get_mut("services").and_then(Value::as_table_mut)
        && of_judge == Some(recipe.services.verify_deadline)
    {
        services.remove("verify_deadline");
    }
    if let Some(engine) = table.get_mut("engine").and_then(Value::as_table_mut) {
        engine.remove("seed");
    }
    Ok(table)
}

/// Sets a value to that of the setting that it follows.
fn follow<T: PartialEq + std::fmt::Display>(
    key: &str,
    value: &mut T,
    is_set: bool,
    (leader, leading): (&str, T),
) -> Result<(), FieldError> {
    if is_set && *value != leading {
        return Err(FieldError::new(key, &*value, format!("the value of {leader}, which is {leading}, or absent")));
    }
    *value = leading;
    Ok(())
}

impl Recipe {
    /// The settings of the learner service for this recipe.
    pub fn learner_service(&self) -> LearnerSettings {
        LearnerSettings {
            publish_dtype: self.model.publish_type,
            checkpoint_dtype: self.model.checkpoint_type,
            training: self.learner.clone(),
            engines_stay_awake: self.sampling.engines_while_training == EnginesWhileTraining::Awake,
            ..LearnerSettings::default()
        }
    }

    /// The reward service of a run in one process, which calls the reward functions of files and the judge as well.
    pub fn reward_service(&self) -> RewardSettings {
        let (prompt_fields, answer_fields) = self.named_fields();
        let files = self.data.verifiers.iter().filter_map(|(name, verifier)| {
            let functions = FunctionSettings {
                path: verifier.path.clone()?,
                python: verifier.python.clone(),
                functions: verifier.functions.clone(),
                range: verifier.range,
                require_all: verifier.require_all,
                timeout: verifier.timeout,
                max_memory: verifier.max_memory,
                keep_variables: verifier.keep_variables.clone(),
                processes: verifier.processes,
                prompt_fields: prompt_fields.clone(),
                answer_fields: answer_fields.clone(),
            };
            Some((name.clone(), functions))
        });
        let verifier = self.data.verifiers.iter().find(|(_, verifier)| verifier.judge).map(|(name, _)| name.clone());
        let judge = self.reward.judge.clone();
        let judge = judge.map(|judge| JudgeSettings { verifier: verifier.unwrap_or_default(), ..judge });
        let functions = files.collect();
        RewardSettings { functions, function_tables: FunctionTables::Recipe, judge, ..self.reward.clone() }
    }

    /// Columns with prompts and with gold answers that the settings name.
    fn named_fields(&self) -> (Vec<String>, Vec<String>) {
        let sources = self.data.sources.iter().map(|source| (&source.prompt_field, &source.answer_field));
        let benchmarks = self.evaluation.benchmarks.iter().map(|one| (&one.prompt_field, &one.answer_field));
        let all = [(&self.data.prompt_field, &self.data.answer_field)].into_iter().chain(sources).chain(benchmarks);
        let (mut prompts, mut answers): (Vec<_>, Vec<_>) = all.map(|(one, other)| (one.clone(), other.clone())).unzip();
        for names in [&mut prompts, &mut answers] {
            names.retain(|name| !name.is_empty());
            names.dedup();
        }
        (prompts, answers)
    }

    /// The learner's settings with its files in a run directory.
    pub fn learner_service_in(&self, directory: &RunDirectory) -> LearnerSettings {
        LearnerSettings { checkpoints: directory.checkpoints(), weights: directory.weights(), ..self.learner_service() }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_config::Loader;

    use super::*;

    fn resolve(text: &str) -> Result<Recipe, String> {
        let loaded = Loader::new().text("test", text).and_then(super::super::resolve);
        loaded.map(|loaded| loaded.settings).map_err(|error| error.to_string())
    }

    #[test]
    fn what_a_recipe_does_not_repeat_follows_from_the_one_setting() {
        let recipe = resolve(
            "[run]\nseed = 7\n[sampling]\ntemperature = 0.5\nmax_tokens = 90\n[learner.objective]\n\
            aggregation = \"sequence-sum\"",
        );
        let recipe = recipe.unwrap();
        assert_eq!((recipe.learner.temperature, recipe.engine.seed), (0.5, 7));
        assert_eq!(recipe.learner.objective.max_tokens, 90);
        assert_eq!(resolve("").unwrap().learner.objective.max_tokens, 0, "only sequence-sum divides by it");
        let recipe = resolve("[model]\npublish_type = \"bf16\"\ncheckpoint_type = \"bf16\"").unwrap().learner_service();
        assert_eq!(recipe.publish_dtype, evenkeel_learner::PublishType::Bf16);
        assert_eq!(recipe.checkpoint_dtype, evenkeel_learner::CheckpointType::Bf16);
        let stay_awake = |text| resolve(text).unwrap().learner_service().engines_stay_awake;
        assert!(stay_awake("") && !stay_awake("[sampling]\nengines_while_training = \"offload\""));
    }

    #[test]
    fn reward_functions_know_the_columns_that_the_settings_name() {
        let recipe = resolve(
            "[data]\nfiles = [\"a.jsonl\"]\nprompt_field = \"frage\"\nanswer_field = \"extra.antwort\"\n\
            [data.verifiers.words]\npath = \"reward.py\"\ndata_sources = [\"*\"]\n\
            [[evaluation.benchmarks]]\nfiles = [\"b.jsonl\"]\nprompt_field = \"domanda\"\n",
        );
        let service = recipe.unwrap().reward_service();
        let words = &service.functions["words"];
        assert_eq!(words.prompt_fields, ["frage", "domanda"]);
        assert_eq!(words.answer_fields, ["extra.antwort"]);
    }

    const JUDGE: &str = "[reward.judge]\nendpoint = \"http://127.0.0.1:1/v1\"\nmodel = \"a\"\nrubric = \"r.toml\"\n\
        timeout = \"30s\"\nretry_for = \"90s\"\n";

    #[test]
    fn a_verdict_of_a_judge_may_take_as_long_as_its_calls() {
        let named = format!("{JUDGE}[data.verifiers.essay]\njudge = true\n");
        let recipe = resolve(&named).unwrap();
        assert_eq!(recipe.services.verify_deadline.as_secs(), 240);
        assert_eq!(recipe.reward_service().judge.unwrap().verifier, "essay");
        assert_eq!(resolve(&recipe.to_toml().unwrap()).unwrap(), recipe);
        let longer = recipe.to_toml().unwrap().replace("timeout = \"30s\"", "timeout = \"1m\"");
        assert_eq!(resolve(&longer).unwrap().services.verify_deadline.as_secs(), 300, "it follows");
        let error = resolve(&format!("{named}[services]\nverify_deadline = \"1m\"\n")).unwrap_err();
        assert!(error.contains("`services.verify_deadline` is 1m") && error.contains("at least 2m"), "{error}");
    }

    #[test]
    fn a_judge_is_needed_and_there_once() {
        let error = resolve(JUDGE).unwrap_err();
        assert!(error.contains("`reward.judge` is a judge of no answer"), "{error}");
        assert!(resolve(&format!("{JUDGE}undecided = true\n")).is_ok());
        let error = resolve("[data.verifiers.essay]\njudge = true\n").unwrap_err();
        assert!(error.contains("`reward.judge` is absent"), "{error}");
        let two = format!("{JUDGE}[data.verifiers.a]\njudge = true\n[data.verifiers.b]\njudge = true\n");
        let error = resolve(&two).unwrap_err();
        assert!(error.contains("`data.verifiers.b.judge` is true"), "{error}");
        let error = resolve(&format!("{JUDGE}undecided = true\nverifier = \"essay\"\n")).unwrap_err();
        assert!(error.contains("`reward.judge.verifier` is \"essay\""), "{error}");
    }

    #[test]
    fn a_recipe_that_was_written_down_does_not_repeat_them() {
        let first =
            resolve("[sampling]\ntemperature = 0.5\n[learner.objective]\naggregation = \"sequence-sum\"").unwrap();
        let again = first.to_toml().unwrap();
        assert_eq!(resolve(&again).unwrap(), first);
        let changed = again.replacen("temperature = 0.5", "temperature = 0.7", 1).replacen(
            "max_tokens = 128",
            "max_tokens = 64",
            1,
        );
        let changed = resolve(&changed).unwrap();
        assert_eq!((changed.learner.temperature, changed.sampling.max_tokens), (0.7, 64));
        assert_eq!(changed.learner.objective.max_tokens, 64);
        let written = resolve("").unwrap().to_toml().unwrap();
        for rule in ["sequence-sum", "vl-norm"] {
            let other = resolve(&written.replacen("\"balanced\"", &format!("\"{rule}\""), 1)).unwrap();
            assert_eq!((other.learner.objective.aggregation.name(), other.learner.objective.max_tokens), (rule, 128));
        }
    }

    #[test]
    fn a_sum_that_no_length_divides_is_kept_and_written_down() {
        let sum = "[learner.objective]\naggregation = \"sequence-sum\"\nmax_tokens = 1";
        let recipe = resolve(sum).unwrap();
        assert_eq!((recipe.learner.objective.max_tokens, recipe.sampling.max_tokens), (1, 128));
        assert_eq!(resolve(&recipe.to_toml().unwrap()).unwrap(), recipe);
    }

    #[test]
    fn values_set_against_each_other_are_refused_with_both_names() {
        for (text, words) in [
            (
                "[sampling]\ntemperature = 0.5\n[learner]\ntemperature = 1.0",
                "`learner.temperature` is 1 in test, allowed: the value of sampling.temperature, which is 0.5",
            ),
            (
                "[run]\nseed = 1\n[engine]\nseed = 2",
                "`engine.seed` is 2 in test, allowed: the value of run.seed, which is 1",
            ),
            (
                "[sampling]\nmax_tokens = 90\n[learner.objective]\naggregation = \"sequence-sum\"\nmax_tokens = 80",
                "`learner.objective.max_tokens` is 80 in test, allowed: the value of sampling.max_tokens, which is 90, \
                or absent, or 1 to divide by no length",
            ),
        ] {
            let error = resolve(text).unwrap_err();
            assert!(error.starts_with(words), "{error}");
        }
    }
}
