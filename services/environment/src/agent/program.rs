//! Agents that are programs of the user's own, started for each episode.
//!
//! A program gets the row as a line of JSON on its standard input, `OPENAI_BASE_URL` and `OPENAI_API_KEY`, and the seed
//! in `EVENKEEL_SEED`. Where its last line is a JSON object with `reward`, that is the score; any other leaves it to
//! the verifier of the row.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;

use evenkeel_child::{ChildLimits, EXIT, LastLines, ProcessGroup, StartedProcess, describe_end};
use evenkeel_environment::{AGENT, Description};
use evenkeel_host::FileDigest;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::EpisodeFailure;
use serde_json::{Map, Value};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::Command;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use super::endpoint::Endpoint;
use super::episode::AgentEpisode;
use super::run::{Aborts, Ended, Run};
use crate::error::EnvironmentError;
use crate::failure::Failure;
use crate::score::Score;
use crate::settings::EnvironmentSettings;

/// Longest line of its output that may be a score, in bytes.
const MAX_LINE: usize = 64 << 10;

/// A program, and how many copies of it may run.
pub(crate) struct AgentProgram {
    path: PathBuf,
    /// The interpreter of a Python file.
    python: Option<PathBuf>,
    /// Digest of the file when the worker was started.
    digest: String,
    limits: ChildLimits,
    room: Arc<Semaphore>,
    endpoint: Arc<Endpoint>,
}

impl AgentProgram {
    /// The program at a path. `room` is for all programs of the worker together.
    ///
    /// # Errors
    /// A file that is missing.
    pub(crate) fn find(
        settings: &EnvironmentSettings,
        path: &Path,
        endpoint: &Arc<Endpoint>,
        room: &Arc<Semaphore>,
    ) -> Result<(Self, Description), EnvironmentError> {
        let broken = |message: String| EnvironmentError::Agent { path: path.to_owned(), message };
        if !path.is_file() {
            let allowed = "a program: a Python file, or one that can be executed";
            return Err(EnvironmentError::Setting(FieldError::new("agents", path.display(), allowed)));
        }
        let digest = FileDigest::of(path).map_err(|error| broken(error.to_string()))?.to_string();
        let description = Description {
            name: format!("{AGENT}{}", path.display()),
            system_prompt: String::new(),
            user_speaks: true,
            tools: Vec::new(),
            digest: digest.clone(),
            is_agent: true,
        };
        let python = path.extension().is_some_and(|extension| extension == "py").then(|| settings.python.clone());
        // A name alone would be looked for elsewhere.
        let path = std::path::absolute(path).map_err(|error| broken(error.to_string()))?;
        let room = Arc::clone(room);
        let endpoint = Arc::clone(endpoint);
        let limits = settings.child_limits(settings.max_agent_memory);
        Ok((Self { path, python, digest, limits, room, endpoint }, description))
    }

    /// Begins an episode: starts the program and waits for its first request.
    ///
    /// # Errors
    /// No room, a program that cannot be started or fails.
    pub(crate) async fn open(&self, task: &[u8], seed: u64) -> Result<AgentEpisode, Failure> {
        Failure::of_changed_file(&self.path, &self.digest)?;
        let place = Arc::clone(&self.room).try_acquire_owned();
        let full =
            || Failure::new(EpisodeFailure::Overloaded, "no more agents may run at once (environment.max_agents)");
        let place = place.map_err(|_| full())?;
        let desk = self.endpoint.open()?;
        let mut command = match &self.python {
            Some(python) => Command::new(python),
            None => Command::new(&self.path),
        };
        if self.python.is_some() {
            command.arg("-u").arg(&self.path);
        }
        // The key is for clients that want one: the URL is what nobody else knows.
        command.env("OPENAI_BASE_URL", desk.base_url()).env("OPENAI_API_KEY", "evenkeel");
        command.env("EVENKEEL_SEED", seed.to_string()).env("PYTHONHASHSEED", "0");
        let name = self.path.display().to_string();
        let started = ProcessGroup::start(command, &self.limits, &name, LastLines::default());
        let started = started.map_err(|error| Failure::crashed(format!("{name}: {error}")))?;
        let mut line = if task.is_empty() { b"{}".to_vec() } else { task.to_vec() };
        line.push(b'\n');
        let (sender, ended) = oneshot::channel();
        let task = tokio::spawn(async move {
            let outcome = play(started, line).await;
            drop(place);
            let _ = sender.send(outcome);
        });
        AgentEpisode::begin(desk, Run { ended, _guard: Box::new(Aborts(task.abort_handle())) }).await
    }
}

