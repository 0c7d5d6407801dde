//! A process that takes requests on its standard input and answers on its standard output, in frames.

use std::io;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::io::BufReader;
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::frame::{Frame, FrameId, read_frame, write_frame};
use crate::group::{ProcessGroup, StartedProcess, describe_end};
use crate::last_lines::LastLines;
use crate::{EXIT, START};

/// The Python half: the class `Pipe`, whose `serve` answers requests. A program begins with this text.
pub const PIPE: &str = include_str!("../python/pipe.py");

/// A process that has said what it is. Dropping its answers ends it.
#[derive(Debug)]
pub struct FramedProcess {
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

/// What a process that cannot serve says first.
#[derive(Deserialize)]
struct Refusal {
    error: String,
}

impl FramedProcess {
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
        let json = match timeout(START, answers.next()).await {
            Ok(Ok(Frame { id: FrameId::HELLO, json })) => json,
            _ => return Err(format!("the process did not say what it is; it {}", answers.end().await)),
        };
        match serde_json::from_slice::<Refusal>(&json) {
            Ok(Refusal { error }) => Err(error),
            Err(_) => match serde_json::from_slice(&json) {
                Ok(said) => Ok((Self { requests: stdin, answers }, said)),
                Err(error) => Err(format!("the process did not say what it is ({error})")),
            },
        }
    }

    /// Sends a request and waits for the answer to it.
    ///
    /// # Errors
    /// A process that has closed a pipe; [`io::ErrorKind::InvalidData`] for what is not the answer to this request.
    pub async fn ask(&mut self, request: &[u8]) -> io::Result<Vec<u8>> {
        let asked = FrameId::random()?;
        write_frame(&mut self.requests, asked, request).await?;
        let Frame { id, json } = self.answers.next().await?;
        if id == asked {
            return Ok(json);
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "an answer to another request, or a second one"))
    }
}

