//! What a served run says in the server's log: a line for each step, and whatever holds it up.

use std::sync::Arc;

use crate::events::{Event, Subscription};
use crate::metrics::Line;
use crate::summary::{Summary, accuracy};

/// Supervised steps between two lines of the log.
const WARM_START_EVERY: u64 = 50;

/// Writes events to the log until the run has ended.
pub(super) async fn keep(run_id: String, mut events: Subscription) {
    while let Some(event) = events.recv().await {
        write(&run_id, &event);
    }
}

fn write(run: &str, event: &Arc<Event>) {
    match &**event {
        Event::Started { directory, step, total_steps, problems, .. } => {
            tracing::info!(run, directory = %directory.display(), step, total_steps, problems, "the run begins");
        }
        Event::Line(line) => write_line(run, line),
        Event::Checkpoint { step, path } => tracing::info!(run, step, path, "checkpoint"),
        Event::Waiting { service, endpoint, message, waited_ms, gives_up_in_ms } => {
            tracing::warn!(run, service, endpoint, message, waited_ms, gives_up_in_ms, "waiting");
        }
        Event::Recovered { service, waited_ms } => tracing::info!(run, service, waited_ms, "back again"),
        Event::Rewound { step, message } => tracing::warn!(run, step, message, "back to a checkpoint"),
        Event::Note { message } => tracing::info!(run, message),
        Event::Warning { message } => tracing::warn!(run, message),
        Event::Finished { outcome, summary } => {
            let Summary { steps, reward_first_ten, reward_last_ten, accuracy_before, accuracy_after, seconds, .. } =
                &**summary;
            tracing::info!(
                run,
                ?outcome,
                steps,
                seconds = seconds.total,
                reward_first_ten,
                reward_last_ten,
                accuracy_before,
                accuracy_after,
                "the run ended"
            );
        }
        Event::Failed { message } => tracing::error!(run, message, "the run failed"),
    }
}

fn write_line(run: &str, line: &Line) {
    let step = line.step + 1;
    if let Some(reward) = line.get("critic/rewards/mean") {
        let length = line.get("response_length/mean");
        let loss = line.get("actor/pg_loss");
        let seconds = line.get("timing_s/step");
        tracing::info!(run, step, reward, length, loss, seconds, "step");
    } else if let Some(accuracy) = accuracy(line) {
        tracing::info!(run, after_steps = line.step, accuracy, "evaluation");
    } else if step.is_multiple_of(WARM_START_EVERY) {
        tracing::info!(run, step, loss = line.get("warm_start/loss"), "warm start");
    }
}
