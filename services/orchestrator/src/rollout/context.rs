//! What samples share, and the messages for the services.

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_proto::v1::{GenerateItem, Rollout, VerifyItem, verify_item};
use evenkeel_proto::{Label, Purpose, SamplingSettings};
use evenkeel_telemetry::TraceContext;

use super::engine_weights::{EngineWeights, EnginesSeen, MissingWeights, UpdateCounts};
use super::environment_idle::EnvironmentIdle;
use super::group_request::GroupRequest;
use super::health::RolloutHealth;
use super::judging::Judging;
use super::left_out::{LeftOut, LeftOutWarnings};
use super::played::Played;
use super::response_part::ResponsePart;
use super::sample::Sample;
use super::segment::SegmentTokens;
use super::validation::Requirements;
use super::verification::VerifyRequest;
use crate::clients::Services;
use crate::data::{EpisodeText, EpisodeTexts};
use crate::error::{Halt, RunError};
use crate::sample_stream::{ShownSample, ShownTurn};
use crate::settings::{DataSettings, LoopSettings, OnError, TurnsSettings};
use crate::text::Tokenizer;

/// Tokens of a prompt and of a response that are decoded for people.
const MAX_SHOWN_TOKENS: usize = 2048;

/// Tokens at the end of a prompt that may spell an opened `<think>`, with white space after it.
const THINKING_TOKENS: usize = 8;

/// What all rollouts of a run share.
pub(crate) struct RolloutContext {
    services: Arc<Services>,
    tokenizer: Tokenizer,
    run_id: String,
    seed: u64,
    vocabulary_size: u32,
    judging: Judging,
    /// Verifiers whose first failure ends the run.
    stops_at_failure: BTreeSet<String>,
    left_out: LeftOutWarnings,
    engines: Arc<EngineWeights>,
    turns: TurnsSettings,
    episodes: EpisodeTexts,
    environment_idle: EnvironmentIdle,
}

impl RolloutContext {
    pub(crate) fn new(
        services: Arc<Services>,
        engines: Arc<EngineWeights>,
        (tokenizer, episodes): (Tokenizer, EpisodeTexts),
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
            judging: Judging::new(settings),
            stops_at_failure: stops_at_failure(&settings.data),
            left_out: LeftOutWarnings::default(),
            engines,
            turns: settings.turns,
            episodes,
            environment_idle: EnvironmentIdle::default(),
        }
    }

    pub(crate) fn services(&self) -> &Services {
        &self.services
    }

    pub(crate) fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Seed of all randomness.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }
}

fn stops_at_failure(data: &DataSettings) -> BTreeSet<String> {
    let stops = data.verifiers.iter().filter(|(_, verifier)| verifier.on_error == OnError::Stop);
    stops.map(|(name, _)| name.clone()).collect()
}

/// What the samples of one step or evaluation share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RolloutSpec {
    /// Whether samples for which no weights are named must be of those that the run has updated the engines to when
    /// they are requested, and of later ones. They may have tokens of several versions. Otherwise any weights will do.
    pub(crate) by_newest: bool,
    /// Whether samples are trained on, not only scored.
    pub(crate) for_training: bool,
    /// The segments of their responses.
    pub(crate) segments: SegmentTokens,
}

/// What an attempt at a sample starts from.
#[derive(Debug, Clone, Copy)]
pub(super) struct AttemptStart {
    /// The updates of the engines before it.
    engines: UpdateCounts,
    /// The earliest version that may sample it, if it need not be a certain one.
    earliest: Option<u64>,
}

impl AttemptStart {
    /// The version that sampled a token although later ones had to, as engines do that were restarted with the
    /// generation service.
    pub(super) fn outdated(&self, rollout: &Rollout) -> Option<u64> {
        let oldest = rollout.segments.iter().filter_map(|segment| segment.policy_version).min()?;
        self.earliest.is_some_and(|earliest| oldest < earliest).then_some(oldest)
    }
}

/// A step's or evaluation's samples in flight, as its sample tasks see them.
pub(super) struct Batch {
    context: Arc<RolloutContext>,
    spec: RolloutSpec,
    requirements: Requirements,
    health: RolloutHealth,
}

