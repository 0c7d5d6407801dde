//! A program with all that it starts: they are a group of processes, which ends together.

use std::io;
use std::process::{ExitStatus, Stdio};

use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use crate::last_lines::LastLines;

/// A process and those that it has started. Dropping it ends them.
#[derive(Debug)]
pub struct ProcessGroup {
    child: Child,
    /// The number of the group; `None` once it is over.
    id: Option<u32>,
}

/// A process group with its pipes.
#[derive(Debug)]
pub struct StartedProcess {
    /// The process and those that it starts.
    pub group: ProcessGroup,
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    /// The end of its error output.
    pub last_lines: LastLines,
    /// Reads its error output to the end.
    pub reader: JoinHandle<()>,
}

impl ProcessGroup {
    /// Starts a command with pipes. Its error output is logged under that name, and goes to `last_lines`.
    ///
    /// # Errors
    /// A program that the system cannot start.
    pub fn start(mut command: Command, name: &str, last_lines: LastLines) -> io::Result<StartedProcess> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C ends a run after its step, whose work goes on.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let id = child.id();
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let group = Self { child, id };
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(io::Error::other("a process without pipes"));
        };
        let reader = tokio::spawn(last_lines.clone().follow(stderr, name.to_owned()));
        Ok(StartedProcess { group, stdin, stdout, last_lines, reader })
    }

    /// Waits until the program has ended, and ends what it has left.
    ///
    /// # Errors
    /// A process that cannot be watched.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await;
        self.end();
        status
    }

    /// The status of a program that has ended, and ends what it has left.
    ///
    /// # Errors
    /// A process that cannot be watched.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        if status.is_some() {
            self.end();
        }
        Ok(status)
    }

    fn end(&mut self) {
        if let Some(id) = self.id.take() {
            // A shell has what ends a group, without unsafe code here. None of it may be left.
            let mut kill = std::process::Command::new("sh");
            kill.args(["-c", "kill -s KILL -- \"-$0\"", &id.to_string()]);
            let killed = kill.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
            if let Err(error) = killed {
                tracing::warn!(%error, "what a process has started may be left: there is no sh");
            }
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.end();
    }
}

/// How a process has ended, as the end of a sentence about it.
pub fn describe_end(status: &io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => format!("ended with {status}"),
        Err(error) => format!("cannot be watched: {error}"),
    }
}
