//! A program with all that it starts: they are a group of processes, which ends together, whatever ends this process.
//!
//! A group is killed before its first process is collected: until then the system gives its number to nobody else. A
//! small shell beside each program waits for its standard input to close, which the death of this process does as well,
//! and then ends what is left: a group that was not killed, and processes that have left it, such as daemons, which are
//! found by a variable in their environment where the system has `/proc`.

use std::fs::File;
use std::io::{self, Write};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use crate::last_lines::LastLines;
use crate::limits::ChildLimits;
use crate::uncollected;

/// The variable by which processes of a group are found that have left it.
const MARK: &str = "EVENKEEL_PROCESS_GROUP";

/// Once its standard input is closed, ends the group `$0`, unless it has read a line, and what has the mark `$1`. The
/// number is another's where it is that of a process that did not begin at `$2`. A process that is just being started
/// shows no environment yet: where nothing has the mark, there is a second look.
const END: &str = r#"read -r killed
if [ -z "$killed" ]; then
  began=$(sed 's/.*) //' "/proc/$0/stat" 2>/dev/null | cut -d ' ' -f 20)
  [ -n "$began" ] && [ -n "$2" ] && [ "$began" != "$2" ] || kill -s KILL -- "-$0"
fi
for _ in 1 2 3 4 5; do
  left=$(grep -lszxF "$1" /proc/[0-9]*/environ)
  [ -n "$left$looked" ] || { looked=once; sleep 0.1; continue; }
  [ -n "$left" ] || break
  for file in $left; do
    pid=${file#/proc/}
    kill -s KILL "${pid%/environ}"
  done
done"#;

/// A process and those that it has started. Dropping it has them ended, without a wait.
#[derive(Debug)]
pub struct ProcessGroup {
    child: Child,
    /// The shell that ends the group; `None` once it is over.
    ends: Option<Child>,
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
    /// Starts a command with pipes and within limits. Error output of the process is logged under `name`, and goes to
    /// `last_lines`.
    ///
    /// # Errors
    /// A program that the system cannot start.
    pub fn start(
        mut command: Command,
        limits: &ChildLimits,
        name: &str,
        last_lines: LastLines,
    ) -> io::Result<StartedProcess> {
        let mark = mark();
        limits.clear(&mut command);
        let mut child = command
            .env(MARK, &mark)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C ends a run after its step, whose work goes on.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        child.id().into_iter().for_each(|id| limits.limit(id, name));
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
        uncollected::ended(&self.child).await;
        let ends = self.end_before_its_number_is_free();
        let status = self.child.wait().await;
        if let Some(mut ends) = ends.or_else(|| self.end()) {
            // None of it may be left.
            let _ = ends.wait().await;
        }
        status
    }

    /// Waits until the program has ended; what it has left is being ended.
    ///
    /// # Errors
    /// A process that cannot be watched.
    pub async fn exited(&mut self) -> io::Result<ExitStatus> {
        uncollected::ended(&self.child).await;
        drop(self.end_before_its_number_is_free());
        let status = self.child.wait().await;
        drop(self.end());
        status
    }

    /// The status of a program that has ended; what it has left is being ended.
    ///
    /// # Errors
    /// A process that cannot be watched.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        drop(self.end_before_its_number_is_free());
        let status = self.child.try_wait()?;
        if status.is_some() {
            drop(self.end());
        }
        Ok(status)
    }

    /// As [`end`](Self::end), if the program has ended. Whoever collects it afterwards frees a number that nothing is
    /// sent to any more.
    fn end_before_its_number_is_free(&mut self) -> Option<Child> {
        uncollected::has_ended(&self.child).then(|| self.end()).flatten()
    }

    /// Kills the group, and has the rest ended by its shell, which is over when nothing is left.
    fn end(&mut self) -> Option<Child> {
        let mut ends = self.ends.take()?;
        let input = ends.stdin.take().and_then(|input| input.into_owned_fd().ok());
        // Without the number of a process that is not collected the shell does it.
        if uncollected::kill_group(&self.child)
            && let Some(input) = input
        {
            let _ = File::from(input).write_all(b"killed\n");
        }
        Some(ends)
    }
}

