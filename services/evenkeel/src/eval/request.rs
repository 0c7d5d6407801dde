//! From the command line to what is asked.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use evenkeel_config::Loader;
use evenkeel_orchestrator::{BenchmarkSettings, EvaluationSettings};

use crate::arguments::EvalOptions;
use crate::recipe::{self, Recipe};

/// Samples for each problem where neither the command line nor a recipe says.
const SAMPLES: u32 = 8;
/// Longest answer, likewise.
const MAX_TOKENS: u32 = 2048;

/// The recipe of the command line with its benchmarks and sampling on top.
pub(super) fn recipe(options: &EvalOptions) -> Result<Recipe> {
    let mut recipe = match options.recipe.is_empty() {
        false => recipe::load(&options.recipe, &options.set)?.settings,
        true => {
            let mut recipe = recipe::finish(Loader::new(), &options.set)?.settings;
            let EvaluationSettings { samples, temperature, max_tokens, .. } = &mut recipe.evaluation;
            (*samples, *temperature, *max_tokens) = (SAMPLES, 1.0, MAX_TOKENS);
            recipe
        }
    };
    let evaluation = &mut recipe.evaluation;
    evaluation.problems = 0;
    if !options.benchmark.is_empty() {
        evaluation.benchmarks =
            options.benchmark.iter().map(|named| benchmark(named)).collect::<Result<Vec<BenchmarkSettings>>>()?;
    }
    if evaluation.benchmarks.is_empty() {
        bail!("--benchmark is missing, allowed: NAME=PATH, or a recipe with evaluation.benchmarks");
    }
    // What the command line says holds for all of them.
    for benchmark in &mut evaluation.benchmarks {
        benchmark.samples = options.samples.or(benchmark.samples);
        benchmark.temperature = options.temperature.or(benchmark.temperature);
        benchmark.top_p = options.top_p.or(benchmark.top_p);
        benchmark.max_tokens = options.max_tokens.or(benchmark.max_tokens);
    }
    recipe.run.seed = options.seed.unwrap_or(recipe.run.seed);
    recipe.engine.seed = recipe.run.seed;
    recipe.checkpoint.keep_best.clear();
    Ok(recipe)
}

/// `NAME=PATH`, or a path that names itself.
fn benchmark(text: &str) -> Result<BenchmarkSettings> {
    let (name, path) = text.split_once('=').unwrap_or(("", text));
    if path.is_empty() {
        bail!("--benchmark is `{text}`, allowed: NAME=PATH");
    }
    Ok(BenchmarkSettings { name: name.to_owned(), files: vec![path.into()], ..BenchmarkSettings::default() })
}

/// Where answers go: as said, or by the model's name.
pub(super) fn output(options: &EvalOptions) -> Result<PathBuf> {
    if let Some(output) = &options.output {
        return Ok(output.clone());
    }
    let model =
        std::fs::canonicalize(&options.model).with_context(|| format!("--model {}", options.model.display()))?;
    let name = model.file_name().context("--model has no name, so --output is needed")?;
    Ok(Path::new("evaluations").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_benchmark_is_a_name_and_a_path() {
        let of = |text: &str| benchmark(text).map(|found| (found.name(), found.files[0].display().to_string()));
        assert_eq!(of("math=data/test-*.parquet").unwrap(), ("math".into(), "data/test-*.parquet".into()));
        assert_eq!(of("data/aime.jsonl").unwrap(), ("aime".into(), "data/aime.jsonl".into()));
        assert_eq!(of("math=").unwrap_err().to_string(), "--benchmark is `math=`, allowed: NAME=PATH");
    }
}
