//! Trust: do the engines have the learner's weights, and do they draw samples from its policy?
//!
//! - `proof`: after an update the learner and every engine score the same tokens. An engine with old weights, some old
//!   tensors, a wrong share of an adapter or another model differs in a direction that the learner can predict.
//! - `audit`: the learner scores a few samples of each step, chosen before they exist. Temperature, truncation, end
//!   tokens, reported log-probabilities and copies are tested.
//! - `evidence`: what scores say, as pure functions of them.
//!
//! **False alarms.** Evidence is an e-process ([`evenkeel_statistics::evidence`]) and may be looked at after every
//! step. The proof accuses at most 4 of 10,000 honest runs and the audit at most 4, whatever their length; that a
//! part is called proven which is stale by half or more has a chance of 1 in 1,000. **Power.** In f32 every fault shows
//! at the first look, in a few hundred tokens. With noise σ of a narrow type 165 σ²/(s d)² tokens find 19 of 20 faults,
//! where a share s of the movement d is missing. What moves less than 0.15 σ is never decided: the proof says
//! *undecided*. `docs/proofs.md` has the assumptions, simulations and tables.
//!
//! Trust asks for scores through [`LearnerScorer`] and [`EngineScorer`], and says what they show. What a run holds back
//! until then is not decided here: that is for the loop's state, in the orchestrator (`run/state`). No runtime and no
//! protocol is needed; the traits' futures are all that waits.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod arithmetic;
mod audit;
mod engine_type;
mod evidence;
#[cfg(test)]
mod fake;
mod fault;
mod proof;
mod remark;
mod scorer;

pub use arithmetic::LearnerArithmetic;
pub use audit::{
    AnswerChoice, AuditMode, AuditReport, AuditSchedule, AuditedGroup, AuditedSample, AuditedSampling, DrawnAnswer,
    DrawnToken, EvaluationReport, SampleScoring, SamplerAudit, SamplerAuditSettings, ScoredSamples, StepAudit,
};
pub use engine_type::EngineType;
pub use evidence::weights::{DigestComparison, ProofReport, SuspicionReport, TensorDigests};
pub use fault::{SamplerFault, WeightsFault};
pub use proof::{DueProof, ProbeText, ProofSettings, WeightsProof};
pub use remark::{Remark, RemarkSink};
pub use scorer::{
    EngineScorer, EngineScores, LearnerScorer, LearnerToken, LearnerView, NotScored, PromptedResponse,
    PublishedWeights, ReplacedGroup, SampledDistribution, SeededRun, TensorGroup, TokenScores,
};