/// A text that no other group has in its environment.
fn mark() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    format!("{}-{}-{now}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Starts the shell that ends a group: it has what ends one, without unsafe code here.
fn ending(id: u32, mark: &str) -> Option<Child> {
    let mut shell = Command::new("sh");
    let began = began(id).unwrap_or_default();
    shell.args(["-c", END, &id.to_string(), &format!("{MARK}={mark}"), &began]);
    // Neither Ctrl-C nor the end of the group ends it.
    let started = shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn();
    started
        .inspect_err(
            |error| tracing::warn!(%error, "processes that a program has started may outlive it: there is no sh"),
        )
        .ok()
}

/// When a process began, in the system's own ticks; `None` where it has no `/proc`.
fn began(id: u32) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    status.rsplit(") ").next()?.split(' ').nth(19).map(str::to_owned)
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // Without waiting for the shell: the thread may be one of the runtime, which collects it later.
        drop(self.end());
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
    use std::os::unix::fs::PermissionsExt;
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
        ProcessGroup::start(command, &ChildLimits::default(), "test", LastLines::default()).unwrap()
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

    /// Says that `sh` is one that takes its time.
    const SLOW_SHELL: &str = "EVENKEEL_TEST_SLOW_SHELL";

    #[tokio::test]
    async fn a_thread_of_the_runtime_does_not_wait_for_the_shell_that_ends_a_group() {
        if std::env::var_os(SLOW_SHELL).is_none() {
            let folder = tempfile::tempdir().unwrap();
            let shell = folder.path().join("sh");
            std::fs::write(&shell, "#!/bin/sh\nread -r _\nexec sleep 5\n").unwrap();
            std::fs::set_permissions(&shell, std::fs::Permissions::from_mode(0o755)).unwrap();
            let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
            let test = "group::tests::a_thread_of_the_runtime_does_not_wait_for_the_shell_that_ends_a_group";
            let mut own = Command::new(std::env::current_exe().unwrap());
            own.args(["--exact", test]).env("PATH", path).env(SLOW_SHELL, "1");
            assert!(own.status().await.unwrap().success());
            return;
        }
        let start = || {
            let program = Command::new("true");
            ProcessGroup::start(program, &ChildLimits::default(), "test", LastLines::default()).unwrap().group
        };
        let mut group = start();
        let id = group.child.id().unwrap().to_string();
        until(|| !is_running(&id)).await;
        tokio::select! {
            biased;
            _ = group.wait() => panic!("nothing else could run until the shell was over"),
            () = tokio::time::sleep(Duration::from_millis(10)) => {}
        }
        let dropped = start();
        let began = std::time::Instant::now();
        drop(dropped);
        assert!(began.elapsed() < Duration::from_secs(2));
    }

    /// A process in a group of its own, and the shell that ends the group, with that time of its beginning.
    fn sleeping_with_shell(began: &str) -> (std::process::Child, std::process::Child) {
        use std::os::unix::process::CommandExt;
        use std::process::Command;

        let sleeps = Command::new("sleep").arg("1004").process_group(0).spawn().unwrap();
        let began = if began == "own" { super::began(sleeps.id()).unwrap() } else { began.to_owned() };
        let mut shell = Command::new("sh");
        shell.args(["-c", END, &sleeps.id().to_string(), "no such mark", &began]).stdin(Stdio::piped());
        (sleeps, shell.spawn().unwrap())
    }

    #[test]
    fn a_shell_kills_its_group_and_none_that_has_its_number_now() {
        for (began, said, is_killed) in
            [("own", "", true), ("", "", true), ("12", "", false), ("own", "killed\n", false)]
        {
            let (mut sleeps, mut shell) = sleeping_with_shell(began);
            shell.stdin.take().unwrap().write_all(said.as_bytes()).unwrap();
            shell.wait().unwrap();
            // A signal takes a moment.
            std::thread::sleep(Duration::from_millis(200));
            let killed = sleeps.try_wait().unwrap().is_some();
            sleeps.kill().unwrap();
            sleeps.wait().unwrap();
            assert_eq!(killed, is_killed, "{began:?} {said:?}");
        }
    }
}
