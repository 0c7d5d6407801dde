//! Recorded answers, judged again with other settings, by the clients and with the requests of a run.

mod belonging;

use std::time::Duration;

use evenkeel_data::{EnvironmentTask, Task, TaskKind};
use evenkeel_environment::{BuiltIn, EnvironmentOrigin};
use evenkeel_proto::v1::{FinishReason, Outcome, VerifyItem, verify_item};
use evenkeel_proto::{FieldError, JudgeFailure, Label};
use evenkeel_run::Rollout;
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::clients::{Endpoints, VerifierClient, Verifiers};
use crate::data::{Prompt, PromptSampler, Prompts};
use crate::error::RunError;
use crate::rollout::{
    JudgedAnswer, Judging, SampleStatus, VerdictDetail, VerdictReward, VerificationOutcome, VerifyRequest, verify,
};
use crate::settings::{DataSettings, LoopSettings};
use crate::text::Tokenizer;

/// How long each verifier has to take the first connection.
const CONNECT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// Answers that are judged at the same time.
const AT_ONCE: usize = 1024;

/// What rollouts have in place of a verdict: without an answer, and without one of the verifier.
const FAILED: &str = "failed";
const INVALID: &str = "invalid";

/// Which verdicts are repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeats {
    /// All of them; a reward that depends on state that was not recorded is refused.
    All,
    /// Verdicts of the program itself, and of verifiers with an address: judges, which have a record. What the user's
    /// own code and environments said stands as recorded, and its shaping alone is repeated.
    OfProgram,
}

/// Judges answers of rollouts again, against the rows of the run's data.
pub struct Rejudge {
    prompts: Vec<Prompt>,
    order: PromptSampler,
    verifiers: Verifiers,
    judging: Judging,
    tokenizer: Tokenizer,
    settings: LoopSettings,
    repeats: Repeats,
}

/// A recorded sample, and its verdict now.
#[derive(Debug, Clone)]
pub struct JudgedAgain {
    /// What was recorded.
    pub rollout: Rollout,
    /// The outcome, as rollouts have it.
    pub verdict: String,
    /// Finer than the verdict; why there is none where there is none.
    pub reason: String,
    /// For people; may be empty.
    pub detail: String,
    /// The answer that was found in the text.
    pub extracted: Option<String>,
    /// The raw reward, 0 to 1; `None` without a verdict.
    pub reward: Option<f64>,
    /// The reward after shaping; `None` without a verdict.
    pub shaped_reward: Option<f64>,
    /// Whether the verdict was repeated; otherwise it is the recorded one.
    pub is_repeated: bool,
    /// Why a judge gives no verdict now.
    pub judge_failure: Option<JudgeFailure>,
}

impl JudgedAgain {
    /// Whether verdict or reward are others than the recorded ones, to the bit. A verdict that is missing on one side
    /// is no change, but a record that has a reward without an answer, or a verdict without a reward, is.
    pub fn is_changed(&self) -> bool {
        let recorded = &self.rollout;
        let verdict = recorded.verdict.label();
        let bits = |reward: Option<f64>| reward.map(f64::to_bits);
        if is_unanswered(recorded) {
            return verdict != FAILED || recorded.reward.is_some() || recorded.shaped_reward.is_some();
        }
        if recorded.reward.is_none() {
            return ![INVALID, FAILED].contains(&verdict) || recorded.shaped_reward.is_some();
        }
        self.reward.is_some()
            && (self.verdict != verdict
                || bits(self.reward) != bits(recorded.reward)
                || bits(self.shaped_reward) != bits(recorded.shaped_reward))
    }

    /// Whether there is a verdict, as it was recorded and now.
    pub fn has_both_verdicts(&self) -> bool {
        self.reward.is_some() && self.rollout.reward.is_some()
    }

    fn with(rollout: Rollout, status: &SampleStatus, detail: VerdictDetail, is_repeated: bool) -> Self {
        let rewards = status.rewards();
        let judge_failure = JudgeFailure::from_label(&detail.reason).filter(|_| rewards.is_none());
        Self {
            verdict: status.verdict().to_owned(),
            reason: status.failure().map_or(detail.reason, str::to_owned),
            detail: detail.detail,
            extracted: detail.extracted,
            reward: rewards.map(|rewards| rewards.raw),
            shaped_reward: rewards.map(|rewards| rewards.shaped),
            is_repeated,
            judge_failure,
            rollout,
        }
    }

