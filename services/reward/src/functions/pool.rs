//! The processes of a file of reward functions, and the items that wait for them.

use std::sync::Arc;

use evenkeel_proto::NoReward;
use evenkeel_proto::v1::{FinishReason, Verdict, VerifyItem, verify_item};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::AbortHandle;

use super::process::{Called, FunctionProcess, Gone, Hello, Launch};
use super::verdict::Scale;
use crate::settings::FunctionSettings;

/// Calls the functions of a file. Dropping it ends its processes.
pub(crate) struct FunctionPool {
    scale: Scale,
    components: Vec<String>,
    jobs: mpsc::UnboundedSender<Job>,
    workers: Vec<AbortHandle>,
}

/// An item that waits for a process.
struct Job {
    item: Box<RawValue>,
    answer: oneshot::Sender<Result<Called, Gone>>,
}

type Jobs = Arc<Mutex<mpsc::UnboundedReceiver<Job>>>;

impl FunctionPool {
    /// Starts the processes of a file. `table` is the one of settings that declares it.
    ///
    /// # Errors
    /// Why it cannot be loaded, as a message.
    pub(super) async fn start(table: String, name: &str, settings: &FunctionSettings) -> Result<Self, String> {
        let launch = Arc::new(Launch::of(settings)?);
        let (jobs, receiver) = mpsc::unbounded_channel();
        let receiver: Jobs = Arc::new(Mutex::new(receiver));
        let mut processes = Vec::new();
        for _ in 0..settings.processes {
            let mut process = FunctionProcess::new(Arc::clone(&launch));
            let hello = process.start().await.map_err(|gone| gone.detail)?;
            processes.push((process, hello));
        }
        let hello = processes.first().map(|(_, hello)| hello.clone());
        let names = hello.map(|hello| hello.functions).unwrap_or_default();
        let scale = Scale::new(table, settings, &names)?;
        let path = launch.path.display();
        tracing::info!(verifier = name, functions = names.join(", "), %path, "reward functions");
        let components = if names.len() > 1 { names } else { Vec::new() };
        let serve = |(process, hello): (FunctionProcess, Hello)| {
            tokio::spawn(serve(process, hello.most_items(), Arc::clone(&receiver))).abort_handle()
        };
        let workers = processes.into_iter().map(serve).collect();
        Ok(Self { scale, components, jobs, workers })
    }

    /// The names of components that verdicts may have.
    pub(super) fn components(&self) -> impl Iterator<Item = &String> {
        self.components.iter()
    }

    /// The verdict on an item.
    pub(super) async fn verdict(&self, item: VerifyItem) -> Verdict {
        let id = item.id.clone();
        let (answer, called) = oneshot::channel();
        // Its receiver lives as long as the workers do.
        let _ = self.jobs.send(Job { item: as_json(item), answer });
        let gone = |_| Err(Gone { reason: NoReward::Crashed, detail: "the worker is shutting down".to_owned() });
        self.scale.verdict(id, called.await.unwrap_or_else(gone))
    }
}

impl Drop for FunctionPool {
    fn drop(&mut self) {
        self.workers.iter().for_each(AbortHandle::abort);
    }
}

/// Judges waiting items in a process, until there are no more.
async fn serve(mut process: FunctionProcess, most: usize, jobs: Jobs) {
    loop {
        let mut batch = Vec::new();
        if jobs.lock().await.recv_many(&mut batch, most).await == 0 {
            return;
        }
        // Nobody waits for an item that was cancelled.
        batch.retain(|job: &Job| !job.answer.is_closed());
        if batch.is_empty() {
            continue;
        }
        let (items, answers): (Vec<_>, Vec<_>) = batch.into_iter().map(|job| (job.item, job.answer)).unzip();
        let results = match process.judge(&items).await {
            Ok(called) => called.into_iter().map(Ok).collect(),
            Err(gone) if gone.reason == NoReward::Crashed => judge_alone(&mut process, &items, &gone).await,
            Err(gone) => vec![Err(gone); items.len()],
        };
        for (answer, result) in answers.into_iter().zip(results) {
            let _ = answer.send(result);
        }
    }
}

/// Has each item judged once more, by itself, after the process has ended for whatever reason: only what ends it again
/// gets no reward.
async fn judge_alone(process: &mut FunctionProcess, items: &[Box<RawValue>], gone: &Gone) -> Vec<Result<Called, Gone>> {
    let mut results = Vec::with_capacity(items.len());
    for item in items {
        results.push(match process.judge(std::slice::from_ref(item)).await {
            Ok(mut called) => called.pop().ok_or_else(|| gone.clone()),
            Err(again) if again.reason == NoReward::FileChanged => Err(gone.clone()),
            Err(again) => Err(again),
        });
    }
    results
}

/// An item as the functions get it: its text, tokens, why it ended, and the columns of its row.
fn as_json(item: VerifyItem) -> Box<RawValue> {
    let finish = match item.finish_reason() {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
        FinishReason::Repetition => "repetition",
        _ => "",
    };
    let text = match item.answer {
        Some(verify_item::Answer::Completion(text) | verify_item::Answer::Extracted(text)) => text,
        None => String::new(),
    };
    let payload = match item.task {
        Some(verify_item::Task::Custom(task)) => String::from_utf8_lossy(&task.payload).into_owned(),
        _ => String::new(),
    };
    // An object as it is written: numbers keep all of their digits.
    let row = match serde_json::from_str::<&RawValue>(&payload) {
        Ok(object) if object.get().starts_with('{') => object.get().to_owned(),
        Ok(other) => format!(r#"{{"payload": {other}}}"#),
        Err(_) if payload.is_empty() => "{}".to_owned(),
        Err(_) => json!({ "payload": payload }).to_string(),
    };
    let (text, ids) = (json!(text), json!(item.token_ids));
    let written = format!(r#"{{"text": {text}, "ids": {ids}, "finish": "{finish}", "row": {row}}}"#);
    RawValue::from_string(written).unwrap_or_default()
}
