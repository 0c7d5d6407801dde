//! The pool's ends of a worker process's pipes. Nothing here blocks beyond its deadline: a stopped process neither
//! reads nor writes, and must not hang the pool thread that uses it.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// A process stopped for this long is given up: its program starts over in another one, and a client is waiting.
const MAX_STOPPED: Duration = Duration::from_millis(200);

/// An end of a pipe whose reads and writes fail with [`io::ErrorKind::TimedOut`] once its deadline has passed, or if
/// the process at the other end is stopped.
pub(super) struct Pipe<T> {
    end: T,
    process: u32,
    deadline: Instant,
    /// When the state of the process was last checked.
    checked: Instant,
    /// Since when every check found it stopped.
    stopped_since: Option<Instant>,
}

impl<T: AsFd> Pipe<T> {
    /// Makes this end non-blocking; the other one, in the process, is unaffected.
    ///
    /// # Errors
    ///
    /// Those of `fcntl`.
    pub(super) fn new(end: T, process: u32) -> io::Result<Self> {
        let flags = fcntl_getfl(&end)?;
        fcntl_setfl(&end, flags | OFlags::NONBLOCK)?;
        let now = Instant::now();
        Ok(Self { end, process, deadline: now, checked: now, stopped_since: None })
    }

    /// Sets the deadline of all reads and writes from now on.
    pub(super) fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    /// Waits for an event, for at most `timeout` and not beyond the deadline. Returns whether it occurred.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::TimedOut`] after the deadline, and if the process is stopped.
    pub(super) fn wait(&mut self, events: PollFlags, timeout: Duration) -> io::Result<bool> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it neither reads nor responds"));
        }
        if self.is_stopped() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it was stopped"));
        }
        let timeout = left.min(timeout);
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
        match poll(&mut [PollFd::new(&self.end, events)], Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(false),
            Ok(_) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the process has been stopped for [`MAX_STOPPED`].
    fn is_stopped(&mut self) -> bool {
        if self.checked.elapsed() < MAX_STOPPED / 2 {
            return false;
        }
        self.checked = Instant::now();
        if !is_process_stopped(self.process) {
            self.stopped_since = None;
            return false;
        }
        self.stopped_since.get_or_insert(self.checked).elapsed() >= MAX_STOPPED
    }

    /// Performs an operation as soon as it does not block.
    fn when_ready<R>(
        &mut self,
        events: PollFlags,
        mut operation: impl FnMut(&mut T) -> io::Result<R>,
    ) -> io::Result<R> {
        loop {
            match operation(&mut self.end) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(events, Duration::from_secs(1))?;
                }
                done => return done,
            }
        }
    }
}

/// Whether a process is stopped, by a signal or a tracer. On systems without `/proc` only the deadlines apply.
fn is_process_stopped(process: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/stat")) else { return false };
    // The process name before the state is in parentheses and may contain parentheses itself.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
}

impl<T: AsFd + Read> Read for Pipe<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.when_ready(PollFlags::IN, |end| end.read(buffer))
    }
}

impl<T: AsFd + Write> Write for Pipe<T> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.when_ready(PollFlags::OUT, |end| end.write(buffer))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.end.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_to_a_pipe_that_nobody_reads_times_out_once_it_is_full() {
        let (_reader, writer) = io::pipe().unwrap();
        let mut pipe = Pipe::new(writer, std::process::id()).unwrap();
        pipe.set_deadline(Instant::now() + Duration::from_millis(100));
        let error = pipe.write_all(&vec![0; 8 << 20]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_pipe_to_a_stopped_process_fails_before_its_deadline() {
        // `cat` waits for input that never arrives.
        let mut command = std::process::Command::new("cat");
        let mut child =
            command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut pipe = Pipe::new(child.stdout.take().unwrap(), child.id()).unwrap();
        let stop = std::process::Command::new("kill").args(["-STOP", &child.id().to_string()]).status().unwrap();
        assert!(stop.success());
        let deadline = Instant::now() + Duration::from_secs(600);
        pipe.set_deadline(deadline);
        let error = pipe.read(&mut [0; 4]).unwrap_err();
        assert!(Instant::now() < deadline);
        assert_eq!((error.kind(), error.to_string().as_str()), (io::ErrorKind::TimedOut, "it was stopped"));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn reading_times_out_without_input_and_returns_input_that_arrives_in_time() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut pipe = Pipe::new(reader, std::process::id()).unwrap();
        pipe.set_deadline(Instant::now() + Duration::from_millis(50));
        assert_eq!(pipe.read(&mut [0; 4]).unwrap_err().kind(), io::ErrorKind::TimedOut);
        pipe.set_deadline(Instant::now() + Duration::from_secs(60));
        let late = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            writer.write_all(b"late")
        });
        let mut found = [0; 4];
        pipe.read_exact(&mut found).unwrap();
        assert_eq!(&found, b"late");
        late.join().unwrap().unwrap();
    }
}
