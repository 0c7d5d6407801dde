//! Section `data`: where problems come from, what the model sees of them, and how answers are judged.

use std::collections::BTreeMap;
use std::path::PathBuf;

use evenkeel_config::ByteSize;
use evenkeel_data::{
    CodeRules, DataSource, Environments, Fields, FileSet, FileSource, Filter, ProgramPrompt, RowRules, Rules, Verifiers,
};
use evenkeel_proto::v1::{CodeMode, CodeReward, CopiedRule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::correct::CorrectRule;
use super::section::section;
use super::sources::{DATA, FilterSettings, SourceSettings, stem};
use super::trails_section::TrailsSettings;
use super::verifier_section::VerifierSettings;
use super::word_problems_section::WordProblemsSettings;

/// The place of a row's hint in `data.hint`.
pub(crate) const HINT: &str = "{hint}";

/// Environments that leave the score to the verifier of the row.
const WITHOUT_SCORE: [&str; 2] = ["calculator", "python"];

/// Where problems come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DataKind {
    /// Two-digit addition, made from the seed.
    #[default]
    Arithmetic,
    /// Programs over one number, also generated: `add 12, times 3`.
    Programs,
    /// Products of numbers of three digits, also generated, for a model with the environment `calculator`: a few have a
    /// demonstration.
    Products,
    /// Sums of four digits, also generated, whose demonstrations end with filler tokens as `trails` says.
    Trails,
    /// Sums as they stand and in words, also generated, for pretrained models; `word_problems` says which.
    WordProblems,
    /// Parquet files, and files with one JSON object per line.
    Files,
}

/// The rules that programs run under.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramMode {
    /// The reward service's setting.
    #[default]
    Service,
    /// As a separate process would run them.
    Strict,
    /// As LiveCodeBench's grader judges, with its quirks, but without its loopholes.
    Livecodebench,
}

/// How programming questions are asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramWording {
    /// In the words of LiveCodeBench.
    #[default]
    Livecodebench,
    /// As the row has them, followed by the starter code.
    Plain,
}

/// What passed tests are worth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramReward {
    /// 1 if every test passed, otherwise 0.
    #[default]
    AllOrNothing,
    /// The share of tests that passed; not with `livecodebench`.
    PassedFraction,
}

/// What an answer is worth that equals the gold answer but is an unevaluated expression of its prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CopiedAnswers {
    /// Nothing; such answers are counted.
    #[default]
    Refuse,
    /// As much as any other answer.
    Accept,
}

/// What happens to a prompt that leaves no room for a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Overlong {
    /// The run is refused, naming the prompt.
    #[default]
    Refuse,
    /// The prompt is left out and counted.
    Skip,
    /// The first tokens of the prompt are cut off and it is counted.
    Cut,
}

/// What happens to a prompt whose own text spells control tokens of the model, such as `<|im_end|>`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ControlTextInRows {
    /// The text becomes these tokens, as in transformers.
    #[default]
    Keep,
    /// The row is faulty.
    Refuse,
}

/// What happens to a faulty row: one that cannot be read, has no usable prompt or gold answer, contradicts another, or
/// is refused by the chat template.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InvalidRows {
    /// The row is left out and counted, with the reason.
    #[default]
    Drop,
    /// The run is refused, naming file, row and field.
    Refuse,
}

