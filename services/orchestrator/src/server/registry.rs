//! The runs of one orchestrator: those in work, and those that lie in its folder.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_proto::v1::{Run as RunMessage, RunState, StepKind};
use evenkeel_proto::{FieldError, Label};
use evenkeel_rpc::error::ServiceError;
use tokio::sync::watch;

use super::event_log;
use crate::directory::{METRICS_FILE, Marker, RunDirectory, read_lines};
use crate::error::RunError;
use crate::events::{Events, Progress};
use crate::load::Cancel;
use crate::run::{RunHandle, StopOnDrop};
use crate::summary::Summary;

/// A run that was started here.
pub(super) struct Entry {
    pub(super) run_id: String,
    pub(super) directory: PathBuf,
    pub(super) settings_hash: String,
    pub(super) events: Events,
    pub(super) stop: StopOnDrop,
    pub(super) began: std::time::Instant,
    pub(super) ended: watch::Receiver<End>,
}

/// How far a run is from its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// In work.
    No,
    /// Its task has ended.
    Ended,
    /// Its task has ended before the first step, with an error: nothing of it is left, and its name is free.
    NeverBegan,
}

impl Entry {
    /// Takes a run over: its task is followed to its end.
    pub(super) fn of(handle: RunHandle, directory: RunDirectory) -> Self {
        let (run_id, settings_hash) = (handle.run_id().to_owned(), directory.identity().to_owned());
        let path = handle.directory().to_owned();
        let events = handle.events.clone();
        let stop = StopOnDrop(handle.stop.0.clone());
        tokio::spawn(event_log::log_events(run_id.clone(), handle.subscribe()));
        let (sender, ended) = watch::channel(End::No);
        tokio::spawn(async move {
            // An error is told as an event as well, which the journal writes.
            let failed = handle.join().await.is_err();
            let end = if failed && !directory.has_entered() { End::NeverBegan } else { End::Ended };
            if end == End::NeverBegan {
                directory.discard();
            }
            let _ = sender.send(end);
        });
        Self { run_id, directory: path, settings_hash, events, stop, began: std::time::Instant::now(), ended }
    }

    pub(super) fn is_active(&self) -> bool {
        *self.ended.borrow() == End::No
    }

    /// Whether there is a run of this name, in work or to be gone on with.
    pub(super) fn is_there(&self) -> bool {
        *self.ended.borrow() != End::NeverBegan
    }

    pub(super) fn message(&self) -> RunMessage {
        let progress: Progress = self.events.progress().borrow().clone();
        let before = read_summary(&self.directory).map_or(0.0, |summary| summary.seconds.total);
        // While it runs the files are behind; the longer of both is nearer.
        let elapsed =
            (before * 1e3).max(self.began.elapsed().as_secs_f64() * 1e3 * f64::from(u8::from(self.is_active())));
        RunMessage {
            run_id: self.run_id.clone(),
            state: progress.state.into(),
            step: progress.step,
            total_steps: progress.total_steps,
            policy_version: progress.policy_version,
            directory: self.directory.display().to_string(),
            settings_hash: self.settings_hash.clone(),
            message: progress.message,
            elapsed_ms: elapsed as u64,
        }
    }
}

/// A run that is being loaded.
#[derive(Clone)]
pub(super) struct Starting {
    pub(super) run_id: String,
    pub(super) directory: PathBuf,
    pub(super) settings_hash: String,
    pub(super) total_steps: u64,
    pub(super) cancel: Cancel,
    /// Closed once it has begun, or was refused.
    pub(super) done: watch::Receiver<()>,
}

impl Starting {
    pub(super) fn message(&self) -> RunMessage {
        RunMessage {
            run_id: self.run_id.clone(),
            state: RunState::Starting.into(),
            total_steps: self.total_steps,
            directory: self.directory.display().to_string(),
            settings_hash: self.settings_hash.clone(),
            ..RunMessage::default()
        }
    }

    /// Waits until it has begun or was refused.
    pub(super) async fn wait(mut self) {
        while self.done.changed().await.is_ok() {}
    }
}

/// All runs.
#[derive(Default)]
pub(super) struct Registry {
    entries: HashMap<String, Arc<Entry>>,
    /// At most one: a learner trains one run.
    pub(super) starting: Option<Starting>,
}

impl Registry {
    pub(super) fn get(&self, run_id: &str) -> Option<Arc<Entry>> {
        self.entries.get(run_id).cloned()
    }

    pub(super) fn active(&self) -> Option<Arc<Entry>> {
        self.entries.values().find(|entry| entry.is_active()).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<Entry>> {
        self.entries.values().cloned().collect()
    }

    pub(super) fn insert(&mut self, entry: Arc<Entry>) {
        self.entries.insert(entry.run_id.clone(), entry);
    }
}

/// A run that lies in the folder and is not in work. `None` where there is none.
pub(super) fn stored(directory: &Path) -> Result<Option<RunMessage>, RunError> {
    let Some(marker) = Marker::read(directory)? else { return Ok(None) };
    let summary = read_summary(directory);
    let lines = read_lines(&directory.join(METRICS_FILE), StepKind::Train)?;
    let last = lines.last();
    // Without a summary the process ended before it could say how.
    let state = summary.as_ref().and_then(|summary| RunState::from_label(&summary.state));
    let state = match state {
        Some(state @ (RunState::Completed | RunState::Stopped | RunState::Failed)) => state,
        _ => RunState::Stopped,
    };
    Ok(Some(RunMessage {
        run_id: marker.run_id,
        state: state.into(),
        step: lines.len() as u64,
        total_steps: summary.as_ref().map_or(0, |summary| summary.total_steps),
        policy_version: last.map_or(0, |line| line.policy_version),
        directory: directory.display().to_string(),
        settings_hash: marker.identity,
        message: String::new(),
        elapsed_ms: summary.map_or(0, |summary| (summary.seconds.total * 1e3) as u64),
    }))
}

fn read_summary(directory: &Path) -> Option<Summary> {
    serde_json::from_str(&std::fs::read_to_string(directory.join("summary.json")).ok()?).ok()
}

/// How an error of a run is said over gRPC.
pub(super) fn service_error(error: RunError) -> ServiceError {
    match error {
        RunError::Setting(field) => ServiceError::from(field),
        RunError::Config(error) => {
            use evenkeel_config::ConfigError;
            let text = error.to_string();
            ServiceError::from(match error {
                ConfigError::Invalid { key, value, allowed, .. } => FieldError { field: key, value, allowed },
                ConfigError::UnknownKey { key, allowed, .. } => FieldError::new(key, "no setting", allowed.join(", ")),
                _ => FieldError::new("configuration", "not readable", text),
            })
        }
        RunError::Directory { .. } | RunError::Mismatch(_) => {
            ServiceError::Precondition { reason: "RUN_DIRECTORY", message: error.to_string() }
        }
        RunError::Cancelled => ServiceError::Cancelled,
        RunError::File { ref source, .. }
            if matches!(source.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded) =>
        {
            ServiceError::Unavailable { reason: "DISK_FULL", message: error.to_string() }
        }
        RunError::Data { .. } | RunError::PromptTooLong { .. } | RunError::Model { .. } => {
            ServiceError::from(FieldError::new("configuration", "refused", error.to_string()))
        }
        RunError::File { path, source } => ServiceError::file(path.display(), &source),
        other => ServiceError::Internal { message: other.to_string() },
    }
}
