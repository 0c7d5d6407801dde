//! What samples share, and the messages for the services.

use std::sync::Arc;

use evenkeel_proto::v1::{GenerateItem, Rollout, VerifyItem, WeightsRef, verify_item};
use evenkeel_proto::{Label, Purpose, SamplingSettings};
use evenkeel_telemetry::TraceContext;

use super::group::GroupPlan;
use super::health::RolloutHealth;
use super::sample::{Components, Rewards, Sample};
use super::shaping::{Judged, Shaping};
use super::turns::{Turn, WeightTurns};
use super::validation::Requirements;
use super::verification::VerifyRequest;
use crate::clients::Services;
use crate::error::{Halt, RunError};
use crate::sample_stream::ShownSample;
use crate::settings::LoopSettings;
use crate::text::Tokenizer;

/// Tokens of a prompt and of a response that are decoded for people.
const MOST_SHOWN_TOKENS: usize = 2048;

/// What all rollouts of a run share.
pub(crate) struct RolloutContext {
    services: Arc<Services>,
    tokenizer: Tokenizer,
    run_id: String,
    seed: u64,
    vocabulary_size: u32,
    shaping: Shaping,
    turns: Arc<WeightTurns>,
}

impl RolloutContext {
    pub(crate) fn new(
        services: Arc<Services>,
        tokenizer: Tokenizer,
        run_id: &str,
        vocabulary_size: u32,
        settings: &LoopSettings,
    ) -> Self {
        Self {
            services,
            tokenizer,
            run_id: run_id.to_owned(),
            seed: settings.run.seed,
            vocabulary_size,
            shaping: Shaping::new(&settings.shaping, &settings.sampling),
            turns: Arc::default(),
        }
    }

    /// The weights of the samples in flight.
    pub(crate) fn turns(&self) -> &WeightTurns {
        &self.turns
    }

    pub(crate) fn services(&self) -> &Services {
        &self.services
    }

    pub(crate) fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Everything random follows from it.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }
}

/// What the samples of one step or evaluation share.
#[derive(Debug, Clone)]
pub(crate) struct RolloutSpec {
    /// The weights that must generate them. `None`: those that the engines have, whichever they are.
    pub(crate) weights: Option<WeightsRef>,
    /// Whether samples are trained on, not only scored.
    pub(crate) for_training: bool,
}

/// A step's or evaluation's samples in flight, as its sample tasks see them.
pub(super) struct Batch {
    context: Arc<RolloutContext>,
    spec: RolloutSpec,
    requirements: Requirements,
    pub(super) health: RolloutHealth,
    /// That samples of its weights are in flight.
    _turn: Option<Turn>,
}

impl Batch {
    pub(super) fn new(context: Arc<RolloutContext>, spec: RolloutSpec) -> Self {
        let requirements = Requirements {
            policy_version: spec.weights.as_ref().map(|weights| weights.version),
            vocabulary_size: context.vocabulary_size,
            for_training: spec.for_training,
        };
        let _turn = requirements.policy_version.map(|version| context.turns.enter(version));
        Self { context, spec, requirements, health: RolloutHealth::new(), _turn }
    }

    pub(super) fn services(&self) -> &Services {
        &self.context.services
    }

    pub(super) fn requirements(&self) -> &Requirements {
        &self.requirements
    }

    pub(super) fn rewards(&self, judged: &Judged, tokens: usize) -> (Rewards, Components) {
        self.context.shaping.rewards(judged, tokens)
    }

    /// How often engines were moved so far. Waits while they are moved back to weights.
    pub(super) async fn weight_moves(&self) -> u64 {
        self.context.turns.moves().await
    }

    /// Has the engines moved to the weights that they lack, unless that was done since there were `seen` moves. Returns whether a sample has
    /// a reason to find its weights now.
    pub(super) async fn restore_weights(&self, seen: u64) -> Result<bool, Halt> {
        match &self.spec.weights {
            Some(weights) => self.context.turns.restore(self.services(), weights, seen).await,
            None => Ok(true),
        }
    }

    pub(super) fn is_for_training(&self) -> bool {
        self.spec.for_training
    }

    pub(super) fn run_id(&self) -> &str {
        &self.context.run_id
    }

    /// The request for one sample of a group, as a part of that span.
    pub(super) fn generate_item(&self, plan: &GroupPlan, sample: u32, span: TraceContext) -> GenerateItem {
        let id = plan.id.sample(sample);
        let sampling = SamplingSettings { seed: id.seed(self.context.seed), ..plan.sampling.settings.clone() };
        GenerateItem {
            sample_id: id.to_string(),
            group_id: plan.id.to_string(),
            prompt_token_ids: plan.prompt_token_ids.to_vec(),
            sampling: Some(sampling.into()),
            engine_deadline_ms: Some(self.services().settings().rollout_deadline.as_millis() as u64),
            policy_version: self.requirements.policy_version,
            traceparent: span.to_string(),
            ..GenerateItem::default()
        }
    }

    /// The request to verify its response. Long tests are named; a worker gets them once.
    pub(super) fn verify_request(
        &self,
        plan: &GroupPlan,
        rollout: &Rollout,
        span: TraceContext,
    ) -> Result<VerifyRequest, RunError> {
        let ids: Vec<u32> = rollout.segments.iter().flat_map(|segment| segment.token_ids.iter().copied()).collect();
        let answer = verify_item::Answer::Completion(self.context.tokenizer.decode(&ids)?);
        let item = VerifyItem {
            deadline_ms: Some(self.services().settings().verify_deadline.as_millis() as u64),
            traceparent: span.to_string(),
            ..plan.named.as_ref().unwrap_or(&plan.task).verify_item(&rollout.sample_id, answer)
        };
        Ok(VerifyRequest { item, with_tests: plan.named.as_ref().map(|_| plan.task.clone()) })
    }

    /// Shows a sample to those who watch, if anybody does.
    pub(super) fn show(&self, plan: &GroupPlan, sample: &Sample) {
        self.services().events().samples().offer(|| {
            let tokenizer = &self.context.tokenizer;
            let response = sample.segments.iter().flat_map(|segment| segment.token_ids.iter().copied());
            let response: Vec<u32> = response.take(MOST_SHOWN_TOKENS).collect();
            let prompt = &plan.prompt_token_ids[..plan.prompt_token_ids.len().min(MOST_SHOWN_TOKENS)];
            Some(ShownSample {
                number: 0,
                purpose: match plan.id.purpose {
                    Purpose::Train => "train",
                    Purpose::Eval => "evaluation",
                },
                step: plan.id.step,
                id: sample.id.clone(),
                prompt: tokenizer.decode_all(prompt).ok()?,
                text: tokenizer.decode(&response).ok()?,
                gold: plan.task.golds().collect::<Vec<_>>().join(" or "),
                verdict: sample.verdict().to_owned(),
                reason: sample.failure().unwrap_or(&sample.judgement.reason).to_owned(),
                reward: sample.rewards().map(|rewards| rewards.raw),
                tokens: sample.tokens,
                finish: sample.finish_reason.label(),
            })
        });
    }
}
