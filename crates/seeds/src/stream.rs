//! The list of all random streams.

/// What is drawn, with the indices that distinguish one draw from another. All indices count from 0.
///
/// The names are part of the construction: changing one changes the results of every seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// The seed of a sample that is trained on. From the run's seed.
    TrainingSample {
        step: u64,
        /// Position of the prompt in the data order.
        prompt: u64,
        /// Position of the sample in its group.
        sample: u64,
    },
    /// The seed of a sample of an evaluation. From the run's seed.
    EvaluationSample {
        /// The step after which the evaluation happens.
        step: u64,
        /// Position of the prompt among the held-out ones.
        prompt: u64,
        /// Position of the sample in its group.
        sample: u64,
    },
    /// The seed for sampling the rest of an interrupted sample on another engine. From the sample's seed.
    Continuation {
        /// Tokens that the sample already has.
        tokens: u64,
    },
    /// Which problems are held out for evaluation. From the run's seed.
    HeldOut,
    /// The order of the problems in an epoch. From the run's seed.
    PromptOrder { epoch: u64 },
    /// The order of the problems of one of several sources, in an epoch over them. From the run's seed.
    SourceOrder {
        /// Position of the source among the settings.
        source: u64,
        /// The epoch over the problems of this source.
        epoch: u64,
    },
    /// A demonstration of the warm start. From the run's seed.
    Demonstration {
        /// The step of the warm start.
        step: u64,
        /// Position in the step.
        row: u64,
    },
    /// The weights of a fresh model. From the run's seed.
    InitialWeights {
        /// Position of the tensor among the model's parameters.
        tensor: u64,
    },
    /// The first values of a LoRA adapter's matrix.
    InitialAdapters {
        /// Its number among the adapters' tensors.
        tensor: u64,
    },
    /// The order in which the groups of a step are trained on. From the run's seed.
    GroupOrder {
        step: u64,
        /// Epoch of the step over its groups.
        epoch: u64,
    },
    /// The tokens of a sample in the embedded engine: a number for each position. From the sample's seed.
    Tokens,
    /// The seed of a sample whose request had none. From the engine's seed.
    UnseededSample {
        /// Position in the order of arrival.
        arrival: u64,
    },
    /// The entropy that programs in the sandbox get (`os.urandom`). From the seed 0 in every run.
    SandboxEntropy,
    /// The tokens by which learner and engines are compared. From the run's seed.
    WeightsProof {
        /// The version of the weights.
        version: u64,
    },
    /// Which samples of a step the sampler audit takes, and what breaks ties among their tokens. From the run's seed.
    SamplerAudit { step: u64 },
    /// The draws of a bootstrap over finished runs. From the comparison's seed.
    Bootstrap,
    /// The signs of a sign-flip test with too many pairs to try all. From the comparison's seed.
    SignFlips,
    /// A generated problem. From the run's seed.
    WordProblem {
        /// Position of its kind in the list of kinds.
        kind: u64,
        /// Its number within the kind.
        number: u64,
    },
    /// A generated product. From the run's seed.
    Product { number: u64 },
}

impl Stream {
    /// The name that is hashed.
    pub fn name(&self) -> &'static str {
        match self {
            Self::TrainingSample { .. } => "training-sample",
            Self::EvaluationSample { .. } => "evaluation-sample",
            Self::Continuation { .. } => "continuation",
            Self::HeldOut => "held-out",
            Self::PromptOrder { .. } => "prompt-order",
            Self::SourceOrder { .. } => "source-order",
            Self::Demonstration { .. } => "demonstration",
            Self::InitialWeights { .. } => "initial-weights",
            Self::InitialAdapters { .. } => "initial-adapters",
            Self::GroupOrder { .. } => "group-order",
            Self::Tokens => "tokens",
            Self::UnseededSample { .. } => "unseeded-sample",
            Self::SandboxEntropy => "sandbox-entropy",
            Self::WeightsProof { .. } => "weights-proof",
            Self::SamplerAudit { .. } => "sampler-audit",
            Self::Bootstrap => "bootstrap",
            Self::SignFlips => "sign-flips",
            Self::WordProblem { .. } => "word-problem",
            Self::Product { .. } => "product",
        }
    }

    /// The indices that are hashed, in the order of the fields.
    pub(crate) fn indices(self) -> impl Iterator<Item = u64> {
        let (indices, count) = match self {
            Self::TrainingSample { step, prompt, sample } | Self::EvaluationSample { step, prompt, sample } => {
                ([step, prompt, sample], 3)
            }
            Self::WordProblem { kind, number } => ([kind, number, 0], 2),
            Self::SourceOrder { source, epoch } => ([source, epoch, 0], 2),
            Self::Demonstration { step, row } => ([step, row, 0], 2),
            Self::GroupOrder { step, epoch } => ([step, epoch, 0], 2),
            Self::Continuation { tokens: index }
            | Self::PromptOrder { epoch: index }
            | Self::InitialWeights { tensor: index }
            | Self::InitialAdapters { tensor: index }
            | Self::SamplerAudit { step: index }
            | Self::UnseededSample { arrival: index }
            | Self::WeightsProof { version: index }
            | Self::Product { number: index } => ([index, 0, 0], 1),
            Self::HeldOut | Self::Tokens | Self::SandboxEntropy | Self::Bootstrap | Self::SignFlips => ([0; 3], 0),
        };
        indices.into_iter().take(count)
    }
}
