//! Judging: from a question to a verdict, by the record or by a call.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_proto::{FieldError, JudgeFailure};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep};

use crate::endpoint::{CallError, Endpoint, Reply};
use crate::error::JudgeError;
use crate::key::Key;
use crate::pause::between_attempts;
use crate::place::{self, DefaultRecord};
use crate::question::Question;
use crate::record::{Line, Record};
use crate::rubric::Rubric;
use crate::rules::Rules;
use crate::settings::JudgeSettings;
use crate::template::Template;

/// Longest rubric or template, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// A verdict that stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// Score by the rubric, 0 to 1.
    pub score: f64,
    /// The judge's number for each criterion, 0 to 1.
    pub criteria: BTreeMap<String, f64>,
    /// Whether no call was made.
    pub is_recorded: bool,
}

/// Why there is no verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoVerdict {
    /// The kind of failure.
    pub failure: JudgeFailure,
    /// A sentence about the failure, without the API key.
    pub detail: String,
}

/// The result of a question.
pub type Judgement = Result<Judged, NoVerdict>;

/// A judge. Clones share its record, its budget and its calls.
#[derive(Clone)]
pub struct Judge(Arc<Inner>);

struct Inner {
    settings: JudgeSettings,
    rules: Rules,
    endpoint: Endpoint,
    record: Record,
    calls: Semaphore,
    /// Questions that are being asked: the same one is asked once.
    asked: Mutex<HashMap<String, watch::Receiver<Option<Judgement>>>>,
}

impl Judge {
    /// Reads rubric, template, key and record. Calls nobody.
    ///
    /// # Errors
    /// Settings that cannot be; a rubric or template that is none; a key that is missing; a record that cannot be used.
    pub fn open(settings: &JudgeSettings, default: DefaultRecord<'_>) -> Result<Self, JudgeError> {
        settings.validate()?;
        let rubric_text = text_of("rubric", &settings.rubric)?;
        let rubric = Rubric::parse(&rubric_text).map_err(|error| error.within("rubric"))?;
        let template = match &settings.template {
            None => Template::default(),
            Some(path) => Template::parse(&text_of("template", path)?).map_err(|error| error.within("template"))?,
        };
        // Recorded verdicts alone need no key.
        let key = if settings.record_only { Key::default() } else { Key::of(settings)? };
        let record = place::open(settings, default)?;
        let endpoint = Endpoint::new(settings, key).map_err(JudgeError::Client)?;
        let rules = Rules {
            model: settings.model.clone(),
            rubric_text,
            rubric,
            template,
            parser: settings.parser,
            sampling: settings.sampling.clone(),
        };
        let calls = Semaphore::new(settings.concurrency);
        let inner = Inner { settings: settings.clone(), rules, endpoint, record, calls, asked: Mutex::default() };
        Ok(Self(Arc::new(inner)))
    }

    /// The settings that it was opened with.
    pub fn settings(&self) -> &JudgeSettings {
        &self.0.settings
    }

    /// Names of the criteria, in the order of the rubric.
    pub fn criteria(&self) -> impl Iterator<Item = &str> {
        self.0.rules.rubric.criteria().iter().map(|criterion| criterion.name.as_str())
    }

    /// Calls and tokens of the record so far.
    pub fn spent(&self) -> (u64, u64) {
        self.0.record.spent()
    }

    /// The verdict on an answer: the recorded one, or that of a call, which is recorded before it is returned. Equal
    /// questions are asked once, also at the same time. A call is finished and recorded even if nobody waits for it any
    /// more. Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// Why there is no verdict.
    pub async fn judge(&self, question: Question) -> Judgement {
        let digest = self.0.rules.digest(&question);
        let mut waiting = self.waiting(&digest, question);
        let found = match waiting.wait_for(Option::is_some).await {
            Ok(judgement) => judgement.clone(),
            // The task panicked.
            Err(_) => None,
        };
        let judgement = found.unwrap_or_else(|| no_verdict(JudgeFailure::Record, "judging failed unexpectedly"));
        if judgement.as_ref().is_ok_and(|judged| judged.is_recorded) {
            metrics::counter!("evenkeel_judge_recorded_total").increment(1);
        }
        judgement
    }

    /// Joins those who wait for the same question, or has it asked.
    fn waiting(&self, digest: &str, question: Question) -> watch::Receiver<Option<Judgement>> {
        let mut asked = self.0.asked();
        if let Some(waiting) = asked.get(digest) {
            return waiting.clone();
        }
        let (sender, receiver) = watch::channel(None);
        asked.insert(digest.to_owned(), receiver.clone());
        let inner = Arc::clone(&self.0);
        let digest = digest.to_owned();
        tokio::spawn(async move {
            let _forget = Forget(&inner, &digest);
            let judgement = Inner::judgement(&inner, &digest, question).await;
            let _ = sender.send(Some(judgement));
        });
        receiver
    }
}

/// Takes a question from those that are asked, however asking ended.
struct Forget<'a>(&'a Inner, &'a str);

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.0.asked().remove(self.1);
    }
}

