//! The list of all random streams.

/// Defines [`Stream`] with its names, its indices and the list of all of them from one list.
macro_rules! streams {
    ($($(#[$doc:meta])* $stream:ident $({ $($(#[$of_index:meta])* $index:ident),+ $(,)? })? = $name:literal,)+) => {
        /// What is drawn, with the indices that distinguish one draw from another. All indices count from 0.
        ///
        /// The names are part of the construction: changing one changes the results of every seed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Stream {
            $($(#[$doc])* $stream $({ $($(#[$of_index])* $index: u64),+ })?,)+
        }

        impl Stream {
            /// One draw of each stream, with indices of 0.
            pub const ALL: &[Self] = &[$(Self::$stream $({ $($index: 0),+ })?),+];

            /// The name that is hashed.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$stream { .. } => $name,)+
                }
            }

            /// The indices that are hashed, in the order of the fields.
            pub(crate) fn indices(self) -> Vec<u64> {
                match self {
                    $(Self::$stream $({ $($index),+ })? => vec![$($($index),+)?],)+
                }
            }
        }
    };
}

streams! {
    /// The seed of a sample that is trained on. From the run's seed.
    TrainingSample {
        step,
        /// Position of the prompt in the data order.
        prompt,
        /// Position of the sample in its group.
        sample,
    } = "training-sample",
    /// The seed of a sample of an evaluation. From the run's seed.
    EvaluationSample {
        /// The step after which the evaluation happens.
        step,
        /// Position of the prompt among the held-out ones.
        prompt,
        /// Position of the sample in its group.
        sample,
    } = "evaluation-sample",
    /// The seed for sampling the rest of an interrupted sample on another engine. From the sample's seed.
    Continuation {
        /// Tokens that the sample already has.
        tokens,
    } = "continuation",
    /// The seed of one of the samples that a request to Tinker's API asks for. From the request's seed.
    RequestedSample {
        /// Position of the sample in the request.
        sample,
    } = "requested-sample",
    /// Which problems are held out for evaluation. From the run's seed.
    HeldOut = "held-out",
    /// The order of the problems in an epoch. From the run's seed.
    PromptOrder { epoch } = "prompt-order",
    /// The order of the problems of one of several sources, in an epoch over them. From the run's seed.
    SourceOrder {
        /// Position of the source among the settings.
        source,
        /// The epoch over the problems of this source.
        epoch,
    } = "source-order",
    /// A demonstration of the warm start. From the run's seed.
    Demonstration {
        /// The step of the warm start.
        step,
        /// Position in the step.
        row,
    } = "demonstration",
    /// The weights of a fresh model. From the run's seed.
    InitialWeights {
        /// Position of the tensor among the model's parameters.
        tensor,
    } = "initial-weights",
    /// The first values of a LoRA adapter's matrix.
    InitialAdapters {
        /// Position of the tensor among the adapters' tensors.
        tensor,
    } = "initial-adapters",
    /// The order in which the groups of a step are trained on. From the run's seed.
    GroupOrder {
        step,
        /// Epoch of the step over its groups.
        epoch,
    } = "group-order",
    /// The tokens of a sample in the embedded engine: a number for each position. From the sample's seed.
    Tokens = "tokens",
    /// The seed of a sample whose request had none. From the engine's seed.
    UnseededSample {
        /// Position in the order of arrival.
        arrival,
    } = "unseeded-sample",
    /// The entropy that programs in the sandbox get (`os.urandom`). From the seed 0 in every run.
    SandboxEntropy = "sandbox-entropy",
    /// The tokens by which learner and engines are compared. From the run's seed.
    WeightsProof {
        /// The version of the weights.
        version,
    } = "weights-proof",
    /// Which samples of a step the sampler audit takes, from the secret nonce of the step; and what breaks ties among their
    /// tokens, from the run's seed.
    SamplerAudit { step } = "sampler-audit",
    /// The draws of a bootstrap over finished runs. From the comparison's seed.
    Bootstrap = "bootstrap",
    /// The signs of a sign-flip test with too many pairs to try all. From the comparison's seed.
    SignFlips = "sign-flips",
    /// A generated problem. From the run's seed.
    WordProblem {
        /// Position of its kind in the list of kinds.
        kind,
        /// Number of the problem within its kind.
        number,
    } = "word-problem",
    /// A generated product. From the run's seed.
    Product { number } = "product",
}