section! {
    /// Section `data`. What a row asks and how it is judged follows from its columns: see docs/data.md.
    pub struct DataSettings {
        /// Where problems come from. Absent: `files` where `files` or `sources` are set, `arithmetic` otherwise.
        kind: Option<DataKind> = None,
        /// Filler tokens after the answers of demonstrations with `kind = "trails"`: `wrong`, `after_right`,
        /// `after_wrong`.
        trails: TrailsSettings = TrailsSettings::default(),
        /// The problems of `kind = "word-problems"`: `kinds` and `difficulty`.
        word_problems: WordProblemsSettings = WordProblemsSettings::default(),
        /// The files with the problems that are trained on, or patterns (`train-*.parquet`): Parquet, CSV, a JSON
        /// array, or one JSON object per line.
        files: Vec<PathBuf> = Vec::new(),
        /// Instead of `files`: sources with a weight each, as `[[data.sources]]` with `name` (default: that of the
        /// first file), `files`, `weight` (default: 1), `filters`, `prompt_field`, `answer_field`,
        /// `demonstration_field`, `id_field`, `verifier`, `suffix`. Every step has prompts of each source in proportion
        /// to its weight.
        sources: Vec<SourceSettings> = Vec::new(),
        /// Files with problems for evaluation. Without any, problems are held out from the training problems, chosen by
        /// the seed.
        held_out_files: Vec<PathBuf> = Vec::new(),
        /// Filters that select the rows to train on: `{ field = "difficulty", min = "1/8", max = "6/8" }` or
        /// `{ field = "level", values = [4, 5] }`. A row must pass all of them.
        filters: Vec<FilterSettings> = Vec::new(),
        /// Field with the prompt, a text or a list of messages, with dots into structures. Empty: the first of
        /// `prompt`, `problem`, `question`, `question_content`.
        prompt_field: String = String::new(),
        /// Field with the gold answer, a text, a number or a list of them, as `reward_model.ground_truth`. Empty: the
        /// first of `gold`, `reward_model.ground_truth`, `final_answer`, `answer`, `label`, `solution`; rows with tests
        /// need none.
        answer_field: String = String::new(),
        /// Field with an answer to imitate in the warm start; only needed with `warm_start.steps` above 0. Empty:
        /// `demonstration`.
        demonstration_field: String = String::new(),
        /// Most bytes of a row's columns besides prompt, gold answer and tests, where a reward function or an environment
        /// gets them.
        max_columns: ByteSize = ByteSize::kib(64),
        /// Field with a name for use in messages. Empty: the first of `id`, `question_id`. Rows without it are named by
        /// file and row.
        id_field: String = String::new(),
        /// Name of the data in metrics (`val-core/NAME/acc/mean@1`). Empty: that of the kind (`arithmetic`,
        /// `word-problems`), the name of the only file without extension or of the only source, or `data`.
        source: String = String::new(),
        /// Shuffle each epoch, derived from the seed. Off: the order of the files in every epoch.
        shuffle: bool = true,
        /// Prompts that leave no room for a response.
        overlong: Overlong = Overlong::Refuse,
        /// Faulty rows.
        invalid_rows: InvalidRows = InvalidRows::Drop,
        /// Prompts whose own text spells control tokens of the model, such as `<|im_end|>`: `keep` them as these tokens,
        /// as transformers does, or `refuse` the row as a faulty one. What environments, tools and agents say is text
        /// in any case.
        #[serde(skip_serializing_if = "keeps")]
        control_text: ControlTextInRows = ControlTextInRows::Keep,
        /// System message for prompts without one. Absent: none is added (the chat template may have its own).
        system_prompt: Option<String> = None,
        /// Text appended to the last user message.
        suffix: String = String::new(),
        /// Text that follows the suffix where the model reads the prompt as its own teacher
        /// (`learner.distillation.hints`), with `{hint}` in the place of the row's column `hint`, such as
        /// `"\n\nA hint: {hint}"`. Rows without the column have no hint. Absent: the column is not looked at.
        #[serde(skip_serializing_if = "Option::is_none")]
        hint: Option<String> = None,
        /// Arguments of the chat template, such as `{ enable_thinking = false }`.
        template_arguments: BTreeMap<String, Value> = BTreeMap::new(),
        /// Pass prompts that are plain text to the model as they are, even if it has a chat template.
        raw: bool = false,
        /// Profile of the verifier for mathematics for rows that name none; empty is the reward service's default.
        math_profile: String = String::new(),
        /// What a mathematical answer copied from its prompt is worth, in training and evaluations alike.
        math_copied: CopiedAnswers = CopiedAnswers::Refuse,
        /// Custom verifiers by name, as `[data.verifiers.NAME]` with `path` (a Python file with reward functions, which
        /// the run starts) or `endpoints` (`http://HOST:PORT` each, or `dns://HOST:PORT`), and `data_sources`: the rows
        /// that each judges in addition to those that name it in their column `verifier`.
        verifiers: BTreeMap<String, VerifierSettings> = BTreeMap::new(),
        /// What judges rows that neither name a verifier nor have a `data_source` of one: a name of `verifiers`, `math`,
        /// `code`, or `none`, with which rows need no gold answer and a teacher alone decides
        /// (`learner.distillation`). Empty: mathematics or code, as their columns say.
        verifier: String = String::new(),
        /// Environment of tasks that name none, with several turns: `calculator`, `guess-number`, `python`, the path of
        /// a Python file with your own environment, `openenv:ws://HOST:PORT`, `agent:FILE`, a program that asks the
        /// model at a base URL, or `verifiers:TASKSET`. Absent: such tasks are answered in one turn. The section
        /// `turns` has the rest.
        #[serde(skip_serializing_if = "Option::is_none")]
        environment: Option<String> = None,
        /// Environments that rows may name in their column `environment`. Empty: the column is ignored.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        environments: Vec<String> = Vec::new(),
        /// Which episodes are correct that their environment scores, as `correct` of a verifier says it. Absent: those with
        /// the highest score, 1.
        #[serde(skip_serializing_if = "Option::is_none")]
        environment_correct: Option<CorrectRule> = None,
        /// How the questions of rows with tests are asked, if they are plain text.
        program_prompt: ProgramWording = ProgramWording::Livecodebench,
        /// The rules that programs run under.
        program_mode: ProgramMode = ProgramMode::Service,
        /// What passed tests are worth.
        program_reward: ProgramReward = ProgramReward::AllOrNothing,
        /// Largest error, absolute or relative, of a number whose expected value is written as a float: 0 (exact) to 1.
        /// Absent: the reward service's.
        program_float_tolerance: Option<f64> = None,
    }
}

/// A recipe that does not set it is recorded as before there was such a setting.
fn keeps(control_text: &ControlTextInRows) -> bool {
    *control_text == ControlTextInRows::Keep
}