impl Inner {
    fn asked(&self) -> MutexGuard<'_, HashMap<String, watch::Receiver<Option<Judgement>>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn judgement(this: &Arc<Self>, digest: &str, question: Question) -> Judgement {
        let owned = digest.to_owned();
        if let Some(line) = this.on_disk(move |record| record.find(&owned)).await? {
            return this.verdict(&line, true);
        }
        if this.settings.record_only {
            return no_verdict(
                JudgeFailure::NotRecorded,
                "the answer has no recorded verdict (reward.judge.record_only)",
            );
        }
        let messages = this.rules.template.messages(&this.rules.rubric, this.rules.parser, &question);
        let body = this.endpoint.body(&this.settings, &messages);
        let Ok(_permit) = this.calls.acquire().await else {
            return no_verdict(JudgeFailure::Unreachable, "the judge is shutting down");
        };
        let Reply { text, finish_reason, prompt_tokens, reply_tokens } = Self::reply(this, digest, body).await?;
        metrics::counter!("evenkeel_judge_tokens_total", "of" => "prompts").increment(prompt_tokens);
        metrics::counter!("evenkeel_judge_tokens_total", "of" => "replies").increment(reply_tokens);
        let line = Line::new(digest, &this.settings.model, Some(text), finish_reason);
        let line = line.with_tokens(prompt_tokens, reply_tokens);
        let counts = this.on_disk(move |record| record.add(line)).await?;
        this.verdict(&counts, false)
    }

    /// Calls until the endpoint takes the call. The call stays taken from the budget if there is a reply. One that may
    /// have cost something without a reply is recorded here.
    async fn reply(this: &Arc<Self>, digest: &str, body: String) -> Result<Reply, NoVerdict> {
        let until = Instant::now() + this.settings.retry_for;
        let mut failures = 0;
        loop {
            if this.endpoint.opens_at().is_some_and(|opens| opens > until) {
                let detail = format!("the endpoint takes no calls for longer than {}", this.settings.shown_retries());
                return Err(NoVerdict { failure: JudgeFailure::RateLimited, detail });
            }
            let taken = this.take_call().await?;
            let error = match this.endpoint.call(body.clone(), this.settings.timeout).await {
                Ok(reply) => {
                    taken.keep();
                    return Ok(reply);
                }
                Err(error) => error,
            };
            if error.may_cost() {
                taken.keep();
                let line = Line::new(digest, &this.settings.model, None, String::new());
                this.on_disk(move |record| record.add(line)).await?;
            } else {
                drop(taken);
            }
            let (is_rate_limit, after, words) = match error {
                CallError::Timeout => {
                    let detail = format!("the call took longer than {}", this.settings.shown_timeout());
                    return Err(NoVerdict { failure: JudgeFailure::Timeout, detail });
                }
                CallError::Refused(detail) | CallError::Unreadable(detail) => {
                    return Err(NoVerdict { failure: JudgeFailure::Refused, detail });
                }
                CallError::BrokenOff(words) => (false, None, words),
                CallError::Busy { is_rate_limit, after, words } => (is_rate_limit, after, words),
            };
            failures += 1;
            let pause = after.unwrap_or_else(|| between_attempts(failures));
            if Instant::now() + pause > until {
                let failure = if is_rate_limit { JudgeFailure::RateLimited } else { JudgeFailure::Unreachable };
                return Err(NoVerdict { failure, detail: words });
            }
            sleep(pause).await;
        }
    }

    async fn take_call(&self) -> Result<TakenCall<'_>, NoVerdict> {
        let spent = |detail| NoVerdict { failure: JudgeFailure::Budget, detail };
        self.record.wait_for_call(&self.settings.budget).await.map_err(spent)?;
        Ok(TakenCall { record: &self.record, is_kept: false })
    }

    /// What the judge's words of a line come to. Equal words always come to equal verdicts.
    fn verdict(&self, line: &Line, is_recorded: bool) -> Judgement {
        if line.finish_reason == "length" {
            return no_verdict(JudgeFailure::CutOff, "the reply was cut off (reward.judge.sampling.max_tokens)");
        }
        let reply = line.reply.as_deref().unwrap_or_default();
        match self.rules.parser.read(reply, &self.rules.rubric) {
            Ok(criteria) => Ok(Judged { score: self.rules.rubric.score(&criteria), criteria, is_recorded }),
            Err((failure, detail)) => Err(NoVerdict { failure, detail }),
        }
    }

    /// Does something with the record on a thread that may block.
    async fn on_disk<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Record) -> io::Result<T> + Send + 'static,
    ) -> Result<T, NoVerdict> {
        let inner = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || work(&inner.record)).await.map_err(io::Error::other);
        done.and_then(|done| done)
            .map_err(|error| NoVerdict { failure: JudgeFailure::Record, detail: error.to_string() })
    }
}

/// A call of the budget, which is given back when this is dropped unless it was made.
struct TakenCall<'a> {
    record: &'a Record,
    is_kept: bool,
}

impl TakenCall<'_> {
    fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for TakenCall<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.record.give_back();
        }
    }
}

fn no_verdict(failure: JudgeFailure, detail: &str) -> Judgement {
    Err(NoVerdict { failure, detail: detail.to_owned() })
}

fn text_of(setting: &str, path: &Path) -> Result<String, FieldError> {
    let refused = |words: String| FieldError::new(setting, path.display(), format!("a TOML file: it {words}"));
    let bytes = evenkeel_host::read(path, MAX_FILE).map_err(|error| refused(error.to_string()))?;
    String::from_utf8(bytes).map_err(|_| refused("is not UTF-8".to_owned()))
}
