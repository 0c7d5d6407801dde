//! Custom verifiers that a run starts itself: Python files with reward functions, which the reward service calls, and
//! programs of the user's own, which are watched, restarted and end with the run.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use evenkeel_child::{ChildLimits, EXIT, LastLines, ProcessGroup, START, StartedProcess, describe_end};
use evenkeel_config::human;
use evenkeel_orchestrator::VerifierSettings;
use evenkeel_reward::{RewardError, RewardSettings, bind_with_worker_processes};
use evenkeel_rpc::client::SOCKET;
use evenkeel_rpc::server::{RunningServer, ServerSettings};
use tempfile::TempDir;
use tokio::net::UnixStream;
use tokio::process::{ChildStdin, Command};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// The variable that says where a verifier is to listen.
const LISTEN: &str = "EVENKEEL_VERIFIER_LISTEN";
/// How often it is tried whether it listens.
const POLL: Duration = Duration::from_millis(50);
/// Pauses before a restart: each is twice the one before, and the first again once it has run for longer than the
/// longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Lines of what it said last, for the error of one that does not start.
const LAST_LINES: usize = 12;
/// Longest path of a socket, in bytes, on any system.
const MAX_SOCKET_PATH: usize = 103;
/// Name of the socket in its folder.
const SOCKET_NAME: &str = "verifier";

/// Starts a reward service for this process alone, with the reward functions of a run.
///
/// # Errors
/// Settings that the service refuses; a file that cannot be loaded, by the setting that names it.
pub(crate) async fn start_reward(settings: RewardSettings) -> Result<RunningServer> {
    let settings = RewardSettings { server: ServerSettings::private(), ..settings };
    match bind_with_worker_processes(settings, crate::guest::worker_process).await {
        Ok(server) => Ok(server.spawn()),
        Err(error @ RewardError::Functions { .. }) => Err(error.into()),
        Err(RewardError::FunctionSetting(error)) => Err(error.into()),
        Err(error) => Err(error).context("the reward service"),
    }
}

/// The programs of one run that verify. Dropping it ends them.
pub(crate) struct VerifierProcesses {
    endpoints: BTreeMap<String, Vec<String>>,
    watched: Vec<JoinHandle<()>>,
}

