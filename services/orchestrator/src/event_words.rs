//! Events and progress in words.

use evenkeel_proto::v1::StepKind;
use evenkeel_run::{MetricsLine, Quantity, headline};
use evenkeel_run_report::in_words;

use crate::events::{Activity, Event, RunOutcome, RunProgress};

impl Event {
    /// The event in words; `None` for supervised steps, of which there are many.
    pub fn in_words(&self) -> Option<String> {
        Some(match self {
            Self::Started { run_id, step, total_steps, problems, .. } => {
                format!("run {run_id} starts after {step} of {total_steps} steps, on {problems} problems")
            }
            Self::Line(line) => return of_line(line),
            Self::Checkpoint { step, .. } => format!("checkpoint after {step} steps"),
            Self::Waiting { service, endpoint, message, waited_ms, gives_up_in_ms } => format!(
                "waiting for {service} at {endpoint}: {message} (for {} s, gives up in {} s)",
                waited_ms / 1000,
                gives_up_in_ms / 1000
            ),
            Self::Recovered { service, waited_ms } => format!("{service} is back after {} s", waited_ms / 1000),
            Self::Rewound { step, message } => format!("back to step {step}: {message}"),
            Self::Note { message } => format!("note: {message}"),
            Self::Warning { message } => format!("warning: {message}"),
            Self::Finished { outcome: RunOutcome::Completed, summary } => {
                format!("all {} steps are done", summary.steps)
            }
            Self::Finished { outcome: RunOutcome::Stopped, summary } => {
                format!("stopped after {} steps", summary.steps)
            }
            Self::Failed { message } => format!("failed: {message}"),
        })
    }
}

impl RunProgress {
    /// What is going on, with its counts, for people: `310 of 2048 samples, 12 groups trained`.
    pub fn describe(&self) -> String {
        let mut parts = Vec::new();
        if self.samples > 0 {
            parts.push(format!("{}/{} samples", self.samples_done, self.samples));
        }
        if self.groups_trained > 0 {
            parts.push(format!("{} groups trained", self.groups_trained));
        }
        if self.activity != Activity::None {
            parts.push(self.activity.label().to_owned());
        }
        parts.join(", ")
    }
}

fn of_line(line: &MetricsLine) -> Option<String> {
    let value = |name: &str| line.get(name).map_or_else(|| "–".to_owned(), evenkeel_charts::number);
    Some(match line.kind {
        StepKind::Train => format!(
            "step {}: reward {}, length {}, {} s",
            line.step,
            value("critic/score/mean"),
            value("response_length/mean"),
            value("timing_s/step")
        ),
        StepKind::Evaluation => {
            let found = match headline(line) {
                Some((quantity, value)) if quantity == Quantity::Accuracy => in_words(quantity, value, None),
                Some((quantity, value)) => format!("{} {}", quantity.words(), in_words(quantity, value, None)),
                None => "–".to_owned(),
            };
            format!("evaluation after {} steps: {found}", line.step)
        }
        StepKind::WarmStart | StepKind::Progress | StepKind::Unspecified => return None,
    })
}