    /// Whether a limit of time decided, as it was recorded or now: another machine may decide otherwise.
    pub fn is_by_time(&self) -> bool {
        [self.verdict.as_str(), self.rollout.verdict.label()].contains(&Outcome::TimeLimit.label())
    }

    /// A sample without an answer, which nobody judges.
    fn unanswered(rollout: Rollout) -> Self {
        Self {
            verdict: FAILED.to_owned(),
            reason: rollout.reason.clone(),
            detail: rollout.detail.clone(),
            extracted: None,
            reward: None,
            shaped_reward: None,
            is_repeated: false,
            judge_failure: None,
            rollout,
        }
    }
}

impl Rejudge {
    /// Connects to the verifiers of `endpoints` that have an address; its other addresses are not used.
    pub(crate) fn of(
        prompts: Prompts,
        tokenizer: Tokenizer,
        settings: LoopSettings,
        endpoints: &Endpoints,
        repeats: Repeats,
    ) -> Result<Self, RunError> {
        let mut verifiers = endpoints.verifiers.clone();
        verifiers.retain(|_, urls| !urls.is_empty());
        let verifiers = Verifiers::connect(&Endpoints { verifiers, ..endpoints.clone() }, &settings.services)?;
        let judging = Judging::new(&settings);
        let order = PromptSampler::of(&prompts, &settings);
        Ok(Self { prompts: prompts.train, order, verifiers, judging, tokenizer, settings, repeats })
    }

    /// Judges the answers of a step.
    ///
    /// # Errors
    /// A sample of another row than the data has in its place, a reward that depends on state that was not recorded, a
    /// verifier that does not answer.
    pub async fn judge(&self, rollouts: Vec<Rollout>) -> Result<Vec<JudgedAgain>, RunError> {
        for rollout in &rollouts {
            self.is_recorded(rollout)?;
        }
        for verifier in self.verifiers.all() {
            self.connected(verifier).await?;
        }
        let all = stream::iter(rollouts).map(|rollout| self.again(rollout));
        all.buffered(AT_ONCE).try_collect().await
    }

    /// The row of a sample.
    fn row(&self, rollout: &Rollout) -> Result<&Prompt, RunError> {
        let found = usize::try_from(rollout.index).ok().and_then(|index| self.prompts.get(index));
        found.filter(|row| *row.id == *rollout.problem).ok_or_else(|| {
            let allowed = format!("`{}`, as when the step was sampled", rollout.problem);
            let found = found.map_or_else(|| "no row".to_owned(), |row| format!("`{}`", row.id));
            FieldError::new(format!("row {} of the data", rollout.index), found, allowed).into()
        })
    }

    /// Refuses samples whose reward cannot be computed from what was recorded.
    fn is_recorded(&self, rollout: &Rollout) -> Result<(), RunError> {
        let row = self.row(rollout)?;
        if let Some(task) = row.environment.as_ref().filter(|_| self.repeats == Repeats::All) {
            refuse_stateful("environment", &task.environment)?;
        }
        let has_golds =
            row.task.kind() != TaskKind::Math || row.task.golds().eq(rollout.gold.iter().map(String::as_str));
        if !has_golds {
            let field = format!("the gold answers of `{}` in step {}", rollout.problem, rollout.step);
            let allowed = format!("those of the data: {}", row.task.known_answers().join(", "));
            return Err(FieldError::new(field, rollout.gold.join(", "), allowed).into());
        }
        Ok(())
    }

