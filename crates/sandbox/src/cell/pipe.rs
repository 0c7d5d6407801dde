//! The worker's ends of a cell's pipes. Nothing here waits longer than it was told to: a process that was stopped neither reads nor
//! writes, and must not hold up the worker that asks it.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// An end of a pipe whose reads and writes fail with [`io::ErrorKind::TimedOut`] once its deadline has passed.
pub(super) struct Pipe<T> {
    end: T,
    deadline: Instant,
}

impl<T: AsFd> Pipe<T> {
    /// Takes this end; the other one, in the cell, stays as it is.
    ///
    /// # Errors
    ///
    /// What the system says of a descriptor that is none.
    pub(super) fn new(end: T) -> io::Result<Self> {
        let flags = fcntl_getfl(&end)?;
        fcntl_setfl(&end, flags | OFlags::NONBLOCK)?;
        Ok(Self { end, deadline: Instant::now() })
    }

    /// Everything from now on must be done by then.
    pub(super) fn must_end_by(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    /// Waits until there is something to do, at most so long and not beyond the deadline. False where there is nothing yet.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::TimedOut`] behind the deadline.
    pub(super) fn wait(&self, what: PollFlags, at_most: Duration) -> io::Result<bool> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it neither reads nor answers"));
        }
        let look = left.min(at_most);
        let look = Timespec { tv_sec: look.as_secs() as i64, tv_nsec: i64::from(look.subsec_nanos()) };
        match poll(&mut [PollFd::new(&self.end, what)], Some(&look)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(false),
            Ok(_) => Ok(true),
            Err(error) => Err(error.into()),
        }
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
        let mut pipe = Pipe::new(writer).unwrap();
        pipe.must_end_by(Instant::now() + Duration::from_millis(100));
        let error = pipe.write_all(&vec![0; 8 << 20]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_pipe_that_nobody_writes_times_out_and_what_comes_in_time_is_read() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut pipe = Pipe::new(reader).unwrap();
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
