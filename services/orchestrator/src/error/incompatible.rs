//! What does not fit together: two services, or a service and the recipe.

use crate::dependency::Dependency;

/// Two services, or a service and the recipe, that are incompatible.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incompatible {
    /// The vocabulary of a service is not that of the model folder.
    #[error("the model folder has a vocabulary of {folder}, the {service} service one of {reported}")]
    Vocabulary {
        service: Dependency,
        /// Tokens of the model folder.
        folder: u32,
        /// Tokens that the service reports.
        reported: u32,
    },
    /// The tokenizer of a service is not that of the model folder.
    #[error("tokenizer.json is {folder}, that of the {service} service {reported}")]
    Tokenizer {
        service: Dependency,
        /// Digest of the model folder's.
        folder: String,
        /// Digest that the service reports.
        reported: String,
    },
    /// Disks of the learner that do not hold what the run keeps.
    #[error("{0}")]
    FullDisks(String),
    /// Prompt and response are longer than the context of a service.
    #[error("prompt and response need {needed} tokens, the {service} service accepts {context}")]
    Context {
        service: Dependency,
        /// Tokens that the recipe asks for.
        needed: usize,
        /// Tokens that the service takes.
        context: usize,
    },
    /// Engines that keep the head of a tied model when they load new weights.
    #[error(
        "the output head of the model is tied to its embedding (tie_word_embeddings), and the engines {folder}: they \
         would keep their first head through all updates; make an untied copy (`evenkeel model untie MODEL DIR`) and \
         start the engines on DIR"
    )]
    TiedHead {
        /// What is known of the folder that they were started on.
        folder: &'static str,
    },
    /// Engines whose output head is tied to the embedding, for a model with an untied one.
    #[error(
        "the output head of the model is separate, that of the engines is tied to the embedding \
         (tie_word_embeddings): start the engines on the model"
    )]
    OwnHead,
    /// Engines that take no adapters, for a learner that trains them or an evaluation of one.
    #[error("engines are to compute a LoRA adapter, and one lacks {missing}")]
    Adapters { missing: String },
    /// Engines that take adapters by name, for a learner that trains one of the head.
    #[error(
        "learner.lora.targets has lm_head, and the engines take adapters by name and leave the head's out of the \
         log-probabilities of prompts, so that no version could be verified: take lm_head out of the targets, \
         or use embedded engines"
    )]
    HeadAdapter,
    /// A custom verifier that judges no custom tasks.
    #[error("data.verifiers.{name}: {endpoint} judges no custom tasks (`custom` of its status is false)")]
    Verifier {
        /// Name of the verifier in the recipe.
        name: String,
        /// Address of the verifier.
        endpoint: String,
    },
    /// Tasks that the reward service cannot judge.
    #[error("the data has {kind} tasks, which the reward service at {endpoint} cannot judge")]
    Tasks {
        kind: &'static str,
        /// The address of the worker.
        endpoint: String,
    },
    /// The settings of the learner are not those of the recipe.
    #[error("the learner uses settings {reported}, the recipe has {expected}")]
    LearnerSettings {
        /// Hash that the learner reports.
        reported: String,
        /// Hash of the recipe's.
        expected: String,
    },
    /// A learner that was trained already, for a run that begins.
    #[error("the learner holds version {version}{}, restart it for `{run_id}`, which starts at 0", of_run(trained))]
    TrainedLearner {
        /// The version of its weights.
        version: u64,
        /// The run that it was trained for; empty if it is not known.
        trained: String,
        /// The run that begins.
        run_id: String,
    },
}

fn of_run(run_id: &str) -> String {
    if run_id.is_empty() { String::new() } else { format!(" of run `{run_id}`") }
}