    /// Waits until a verifier takes requests.
    async fn connected(&self, verifier: &VerifierClient) -> Result<(), RunError> {
        let connected = async {
            while !verifier.is_connected() {
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::time::timeout(CONNECT, connected).await.map_err(|_| -> RunError {
            let found = format!("{}, which does not answer", verifier.endpoints());
            let allowed = format!("a service that answers within {}", evenkeel_config::human(CONNECT));
            FieldError::new(format!("the {} service", verifier.service()), found, allowed).into()
        })
    }

    async fn again(&self, rollout: Rollout) -> Result<JudgedAgain, RunError> {
        if is_unanswered(&rollout) {
            return Ok(JudgedAgain::unanswered(rollout));
        }
        let row = self.row(&rollout)?;
        let task = &row.task;
        if !self.is_repeated(row) {
            return Ok(self.as_recorded(rollout, row));
        }
        let verification = match task.kind() {
            TaskKind::Unjudged => VerificationOutcome::unjudged(),
            _ => self.verified(task, &rollout).await?,
        };
        let tokens = rollout.tokens as usize;
        let answer = JudgedAnswer { text: &rollout.text, tokens, verifier: task.verifier(), is_of_environment: false };
        let (status, detail, _) = self.judging.judged(verification, &answer);
        Ok(JudgedAgain::with(rollout, &status, detail, true))
    }

    /// Whether the verdict of a row's answers is repeated.
    fn is_repeated(&self, row: &Prompt) -> bool {
        let is_stateful = |task: &EnvironmentTask| refuse_stateful("environment", &task.environment).is_err();
        let has_verifier = self.verifiers.get(row.task.verifier()).is_ok();
        self.repeats == Repeats::All || (has_verifier && !row.environment.as_ref().is_some_and(is_stateful))
    }

    /// The recorded verdict, with its shaping done again.
    fn as_recorded(&self, rollout: Rollout, row: &Prompt) -> JudgedAgain {
        let outcome = Outcome::from_label(rollout.verdict.label());
        let verification = match (outcome, rollout.reward) {
            (Some(outcome), Some(raw)) => {
                let reward = VerdictReward { outcome, raw, components: rollout.components.clone() };
                let detail = VerdictDetail {
                    reason: rollout.reason.clone(),
                    detail: rollout.detail.clone(),
                    extracted: rollout.extracted.clone(),
                    canonical: None,
                };
                VerificationOutcome::Verdict { reward, detail, retries: 0 }
            }
            _ => {
                let (reason, code) = (rollout.reason.clone(), rollout.reason.clone());
                VerificationOutcome::Invalid { reason, code, retries: 0, late: false }
            }
        };
        let is_of_environment = row.environment.is_some() && row.task.verifier().is_none();
        let tokens = rollout.tokens as usize;
        let answer = JudgedAnswer { text: &rollout.text, tokens, verifier: row.task.verifier(), is_of_environment };
        let (status, detail, _) = self.judging.judged(verification, &answer);
        JudgedAgain::with(rollout, &status, detail, false)
    }

    /// What the verifier of a task says of an answer.
    async fn verified(&self, task: &Task, rollout: &Rollout) -> Result<VerificationOutcome, RunError> {
        let verifier = self.verifiers.get(task.verifier())?;
        let services = &self.settings.services;
        let named = task.named();
        let answer = verify_item::Answer::Completion(rollout.text.clone());
        let is_custom = task.verifier().is_some();
        let id = format!("replay/{}/{}/{}", rollout.step, rollout.group, rollout.sample);
        let item = VerifyItem {
            token_ids: if is_custom { self.answer_tokens(rollout)? } else { Vec::new() },
            finish_reason: rollout.finish_reason.known().filter(|_| is_custom).map_or(0, Into::into),
            opened_thinking: self.opens_thinking(rollout)?,
            deadline_ms: Some(services.verify_deadline.as_millis() as u64),
            ..named.as_ref().unwrap_or(task).verify_item(id, answer)
        };
        let request = VerifyRequest { item, with_tests: named.is_some().then(|| task.clone()) };
        let pauses = *self.verifiers.retry_policy();
        Ok(verify(&verifier.await_verdict(), request, services.verify_attempts, pauses).await)
    }

    /// The tokens of the answer: those of the last turn, or of its text where no tokens were recorded.
    fn answer_tokens(&self, rollout: &Rollout) -> Result<Vec<u32>, RunError> {
        match &rollout.token_ids {
            Some(ids) if rollout.turns.is_empty() => Ok(ids.clone()),
            Some(ids) => Ok(ids[last_turn(rollout, ids.len())..].to_vec()),
            None => self.tokenizer.encode(&rollout.text),
        }
    }

    /// Whether what is before the answer ends within thinking that its template opened.
    fn opens_thinking(&self, rollout: &Rollout) -> Result<bool, RunError> {
        let ids = rollout.token_ids.as_deref().filter(|_| !rollout.turns.is_empty()).unwrap_or_default();
        let first = last_turn(rollout, ids.len());
        let own_prompt = rollout.turn_prompts.last().filter(|prompt| prompt.first as usize == first);
        let before = own_prompt.map_or(&ids[..first], |prompt| &prompt.token_ids);
        let text = if before.is_empty() { rollout.prompt.clone() } else { self.tokenizer.decode_all(before)? };
        Ok(text.trim_end().ends_with("<think>"))
    }
}

/// Whether a sample could not be generated.
fn is_unanswered(rollout: &Rollout) -> bool {
    rollout.finish_reason.known() == Some(FinishReason::Failed)
}

/// Index of the first token of the last turn, of so many tokens.
fn last_turn(rollout: &Rollout, tokens: usize) -> usize {
    let last = rollout.segments.last().map_or(0, |segment| segment.tokens as usize);
    tokens.saturating_sub(last)
}

/// Refuses environments whose verdicts cannot be repeated, before anything is read that needs them to run: all that keep
/// state where they are repeated, else those of the user's own.
///
/// # Errors
/// The first of them, by the setting that names it.
pub(crate) fn refuse_environments(data: &DataSettings, repeats: Repeats) -> Result<(), FieldError> {
    let named = data.environment.iter().map(|name| ("data.environment", name));
    let others = data.environments.iter().map(|name| ("data.environments", name));
    for (field, name) in named.chain(others) {
        let comes_with_the_program = matches!(EnvironmentOrigin::of(field, name)?, EnvironmentOrigin::BuiltIn(_));
        if repeats == Repeats::All || !comes_with_the_program {
            refuse_stateful(field, name)?;
        }
    }
    Ok(())
}

/// Refuses an environment that gives the reward itself: the state of its episodes is not recorded.
fn refuse_stateful(field: &str, name: &str) -> Result<(), FieldError> {
    let leaves_it_to_a_verifier = matches!(
        EnvironmentOrigin::of(field, name)?,
        EnvironmentOrigin::BuiltIn(BuiltIn::Calculator) | EnvironmentOrigin::Sandbox
    );
    let allowed = "an environment that leaves the reward to the verifier of the row: the state of its episodes, on \
        which the reward depends, was not recorded";
    FieldError::ensure(leaves_it_to_a_verifier, field, format_args!("{name:?}"), allowed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A recorded sample, with its verdict now.
    fn judged(finish_reason: &str, recorded: (&str, Option<f64>), now: (&str, Option<f64>)) -> JudgedAgain {
        let rollout = json!({
            "step": 3, "group": 7, "sample": 0, "problem": "a", "index": 0, "data_source": "a", "prompt": "ab",
            "text": "x", "tokens": 3, "finish_reason": finish_reason, "verdict": recorded.0, "reason": "",
            "reward": recorded.1, "shaped_reward": recorded.1, "group_outcome": "trained", "segments": [],
        });
        let rollout: Rollout = serde_json::from_value(rollout).unwrap();
        if is_unanswered(&rollout) {
            return JudgedAgain::unanswered(rollout);
        }
        let (verdict, reward) = (now.0.to_owned(), now.1);
        let [reason, detail] = [(); 2].map(|()| String::new());
        JudgedAgain {
            rollout,
            verdict,
            reason,
            detail,
            extracted: None,
            reward,
            shaped_reward: reward,
            is_repeated: true,
            judge_failure: None,
        }
    }

    #[test]
    fn a_verdict_that_one_side_lacks_is_neither_equal_nor_changed() {
        let (right, wrong, none) = (("correct", Some(1.0)), ("incorrect", Some(0.0)), (INVALID, None));
        let compare_answered = |recorded, now| {
            let judged = judged("stop", recorded, now);
            (judged.is_changed(), judged.has_both_verdicts())
        };
        assert_eq!((compare_answered(right, right), compare_answered(right, wrong)), ((false, true), (true, true)));
        assert_eq!((compare_answered(right, none), compare_answered(none, right)), ((false, false), (false, false)));
        assert_eq!(compare_answered(("correct", None), right), (true, false), "a verdict has a reward");
    }

    #[test]
    fn a_reward_that_was_written_to_a_sample_without_an_answer_is_a_change() {
        let compare_failed = |recorded| {
            let judged = judged("failed", recorded, (FAILED, None));
            (judged.is_changed(), judged.has_both_verdicts())
        };
        assert_eq!(compare_failed((FAILED, None)), (false, false));
        assert_eq!(
            (compare_failed((FAILED, Some(1.0))), compare_failed(("correct", Some(1.0)))),
            ((true, false), (true, false))
        );
    }
}
