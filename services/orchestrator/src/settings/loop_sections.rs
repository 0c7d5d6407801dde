//! Sections about the loop: run, sampling, shaping, warm start, evaluation, checkpoints, services.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_config::{ByteSize, HumanDuration};
use evenkeel_proto::SamplingSettings;
use evenkeel_rpc::client::ClientSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rollouts::KeptRollouts;
use super::section::section;

section! {
    /// Section `run`.
    pub struct RunSettings {
        /// Name of the run: letters, digits, `-`, `_` and `.`, at most 128. Empty takes the name of its directory.
        name: String = String::new(),
        /// Seed of all randomness: 0 to 2^63 - 1. Equal seeds give equal runs.
        seed: u64 = 0,
        /// Total number of GRPO steps, including resumed runs; 0 for the warm start alone.
        steps: u64 = 80,
        /// Write event files for TensorBoard to `tensorboard` of the run directory.
        tensorboard: bool = true,
        /// Keep the samples of every training step in `rollouts` of the run directory: `all`, also those that were
        /// filtered or failed; the number of groups of which a step keeps its samples; or `off`.
        rollouts: KeptRollouts = KeptRollouts::All,
        /// Most that `rollouts` takes on the disk, such as `10GiB`. At this bound old steps are thinned out, never the
        /// newest one or one that was evaluated; `rollouts/thinned.json` lists them.
        rollouts_disk: ByteSize = ByteSize::gib(10),
        /// Keep the token ids and the engines' log-probabilities in `rollouts` as well, some five bytes a token. Replay
        /// needs them, and without them `check` cannot compare tokens with the receipt.
        rollout_tokens: bool = true,
    }
}

section! {
    /// Section `sampling`.
    pub struct PolicySamplingSettings {
        /// Prompts per step (P), each with a group of samples; at least 1.
        prompts_per_step: u32 = 16,
        /// Samples per prompt (G); at least 1, at least 2 with `dynamic`.
        group_size: u32 = 16,
        /// Sampling temperature: divides the logits; above 0, and the same as `learner.temperature`.
        temperature: f32 = 1.0,
        /// Nucleus sampling: keeps the smallest set of most probable tokens whose total probability is at least this;
        /// above 0, at most 1. Below 1 training is biased.
        top_p: f32 = 1.0,
        /// Keeps this many of the most probable tokens; 0 keeps all.
        top_k: u32 = 0,
        /// Drops tokens less probable than this times the most probable one: 0 to 1.
        min_p: f32 = 0.0,
        /// Maximum response length in tokens, at least 1. Prompt and response together must fit the model's context.
        max_tokens: u32 = 128,
        /// Minimum number of tokens before a stop token may be sampled, at most `max_tokens`.
        min_tokens: u32 = 0,
        /// Ids that end a response besides the model's end of sequence.
        stop_token_ids: Vec<u32> = Vec::new(),
        /// Give engines the seed of each sample, also in evaluations. `false` if seeds slow an engine down: samples then
        /// follow from its own random numbers, so that a run cannot be repeated, and nothing can draw its tokens again.
        seeded: bool = true,
        /// What engines do while the learner trains: `awake`, or on a GPU that they share with it `offload` (asleep,
        /// weights in the host's memory) or `discard` (asleep without weights). When they sleep, training begins once
        /// the last sample of a step is verified.
        engines_while_training: EnginesWhileTraining = EnginesWhileTraining::Awake,
        /// Drop groups whose raw rewards are all equal and take the next prompts instead (DAPO's dynamic sampling).
        dynamic: bool = false,
        /// With `dynamic`: prompts that a step may try at most, at least `prompts_per_step`; 0 is four times that. The
        /// rest of the step is then filled up with dropped groups, so that every step has the same size.
        max_prompts_per_step: u32 = 0,
    }
}

impl PolicySamplingSettings {
    /// How a whole response is drawn; the seed is each sample's own.
    pub fn of_response(&self) -> SamplingSettings {
        SamplingSettings {
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            min_p: self.min_p,
            min_tokens: self.min_tokens,
            seeded: self.seeded,
            stop_token_ids: self.stop_token_ids.clone(),
            ..SamplingSettings::plain(self.max_tokens, 0)
        }
    }

    /// Whether every token after the first `min_tokens` is drawn from all of the vocabulary, so that its log-probability
    /// is the policy's.
    pub fn is_untruncated(&self) -> bool {
        self.top_p == 1.0 && self.top_k == 0 && self.min_p == 0.0
    }

    /// Prompts that a step may try at most.
    pub fn prompts_limit(&self) -> u64 {
        let prompts = u64::from(self.prompts_per_step);
        match (self.dynamic, self.max_prompts_per_step) {
            (false, _) => prompts,
            (true, 0) => prompts * 4,
            (true, limit) => u64::from(limit),
        }
    }
}

