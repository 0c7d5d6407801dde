//! Sections about where a run begins: the model and the data.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::section::section;

section! {
    /// Section `model`.
    pub struct ModelSettings {
        /// Folder of a Hugging Face model with its tokenizer.json. Absent: a fresh, tiny Qwen3 with one token for each character is written
        /// to `model` in the run directory, from the seed.
        path: Option<PathBuf> = None,
        /// The shape of the fresh one: `vocabulary_size`, `hidden_size`, `intermediate_size`, `layers`, `heads`, `kv_heads`, `head_dim`,
        /// `context_tokens`, `tied` (the head is the embedding), `deviation` of its random matrices.
        fresh: FreshShape = FreshShape::default(),
    }
}

section! {
    /// Table `model.fresh`: about 0.3 M parameters, and a head dimension that stock engines take.
    pub struct FreshShape {
        /// Rows of the embedding, at least the 99 tokens of the character tokenizer.
        vocabulary_size: usize = 128,
        /// Width of the residual stream.
        hidden_size: usize = 96,
        /// Width of the feed-forward block.
        intermediate_size: usize = 256,
        /// Decoder layers.
        layers: usize = 3,
        /// Query heads.
        heads: usize = 3,
        /// Key and value heads; divides `heads`.
        kv_heads: usize = 1,
        /// Width of a head; even.
        head_dim: usize = 32,
        /// Longest sequence, prompt and answer together.
        context_tokens: usize = 256,
        /// Whether the head is the embedding. Off, since vLLM 0.32 on a CPU keeps the old head of such a model when it reloads weights.
        tied: bool = false,
        /// Standard deviation of random matrices, above 0.
        deviation: f32 = 0.02,
    }
}

/// Which problems.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Two-digit addition, made from the seed.
    #[default]
    Arithmetic,
    /// Files with a JSON object on each line.
    Jsonl,
}

/// What becomes of a prompt that leaves no room for an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Overlong {
    /// The run is refused, naming the prompt.
    #[default]
    Refuse,
    /// It is left out, and counted in the log.
    Skip,
}

/// What engines do while the learner trains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Engines {
    /// They keep their memory.
    #[default]
    Awake,
    /// They sleep, with their weights in the host's memory.
    Offload,
    /// They sleep, without weights.
    Discard,
}

section! {
    /// Section `data`.
    pub struct DataSettings {
        /// `arithmetic` (built in) or `jsonl`.
        task: Task = Task::Arithmetic,
        /// With `jsonl`: the file with the problems that are trained on.
        path: Option<PathBuf> = None,
        /// With `jsonl`: the file with problems for evaluation. Absent: they are taken out of `path`, by the seed.
        held_out_path: Option<PathBuf> = None,
        /// With `jsonl`: field with the prompt, a text.
        prompt_field: String = "prompt".to_owned(),
        /// With `jsonl`: field with the gold answer, a text or a number.
        answer_field: String = "answer".to_owned(),
        /// With `jsonl`: field with an answer to imitate in the warm start; only needed with `warm_start.steps` above 0.
        demonstration_field: String = "demonstration".to_owned(),
        /// With `jsonl`: field with a name for messages. Rows without it are named by their line.
        id_field: String = "id".to_owned(),
        /// Name of the data in metrics (`val-core/NAME/acc/mean@1`). Empty: `arithmetic`, or the file's name without extension.
        source: String = String::new(),
        /// Another order in each epoch, by the seed. Off: the order of the file, again and again.
        shuffle: bool = true,
        /// Prompts that leave no room for an answer: `refuse` or `skip`.
        overlong: Overlong = Overlong::Refuse,
        /// Profile of the verifier for mathematics; empty is the reward service's default.
        math_profile: String = String::new(),
    }
}
