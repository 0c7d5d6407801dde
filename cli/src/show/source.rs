//! Which files are shown: the answers of an evaluation, or the samples of training steps.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use evenkeel_proto::FieldError;
use evenkeel_run::{ROLLOUTS_FOLDER, list_answers, list_rollouts, thinned_rollouts};

use crate::arguments::ShowOptions;
use crate::runs::require_run;

/// How a file of answers or samples begins.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Ranges of steps that an error lists.
const MAX_RANGES: usize = 12;

pub(super) enum ShownFiles {
    Evaluation {
        files: Vec<PathBuf>,
        /// The step, where its training samples are kept as well.
        also_trained: Option<u64>,
    },
    /// Files of training steps, in order.
    Training(Vec<PathBuf>),
}

impl ShownFiles {
    /// The named file, or files of a named run: with `--train` the samples of training steps, otherwise the answers of
    /// an evaluation, unless the step is one that was trained and not evaluated, or nothing was evaluated.
    pub(super) fn of(options: &ShowOptions) -> Result<Self> {
        let run = &options.run;
        if run.is_file() {
            require_zstd(run)?;
            let is_step = run.parent().and_then(Path::file_name).is_some_and(|folder| folder == ROLLOUTS_FOLDER);
            return Ok(if is_step {
                Self::Training(vec![run.clone()])
            } else {
                Self::Evaluation { files: vec![run.clone()], also_trained: None }
            });
        }
        require_run(run)?;
        let steps = Steps::of(run)?;
        let is_of_training = match options.step {
            _ if options.train => true,
            Some(step) => !steps.evaluated.contains(&step) && steps.trained(step).is_some(),
            None => steps.evaluated.is_empty() && !steps.trained.is_empty(),
        };
        if is_of_training {
            return steps.training(options).map(Self::Training);
        }
        let folder = steps.evaluation(run, options.step)?;
        let also_trained = options.step.filter(|step| steps.trained(*step).is_some());
        Ok(Self::Evaluation { files: answers(&folder, run, &options.benchmark)?, also_trained })
    }
}

fn require_zstd(file: &Path) -> Result<()> {
    let mut first = [0; 4];
    let is_zstd = File::open(file).and_then(|mut file| file.read_exact(&mut first)).is_ok() && first == ZSTD;
    if is_zstd {
        Ok(())
    } else {
        let allowed = "the directory of a run, the folder of `evenkeel eval`, or one of their files of answers or \
                samples (.jsonl.zst)";
        Err(FieldError::new("RUN", format!("{}, which is no file of answers", file.display()), allowed).into())
    }
}

/// What there is of a run.
struct Steps {
    /// The folder of evaluations, where there is one.
    evaluations: Option<PathBuf>,
    evaluated: Vec<u64>,
    trained: Vec<(u64, PathBuf)>,
    thinned: Vec<u64>,
}

impl Steps {
    fn of(run: &Path) -> Result<Self> {
        let evaluations = Some(run.join("evaluation")).filter(|folder| folder.is_dir());
        let mut evaluated = match &evaluations {
            Some(folder) => evaluated(folder)?,
            None => Vec::new(),
        };
        evaluated.sort_unstable();
        let trained = list_rollouts(run)?.into_iter().collect();
        Ok(Self { evaluations, evaluated, trained, thinned: thinned_rollouts(run)?.into_iter().collect() })
    }

    fn trained(&self, step: u64) -> Option<&PathBuf> {
        self.trained.iter().find(|(found, _)| *found == step).map(|(_, path)| path)
    }

