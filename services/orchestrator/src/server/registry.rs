//! The runs of one server: those that it started, and those in its folder.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use evenkeel_config::ConfigError;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{Run as RunMessage, RunState, StepKind};
use evenkeel_rpc::error::{Reason, ServiceError};
use evenkeel_run::{METRICS_FILE, RunDirectory, RunFilesError, RunManifest, Summary, read_lines};
use evenkeel_run_report::stored_state;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::event_log;
use crate::error::RunError;
use crate::events::{Events, RunProgress, Subscription};
use crate::run::{RunHandle, StopOnDrop, StopWhen};

/// A run that was started here.
pub(super) struct Entry {
    run_id: String,
    directory: PathBuf,
    identity: String,
    events: Events,
    stop: StopOnDrop,
    began: Instant,
    lifecycle: watch::Receiver<Lifecycle>,
}

/// The progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lifecycle {
    Active,
    Ended,
    /// The run failed before its first step: the directory is removed and the name is free.
    NeverStarted,
}

impl Entry {
    /// Follows a run to its end.
    pub(super) fn follow(handle: RunHandle, directory: RunDirectory) -> Self {
        let run_id = handle.run_id().to_owned();
        let identity = directory.identity().to_owned();
        let path = handle.directory().to_owned();
        let events = handle.events().clone();
        let stop = handle.stop_on_drop();
        tokio::spawn(event_log::log_events(run_id.clone(), handle.subscribe()));
        let (sender, lifecycle) = watch::channel(Lifecycle::Active);
        tokio::spawn(async move {
            // The error is an event as well, which the event log writes.
            let failed = handle.join().await.is_err();
            let end = if failed && !directory.has_entered() { Lifecycle::NeverStarted } else { Lifecycle::Ended };
            // Either way the lock is released first: a caller that waits for the end may resume the run at once.
            match end {
                Lifecycle::NeverStarted => directory.discard(),
                Lifecycle::Active | Lifecycle::Ended => drop(directory),
            }
            let _ = sender.send(end);
        });
        Self { run_id, directory: path, identity, events, stop, began: Instant::now(), lifecycle }
    }