impl Batch {
    pub(super) fn new(context: Arc<RolloutContext>, spec: RolloutSpec) -> Self {
        let requirements = Requirements {
            vocabulary_size: context.vocabulary_size,
            ends: Arc::clone(context.tokenizer.ends()),
            for_training: spec.for_training,
        };
        Self { context, spec, requirements, health: RolloutHealth::new() }
    }

    pub(super) fn services(&self) -> &Services {
        &self.context.services
    }

    /// What its sample tasks observe of the services.
    pub(super) fn health(&self) -> &RolloutHealth {
        &self.health
    }

    /// A generation ended, in success or failure.
    pub(super) fn rollout_ended(&self) {
        self.health.rollout_ended();
    }

    /// Engines took no sample, for that reason.
    pub(super) fn engines_unavailable(&self, reason: String) {
        self.health.engines_unavailable(reason);
    }

    /// An engine gave a good rollout.
    pub(super) fn engines_available(&self) {
        self.health.engines_available();
    }

    pub(super) fn requirements(&self) -> &Requirements {
        &self.requirements
    }

    /// A sample is left out, for a reason of which the first line is told.
    pub(super) fn left_out(&self, what: LeftOut, reason: &str) {
        self.context.left_out.add(what, reason.lines().next().unwrap_or_default());
    }

    /// A reward function failed at an answer.
    ///
    /// # Errors
    /// [`RunError::RewardFunction`] where the first failure ends the run.
    pub(super) fn function_failed(&self, sample: &str, verifier: &str, reason: &str) -> Result<(), RunError> {
        if !self.context.stops_at_failure.contains(verifier) {
            return Ok(());
        }
        Err(RunError::RewardFunction {
            what: format!("sample {sample}"),
            who: format!("the reward function `{verifier}`"),
            failures: 1,
            samples: 1,
            allowed: format!("none (data.verifiers.{verifier}.on_error is \"stop\")"),
            first: reason.to_owned(),
        })
    }

    /// The rules for answers that were judged.
    pub(super) fn judging(&self) -> &Judging {
        &self.context.judging
    }

    /// How the next segment of a response is drawn that has `sampled` tokens so far, of which `whole` is drawn in all.
    pub(super) fn segment(&self, whole: &SamplingSettings, is_last: bool, sampled: u32) -> SamplingSettings {
        self.spec.segments.sampling(whole, is_last, sampled)
    }

    /// An attempt at a part of a sample begins. Waits while weights are restored.
    pub(super) async fn begin_attempt(&self) -> AttemptStart {
        let EnginesSeen { updates, target, .. } = self.context.engines.seen().await;
        AttemptStart { engines: updates, earliest: target.filter(|_| self.spec.by_newest) }
    }

    /// Has the engines updated to the weights of a part that they lack, unless that was done since the attempt began.
    /// Returns why they lacked them.
    pub(super) async fn restore_weights(
        &self,
        part: &ResponsePart,
        start: AttemptStart,
    ) -> Result<MissingWeights, Halt> {
        match &part.weights {
            None if !self.spec.by_newest => Ok(MissingWeights::Lost),
            weights => self.context.engines.restore(weights.as_ref(), start.engines).await,
        }
    }

    /// How episodes with several turns are played.
    pub(super) fn turns(&self) -> TurnsSettings {
        self.context.turns
    }

    /// How the episodes of an environment are told to the model.
    ///
    /// # Errors
    /// An environment that no setting names, which reading the data refuses before.
    pub(super) fn episode_text(&self, environment: &str) -> Result<Arc<EpisodeText>, RunError> {
        let missing = || RunError::Defect(format!("the environment `{environment}` is not prepared"));
        self.context.episodes.get(environment).cloned().ok_or_else(missing)
    }

    /// Whether what is before a turn ends within thinking that its template opened.
    pub(super) fn opens_thinking_after(&self, request: &GroupRequest, part: &ResponsePart) -> bool {
        self.opens_thinking(part.before.last().map_or(part.prompt_in(request), |segment| &segment.token_ids[..]))
    }

    /// How long engines are idle because of environments.
    pub(super) fn environment_idle(&self) -> &EnvironmentIdle {
        &self.context.environment_idle
    }

    pub(super) fn is_for_training(&self) -> bool {
        self.spec.for_training
    }

    pub(super) fn run_id(&self) -> &str {
        &self.context.run_id
    }

