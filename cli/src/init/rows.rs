//! Rows as a recipe for them would have them read, and what they suggest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use evenkeel_chat::{ChatTemplate, Prompt};
use evenkeel_data::read::{ReadLimits, expand};
use evenkeel_data::{Collector, Problem, Purpose, Reason, TaskKind};
use evenkeel_math::Profile;
use evenkeel_model_folder::{ConfigFile, Folder};
use evenkeel_orchestrator::{DataSettings, VerifierSettings};
use evenkeel_recipe::marked_prompts::{MarkedPrompts, SUFFIX};

use super::VERIFIER;
use super::answers::SAMPLED;

/// Prompts that are rendered together, on all cores.
const RENDERED_TOGETHER: usize = 1024;

/// What is known of rows and of the model that they are for.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) problems: u64,
    pub(super) dropped: BTreeMap<Reason, u64>,
    kinds: Vec<TaskKind>,
    pub(super) marked: MarkedPrompts,
    pub(super) longest_tokens: u64,
    /// What the model takes at once, in tokens.
    pub(super) context: u64,
    /// Some prompts as the model reads them, from all over the rows.
    pub(super) prompts: Vec<Vec<u32>>,
    /// Text that the recipe appends to each prompt; empty for none.
    pub(super) suffix: &'static str,
    pub(super) has_template: bool,
    problem_list: Vec<Problem>,
    settings: DataSettings,
}

impl Rows {
    /// Reads the rows as a run with default settings would, or as one in which a verifier judges all of them.
    ///
    /// # Errors
    /// Files and a model that cannot be read; files without a problem, with what would help.
    pub(super) fn read(files: &[PathBuf], model: &Path, has_verifier: bool) -> Result<Self> {
        let mut settings = DataSettings { files: files.to_vec(), ..DataSettings::default() };
        if has_verifier {
            settings.verifiers.insert(VERIFIER.to_owned(), VerifierSettings::default());
            VERIFIER.clone_into(&mut settings.verifier);
        }
        let folder = Folder::new(model);
        let context = u64::from(ConfigFile::read(&folder)?.max_position_embeddings()?);
        let (limits, cancel) = (ReadLimits::default(), || false);
        let mut collector = Collector::new(&limits, &cancel, false);
        for name in files {
            for path in expand(name, &cancel)? {
                let source = path.display().to_string();
                collector.read_file(&path, (0, &source), Purpose::Training, &settings.row_rules(None))?;
            }
        }
        let (problems, report) = collector.finish();
        if problems.is_empty() {
            let why = report.files.iter().find_map(|file| Some(format!("{} {}", file.file, report.no_prompt(file)?)));
            let is_without_gold = report.files.iter().any(|file| file.dropped.contains_key(&Reason::MissingGold));
            let help = if is_without_gold && !has_verifier {
                "; --verifier writes a reward function, which needs no gold answer"
            } else {
                ""
            };
            bail!("--data: {}{help}", why.unwrap_or_else(|| "no rows".to_owned()));
        }
        let mut kinds: Vec<_> = problems.iter().map(|problem| problem.task.kind()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let mut rows = Self {
            problems: problems.len() as u64,
            dropped: BTreeMap::new(),
            kinds,
            marked: MarkedPrompts::default(),
            longest_tokens: 0,
            context,
            prompts: Vec::new(),
            suffix: "",
            has_template: ChatTemplate::read(&folder)?.is_some(),
            problem_list: problems,
            settings,
        };
        for (reason, count) in report.files.iter().flat_map(|file| &file.dropped) {
            *rows.dropped.entry(*reason).or_default() += count;
        }
        rows.look(&folder)?;
        Ok(rows)
    }

    /// Asks for a marked answer after each prompt.
    ///
    /// # Errors
    /// Prompts that the template refuses.
    pub(super) fn ask_for_mark(&mut self, model: &Path) -> Result<()> {
        self.suffix = SUFFIX;
        SUFFIX.clone_into(&mut self.settings.suffix);
        self.look(&Folder::new(model))
    }

    /// Whether answers have to be marked and no prompt says so.
    pub(super) fn lacks_mark(&self) -> bool {
        self.suffix.is_empty() && self.settings.verifier.is_empty() && self.marked.advice().is_some()
    }

    fn look(&mut self, folder: &Folder) -> Result<()> {
        let renderer = self.settings.prompt_renderer(folder)?;
        (self.marked, self.longest_tokens) = (MarkedPrompts::default(), 0);
        self.prompts.clear();
        let apart = self.problem_list.len().div_ceil(SAMPLED);
        for (index, problems) in self.problem_list.chunks(RENDERED_TOGETHER).enumerate() {
            let asked: Vec<(&Prompt, Option<&str>)> = problems.iter().map(Problem::asked).collect();
            let first = index * RENDERED_TOGETHER;
            for (number, (problem, rendered)) in (first..).zip(problems.iter().zip(renderer.render_all(&asked))) {
                let rendered = rendered?;
                self.marked.add(problem, &rendered.text, Profile::default());
                self.longest_tokens = self.longest_tokens.max(rendered.token_ids.len() as u64);
                if number % apart == 0 {
                    self.prompts.push(rendered.token_ids);
                }
            }
        }
        Ok(())
    }

    pub(super) fn has(&self, kind: TaskKind) -> bool {
        self.kinds.contains(&kind)
    }

    pub(super) fn summary(&self) -> String {
        let kinds: Vec<&str> = self.kinds.iter().map(|kind| kind.name()).collect();
        let left_out = self.dropped.values().sum::<u64>();
        let left_out = if left_out > 0 { format!(", {left_out} rows left out") } else { String::new() };
        format!(
            "{} problems ({}), at most {} tokens in a prompt{left_out}",
            self.problems,
            kinds.join(", "),
            self.longest_tokens
        )
    }
}
