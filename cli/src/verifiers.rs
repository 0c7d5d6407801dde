//! Custom verifiers that a run starts itself: Python files with reward functions, and programs of the user's own. Each
//! is watched, restarted where it was, and ends with the run.

use std::collections::{BTreeMap, VecDeque};
use std::net::TcpListener;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use evenkeel_config::human;
use evenkeel_data::read::printable;
use evenkeel_orchestrator::VerifierSettings;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// The program that calls reward functions and speaks the protocol of verifiers.
pub(crate) const BRIDGE: &str = include_str!("../python/evenkeel_verifier.py");
/// Its name.
pub(crate) const BRIDGE_FILE: &str = "evenkeel_verifier.py";

/// The variable that says where a verifier is to listen.
const LISTEN: &str = "EVENKEEL_VERIFIER_LISTEN";
/// How long it may take until it listens: imports such as torch take long.
const START: Duration = Duration::from_secs(120);
/// How often it is tried whether it listens.
const POLL: Duration = Duration::from_millis(50);
/// Pauses before a restart: each is twice the one before, and the first again once it has run for longer than the
/// longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Lines of what it said last, for the error of one that does not start; and the longest of them, in bytes.
const LAST_LINES: usize = 12;
const MAX_LINE: usize = 4096;

/// The verifiers of one run. Dropping it ends them.
pub(crate) struct VerifierProcesses {
    endpoints: BTreeMap<String, Vec<String>>,
    watched: Vec<JoinHandle<()>>,
}

impl VerifierProcesses {
    /// Starts those that settings say how to start, and waits until they listen. `folder` takes what they need.
    ///
    /// # Errors
    /// One that ends or does not listen in time, with what it said last.
    pub(crate) async fn start(settings: &BTreeMap<String, VerifierSettings>, folder: &Path) -> Result<Self> {
        let mut all = Self { endpoints: BTreeMap::new(), watched: Vec::new() };
        for (name, verifier) in settings.iter().filter(|(_, verifier)| verifier.is_started()) {
            let program = Program::of(name, verifier, folder)?;
            let running = program.start().await?;
            all.endpoints.insert(name.clone(), vec![format!("http://{}", program.listen)]);
            all.watched.push(tokio::spawn(program.watch(running)));
        }
        Ok(all)
    }

    /// Where they listen, by name.
    pub(crate) fn endpoints(&self) -> BTreeMap<String, Vec<String>> {
        self.endpoints.clone()
    }
}

impl Drop for VerifierProcesses {
    fn drop(&mut self) {
        // With its task a process ends as well.
        self.watched.iter().for_each(JoinHandle::abort);
    }
}

/// How a verifier is started.
struct Program {
    /// The setting that names it.
    field: String,
    words: Vec<String>,
    listen: String,
}

/// A process, and the task that reads what it says.
struct Running {
    child: Child,
    /// Open as long as the process is wanted: waiting for it would close its own handle.
    _stdin: Option<ChildStdin>,
    said: JoinHandle<VecDeque<String>>,
}