/// Gives a program its task and waits for its end.
async fn play(started: StartedProcess, line: Vec<u8>) -> Ended {
    let StartedProcess { mut group, mut stdin, stdout, last_lines, reader } = started;
    // It need not read it.
    let writing = tokio::spawn(async move {
        let _ = stdin.write_all(&line).await;
    });
    let _stops_writing = Aborts(writing.abort_handle());
    let reading = tokio::spawn(last_line(stdout));
    let _stops_reading = Aborts(reading.abort_handle());
    let status = group.wait().await;
    let said = timeout(EXIT, reading).await;
    if !status.as_ref().is_ok_and(ExitStatus::success) {
        let _ = timeout(EXIT, reader).await;
        return Err(Failure::crashed(last_lines.behind(&format!("the agent {}", describe_end(&status)))));
    }
    match said {
        Ok(Ok(line)) => score_of(&line),
        _ => Ok(None),
    }
}

/// The last line that is not blank; empty where it is too long.
async fn last_line(output: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut reader = BufReader::new(output);
    let mut last = Vec::new();
    let mut line = Vec::new();
    let mut too_long = false;
    loop {
        let bytes = match reader.fill_buf().await {
            Ok(bytes) => bytes,
            Err(_) => &[],
        };
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let is_over = bytes.is_empty();
        let used = end.map_or(bytes.len(), |end| end + 1);
        let part = &bytes[..end.unwrap_or(used)];
        too_long |= line.len() + part.len() > MAX_LINE;
        if !too_long {
            line.extend_from_slice(part);
        }
        reader.consume(used);
        if end.is_some() || is_over {
            if too_long {
                last.clear();
            } else if !line.trim_ascii().is_empty() {
                last.clone_from(&line);
            }
            line.clear();
            too_long = false;
        }
        if is_over {
            return last;
        }
    }
}

/// The score in a line: `{"reward": 0.5}`, and components by their names.
fn score_of(line: &[u8]) -> Ended {
    let fields: Map<String, Value> = match serde_json::from_slice(line) {
        Ok(Value::Object(fields)) if fields.contains_key("reward") => fields,
        _ => return Ok(None),
    };
    let mut numbers = BTreeMap::new();
    for (name, value) in fields {
        match value.as_f64() {
            Some(number) => numbers.insert(name, number),
            None => {
                return Err(Failure::crashed(format!("the agent's last line has {name} {value}, allowed: a number")));
            }
        };
    }
    let reward = numbers.remove("reward").unwrap_or_default();
    Ok(Some(Score { reward, components: numbers }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_line_that_is_not_blank_counts_and_one_that_is_too_long_is_none() {
        for (output, wanted) in [
            ("a\n{\"reward\": 1}\n\n", "{\"reward\": 1}"),
            ("a\nb", "b"),
            ("", ""),
            (format!("a\n{}\n", "x".repeat(MAX_LINE + 1)).as_str(), ""),
        ] {
            assert_eq!(last_line(output.as_bytes()).await, wanted.as_bytes());
        }
    }

    #[test]
    fn a_line_is_a_score_only_where_it_says_so() {
        assert_eq!(score_of(b"42").unwrap(), None);
        assert_eq!(score_of(b"{\"answer\": 1}").unwrap(), None);
        let score = score_of(br#"{"reward": 0.5, "short": 1}"#).unwrap().unwrap();
        assert_eq!((score.reward, score.components["short"]), (0.5, 1.0));
        let error = score_of(br#"{"reward": "high"}"#).unwrap_err();
        assert_eq!(error.message, "the agent's last line has reward \"high\", allowed: a number");
        let error = score_of(br#"{"reward": 7}"#).unwrap().unwrap().verdict("a").unwrap_err();
        assert!(error.message.contains("reward is 7"), "{}", error.message);
    }
}