    pub(super) fn run_id(&self) -> &str {
        &self.run_id
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Digest of what decides what the run computes.
    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    pub(super) fn is_active(&self) -> bool {
        *self.lifecycle.borrow() == Lifecycle::Active
    }

    /// Whether its directory exists, active or not.
    pub(super) fn exists(&self) -> bool {
        *self.lifecycle.borrow() != Lifecycle::NeverStarted
    }

    /// Current state of the run.
    pub(super) fn state(&self) -> RunState {
        self.events.state()
    }

    pub(super) fn progress(&self) -> RunProgress {
        self.events.progress().borrow().clone()
    }

    /// Events of the run from now on. `None` once it has ended.
    pub(super) fn subscribe(&self) -> Option<Subscription> {
        self.is_active().then(|| self.events.subscribe())
    }

    pub(super) fn stop_after_step(&self) {
        self.stop.stop(StopWhen::AfterStep);
    }

    pub(super) fn stop_now(&self) {
        self.stop.stop(StopWhen::Now);
    }

    /// Waits until it has ended.
    pub(super) async fn wait_for_end(&self) {
        // A closed channel means that the task that followed it has ended, and the run with it.
        let _ = self.lifecycle.clone().wait_for(|lifecycle| *lifecycle != Lifecycle::Active).await;
    }

    pub(super) fn message(&self) -> RunMessage {
        let progress = self.progress();
        let before = Summary::read(&self.directory).map_or(0.0, |summary| summary.seconds.total);
        // The summary is behind while the run is active: the longer time is closer to the truth.
        let elapsed =
            (before * 1e3).max(self.began.elapsed().as_secs_f64() * 1e3 * f64::from(u8::from(self.is_active())));
        RunMessage {
            run_id: self.run_id.clone(),
            state: progress.state.into(),
            step: progress.step,
            total_steps: progress.total_steps,
            policy_version: progress.policy_version,
            directory: self.directory.display().to_string(),
            settings_hash: self.identity.clone(),
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
    pub(super) identity: String,
    pub(super) total_steps: u64,
    pub(super) cancel: CancellationToken,
    /// Closed once it has started or was refused.
    pub(super) done: watch::Receiver<()>,
}

impl Starting {
    pub(super) fn message(&self) -> RunMessage {
        RunMessage {
            run_id: self.run_id.clone(),
            state: RunState::Starting.into(),
            total_steps: self.total_steps,
            directory: self.directory.display().to_string(),
            settings_hash: self.identity.clone(),
            ..RunMessage::default()
        }
    }

    /// Waits until it has started or was refused.
    pub(super) async fn wait(mut self) {
        while self.done.changed().await.is_ok() {}
    }
}

#[derive(Default)]
pub(super) struct Registry {
    entries: HashMap<String, Arc<Entry>>,
    /// At most one: a learner trains one run.
    starting: Option<Starting>,
}

impl Registry {
    pub(super) fn get(&self, run_id: &str) -> Option<Arc<Entry>> {
        self.entries.get(run_id).cloned()
    }

    pub(super) fn active(&self) -> Option<Arc<Entry>> {
        self.entries.values().find(|entry| entry.is_active()).cloned()
    }

    /// The run that is being loaded.
    pub(super) fn starting(&self) -> Option<Starting> {
        self.starting.clone()
    }

    pub(super) fn set_starting(&mut self, starting: Option<Starting>) {
        self.starting = starting;
    }

    pub(super) fn all(&self) -> Vec<Arc<Entry>> {
        self.entries.values().cloned().collect()
    }

    pub(super) fn insert(&mut self, entry: Arc<Entry>) {
        self.entries.insert(entry.run_id.clone(), entry);
    }
}

/// A run that was not started here, from its directory. `None` where there is none.
pub(super) fn stored(directory: &Path) -> Result<Option<RunMessage>, RunFilesError> {
    let Some(manifest) = RunManifest::read(directory)? else { return Ok(None) };
    let summary = Summary::read(directory);
    let lines = read_lines(&directory.join(METRICS_FILE), StepKind::Train)?;
    let last = lines.last();
    let state = stored_state(directory, summary.as_ref());
    Ok(Some(RunMessage {
        run_id: manifest.run_id,
        state: state.into(),
        step: lines.len() as u64,
        total_steps: summary.as_ref().map_or(0, |summary| summary.total_steps),
        policy_version: last.map_or(0, |line| line.policy_version),
        directory: directory.display().to_string(),
        settings_hash: manifest.identity,
        message: String::new(),
        elapsed_ms: summary.map_or(0, |summary| (summary.seconds.total * 1e3) as u64),
    }))
}

/// The setting that was refused first: a gRPC error has one.
fn first_field(error: ConfigError) -> FieldError {
    let text = error.to_string();
    match error {
        ConfigError::Invalid { key, value, allowed, .. } => FieldError::new(key, value, allowed),
        ConfigError::UnknownKey { key, allowed, .. } => FieldError::new(key, "no setting", allowed.join(", ")),
        ConfigError::Several(mut errors) if !errors.is_empty() => first_field(errors.swap_remove(0)),
        _ => FieldError::new("configuration", "not readable", text),
    }
}

/// The gRPC error of a run that was refused.
pub(super) fn service_error(error: impl Into<RunError>) -> ServiceError {
    let error = error.into();
    match error {
        RunError::Setting(field) => ServiceError::from(field),
        RunError::Config(error) => ServiceError::from(first_field(error)),
        RunError::Directory { .. } | RunError::Incompatible(_) | RunError::Checkpoint(_) => {
            ServiceError::Precondition { reason: Reason::RunDirectory, message: error.to_string() }
        }
        RunError::Cancelled => ServiceError::Cancelled,
        RunError::DiskLost { full: true, .. } => ServiceError::DiskFull { message: error.to_string() },
        // What refuses to be written may be written again once somebody has looked at it.
        RunError::DiskLost { .. } => ServiceError::Unavailable { reason: Reason::DiskLost, message: error.to_string() },
        RunError::ServiceLost { .. } => {
            ServiceError::Unavailable { reason: Reason::ServiceLost, message: error.to_string() }
        }
        RunError::Data { path, message } => {
            let allowed = format!("a readable data set ({message})");
            ServiceError::from(FieldError::new("data", path.display(), allowed))
        }
        RunError::PromptTooLong { .. } | RunError::Benchmark { .. } | RunError::Model { .. } => {
            ServiceError::from(FieldError::new("configuration", "refused", error.to_string()))
        }
        RunError::File { path, source } => ServiceError::file(path.display(), &source),
        other => ServiceError::Internal { message: other.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_run::Lock;
    use std::io::ErrorKind;

    use evenkeel_rpc::error::reason_of;
    use tonic::{Code, Status};

    use super::*;
    use crate::dependency::Dependency;
    use crate::error::{CheckpointError, Incompatible};

    #[test]
    fn data_that_is_refused_is_named_with_the_whole_reason() {
        let error = RunError::Data { path: "rows/*.jsonl".into(), message: "matches no file".to_owned() };
        let expected = "data is rows/*.jsonl, allowed: a readable data set (matches no file)";
        assert_eq!(service_error(error).to_string(), expected);
    }

    #[test]
    fn what_cannot_be_used_and_what_does_not_fit_are_told_apart() {
        let prompt = RunError::Prompt { id: "p1".to_owned(), message: "the template fails".to_owned() };
        let benchmark = RunError::Benchmark { name: "math500".to_owned(), source: Box::new(prompt) };
        let context = Incompatible::Context { service: Dependency::Generation, needed: 4096, context: 2048 };
        let checkpoint = CheckpointError::PromptsWaiting { step: 3, prompt: 9 };
        let cases = [
            (benchmark, Code::InvalidArgument, "benchmark `math500`: prompt `p1`: the template fails"),
            (context.into(), Code::FailedPrecondition, "the services are incompatible: prompt and"),
            (
                checkpoint.into(),
                Code::FailedPrecondition,
                "the checkpoint after step 3 is from a run in order of completion",
            ),
        ];
        for (error, code, words) in cases {
            let status = Status::from(service_error(error));
            assert_eq!(status.code(), code, "{status}");
            assert!(status.message().contains(words), "{status}");
        }
    }

    #[test]
    fn a_run_of_another_process_is_active_while_that_has_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        RunManifest::new("a", "sha256:0", None, None).write(dir.path()).unwrap();
        let state = || stored(dir.path()).unwrap().unwrap().state();
        assert_eq!(state(), RunState::Stopped);
        let lock = Lock::take(dir.path()).unwrap();
        assert_eq!(state(), RunState::Training);
        drop(lock);
        assert_eq!(state(), RunState::Stopped);
    }

    #[test]
    fn a_full_disk_is_distinguished_from_a_broken_one_and_neither_is_a_defect() {
        let lost = |full| RunError::DiskLost {
            path: "runs/a/metrics.jsonl".into(),
            waited_ms: 30,
            full,
            message: "it could not be written".to_owned(),
        };
        let file = |kind: ErrorKind| RunError::File { path: "runs/a/run.json".into(), source: kind.into() };
        let cases = [
            (lost(true), Code::ResourceExhausted, "DISK_FULL"),
            (lost(false), Code::Unavailable, "DISK_LOST"),
            (file(ErrorKind::StorageFull), Code::ResourceExhausted, "DISK_FULL"),
        ];
        for (error, code, reason) in cases {
            let status = Status::from(service_error(error));
            assert_eq!((status.code(), reason_of(&status).as_deref()), (code, Some(reason)), "{status}");
        }
    }
}