    /// The samples of a step, or of the newest one; of one problem in every step that is kept.
    fn training(&self, options: &ShowOptions) -> Result<Vec<PathBuf>> {
        match (options.step, self.trained.last()) {
            (None, Some(_)) if options.problem.is_some() => {
                Ok(self.trained.iter().map(|(_, path)| path.clone()).collect())
            }
            (None, Some((_, newest))) => Ok(vec![newest.clone()]),
            (Some(step), Some(_)) => match self.trained(step) {
                Some(path) => Ok(vec![path.clone()]),
                None => Err(self.unknown(step).into()),
            },
            (step, None) => {
                let value =
                    step.map_or_else(|| "without samples of training steps".to_owned(), |step| step.to_string());
                let field = if step.is_some() { "--step".to_owned() } else { options.run.display().to_string() };
                Err(FieldError::new(field, value, "a run that keeps the samples of its steps (run.rollouts)").into())
            }
        }
    }

    /// The folder of the evaluation after that many steps, or of the last one.
    fn evaluation(&self, run: &Path, step: Option<u64>) -> Result<PathBuf> {
        let Some(evaluations) = &self.evaluations else { return Ok(run.to_owned()) };
        let Some(chosen) = step.or(self.evaluated.last().copied()) else {
            anyhow::bail!("{} has no evaluation yet", evaluations.display());
        };
        if !self.evaluated.contains(&chosen) {
            return Err(self.unknown(chosen).into());
        }
        Ok(evaluations.join(format!("step-{chosen}")))
    }

    fn unknown(&self, step: u64) -> FieldError {
        let trained: Vec<u64> = self.trained.iter().map(|(step, _)| *step).collect();
        let mut allowed = format!("a step that was evaluated: {}", ranges(&self.evaluated));
        if !trained.is_empty() {
            allowed += &format!("; or one whose training samples are kept: {}", ranges(&trained));
        }
        if self.thinned.contains(&step) {
            allowed += &format!("; those of step {step} were removed at run.rollouts_disk");
        }
        FieldError::new("--step", step, allowed)
    }
}

/// Numbers in ascending order as `1-40, 42`.
fn ranges(steps: &[u64]) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for &step in steps {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == step => *last = step,
            _ => ranges.push((step, step)),
        }
    }
    let left_out = ranges.len().saturating_sub(MAX_RANGES);
    let range = |(first, last): &(u64, u64)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    let mut words: Vec<String> = ranges.iter().skip(left_out).map(range).collect();
    if left_out > 0 {
        words.insert(0, format!("{left_out} earlier ranges"));
    }
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

fn evaluated(evaluations: &Path) -> Result<Vec<u64>> {
    let entries = std::fs::read_dir(evaluations).with_context(|| evaluations.display().to_string())?;
    let number = |name: &std::ffi::OsStr| name.to_str()?.strip_prefix("step-")?.parse::<u64>().ok();
    Ok(entries.flatten().filter_map(|entry| number(&entry.file_name())).collect())
}

/// The files of answers of a folder, or of some benchmarks.
fn answers(folder: &Path, run: &Path, benchmark: &[String]) -> Result<Vec<PathBuf>> {
    let found = list_answers(folder)?;
    if found.is_empty() {
        let allowed = "a run that was evaluated, or the folder of `evenkeel eval`";
        return Err(FieldError::new(run.display().to_string(), "without answers", allowed).into());
    }
    if let Some(unknown) = benchmark.iter().find(|name| !found.iter().any(|(known, _)| known == *name)) {
        let known: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
        return Err(FieldError::quoted("--benchmark", unknown, known.join(", ")).into());
    }
    let wanted = |name: &String| benchmark.is_empty() || benchmark.contains(name);
    Ok(found.into_iter().filter(|(name, _)| wanted(name)).map(|(_, path)| path).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_listed_by_ranges() {
        assert_eq!(ranges(&[]), "none");
        assert_eq!(ranges(&[1, 2, 3, 5, 8, 9]), "1-3, 5, 8-9");
        let even: Vec<u64> = (1..=20).map(|step| 2 * step).collect();
        assert!(ranges(&even).starts_with("8 earlier ranges, 18, 20"), "{}", ranges(&even));
    }
}