impl DataSettings {
    /// Where problems come from, as set or as follows from the files.
    pub fn kind(&self) -> DataKind {
        let has_files = !self.files.is_empty() || !self.sources.is_empty();
        self.kind.unwrap_or(if has_files { DataKind::Files } else { DataKind::Arithmetic })
    }

    /// Name of the data in metrics.
    pub fn name(&self) -> String {
        match (&self.source, &self.files[..], &self.sources[..]) {
            (name, ..) if !name.is_empty() => name.clone(),
            (_, [file], []) => stem(file).unwrap_or_else(|| DATA.to_owned()),
            (_, [], [source]) => source.name(),
            _ => match self.kind() {
                DataKind::Arithmetic => "arithmetic",
                DataKind::Programs => "programs",
                DataKind::Products => "products",
                DataKind::Trails => "trails",
                DataKind::WordProblems => "word-problems",
                DataKind::Files => DATA,
            }
            .to_owned(),
        }
    }

    /// The files, and how their rows are read.
    pub(crate) fn file_set(&self) -> FileSet {
        let source = |source: &SourceSettings| FileSource {
            source: DataSource { name: source.name(), weight: source.weight },
            files: source.files.clone(),
            rules: self.row_rules(Some(source)),
        };
        let sources = if self.sources.is_empty() {
            vec![FileSource {
                source: DataSource { name: self.name(), weight: 1.0 },
                files: self.files.clone(),
                rules: self.row_rules(None),
            }]
        } else {
            self.sources.iter().map(source).collect()
        };
        FileSet {
            sources,
            held_out: self.held_out_files.clone(),
            held_out_rules: RowRules { filters: Vec::new(), ..self.row_rules(None) },
            refuse_faults: self.invalid_rows == InvalidRows::Refuse,
        }
    }

    /// How the rows of a source are read, or those of `files`.
    pub fn row_rules(&self, source: Option<&SourceSettings>) -> RowRules {
        let of_source = |name: fn(&SourceSettings) -> &String, own: &String| match source.map(name) {
            Some(name) if !name.is_empty() => name.clone(),
            _ => own.clone(),
        };
        let fields = Fields::named(
            &of_source(|source| &source.prompt_field, &self.prompt_field),
            &of_source(|source| &source.answer_field, &self.answer_field),
            &of_source(|source| &source.demonstration_field, &self.demonstration_field),
            &of_source(|source| &source.id_field, &self.id_field),
        );
        let program_prompt = match self.program_prompt {
            ProgramWording::Livecodebench => ProgramPrompt::LiveCodeBench,
            ProgramWording::Plain => ProgramPrompt::Plain,
        };
        let environments =
            Environments::new(self.environments.clone(), self.environment.as_deref().unwrap_or_default())
                .without_score(WITHOUT_SCORE.map(str::to_owned));
        let fields = fields.with_verifiers(self.verifiers(source)).with_environments(environments);
        let fields = fields.with_program_prompt(program_prompt).with_max_columns(self.max_columns.bytes_usize());
        let fields = fields.with_hints(self.hint.is_some());
        let filters = self.filters.iter().chain(source.iter().flat_map(|source| &source.filters));
        let suffix = source.and_then(|source| source.suffix.as_deref()).map(Into::into);
        RowRules { fields, filters: filters.map(Filter::from).collect(), rules: self.rules(), suffix }
    }

    /// The custom verifiers, as rows of a source choose among them.
    fn verifiers(&self, source: Option<&SourceSettings>) -> Verifiers {
        let declared = self.verifiers.iter().map(|(name, verifier)| (name.clone(), verifier.data_sources.clone()));
        let own = source.map(|source| &source.verifier).filter(|name| !name.is_empty());
        Verifiers::new(declared, own.unwrap_or(&self.verifier))
    }

    /// These settings without addresses: what decides how rows are judged.
    pub(super) fn without_addresses(&self) -> Self {
        let verifiers = self.verifiers.clone().into_iter();
        let without = |(name, verifier): (String, VerifierSettings)| (name, verifier.without_place());
        Self { verifiers: verifiers.map(without).collect(), ..self.clone() }
    }

    /// How answers are judged where a row does not say.
    pub(crate) fn rules(&self) -> Rules {
        let mode = code_mode(self.program_mode);
        let reward = match self.program_reward {
            ProgramReward::AllOrNothing => CodeReward::AllOrNothing,
            ProgramReward::PassedFraction => CodeReward::PassedFraction,
        };
        let math_copied = match self.math_copied {
            // That is every profile's.
            CopiedAnswers::Refuse => CopiedRule::Unspecified,
            CopiedAnswers::Accept => CopiedRule::Accept,
        };
        let code = CodeRules { mode, reward, float_tolerance: self.program_float_tolerance, ..CodeRules::default() };
        Rules { math_profile: self.math_profile.clone(), math_copied, code }
    }
}

/// The protocol's name of a mode.
pub(super) fn code_mode(mode: ProgramMode) -> CodeMode {
    match mode {
        ProgramMode::Service => CodeMode::Unspecified,
        ProgramMode::Strict => CodeMode::Strict,
        ProgramMode::Livecodebench => CodeMode::LiveCodeBench,
    }
}
