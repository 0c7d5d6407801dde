//! Output of a run: progress bars in a terminal, lines elsewhere, JSON if requested.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use evenkeel_config::human;
use evenkeel_orchestrator::{Event, RunOutcome, RunProgress, StopWhen};
use evenkeel_proto::shown::with_causes;
use evenkeel_proto::v1::StepKind;
use evenkeel_run::{MetricsLine, Summary};
use indicatif::{HumanDuration, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use tokio::sync::watch;

use crate::results::results;
use crate::signals::Received;

/// Silence after which the progress within a step is printed where there are no bars.
const SILENCE: Duration = Duration::from_secs(60);

/// Interval between redraws of the bars.
const TICK: Duration = Duration::from_millis(200);

/// Prints an error with its causes.
pub(crate) fn print_error(error: &anyhow::Error) {
    say_line(&format!("error: {}", with_causes(error.as_ref())));
}

/// Prints the result of a command on stdout.
pub(crate) fn print_result(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    unless_reader_left(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// A reader that has seen enough, such as `head`, is no error.
pub(crate) fn unless_reader_left(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// A line on stdout. A reader that is gone is no error.
macro_rules! print_out {
    ($($text:tt)*) => { $crate::terminal::print_line(&format!($($text)*)) };
}

/// A line on stderr. A terminal that is gone ends nothing.
macro_rules! print_err {
    ($($text:tt)*) => { $crate::terminal::note(&format!($($text)*)) };
}

/// Prints what the user should know.
pub(crate) fn note(text: &str) {
    say_line(text);
}

/// A line on stderr. A terminal that is gone, as after SIGHUP, ends nothing.
fn say_line(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// A line on stdout. A terminal that is gone ends nothing.
pub(crate) fn print_line(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// The output of one run.
pub(crate) struct Screen {
    json: bool,
    /// Whether it is said what the learner computes.
    verbose: bool,
    progress: watch::Receiver<RunProgress>,
    /// Progress bars, drawn together, so that text above them does not leave copies behind.
    bars: MultiProgress,
    warm_start: ProgressBar,
    steps: ProgressBar,
    /// Whether stderr is a terminal; otherwise some steps are printed as lines.
    live: bool,
    /// When something was printed last.
    said: Instant,
}

impl Screen {
    pub(crate) fn new(json: bool, verbose: bool, progress: watch::Receiver<RunProgress>) -> Self {
        let live = io::stderr().is_terminal();
        let target = if live { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bars = MultiProgress::with_draw_target(target);
        let warm_start = bars.add(bar("warm start"));
        let steps = bars.add(bar("training"));
        Self { json, verbose, progress, bars, warm_start, steps, live, said: Instant::now() }
    }

    /// Waits for the next redraw and draws.
    pub(crate) async fn tick(&mut self) {
        tokio::time::sleep(TICK).await;
        let progress = self.progress.borrow().clone();
        let doing = progress.describe();
        if !doing.is_empty() && !self.steps.is_finished() {
            self.steps.set_prefix(doing.clone());
        }
        self.steps.tick();
        if !self.live && self.said.elapsed() >= SILENCE && !doing.is_empty() {
            self.say(&format!("step {}: {doing}", progress.step + 1));
        }
    }

    pub(crate) fn show(&mut self, event: &Event) {
        match event {
            Event::Started { directory, step, total_steps, warm_start_steps, .. } => {
                self.warm_start.set_length(*warm_start_steps);
                self.steps.set_length(*total_steps);
                self.steps.set_position(*step);
                self.steps.reset_eta();
                self.say(&format!("run in {}", directory.display()));
            }
            Event::Line(line) => self.line(line),
            Event::Checkpoint { .. } => {}
            // The report has it as well.
            Event::Note { message } if !self.verbose && evenkeel_recipe::is_formula(message) => {}
            Event::Finished { .. } | Event::Failed { .. } => self.clear(),
            other => other.in_words().into_iter().for_each(|words| self.say(&words)),
        }
    }

    fn line(&mut self, line: &MetricsLine) {
        if self.json {
            print_line(&line.to_json());
        }
        let text = |name: &str, digits| line.get(name).map_or("–".into(), |value| rounded(value, digits));
        match line.kind {
            StepKind::WarmStart => {
                let loss = text("warm_start/loss", 3);
                self.warm_start.set_position(line.step);
                self.warm_start.set_message(format!("loss {loss}"));
                self.plain(line.step, 100, || format!("warm start {} loss {loss}", line.step));
            }
            StepKind::Train => {
                if !self.warm_start.is_finished() {
                    self.warm_start.finish();
                }
                self.steps.set_position(line.step);
                // Not the loss: rules that balance both sides have none.
                let message = format!(
                    "reward {}  length {}  gradient {}",
                    text("critic/rewards/mean", 3),
                    text("response_length/mean", 1),
                    text("actor/grad_norm", 3)
                );
                self.steps.set_message(message.clone());
                self.plain(line.step, 10, || format!("step {} {message}", line.step));
            }
            StepKind::Evaluation => {
                if let Some(evaluated) = crate::columns::evaluated(line) {
                    self.say(&format!("evaluation after {} steps: {evaluated}", line.step));
                }
            }
            StepKind::Progress | StepKind::Unspecified => {}
        }
    }

    /// Without bars, prints every `every`th step as a line.
    fn plain(&mut self, step: u64, every: u64, text: impl Fn() -> String) {
        // Long steps are printed one by one.
        let due = step.is_multiple_of(every) || self.said.elapsed() >= SILENCE;
        if !self.live && !self.json && due {
            self.said = Instant::now();
            say_line(&text());
        }
    }

    fn say(&mut self, text: &str) {
        self.said = Instant::now();
        if self.live {
            self.bars.suspend(|| say_line(text));
        } else if !self.json {
            say_line(text);
        }
    }

    /// Says where the run can be watched.
    pub(crate) fn page(&mut self, url: &str) {
        self.say(&format!("live page at {url}"));
    }

    pub(crate) fn stopping(&mut self, mode: StopWhen, received: Received, grace: Duration) {
        match (mode, received.is_from_person()) {
            (StopWhen::AfterStep, true) => self.say("ending after the current step; press Ctrl-C again to end now"),
            (StopWhen::AfterStep, false) => {
                let name = received.name();
                let grace = human(grace);
                self.say(&format!("{name}: ending after the current step, within {grace} (checkpoint.grace)"));
            }
            (StopWhen::AbandonStep | StopWhen::Now, _) => self.say("ending now; a resume repeats the current step"),
        }
    }

    /// Says that the step in progress takes too long.
    pub(crate) fn abandoning(&mut self) {
        self.say("the current step does not finish within checkpoint.grace; it is abandoned, and a resume repeats it");
    }

    /// Says that the process ends without waiting for anything.
    pub(crate) fn out_of_grace(&mut self, grace: Duration, path: &Path) {
        self.say(&format!(
            "checkpoint.grace ({}) is over; continue from the last checkpoint with evenkeel resume {}",
            human(grace),
            path.display()
        ));
    }

    pub(crate) fn clear(&self) {
        self.warm_start.finish_and_clear();
        self.steps.finish_and_clear();
    }

    /// Prints the summary and the path of the report.
    pub(crate) fn last(&self, outcome: RunOutcome, summary: &Summary, path: &Path) {
        let text = results(outcome, summary, path);
        let _ =
            if self.json { io::stderr().write_all(text.as_bytes()) } else { io::stdout().write_all(text.as_bytes()) };
    }
}

/// A number with that many digits. Zero has no sign: a loss without clipping is 0 except for rounding.
fn rounded(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    match text.strip_prefix('-') {
        Some(positive) if positive.bytes().all(|byte| matches!(byte, b'0' | b'.')) => positive.to_owned(),
        _ => text,
    }
}

fn bar(name: &str) -> ProgressBar {
    let template = format!("{name:<10} {{bar:28}} {{pos:>4}}/{{len:<4}} {{msg}}  {{left}}  {{prefix:.dim}}");
    let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
    // The remaining time is unknown before the first step.
    let left = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        if state.pos() > 0 && !state.is_finished() {
            let _ = write!(out, "{:#} left", HumanDuration(state.eta()));
        }
    };
    let style = style.with_key("left", left).progress_chars("━╸─");
    ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden()).with_style(style)
}
