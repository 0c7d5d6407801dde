//! The worker's ends of a cell's pipes. Nothing here waits longer than it was told to: a process that was stopped neither reads nor
//! writes, and must not hold up the worker that asks it.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// How long a process may be stopped. Its program begins again elsewhere then, and somebody waits for it.
const STOPPED: Duration = Duration::from_millis(200);

/// An end of a pipe whose reads and writes fail with [`io::ErrorKind::TimedOut`] once its deadline has passed, or where the process at
/// the other end was stopped.
pub(super) struct Pipe<T> {
    end: T,
    process: u32,
    deadline: Instant,
    /// When the process was last looked at, and since when it was found stopped each time.
    looked: Instant,
    stopped: Option<Instant>,
}

impl<T: AsFd> Pipe<T> {
    /// Takes this end; the other one, in the process, stays as it is.
    ///
    /// # Errors
    ///
    /// What the system says of a descriptor that is none.
    pub(super) fn new(end: T, process: u32) -> io::Result<Self> {
        let flags = fcntl_getfl(&end)?;
        fcntl_setfl(&end, flags | OFlags::NONBLOCK)?;
        let now = Instant::now();
        Ok(Self { end, process, deadline: now, looked: now, stopped: None })
    }

    /// Everything from now on must be done by then.
    pub(super) fn must_end_by(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    /// Waits until there is something to do, at most so long and not beyond the deadline. False where there is nothing yet.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::TimedOut`] behind the deadline, and of a process that was stopped.
    pub(super) fn wait(&mut self, what: PollFlags, at_most: Duration) -> io::Result<bool> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it neither reads nor answers"));
        }
        if self.is_stopped() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it was stopped"));
        }
        let look = left.min(at_most);
        let look = Timespec { tv_sec: look.as_secs() as i64, tv_nsec: i64::from(look.subsec_nanos()) };
        match poll(&mut [PollFd::new(&self.end, what)], Some(&look)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(false),
            Ok(_) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the process has been stopped for as long as it may be.
    fn is_stopped(&mut self) -> bool {
        if self.looked.elapsed() < STOPPED / 2 {
            return false;
        }
        self.looked = Instant::now();
        if !stopped(self.process) {
            self.stopped = None;
            return false;
        }
        self.stopped.get_or_insert(self.looked).elapsed() >= STOPPED
    }

    /// Does something as soon as it can be done.
    fn when_ready<R>(&mut self, what: PollFlags, mut act: impl FnMut(&mut T) -> io::Result<R>) -> io::Result<R> {
        loop {
            match act(&mut self.end) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(what, Duration::from_secs(1))?;
                }
                done => return done,
            }
        }
    }
}

/// Whether a process is stopped, by a signal or by who traces it. Where the system does not say, its deadlines have to do.
fn stopped(process: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/stat")) else { return false };
    // The name before it is in parentheses, and may have some of its own.
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
    fn a_pipe_that_nobody_reads_takes_what_fits_and_then_times_out() {
        let (_reader, writer) = io::pipe().unwrap();
        let mut pipe = Pipe::new(writer, std::process::id()).unwrap();
        pipe.must_end_by(Instant::now() + Duration::from_millis(100));
        let error = pipe.write_all(&vec![0; 8 << 20]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_pipe_to_a_process_that_was_stopped_does_not_wait_for_its_deadline() {
        // It waits for input that does not come.
        let mut command = std::process::Command::new("cat");
        let mut child =
            command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut pipe = Pipe::new(child.stdout.take().unwrap(), child.id()).unwrap();
        let stop = std::process::Command::new("kill").args(["-STOP", &child.id().to_string()]).status().unwrap();
        assert!(stop.success());
        let deadline = Instant::now() + Duration::from_secs(600);
        pipe.must_end_by(deadline);
        let error = pipe.read(&mut [0; 4]).unwrap_err();
        assert!(Instant::now() < deadline);
        assert_eq!((error.kind(), error.to_string().as_str()), (io::ErrorKind::TimedOut, "it was stopped"));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_pipe_that_nobody_writes_times_out_and_what_comes_in_time_is_read() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut pipe = Pipe::new(reader, std::process::id()).unwrap();
        pipe.must_end_by(Instant::now() + Duration::from_millis(50));
        assert_eq!(pipe.read(&mut [0; 4]).unwrap_err().kind(), io::ErrorKind::TimedOut);
        pipe.must_end_by(Instant::now() + Duration::from_secs(60));
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