impl Program {
    fn of(name: &str, verifier: &VerifierSettings, folder: &Path) -> Result<Self> {
        let field = |key: &str| format!("data.verifiers.{name}.{key}");
        // Free at this moment; the process is told to take it, and takes it again after a restart.
        let listen = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr())?.to_string();
        let Some(path) = &verifier.path else {
            return Ok(Self { field: field("command"), words: verifier.command.clone(), listen });
        };
        if !path.is_file() {
            let allowed = "a Python file with reward functions";
            return Err(evenkeel_proto::FieldError::new(field("path"), path.display(), allowed).into());
        }
        let bridge = folder.join(BRIDGE_FILE);
        std::fs::write(&bridge, BRIDGE).with_context(|| bridge.display().to_string())?;
        let [low, high] = verifier.range;
        let mut words = vec![verifier.python.display().to_string(), "-u".to_owned(), bridge.display().to_string()];
        words.push(path.display().to_string());
        words.push(format!("--timeout={}", verifier.timeout.as_secs_f64()));
        words.push(format!("--memory={}", verifier.max_memory.bytes()));
        words.push(format!("--processes={}", verifier.processes));
        words.push(format!("--range={low:?},{high:?}"));
        words.extend(verifier.require_all.then(|| "--require-all".to_owned()));
        words.extend(verifier.functions.iter().map(|(name, weight)| format!("--function={name}={weight:?}")));
        Ok(Self { field: field("path"), words, listen })
    }

    /// Starts the process and waits until it listens.
    async fn start(&self) -> Result<Running> {
        let mut running = self.spawn()?;
        let until = Instant::now() + START;
        loop {
            if let Some(status) = running.child.try_wait()? {
                bail!("{}: {}", self.field, running.last_words(status).await);
            }
            if TcpStream::connect(&self.listen).await.is_ok() {
                return Ok(running);
            }
            if Instant::now() > until {
                let listen = &self.listen;
                let limit = human(START);
                bail!("{}: does not listen at {listen} ({LISTEN}) within {limit}", self.field);
            }
            sleep(POLL).await;
        }
    }

    fn spawn(&self) -> Result<Running> {
        let (program, arguments) = self.words.split_first().context("a program without a name")?;
        let mut child = Command::new(program)
            .args(arguments)
            .env(LISTEN, &self.listen)
            // It ends when this process is gone, however that ended.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C ends the run after its step, whose answers are still to be judged.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{}: {program}", self.field))?;
        let out = child.stdout.take();
        let err = child.stderr.take();
        let field = self.field.clone();
        let said = tokio::spawn(async move {
            let out = async {
                if let Some(out) = out { read_lines(BufReader::new(out), &field).await } else { VecDeque::new() }
            };
            let err = async {
                if let Some(err) = err { read_lines(BufReader::new(err), &field).await } else { VecDeque::new() }
            };
            let (mut out, err) = tokio::join!(out, err);
            out.extend(err);
            out
        });
        let stdin = child.stdin.take();
        Ok(Running { child, _stdin: stdin, said })
    }

    /// Restarts the process whenever it ends.
    async fn watch(self, mut running: Running) {
        let mut pause = FIRST_PAUSE;
        loop {
            let began = Instant::now();
            match running.child.wait().await {
                Ok(status) => {
                    let words = running.last_words(status).await;
                    tracing::warn!(again_in = %human(pause), "{}: {words}; it is started again", self.field);
                }
                Err(error) => tracing::warn!(%error, "{} cannot be watched", self.field),
            }
            sleep(pause).await;
            pause = if began.elapsed() > LONGEST_PAUSE { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
            running = loop {
                match self.start().await {
                    Ok(running) => break running,
                    Err(error) => {
                        tracing::warn!("{error:#}");
                        sleep(pause).await;
                        pause = (pause * 2).min(LONGEST_PAUSE);
                    }
                }
            };
        }
    }
}

impl Running {
    /// How it ended, with what it said last.
    async fn last_words(&mut self, status: ExitStatus) -> String {
        let lines = timeout(Duration::from_secs(1), &mut self.said).await;
        let lines = lines.ok().and_then(Result::ok).unwrap_or_default();
        let skipped = lines.len().saturating_sub(LAST_LINES);
        let text: Vec<String> = lines.into_iter().skip(skipped).collect();
        match text.is_empty() {
            true => format!("ended with {status}"),
            false => format!("ended with {status}: {}", text.join(" | ")),
        }
    }
}

/// Reads lines to the end, passes them on to the log and keeps the last ones.
async fn read_lines(mut reader: impl AsyncBufRead + Unpin, field: &str) -> VecDeque<String> {
    let mut last = VecDeque::new();
    while let Ok(Some(line)) = next_line(&mut reader).await {
        let line = printable(line.trim_end());
        tracing::info!("{field}: {line}");
        if last.len() == LAST_LINES {
            last.pop_front();
        }
        last.push_back(line);
    }
    last
}

/// The next line, of which a long one is cut; `None` at the end.
async fn next_line(reader: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<Option<String>> {
    let mut line = Vec::new();
    loop {
        let bytes = reader.fill_buf().await?;
        if bytes.is_empty() {
            return Ok((!line.is_empty()).then(|| String::from_utf8_lossy(&line).into_owned()));
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(bytes.len(), |end| end + 1);
        let room = MAX_LINE.saturating_sub(line.len());
        line.extend_from_slice(&bytes[..used.min(room)]);
        reader.consume(used);
        if end.is_some() {
            return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_without_end_is_cut_and_the_next_one_is_read() {
        let text = "x".repeat(3 * MAX_LINE) + "\nnext\nlast";
        let mut reader = BufReader::new(text.as_bytes());
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut reader).await.unwrap() {
            lines.push(line);
        }
        assert_eq!((lines[0].len(), lines[1].as_str(), lines[2].as_str()), (MAX_LINE, "next\n", "last"));
    }
}
