//! The last lines of a run's log: its events in words.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::Serialize;

use crate::events::Event;

/// Lines that are kept.
const KEPT: usize = 200;
/// Bytes of a line that are kept.
const MAX_BYTES: usize = 1000;

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct LogLine {
    /// Counts the lines, from 1.
    pub(crate) number: u64,
    /// Seconds since the run was started or resumed.
    pub(crate) seconds: f64,
    pub(crate) text: String,
}

/// The last lines. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct LogTail {
    began: Instant,
    lines: Arc<Mutex<(u64, VecDeque<LogLine>)>>,
}

impl Default for LogTail {
    fn default() -> Self {
        Self { began: Instant::now(), lines: Arc::default() }
    }
}

impl LogTail {
    /// Adds an event, where it has words.
    pub(crate) fn add(&self, event: &Event) {
        let Some(mut text) = event.in_words() else { return };
        text.truncate(text.floor_char_boundary(MAX_BYTES));
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.0 += 1;
        let line = LogLine { number: lines.0, seconds: self.began.elapsed().as_secs_f64(), text };
        lines.1.push_back(line);
        if lines.1.len() > KEPT {
            lines.1.pop_front();
        }
    }

    /// The lines after a number.
    pub(crate) fn after(&self, number: u64) -> Vec<LogLine> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.1.iter().filter(|line| line.number > number).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::StepKind;
    use evenkeel_run::MetricsLine;

    use super::*;

    #[test]
    fn the_log_keeps_its_last_lines() {
        let log = LogTail::default();
        for step in 0..2 * KEPT as u64 {
            log.add(&Event::Checkpoint { step, path: String::new() });
        }
        log.add(&Event::Line(MetricsLine::new(StepKind::WarmStart, 0, 1)));
        log.add(&Event::Warning { message: "é".repeat(MAX_BYTES) });
        let lines = log.after(0);
        assert_eq!((lines.len(), lines[0].text.as_str()), (KEPT, "checkpoint after 201 steps"));
        let last = &lines[KEPT - 1];
        assert!(last.text.starts_with("warning: é") && last.text.len() <= MAX_BYTES);
        assert_eq!(log.after(last.number), []);
    }
}
