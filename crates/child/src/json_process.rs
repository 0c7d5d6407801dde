//! A process that takes requests on its standard input and answers on its standard output, a line of JSON each.

use std::io;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::group::{ProcessGroup, StartedProcess, describe_end};
use crate::last_lines::LastLines;
use crate::{EXIT, START};

/// Longest answer, in bytes: as many observations as a turn may have calls, each of a mebibyte, escaped.
const MAX_ANSWER: usize = 128 << 20;

/// A process that has said what it is. Dropping its answers ends it.
#[derive(Debug)]
pub struct JsonProcess {
    pub requests: ChildStdin,
    /// Where answers come from.
    pub answers: Answers,
}

/// The answers of a process, which owns it.
#[derive(Debug)]
pub struct Answers {
    stdout: BufReader<ChildStdout>,
    group: ProcessGroup,
    last_lines: LastLines,
    /// Reads the error output.
    reader: JoinHandle<()>,
}

/// The first line of a process.
#[derive(Deserialize)]
struct Hello<T> {
    #[serde(default)]
    error: String,
    #[serde(flatten)]
    said: T,
}

impl JsonProcess {
    /// Starts a command and reads what it says first, within [`START`]. Its error output is logged under that name.
    ///
    /// # Errors
    /// A process that cannot be started, ends, says nothing in time, or says why it cannot serve, as a message.
    pub async fn start<T: DeserializeOwned>(command: Command, name: &str) -> Result<(Self, T), String> {
        let program = command.as_std().get_program().to_owned();
        let started = ProcessGroup::start(command, name, LastLines::default());
        let StartedProcess { group, stdin, stdout, last_lines, reader } =
            started.map_err(|error| format!("{}: {error}", program.display()))?;
        let mut answers = Answers { stdout: BufReader::new(stdout), group, last_lines, reader };
        let hello = match timeout(START, answers.next()).await {
            Ok(Ok(line)) => serde_json::from_slice::<Hello<T>>(&line).ok(),
            _ => None,
        };
        match hello {
            Some(Hello { error, said }) if error.is_empty() => Ok((Self { requests: stdin, answers }, said)),
            Some(Hello { error, .. }) => Err(error),
            None => Err(format!("the process did not say what it plays; it {}", answers.end().await)),
        }
    }

    /// Sends a request and waits for the answer to it.
    ///
    /// # Errors
    /// A process that has closed a pipe; an answer that is too long.
    pub async fn ask(&mut self, request: &str) -> io::Result<Vec<u8>> {
        self.requests.write_all(request.as_bytes()).await?;
        self.requests.flush().await?;
        self.answers.next().await
    }
}

impl Answers {
    /// The next answer.
    ///
    /// # Errors
    /// The end; an answer that is too long.
    pub async fn next(&mut self) -> io::Result<Vec<u8>> {
        next_line(&mut self.stdout).await
    }

    /// Waits for the end of a process that has closed a pipe. Returns how it ended, with its last words.
    pub async fn end(mut self) -> String {
        let end = match timeout(EXIT, self.group.wait()).await {
            Ok(status) => describe_end(&status),
            Err(_) => "closed its pipe".to_owned(),
        };
        let _ = timeout(EXIT, self.reader).await;
        self.last_lines.behind(&end)
    }
}

async fn next_line(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    loop {
        let bytes = reader.fill_buf().await?;
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(bytes.len(), |end| end + 1);
        line.extend_from_slice(&bytes[..used]);
        reader.consume(used);
        if end.is_some() {
            return Ok(line);
        }
        if line.len() > MAX_ANSWER {
            let message = format!("an answer of more than {MAX_ANSWER} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    async fn start(script: &str) -> Result<(JsonProcess, BTreeMap<String, String>), String> {
        JsonProcess::start(shell(script), "test").await
    }

    #[tokio::test]
    async fn answers_are_lines_and_an_end_is_no_answer() {
        let mut reader = BufReader::with_capacity(3, &b"{\"a\": 1}\n{}\nhalf"[..]);
        assert_eq!(next_line(&mut reader).await.unwrap(), b"{\"a\": 1}\n");
        assert_eq!(next_line(&mut reader).await.unwrap(), b"{}\n");
        assert_eq!(next_line(&mut reader).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn a_process_says_what_it_is_answers_and_ends_with_its_last_words() {
        let script = r#"echo '{"name": "echo"}'; read line; echo "$line"; echo "out of shelves" >&2; exit 3"#;
        let (mut process, hello) = start(script).await.unwrap();
        assert_eq!(hello["name"], "echo");
        assert_eq!(process.ask("{\"a\": 1}\n").await.unwrap(), b"{\"a\": 1}\n");
        assert_eq!(process.answers.next().await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(process.answers.end().await, "ended with exit status: 3: out of shelves");
    }

    #[tokio::test]
    async fn a_process_that_cannot_serve_says_why() {
        assert_eq!(start(r#"echo '{"error": "no shelf"}'"#).await.err().unwrap(), "no shelf");
        let silent = start("echo broken >&2; exit 4").await.err().unwrap();
        assert_eq!(silent, "the process did not say what it plays; it ended with exit status: 4: broken");
        let missing = JsonProcess::start::<()>(Command::new("/no/such/program"), "test").await.err().unwrap();
        assert!(missing.starts_with("/no/such/program: "), "{missing}");
    }
}
