//! The lines of a run as a stream: first those in its files, then each new one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_proto::v1::{RunState, StepKind, StepMetrics, WatchRunRequest};
use evenkeel_rpc::server::Drain;
use evenkeel_run::{EVALUATION_FILE, METRICS_FILE, MetricsLine, WARM_START_FILE, read_lines};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::registry::Entry;
use crate::events::{Event, Subscription};

/// Silence after which a reader gets the progress, where it asks for no other interval: far below the ten minutes after
/// which people and proxies take a call for dead.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(60);

/// Messages that wait for the client to read them.
const MAX_UNREAD: usize = 64;

/// Follows a run to its end; an inactive one is read from its files.
pub(super) fn follow(
    request: WatchRunRequest,
    directory: PathBuf,
    entry: Option<Arc<Entry>>,
    drain: Drain,
) -> ReceiverStream<Result<StepMetrics, Status>> {
    let (sender, stream) = mpsc::channel(MAX_UNREAD);
    // Before the files are read: a line is in either or both, never in neither.
    let live = entry.as_ref().and_then(|entry| entry.subscribe());
    tokio::spawn(async move {
        let closed = sender.clone();
        tokio::select! {
            () = closed.closed() => {}
            () = drain.aborting() => {}
            () = send_lines(request, directory, entry, live, sender) => {}
        }
    });
    ReceiverStream::new(stream)
}

async fn send_lines(
    request: WatchRunRequest,
    directory: PathBuf,
    entry: Option<Arc<Entry>>,
    live: Option<Subscription>,
    sender: mpsc::Sender<Result<StepMetrics, Status>>,
) {
    let mut sent: BTreeMap<i32, u64> = BTreeMap::new();
    let ended = entry.as_ref().map_or(RunState::Stopped, |entry| entry.state());
    let message = |line: &MetricsLine, state: RunState| StepMetrics {
        run_id: request.run_id.clone(),
        kind: line.kind.into(),
        step: line.step,
        policy_version: line.policy_version,
        values: line.values.clone().into_iter().collect(),
        run_state: state.into(),
    };
    let written = match read(&directory) {
        Ok(written) => written,
        Err(error) => {
            let _ = sender.send(Err(Status::internal(error.to_string()))).await;
            return;
        }
    };
    for line in &written {
        sent.insert(line.kind.into(), line.step);
        let wanted = request.from_step.is_some_and(|from| line.step >= from);
        if wanted && sender.send(Ok(message(line, ended))).await.is_err() {
            return;
        }
    }
    let (Some(mut live), Some(entry)) = (live, &entry) else { return };
    let interval = request.progress_ms.map_or(PROGRESS_INTERVAL, Duration::from_millis);
    let mut sent_at = Instant::now();
    loop {
        let event = tokio::select! {
            biased;
            event = live.recv() => event,
            // The last event may have been emitted before this reader subscribed.
            () = entry.wait_for_end() => None,
            () = silence(sent_at, interval) => {
                let progress = progress_message(&request.run_id, entry, sent_at.elapsed());
                sent_at = Instant::now();
                if sender.send(Ok(progress)).await.is_err() {
                    return;
                }
                continue;
            }
        };
        let Some(event) = event else { return };
        match &*event {
            Event::Line(line) => {
                // Lines from the files are not sent twice; steps that are repeated after a loss are the same.
                let kind = i32::from(line.kind);
                if sent.get(&kind).is_some_and(|last| *last >= line.step) {
                    continue;
                }
                sent.insert(kind, line.step);
                let state = entry.state();
                sent_at = Instant::now();
                if request.from_step.is_none_or(|from| line.step >= from)
                    && sender.send(Ok(message(line, state))).await.is_err()
                {
                    return;
                }
            }
            Event::Finished { .. } | Event::Failed { .. } => return,
            _ => {}
        }
    }
}

/// Waits until nothing was sent for that long; for ever with an interval of 0.
async fn silence(sent_at: Instant, interval: Duration) {
    if interval.is_zero() {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep_until((sent_at + interval).into()).await;
}

/// Where a run is within its step.
fn progress_message(run_id: &str, entry: &Entry, silent: Duration) -> StepMetrics {
    let progress = entry.progress();
    let values = [
        ("progress/samples_done", progress.samples_done as f64),
        ("progress/samples", progress.samples as f64),
        ("progress/groups_trained", f64::from(progress.groups_trained)),
        ("progress/silent_s", silent.as_secs_f64()),
    ];
    StepMetrics {
        run_id: run_id.to_owned(),
        kind: StepKind::Progress.into(),
        step: progress.step,
        policy_version: progress.policy_version,
        values: values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        run_state: progress.state.into(),
    }
}

/// All lines in the order of their weights.
fn read(directory: &Path) -> Result<Vec<MetricsLine>, crate::RunError> {
    let mut lines = read_lines(&directory.join(WARM_START_FILE), StepKind::WarmStart)?;
    lines.extend(read_lines(&directory.join(METRICS_FILE), StepKind::Train)?);
    lines.extend(read_lines(&directory.join(EVALUATION_FILE), StepKind::Evaluation)?);
    // Stable: an evaluation comes after the step that made its weights.
    lines.sort_by_key(|line| line.policy_version);
    Ok(lines)
}
