//! The log of a served run: a line for each step, and whatever delays it.

use std::sync::Arc;

use evenkeel_proto::v1::StepKind;
use evenkeel_run::{MetricsLine, Quantity, Summary, headline};

use crate::events::{Event, Subscription};

/// Supervised steps between two lines of the log.
const WARM_START_EVERY: u64 = 50;

/// Logs events until the run has ended.
pub(super) async fn log_events(run_id: String, mut events: Subscription) {
    while let Some(event) = events.recv().await {
        write(&run_id, &event);
    }
}

fn write(run: &str, event: &Arc<Event>) {
    match &**event {
        Event::Started { directory, step, total_steps, problems, .. } => {
            tracing::info!(run, directory = %directory.display(), step, total_steps, problems, "the run starts");
        }
        Event::Line(line) => write_line(run, line),
        Event::Checkpoint { step, path } => tracing::info!(run, step, path, "checkpoint"),
        Event::Waiting { service, endpoint, message, waited_ms, gives_up_in_ms } => {
            tracing::warn!(run, service = service.label(), endpoint, message, waited_ms, gives_up_in_ms, "waiting");
        }
        Event::Recovered { service, waited_ms } => {
            tracing::info!(run, service = service.label(), waited_ms, "recovered")
        }
        Event::Rewound { step, message } => tracing::warn!(run, step, message, "returned to a checkpoint"),
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

/// What speaks for an evaluation, where it is that quantity.
fn mean(line: &MetricsLine, wanted: Quantity) -> Option<f64> {
    headline(line).filter(|(quantity, _)| *quantity == wanted).map(|(_, value)| value)
}

fn write_line(run: &str, line: &MetricsLine) {
    let step = line.step;
    match line.kind {
        StepKind::Train => {
            let reward = line.get("critic/rewards/mean");
            let length = line.get("response_length/mean");
            let loss = line.get("actor/pg_loss");
            let seconds = line.get("timing_s/step");
            tracing::info!(run, step, reward, length, loss, seconds, "step");
        }
        StepKind::Evaluation => tracing::info!(
            run,
            step,
            accuracy = mean(line, Quantity::Accuracy),
            mean_reward = mean(line, Quantity::Reward),
            "evaluation"
        ),
        StepKind::WarmStart if step.is_multiple_of(WARM_START_EVERY) => {
            tracing::info!(run, step, loss = line.get("warm_start/loss"), "warm start");
        }
        StepKind::WarmStart | StepKind::Progress | StepKind::Unspecified => {}
    }
}
