//! From the command line to what is evaluated.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use evenkeel_config::Loader;
use evenkeel_hub::ModelName;
use evenkeel_model_folder::{ConfigFile, Folder};
use evenkeel_orchestrator::BenchmarkSettings;
use evenkeel_proto::FieldError;
use evenkeel_recipe::Recipe;

use crate::arguments::EvalOptions;

/// The longest answer, in tokens, where nothing says another and half of the model's context is no less.
const LONGEST: u32 = 2048;

/// What holds without a recipe, below `--set` and the other options.
fn defaults(model: &Path) -> String {
    let context = ConfigFile::read(&Folder::new(model)).ok().and_then(|config| config.max_position_embeddings().ok());
    let max_tokens = context.map_or(LONGEST, |context| LONGEST.min((context / 2).max(1)));
    format!("[evaluation]\nsamples = 8\ntemperature = 1.0\nmax_tokens = {max_tokens}")
}

/// The recipe of the command line with its benchmarks and sampling on top. They are settings like any other, so that
/// the whole is validated.
pub(super) fn recipe(options: &EvalOptions) -> Result<Recipe> {
    let load = |set: &[String]| {
        if options.recipe.is_empty() {
            evenkeel_recipe::finish(Loader::new().text("evenkeel eval", &defaults(&options.model))?, set)
        } else {
            evenkeel_recipe::load(&options.recipe, set)
        }
    };
    let set = settings(options);
    let mut benchmarks: Vec<_> = if options.benchmark.is_empty() {
        load(&set)?.settings.evaluation.benchmarks
    } else {
        options.benchmark.iter().map(|named| benchmark(named)).collect::<Result<_, FieldError>>()?
    };
    if benchmarks.is_empty() {
        let allowed = "NAME=PATH, or a recipe with evaluation.benchmarks";
        return Err(FieldError::missing("--benchmark", allowed).into());
    }
    // What the command line says holds for all of them.
    for benchmark in &mut benchmarks {
        benchmark.samples = benchmark.samples.filter(|_| options.samples.is_none());
        benchmark.temperature = benchmark.temperature.filter(|_| options.temperature.is_none());
        benchmark.top_p = benchmark.top_p.filter(|_| options.top_p.is_none());
        benchmark.max_tokens = benchmark.max_tokens.filter(|_| options.max_tokens.is_none());
    }
    let benchmarks = format!("evaluation.benchmarks={}", toml::Value::try_from(&benchmarks)?);
    Ok(load(&[set, vec![benchmarks]].concat())?.settings)
}

/// What the command line sets, but for the benchmarks.
fn settings(options: &EvalOptions) -> Vec<String> {
    let model = toml::Value::from(options.model.display().to_string());
    // Nothing is held out and no checkpoint is kept where nothing is trained.
    let fixed =
        [format!("model.path={model}"), "evaluation.problems=0".to_owned(), "checkpoint.keep_best=\"\"".to_owned()];
    let given = [
        options.samples.map(|samples| format!("evaluation.samples={samples}")),
        options.temperature.map(|temperature| format!("evaluation.temperature={temperature:?}")),
        options.top_p.map(|top_p| format!("evaluation.top_p={top_p:?}")),
        options.max_tokens.map(|tokens| format!("evaluation.max_tokens={tokens}")),
        options.seed.map(|seed| format!("run.seed={seed}")),
    ];
    options.set.iter().cloned().chain(fixed).chain(given.into_iter().flatten()).collect()
}

/// `NAME=PATH`, or a path that names itself.
fn benchmark(text: &str) -> Result<BenchmarkSettings, FieldError> {
    let (name, path) = text.split_once('=').unwrap_or(("", text));
    if path.is_empty() {
        return Err(FieldError::quoted("--benchmark", text, "NAME=PATH"));
    }
    Ok(BenchmarkSettings { name: name.to_owned(), files: vec![path.into()], ..BenchmarkSettings::default() })
}

/// Where answers go: as said, or by the model's name.
pub(super) fn output(options: &EvalOptions) -> Result<PathBuf> {
    if let Some(output) = &options.output {
        return Ok(output.clone());
    }
    if ModelName::is_name(&options.model) {
        let name = ModelName::parse("--model", &options.model.to_string_lossy())?;
        return Ok(Path::new("evaluations").join(name.repository().replace('/', "--")));
    }
    let model =
        std::fs::canonicalize(&options.model).with_context(|| format!("--model {}", options.model.display()))?;
    let name = model.file_name().context("--model has no name, so --output is needed")?;
    Ok(Path::new("evaluations").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(arguments: &[&str]) -> EvalOptions {
        use clap::Parser;
        let arguments = ["evenkeel", "eval", "--model", "m"].iter().chain(arguments);
        match crate::arguments::Arguments::parse_from(arguments).command {
            crate::arguments::Command::Eval(options) => options,
            _ => panic!("another command"),
        }
    }

    #[test]
    fn options_are_settings_that_hold_for_every_benchmark() {
        let recipe_of = |arguments: &[&str]| recipe(&options(arguments)).map_err(|error| error.to_string());
        let plain = recipe_of(&["--benchmark", "a=x.jsonl"]).unwrap();
        let evaluation = &plain.evaluation;
        assert_eq!((evaluation.samples, evaluation.temperature, evaluation.max_tokens), (8, 1.0, 2048));
        let set = "evaluation.benchmarks=[{files=[\"x.jsonl\"],samples=2,top_p=0.5}]";
        let changed = recipe_of(&["--set", set, "--samples", "3", "--temperature", "0.6", "--seed", "9"]).unwrap();
        let evaluation = &changed.evaluation;
        let benchmark = &changed.evaluation.benchmarks[0];
        assert_eq!((evaluation.samples, evaluation.temperature, evaluation.problems), (3, 0.6, 0));
        assert_eq!((benchmark.samples, benchmark.top_p), (None, Some(0.5)));
        assert_eq!((changed.run.seed, changed.engine.seed), (9, 9), "what follows a setting is derived");
        let refused = recipe_of(&["--benchmark", "a=x.jsonl", "--samples", "0"]).unwrap_err();
        assert!(refused.contains("evaluation.samples"), "what the command line sets is validated: {refused}");
    }

    #[test]
    fn the_longest_answer_fits_a_small_model_where_nobody_says_how_long_it_is() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config.json"), "{\"max_position_embeddings\": 256}").unwrap();
        let model = dir.path().to_str().unwrap();
        let options = EvalOptions { model: model.into(), ..options(&["--benchmark", "x.jsonl"]) };
        assert_eq!(recipe(&options).unwrap().evaluation.max_tokens, 128);
    }

    #[test]
    fn a_benchmark_is_a_name_and_a_path() {
        let named = |text: &str| benchmark(text).map(|found| (found.name(), found.files[0].display().to_string()));
        assert_eq!(named("math=data/test-*.parquet").unwrap(), ("math".into(), "data/test-*.parquet".into()));
        assert_eq!(named("data/aime.jsonl").unwrap(), ("aime".into(), "data/aime.jsonl".into()));
        assert_eq!(named("math=").unwrap_err().to_string(), "--benchmark is \"math=\", allowed: NAME=PATH");
    }
}
