//! A program with all that it starts: they are a group of processes, which ends together.

use std::process::Stdio;

use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use crate::lines::LastLines;

/// A process and those that it has started. Dropping it ends them.
pub(super) struct Group {
    child: Child,
    /// Its number; `None` once it is over.
    id: Option<u32>,
}

/// A group with its pipes.
pub(super) struct Started {
    pub(super) group: Group,
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    /// Of its error output.
    pub(super) last_lines: LastLines,
    /// Reads them.
    pub(super) reader: JoinHandle<()>,
}

impl Group {
    /// Starts a command with pipes; its error output is logged under that name.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn start(mut command: Command, name: String) -> Result<Started, String> {
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C ends a run after its step, whose episodes go on.
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        let mut child = child.map_err(|error| format!("{name}: {error}"))?;
        let id = child.id();
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let group = Self { child, id };
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(format!("{name}: a process without pipes"));
        };
        let last_lines = LastLines::default();
        let reader = tokio::spawn(last_lines.clone().follow(stderr, name));
        Ok(Started { group, stdin, stdout, last_lines, reader })
    }

    /// Waits until the program has ended, and ends what it has left. Returns why it counts as failed, if it does.
    pub(super) async fn wait(&mut self) -> Result<(), String> {
        let status = self.child.wait().await;
        self.end();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("ended with {status}")),
            Err(error) => Err(format!("cannot be watched: {error}")),
        }
    }

    fn end(&mut self) {
        if let Some(id) = self.id.take() {
            // A shell has what ends a group, without unsafe code here. None of it may be left.
            let mut kill = std::process::Command::new("sh");
            kill.args(["-c", "kill -s KILL -- \"-$0\"", &id.to_string()]);
            let killed = kill.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
            if let Err(error) = killed {
                tracing::warn!(%error, "what an agent has started may be left: there is no sh");
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}
