//! A process that takes requests on its standard input and answers on its standard output, in frames.

use std::io;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::BufReader;
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::frame::{Frame, FrameId, read_frame, write_frame};
use crate::group::{ProcessGroup, StartedProcess, describe_end};
use crate::last_lines::LastLines;
use crate::limits::ChildLimits;
use crate::{EXIT, START};

/// The Python half: the class `Pipe`, whose `settings` are those that it is started with and whose `serve` answers
/// requests, and `traceback_of` for exceptions of a user's file. A program begins with this text.
pub const PIPE: &str = concat!(include_str!("../python/pipe.py"), "\n\n", include_str!("../python/failure.py"));

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
    /// Starts a command within limits, sends it its settings and reads what it says first, within [`START`]. Settings go
    /// through the pipe: everybody on the machine sees arguments. Error output of the process is logged under `name`.
    ///
    /// # Errors
    /// A process that cannot be started, ends, says nothing in time, or says why it cannot serve, as a message.
    pub async fn start<T: DeserializeOwned>(
        command: Command,
        limits: &ChildLimits,
        settings: &impl Serialize,
        name: &str,
    ) -> Result<(Self, T), String> {
        let settings = serde_json::to_vec(settings).map_err(|error| error.to_string())?;
        let program = command.as_std().get_program().to_owned();
        let started = ProcessGroup::start(command, limits, name, LastLines::default());
        let StartedProcess { group, stdin: mut requests, stdout, last_lines, reader } =
            started.map_err(|error| format!("{}: {error}", program.display()))?;
        let mut answers = Answers { stdout: BufReader::new(stdout), group, last_lines, reader };
        let hello = async {
            // One that has ended says so in its last words.
            let _ = write_frame(&mut requests, FrameId::HELLO, &settings).await;
            answers.next().await
        };
        let json = match timeout(START, hello).await {
            Ok(Ok(Frame { id: FrameId::HELLO, json })) => json,
            Err(_) => {
                let late = format!("the process did not say what it is within {START:?}");
                return Err(answers.last_lines.behind(&late));
            }
            _ => return Err(format!("the process did not say what it is; it {}", answers.end().await)),
        };
        match serde_json::from_slice::<Refusal>(&json) {
            Ok(Refusal { error }) => Err(error),
            Err(_) => match serde_json::from_slice(&json) {
                Ok(said) => Ok((Self { requests, answers }, said)),
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
        let end = match timeout(EXIT, self.group.exited()).await {
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
        start_within(program, &ChildLimits::default(), |_| ()).await
    }

    /// Starts one within limits, with a command that was changed.
    async fn start_within(program: &str, limits: &ChildLimits, change: impl FnOnce(&mut Command)) -> Started {
        let mut command = Command::new("python3");
        command.arg("-c").arg(format!("{PIPE}\npipe = Pipe()\nsettings = pipe.settings()\n{program}"));
        change(&mut command);
        FramedProcess::start(command, limits, &serde_json::json!({"key": "planted"}), "test").await
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
    async fn settings_go_through_the_pipe_and_not_where_everybody_sees_them() {
        let program = "pipe.say(HELLO, {'key': settings['key'], 'seen': open('/proc/self/cmdline').read()})";
        let hello = start(program).await.unwrap().1;
        assert_eq!(hello["key"], "planted");
        assert!(!hello["seen"].contains("planted"));
    }

    #[tokio::test]
    async fn a_child_gets_no_secret_of_the_environment_that_no_setting_names() {
        const SECRETS: [&str; 7] = [
            "HF_TOKEN",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
            "GIT_ASKPASS",
            "AWS_SECRET_ACCESS_KEY",
            "SSH_AUTH_SOCK",
            "JUDGE_API_KEY",
            "PGPASSWORD",
        ];
        const TEST: &str = "framed_process::tests::a_child_gets_no_secret_of_the_environment_that_no_setting_names";
        if std::env::var_os("EVENKEEL_TEST_PLANTED").is_none() {
            // Variables are planted in a process of its own.
            let mut own = Command::new(std::env::current_exe().unwrap());
            own.args(["--exact", TEST]).env("EVENKEEL_TEST_PLANTED", "1").envs(SECRETS.map(|name| (name, "planted")));
            assert!(own.status().await.unwrap().success());
            return;
        }
        let limits = ChildLimits { keep_variables: vec!["JUDGE_API_KEY".to_owned()], ..ChildLimits::default() };
        let program = "pipe.say(HELLO, dict(os.environ))";
        let own = |command: &mut Command| {
            command.env("PGPASSWORD", "of the command itself");
        };
        let environment = start_within(program, &limits, own).await.unwrap().1;
        let seen = SECRETS.map(|name| environment.get(name).map(String::as_str));
        assert_eq!(seen, [None, None, None, None, None, Some("planted"), Some("of the command itself")]);
        assert!(environment.contains_key("PATH") && environment.contains_key("EVENKEEL_TEST_PLANTED"));
    }

    #[tokio::test]
    async fn a_module_in_the_working_directory_is_not_taken_for_one_of_the_bridge() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["json", "os", "struct", "threading", "zlib", "planted"] {
            std::fs::write(folder.path().join(format!("{name}.py")), "raise SystemExit('planted')").unwrap();
        }
        let program =
            "try:\n    import planted\nexcept ImportError as error:\n    pipe.say(HELLO, {'error': str(error)})";
        let within = |command: &mut Command| {
            command.current_dir(folder.path());
        };
        let said = start_within(program, &ChildLimits::default(), within).await.err().unwrap();
        assert_eq!(said, "No module named 'planted'");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_child_and_what_it_starts_have_no_more_memory_than_the_limit() {
        let limits = ChildLimits { max_memory: 256 << 20, ..ChildLimits::default() };
        let program = "import subprocess\n\
                       more = 'x = bytearray(512 << 20)'\n\
                       try:\n    exec(more)\n\
                       except MemoryError:\n    started = subprocess.run([sys.executable, '-c', more])\n    \
                       pipe.say(HELLO, {'started': str(started.returncode)})";
        let hello = start_within(program, &limits, |_| ()).await.unwrap().1;
        assert_eq!(hello["started"], "1", "it has failed as well");
    }

    #[tokio::test]
    async fn a_process_that_cannot_serve_says_why() {
        let said = start("pipe.say(HELLO, {'error': 'no shelf'})").await.err().unwrap();
        assert_eq!(said, "no shelf");
        let silent = start("print('broken'); os._exit(4)").await.err().unwrap();
        assert_eq!(silent, "the process did not say what it is; it ended with exit status: 4: broken");
        let missing = Command::new("/no/such/program");
        let missing = FramedProcess::start::<()>(missing, &ChildLimits::default(), &(), "test").await.err().unwrap();
        assert!(missing.starts_with("/no/such/program: "), "{missing}");
    }

    // Time passes as soon as nothing else happens.
    #[tokio::test(start_paused = true)]
    async fn a_process_that_is_slow_to_start_is_not_said_to_have_ended() {
        let slow = start("import time; time.sleep(1000)").await.err().unwrap();
        assert!(slow.starts_with("the process did not say what it is within 120s"), "{slow}");
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