section! {
    /// Section `shaping`: from the raw to the shaped reward, a weighted sum of components. Dynamic sampling and
    /// accuracy metrics use the raw reward.
    pub struct ShapingSettings {
        /// What a raw reward of 1 becomes, above `wrong`; DAPO has 1.
        correct: f64 = 1.0,
        /// What a raw reward of 0 becomes; DAPO has -1. Raw rewards between 0 and 1 lie on the line between both.
        wrong: f64 = 0.0,
        /// Length of the buffer before `max_tokens` over which DAPO's overlong penalty grows; 0 for no penalty.
        overlong_buffer_tokens: u32 = 0,
        /// The penalty at `max_tokens`, at least 0: it is subtracted from the reward that `correct` and `wrong` assign,
        /// in the same units.
        overlong_penalty: f64 = 1.0,
        /// Train on no token of a truncated response; its reward still counts in its group.
        mask_truncated: bool = false,
        /// Weight of each component, at least 0: `correctness` (1 if absent; between `wrong` and `correct`), `length`
        /// (1; minus the overlong penalty), `format` (0; 1 for a response in which a final answer or a program is
        /// found, otherwise 0), `bare` (0; the raw reward of a response that is its final answer and nothing besides,
        /// otherwise 0), and the components of custom verifiers by their names (0).
        weights: BTreeMap<String, f64> = BTreeMap::new(),
    }
}

section! {
    /// Section `warm_start`: supervised steps on demonstrations before the first GRPO step.
    pub struct WarmStartSettings {
        /// Supervised steps; 0 for none.
        steps: u64 = 0,
        /// Demonstrations per step, at least 1.
        examples_per_step: u32 = 64,
    }
}

section! {
    /// Section `checkpoint`.
    pub struct CheckpointSettings {
        /// Checkpoint interval in steps, at least 1; a checkpoint is always written after the warm start, the last step
        /// and a stop.
        every: u64 = 10,
        /// Number of checkpoints to keep; 0 keeps all.
        keep: u32 = 2,
        /// Number of published weights to keep: 0 keeps all, otherwise at least 2, since engines may still read the
        /// previous version.
        keep_weights: u32 = 2,
        /// A metric of evaluations, such as `val-core/average/acc/mean@8`: the checkpoint and the published weights
        /// with its highest value are kept in addition; empty for none.
        keep_best: String = String::new(),
        /// How long `train` may take to end after SIGTERM or SIGHUP, at least 1 s; below what the scheduler waits
        /// before it kills (30 s in Kubernetes and Slurm). A step that is not trained after three quarters of it is
        /// given up; the rest is for the checkpoint.
        #[serde(with = "HumanDuration")]
        grace: Duration = Duration::from_secs(25),
        /// Read every input when the run begins or is resumed, also files of 64 MiB or more that a run has read before
        /// and whose path, length, times and inode are as they were.
        read_inputs_again: bool = false,
    }
}

section! {
    /// Section `services`: deadlines, retries and limits of calls to other services.
    pub struct ServicesSettings {
        /// How long a service may be unreachable, or a disk full, before the run fails.
        #[serde(with = "HumanDuration")]
        outage_timeout: Duration = Duration::from_secs(600),
        /// First pause between two attempts to reach it; doubles up to `backoff_max`.
        #[serde(with = "HumanDuration")]
        backoff_initial: Duration = Duration::from_millis(200),
        /// Longest pause.
        #[serde(with = "HumanDuration")]
        backoff_max: Duration = Duration::from_secs(10),
        /// Time limit of one sample once an engine has it. Waiting for an engine does not count; the engine's own queue
        /// (at most `generation.engine.max_waiting`) does.
        #[serde(with = "HumanDuration")]
        rollout_deadline: Duration = Duration::from_secs(600),
        /// Time limit of one verdict once a reward worker has the response. Waiting for a worker does not count; the
        /// worker's own queue (at most `max_verifications`) does.
        #[serde(with = "HumanDuration")]
        verify_deadline: Duration = Duration::from_secs(60),
        /// Share of the samples of a step or an evaluation that may be dropped because they or their verdicts were
        /// late, 0 to 1. Late samples are mostly long ones: above this share the run fails rather than train on a
        /// biased remainder.
        max_late_share: f64 = 0.01,
        /// Share of the samples of a step or an evaluation that may be dropped for reasons other than time, 0 to 1: an
        /// engine whose answers are refused, a verifier whose answers violate the protocol, a gold answer that it
        /// cannot read. Above it the run fails.
        max_invalid_share: f64 = 0.2,
        /// Time limit of one call to the learner or the generation service, and between two progress messages of a
        /// training step that has all its groups.
        #[serde(with = "HumanDuration")]
        call_deadline: Duration = Duration::from_secs(600),
        /// Attempts at a sample that fails because of the service; after that it is dropped as invalid.
        sample_attempts: u32 = 3,
        /// Attempts to verify a sample; after that it is dropped as invalid.
        verify_attempts: u32 = 3,
        /// Samples that the generation service may have at once.
        max_rollouts: usize = 4096,
        /// Samples that one reward worker may have at once.
        max_verifications: usize = 64,
        /// Episodes that one environment worker may have at once.
        max_episodes: usize = 1024,
        /// Connections: `connect_timeout`, `keepalive_interval`, `keepalive_timeout`, `max_message`, `token_file`,
        /// `tls`.
        client: ClientSettings = ClientSettings::default(),
    }
}

/// What engines do while the learner trains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EnginesWhileTraining {
    /// Engines keep their memory.
    #[default]
    Awake,
    /// Engines sleep, with their weights in host memory.
    Offload,
    /// Engines sleep, without weights.
    Discard,
}
