//! A program with all that it starts: they are a group of processes, which ends together, whatever ends this process.
//!
//! A small shell beside each program waits for its standard input to close, which the death of this process does as
//! well, and ends the group then. Processes that have left the group, such as daemons, are found by a variable in their
//! environment where the system has `/proc`.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use crate::last_lines::LastLines;

/// The variable by which processes of a group are found that have left it.
const MARK: &str = "EVENKEEL_PROCESS_GROUP";

/// Ends the group `$0`, and what has the mark `$1`, once its standard input is closed.
const END: &str = r#"read -r _
kill -s KILL -- "-$0"
for _ in 1 2 3; do
  left=$(grep -lszxF "$1" /proc/[0-9]*/environ)
  [ -n "$left" ] || break
  for file in $left; do
    pid=${file#/proc/}
    kill -s KILL "${pid%/environ}"
  done
done"#;

/// A process and those that it has started. Dropping it ends them.
#[derive(Debug)]
pub struct ProcessGroup {
    child: Child,
    /// The shell that ends the group; `None` once it is over.
    ends: Option<std::process::Child>,
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
        let mark = mark();
        let mut child = command
            .env(MARK, &mark)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C ends a run after its step, whose work goes on.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let ends = child.id().and_then(|id| ending(id, &mark));
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let group = Self { child, ends };
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
        if let Some(mut ends) = self.ends.take() {
            drop(ends.stdin.take());
            // None of it may be left.
            let _ = ends.wait();
        }
    }
}

/// A text that no other group has in its environment.
fn mark() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    format!("{}-{}-{now}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Starts the shell that ends a group: it has what ends one, without unsafe code here.
fn ending(id: u32, mark: &str) -> Option<std::process::Child> {
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", END, &id.to_string(), &format!("{MARK}={mark}")]);
    // Neither Ctrl-C nor the end of the group ends it.
    let started = shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn();
    started.inspect_err(|error| tracing::warn!(%error, "what a process starts may be left: there is no sh")).ok()
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

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;

    /// Starts a process in the group, one in a session of its own and one that has no parent any more, and writes their
    /// numbers to the file.
    const STARTS: &str = r#"sleep 1000 & echo $! >>"$0"; setsid sleep 1001 & echo $! >>"$0"
(setsid sleep 1002 & echo $! >>"$0"); echo done >>"$0"; exec sleep 1003"#;

    /// Where the process is that a test kills, and the file that it writes.
    const PARENT: &str = "EVENKEEL_TEST_PARENT";

    fn is_running(pid: &str) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        status.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim_start().starts_with('Z'))
    }

    async fn until(holds: impl Fn() -> bool) {
        for _ in 0..6000 {
            if holds() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it never holds");
    }

    async fn pids(file: &Path) -> Vec<String> {
        let read = || std::fs::read_to_string(file).unwrap_or_default();
        until(|| read().ends_with("done\n")).await;
        let pids: Vec<_> = read().lines().take_while(|line| *line != "done").map(str::to_owned).collect();
        assert!(pids.len() == 3 && pids.iter().all(|pid| is_running(pid)), "{pids:?}");
        pids
    }

    fn start(file: &Path) -> StartedProcess {
        let mut command = Command::new("sh");
        command.args(["-c", STARTS]).arg(file);
        ProcessGroup::start(command, "test", LastLines::default()).unwrap()
    }

    #[tokio::test]
    async fn a_group_ends_with_what_has_left_it() {
        let file = std::env::temp_dir().join(mark());
        let started = start(&file);
        let pids = pids(&file).await;
        drop(started);
        until(|| !pids.iter().any(|pid| is_running(pid))).await;
        std::fs::remove_file(file).unwrap();
    }

    #[tokio::test]
    async fn a_group_ends_with_a_process_that_is_killed() {
        if let Some(file) = std::env::var_os(PARENT) {
            let _started = start(Path::new(&file));
            std::future::pending::<()>().await;
        }
        let file = std::env::temp_dir().join(mark());
        let test = "group::tests::a_group_ends_with_a_process_that_is_killed";
        let mut parent = std::process::Command::new(std::env::current_exe().unwrap());
        let mut parent = parent.args(["--exact", test]).env(PARENT, &file).spawn().unwrap();
        let pids = pids(&file).await;
        parent.kill().unwrap();
        parent.wait().unwrap();
        until(|| !pids.iter().any(|pid| is_running(pid))).await;
        std::fs::remove_file(file).unwrap();
    }
}