impl Answers {
    /// The next answer.
    ///
    /// # Errors
    /// The end; what is no answer.
    pub async fn next(&mut self) -> io::Result<Frame> {
        read_frame(&mut self.stdout).await
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;

    type Started = Result<(FramedProcess, BTreeMap<String, String>), String>;

    /// Starts a Python program that has the pipe.
    async fn start(program: &str) -> Started {
        let mut command = Command::new("python3");
        command.arg("-c").arg(format!("{PIPE}\npipe = Pipe()\n{program}"));
        FramedProcess::start(command, "test").await
    }

    /// Starts a program that answers `{"echo": N}`, with these lines of Python in the call whose N is 2.
    async fn start_with_fault(fault: &str) -> FramedProcess {
        let lines: String = fault.lines().map(|line| format!("        {line}\n")).collect();
        let program = format!(
            "import ctypes, multiprocessing, os, subprocess, threading, time\n\
             pipe.say(HELLO, {{}})\n\
             asked, next = [], pipe.next\n\
             def noted():\n    got = next()\n    if got: asked.append(got[0])\n    return got\n\
             pipe.next = noted\n\
             def answer(request):\n    if request['n'] == 2:\n{lines}    return {{'echo': request['n']}}\n\
             pipe.serve(answer)\n"
        );
        start(&program).await.unwrap().0
    }

    /// What came back for the requests 1 to 6: what each was answered with, or why it failed. A process that has failed
    /// is not asked again.
    async fn answers(process: &mut FramedProcess) -> Vec<Result<u64, String>> {
        let mut all = Vec::new();
        for n in 1..=6 {
            let request = format!("{{\"n\": {n}}}");
            // A child that reads may have taken the request: nobody answers it then, and every caller has a deadline.
            match timeout(Duration::from_secs(10), process.ask(request.as_bytes())).await {
                Ok(Ok(json)) => {
                    let said: serde_json::Value = serde_json::from_slice(&json).unwrap();
                    all.push(Ok(said["echo"].as_u64().unwrap()));
                }
                Err(elapsed) => {
                    all.push(Err(elapsed.to_string()));
                    break;
                }
                Ok(Err(error)) => {
                    all.push(Err(error.to_string()));
                    break;
                }
            }
        }
        all
    }

    #[tokio::test]
    async fn a_process_says_what_it_is_answers_and_ends_with_its_last_words() {
        let program = r#"
pipe.say(HELLO, {"name": "echo"})
id, request = pipe.next()
pipe.say(id, request)
print("out of shelves")
os._exit(3)"#;
        let (mut process, hello) = start(program).await.unwrap();
        assert_eq!(hello["name"], "echo");
        assert_eq!(process.ask(b"{\"a\": 1}").await.unwrap(), b"{\"a\": 1}");
        assert_eq!(process.answers.next().await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(process.answers.end().await, "ended with exit status: 3: out of shelves");
    }

    #[tokio::test]
    async fn a_process_that_cannot_serve_says_why() {
        let said = start("pipe.say(HELLO, {'error': 'no shelf'})").await.err().unwrap();
        assert_eq!(said, "no shelf");
        let silent = start("print('broken'); os._exit(4)").await.err().unwrap();
        assert_eq!(silent, "the process did not say what it is; it ended with exit status: 4: broken");
        let missing = FramedProcess::start::<()>(Command::new("/no/such/program"), "test").await.err().unwrap();
        assert!(missing.starts_with("/no/such/program: "), "{missing}");
    }

    /// Faults after which every answer is still the one to its request.
    const HARMLESS: [(&str, &str); 8] = [
        ("a fork that returns", "if os.fork() == 0: return {'echo': 99}"),
        ("a fork that raises", "if os.fork() == 0: raise ValueError('child')"),
        ("a fork behind Python's back", "if ctypes.CDLL(None).fork() == 0: return {'echo': 99}"),
        ("a process pool", "with multiprocessing.get_context('fork').Pool(2) as pool: pool.map(abs, [1, 2, 3])"),
        ("a program that is started", "subprocess.run(['sh', '-c', 'echo 1; cat'])"),
        ("a line that is printed", "print('{\"echo\": 99}', flush=True)"),
        ("a line of C's stdout", "ctypes.CDLL(None).puts(b'99'); ctypes.CDLL(None).fflush(None)"),
        ("a late thread", "threading.Thread(target=lambda: (time.sleep(0.01), print('late')), daemon=True).start()"),
    ];

    #[tokio::test]
    async fn no_answer_is_that_to_another_request_whatever_the_file_forks_or_prints() {
        for (name, fault) in HARMLESS {
            let mut process = start_with_fault(fault).await;
            let expected: Vec<Result<u64, String>> = (1..=6).map(Ok).collect();
            assert_eq!(answers(&mut process).await, expected, "{name}");
        }
    }

    #[tokio::test]
    async fn what_writes_to_the_pipe_is_found_and_never_taken_for_an_answer() {
        for (name, fault) in [
            (
                "a write to every descriptor",
                "for fd in range(3, 200):\n    try: os.write(fd, b'99\\n')\n    except OSError: pass",
            ),
            ("an unknown id", "pipe.say(b'0' * 16, {'echo': 99})"),
            ("a second answer", "pipe.say(asked[-2], {'echo': 99})"),
        ] {
            let all = answers(&mut start_with_fault(fault).await).await;
            assert_eq!(all[0], Ok(1), "{name}");
            assert!(all[1..].iter().zip(2..).all(|(answer, own)| answer.as_ref().map_or(true, |echo| *echo == own)));
            assert!(all.last().unwrap().is_err(), "{name}: {all:?}");
        }
    }

    #[tokio::test]
    async fn a_child_that_goes_on_reading_requests_gives_no_answer_to_another_one() {
        let fault = "if ctypes.CDLL(None).fork() == 0:\n    pipe.pid = os.getpid()\n    pipe.serve(answer)";
        let all = answers(&mut start_with_fault(fault).await).await;
        assert!(all.iter().zip(1..).all(|(answer, own)| answer.as_ref().map_or(true, |echo| *echo == own)), "{all:?}");
    }
}