impl VerifierProcesses {
    /// Starts the programs of settings, and waits until they listen.
    ///
    /// # Errors
    /// One that ends or does not listen in time, with what it said last.
    pub(crate) async fn start(settings: &BTreeMap<String, VerifierSettings>) -> Result<Self> {
        let mut all = Self { endpoints: BTreeMap::new(), watched: Vec::new() };
        for (name, verifier) in settings.iter().filter(|(_, verifier)| !verifier.command.is_empty()) {
            let program = Program::of(name, verifier)?;
            let running = program.start().await?;
            all.endpoints.insert(name.clone(), vec![program.address()]);
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

/// How a verifier is started, and where it listens: at a socket in a folder that only this user may enter. Nobody else
/// can listen in its place, neither before it does nor while it is started again.
struct Program {
    /// The setting that names it.
    field: String,
    words: Vec<String>,
    limits: ChildLimits,
    folder: TempDir,
}

/// A process, and the tasks that read what it says.
struct Running {
    group: ProcessGroup,
    /// Open as long as the process is wanted: it ends when this process is gone, however that ended.
    _stdin: ChildStdin,
    last_lines: LastLines,
    readers: [JoinHandle<()>; 2],
}

impl Program {
    fn of(name: &str, verifier: &VerifierSettings) -> Result<Self> {
        let mut private = tempfile::Builder::new();
        private.prefix("evenkeel-").permissions(Permissions::from_mode(0o700));
        let folder = private.tempdir()?;
        // A long TMPDIR leaves no room for the name of a socket.
        let is_short = |folder: &TempDir| folder.path().join(SOCKET_NAME).as_os_str().len() <= MAX_SOCKET_PATH;
        let folder = if is_short(&folder) { folder } else { private.tempdir_in("/tmp")? };
        let field = format!("data.verifiers.{name}.command");
        // Its memory has no limit: a judge may hold a model.
        let limits = ChildLimits { keep_variables: verifier.keep_variables.clone(), max_memory: 0 };
        Ok(Self { field, words: verifier.command.clone(), limits, folder })
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join(SOCKET_NAME)
    }

    /// The address of the socket, as gRPC writes it.
    fn address(&self) -> String {
        format!("{SOCKET}{}", self.socket().display())
    }

    /// Starts the process and waits until it listens.
    async fn start(&self) -> Result<Running> {
        let mut running = self.spawn()?;
        let until = Instant::now() + START;
        loop {
            if let Some(status) = running.group.try_wait()? {
                bail!("{}: {}", self.field, running.last_words(&Ok(status)).await);
            }
            if UnixStream::connect(self.socket()).await.is_ok() {
                return Ok(running);
            }
            if Instant::now() > until {
                let address = self.address();
                let limit = human(START);
                bail!("{}: does not listen at {address} ({LISTEN}) within {limit}", self.field);
            }
            sleep(POLL).await;
        }
    }

    fn spawn(&self) -> Result<Running> {
        let (program, arguments) = self.words.split_first().context("a program without a name")?;
        let mut command = Command::new(program);
        command.args(arguments).env(LISTEN, self.address());
        // What a process before has left: most servers do not replace it.
        let _ = std::fs::remove_file(self.socket());
        let started = ProcessGroup::start(command, &self.limits, &self.field, LastLines::up_to(LAST_LINES));
        let started = started.with_context(|| format!("{}: {program}", self.field))?;
        let StartedProcess { group, stdin, stdout, last_lines, reader } = started;
        let output = tokio::spawn(last_lines.clone().follow(stdout, self.field.clone()));
        Ok(Running { group, _stdin: stdin, last_lines, readers: [output, reader] })
    }

    /// Restarts the process whenever it ends.
    async fn watch(self, mut running: Running) {
        let mut pause = FIRST_PAUSE;
        loop {
            let began = Instant::now();
            let status = running.group.wait().await;
            let words = running.last_words(&status).await;
            tracing::warn!(again_in = %human(pause), "{}: {words}; restarting it", self.field);
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
    async fn last_words(self, status: &io::Result<ExitStatus>) -> String {
        let [output, errors] = self.readers;
        let _ = timeout(EXIT, async { tokio::join!(output, errors) }).await;
        self.last_lines.behind(&describe_end(status))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    async fn start(command: &[&str]) -> Result<VerifierProcesses> {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        let settings = VerifierSettings { command, ..VerifierSettings::default() };
        VerifierProcesses::start(&[("words".to_owned(), settings)].into()).await
    }

    #[tokio::test]
    async fn a_verifier_that_ends_before_it_listens_is_refused_with_its_last_words() {
        let error = start(&["sh", "-c", "echo Traceback; echo out of shelves >&2; exit 3"]).await.err().unwrap();
        let text = error.to_string();
        assert!(text.starts_with("data.verifiers.words.command: ended with exit status: 3: "), "{text}");
        assert!(text.contains("Traceback") && text.contains("out of shelves"), "{text}");
        let error = start(&["/no/such/verifier"]).await.err().unwrap();
        assert_eq!(error.to_string(), "data.verifiers.words.command: /no/such/verifier");
    }

    #[tokio::test]
    async fn a_verifier_gets_no_secret_of_the_environment_that_no_setting_names() {
        const TEST: &str = "verifiers::tests::a_verifier_gets_no_secret_of_the_environment_that_no_setting_names";
        if std::env::var_os("EVENKEEL_TEST_PLANTED").is_none() {
            // Variables are planted in a process of its own.
            let mut own = Command::new(std::env::current_exe().unwrap());
            let secrets = [("HF_TOKEN", "planted"), ("JUDGE_API_KEY", "kept")];
            own.args(["--exact", TEST]).env("EVENKEEL_TEST_PLANTED", "1").envs(secrets);
            assert!(own.status().await.unwrap().success());
            return;
        }
        let says = r#"echo "[$HF_TOKEN][$JUDGE_API_KEY]"; exit 3"#;
        let settings = VerifierSettings {
            command: ["sh", "-c", says].map(str::to_owned).to_vec(),
            keep_variables: vec!["JUDGE_API_KEY".to_owned()],
            ..VerifierSettings::default()
        };
        let error = VerifierProcesses::start(&[("words".to_owned(), settings)].into()).await.err().unwrap();
        assert!(error.to_string().contains("[][kept]"), "{error}");
    }

    /// Notes the process that it starts, listens, and ends with the first connection.
    const SHORT: &str = r#"
import os, socket, subprocess, sys
started = subprocess.Popen(["sleep", "1000"])
print(started.pid, file=open(sys.argv[1], "a"))
server = socket.socket(socket.AF_UNIX)
server.bind(os.environ["EVENKEEL_VERIFIER_LISTEN"].split(":", 1)[1])
server.listen()
server.accept()
"#;

    #[tokio::test]
    async fn a_verifier_that_ends_is_started_again_without_what_it_has_left() {
        let folder = tempfile::tempdir().unwrap();
        let notes = folder.path().join("notes");
        let started = || -> Vec<String> {
            std::fs::read_to_string(&notes).unwrap_or_default().lines().map(str::to_owned).collect()
        };
        let lives = |id: &String| std::fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|words| !words.is_empty());
        let running = start(&["python3", "-c", SHORT, notes.to_str().unwrap()]).await.unwrap();
        let address = running.endpoints()["words"].concat();
        let socket = Path::new(address.strip_prefix("unix:").unwrap());
        let folder_mode = std::fs::metadata(socket.parent().unwrap()).unwrap().permissions().mode();
        assert_eq!(folder_mode & 0o777, 0o700, "nobody else can listen there");
        let until = Instant::now() + Duration::from_secs(30);
        while started().len() < 2 && Instant::now() < until {
            sleep(POLL).await;
        }
        assert!(started().len() >= 2 && !lives(&started()[0]), "{:?}", started());
        drop(running);
        while started().iter().any(lives) && Instant::now() < until {
            sleep(POLL).await;
        }
        assert!(!started().iter().any(lives), "{:?}", started());
    }
}