    /// How the whole response of a sample is drawn.
    pub(super) fn sampling(&self, request: &GroupRequest, sample: u32) -> SamplingSettings {
        let seed = request.id.sample(sample).seed(self.context.seed);
        SamplingSettings { seed, ..request.sampling.settings.clone() }
    }

    /// The request for a part of the response of a sample, as a part of that span.
    pub(super) fn generate_item(
        &self,
        request: &GroupRequest,
        sample: u32,
        part: &ResponsePart,
        span: TraceContext,
    ) -> GenerateItem {
        let sample_id = request.id.sample(sample).to_string();
        GenerateItem {
            group_id: request.id.to_string(),
            prompt_token_ids: part.prompt_in(request).to_vec(),
            prefix_segments: part.before.clone(),
            preferred_engine: part.engine.clone(),
            parent_sample_id: (!part.before.is_empty()).then(|| sample_id.clone()),
            sample_id,
            sampling: Some(part.sampling.clone().into()),
            engine_deadline_ms: Some(self.services().settings().rollout_deadline.as_millis() as u64),
            policy_version: part.version(),
            traceparent: span.to_string(),
            ..GenerateItem::default()
        }
    }

    /// The request to verify its response; of an episode with several turns the last one is the answer. Long tests are
    /// named; a worker gets them once.
    pub(super) fn verify_request(
        &self,
        request: &GroupRequest,
        rollout: &Rollout,
        played: Option<&Played>,
        span: TraceContext,
    ) -> Result<VerifyRequest, RunError> {
        let all_ids = || rollout.segments.iter().flat_map(|segment| segment.token_ids.iter().copied()).collect();
        let ids: Vec<u32> = played.map_or_else(all_ids, |played| played.answer.clone());
        let in_thinking =
            played.map_or_else(|| self.opens_thinking(&request.prompt_token_ids), |played| played.in_thinking);
        let answer = verify_item::Answer::Completion(self.context.tokenizer.decode(&ids)?);
        let is_custom = request.task.verifier().is_some();
        let item = VerifyItem {
            token_ids: if is_custom { ids } else { Vec::new() },
            finish_reason: if is_custom { rollout.finish_reason().into() } else { 0 },
            opened_thinking: in_thinking,
            deadline_ms: Some(self.services().settings().verify_deadline.as_millis() as u64),
            traceparent: span.to_string(),
            ..request.named.as_ref().unwrap_or(&request.task).verify_item(&rollout.sample_id, answer)
        };
        Ok(VerifyRequest { item, with_tests: request.named.as_ref().map(|_| request.task.clone()) })
    }

    /// Whether a prompt ends within thinking that its template opened, as those of Qwen3-Thinking and DeepSeek-R1 do.
    fn opens_thinking(&self, prompt: &[u32]) -> bool {
        let tail = &prompt[prompt.len().saturating_sub(THINKING_TOKENS)..];
        // A tail that is no text by itself does not end with the tag.
        self.context.tokenizer.decode_all(tail).is_ok_and(|text| text.trim_end().ends_with("<think>"))
    }

    /// Shows a sample to those who watch, if anybody does.
    pub(super) fn show(&self, request: &GroupRequest, sample: &Sample) {
        self.services().events().samples().offer(|| {
            let tokenizer = &self.context.tokenizer;
            let response = sample.segments.iter().flat_map(|segment| segment.token_ids.iter().copied());
            let response: Vec<u32> = response.take(MAX_SHOWN_TOKENS).collect();
            let prompt = &request.prompt_token_ids[..request.prompt_token_ids.len().min(MAX_SHOWN_TOKENS)];
            Some(ShownSample {
                number: 0,
                purpose: match request.id.purpose {
                    Purpose::Train => "train",
                    Purpose::Eval => "evaluation",
                },
                step: request.id.step,
                id: sample.id.clone(),
                prompt: tokenizer.decode_all(prompt).ok()?,
                text: tokenizer.decode(&response).ok()?,
                turns: sample.episode.iter().flat_map(|episode| &episode.turns).map(ShownTurn::from).collect(),
                gold: request.task.known_answers().join(" or "),
                verdict: sample.verdict().to_owned(),
                reason: sample.failure().unwrap_or(&sample.verdict_detail.reason).to_owned(),
                reward: sample.rewards().map(|rewards| rewards.raw),
                components: sample.several_components(),
                tokens: sample.tokens,
                finish: sample.finish_reason.label(),
            })
        });
    }
}
