//! The record of verdicts: a file of JSON lines, one for each call that was answered, took too long or broke off.
//!
//! A line is on the disk before its verdict counts. A question with a line is not asked again: the line has the judge's own
//! words, which are read again as they were the first time. Processes may share the file; each appends whole lines
//! under a lock.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use evenkeel_proto::FieldError;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::settings::BudgetSettings;

/// Name of the record in a run directory and in a shared folder.
pub const RECORD_FILE: &str = "judge.jsonl";
/// Number of the format of lines.
const FORMAT: u32 = 1;
/// Longest line, in bytes.
const MAX_LINE: usize = 4 << 20;

/// One call of the judge, as a line of the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line {
    format: u32,
    /// The digest of the question and of all that decides its verdict.
    pub(crate) digest: String,
    /// Name of the model, for readers.
    pub(crate) model: String,
    /// The judge's words. `None` where the call took too long, broke off or gave no completion: such a question is asked
    /// again.
    pub(crate) reply: Option<String>,
    /// Why the endpoint says that the reply ended.
    pub(crate) finish_reason: String,
    pub(crate) prompt_tokens: u64,
    pub(crate) reply_tokens: u64,
}

impl Line {
    pub(crate) fn new(digest: &str, model: &str, reply: Option<String>, finish_reason: String) -> Self {
        let (digest, model) = (digest.to_owned(), model.to_owned());
        Self { format: FORMAT, digest, model, reply, finish_reason, prompt_tokens: 0, reply_tokens: 0 }
    }

    pub(crate) fn with_tokens(self, prompt_tokens: u64, reply_tokens: u64) -> Self {
        Self { prompt_tokens, reply_tokens, ..self }
    }
}

/// Where verdicts are recorded, and what calls have cost so far.
pub(crate) struct Record {
    /// `None` where nothing is kept: verdicts are asked for each time. Held while the disk is waited for.
    place: Option<Mutex<Place>>,
    counts: Mutex<Counts>,
    /// Fires when a call in flight has ended.
    ended: Notify,
}

#[derive(Default)]
struct Counts {
    calls: u64,
    tokens: u64,
    /// Calls that were begun and not recorded yet.
    in_flight: u64,
}

/// A file, and where its lines are.
struct Place {
    path: PathBuf,
    /// `None` as long as there is no file, which only a record that is written to creates.
    file: Option<File>,
    /// Bytes that were read.
    read: u64,
    /// Where the line with a reply is, by the digest.
    lines: HashMap<String, (u64, usize)>,
}

/// Why a call may not begin.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Spent {
    /// The limit would be reached if all calls in flight are made. One that the endpoint does not take leaves room.
    InFlight,
    /// The limit that is reached, in words.
    Reached(String),
}

impl Record {
    /// The record at `path`, which is created if `is_written`.
    ///
    /// # Errors
    /// A file that cannot be read or written, or has a line that is none of a record, by its place.
    pub(crate) fn open(path: &Path, is_written: bool) -> io::Result<Self> {
        let file = match OpenOptions::new().read(true).append(is_written).create(is_written).open(path) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == ErrorKind::NotFound && !is_written => None,
            Err(error) => return Err(error),
        };
        if let Some(folder) = path.parent().filter(|_| is_written) {
            evenkeel_host::sync_folder(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })?;
        }
        let mut place = Place { path: path.to_owned(), file, read: 0, lines: HashMap::new() };
        let mut counts = Counts::default();
        place.read_on(|line| counts.add(line))?;
        Ok(Self { place: Some(Mutex::new(place)), counts: Mutex::new(counts), ended: Notify::new() })
    }

    /// No record: every question is asked, and only the budget is kept.
    pub(crate) fn none() -> Self {
        Self { place: None, counts: Mutex::default(), ended: Notify::new() }
    }

    /// The line with the reply to a question, also one that another process has written meanwhile.
    ///
    /// # Errors
    /// A file that cannot be read, or has a line that is none of a record.
    pub(crate) fn find(&self, digest: &str) -> io::Result<Option<Line>> {
        let Some(place) = &self.place else { return Ok(None) };
        let mut place = locked(place);
        if let Some(line) = place.known(digest)? {
            return Ok(Some(line));
        }
        place.read_on(|line| locked(&self.counts).add(line))?;
        place.known(digest)
    }

    /// Takes a call from the budget, until [`Self::add`] or [`Self::give_back`].
    ///
    /// # Errors
    /// The limit that is reached, or that calls in flight may reach.
    pub(crate) fn take_call(&self, budget: &BudgetSettings) -> Result<(), Spent> {
        let mut counts = locked(&self.counts);
        let Counts { calls, tokens, in_flight } = *counts;
        let words = if budget.calls > 0 && calls.saturating_add(in_flight) >= budget.calls {
            format!("reward.judge.budget.calls is {}, and {calls} calls were made", budget.calls)
        } else if budget.tokens > 0 && tokens >= budget.tokens {
            format!("reward.judge.budget.tokens is {}, and {tokens} tokens were used", budget.tokens)
        } else {
            counts.in_flight += 1;
            return Ok(());
        };
        Err(if in_flight > 0 { Spent::InFlight } else { Spent::Reached(words) })
    }

    /// Takes a call from the budget, once calls in flight have ended that may use up its last part.
    ///
    /// # Errors
    /// The limit that is reached. No call is in flight then: whatever was paid for is recorded.
    pub(crate) async fn wait_for_call(&self, budget: &BudgetSettings) -> Result<(), String> {
        loop {
            let mut ended = pin!(self.ended.notified());
            // Before the counts are read: a call that ends in between is heard.
            ended.as_mut().enable();
            match self.take_call(budget) {
                Ok(()) => return Ok(()),
                Err(Spent::Reached(words)) => return Err(words),
                Err(Spent::InFlight) => ended.await,
            }
        }
    }

    /// Gives a call back that the endpoint did not take.
    pub(crate) fn give_back(&self) {
        locked(&self.counts).in_flight -= 1;
        self.ended.notify_waiters();
    }

    /// Adds the line of a call that was taken, and syncs it. Returns the line that counts: where another process has
    /// recorded a reply to the same question before, that one.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn add(&self, line: Line) -> io::Result<Line> {
        // However adding ends, the call has; not before the line is on the disk.
        let _ended = Ended(self);
        let count = |line: &Line| locked(&self.counts).add(line);
        count(&line);
        let Some(place) = &self.place else { return Ok(line) };
        let mut place = locked(place);
        let file = place.file.as_ref().ok_or(ErrorKind::NotFound)?.try_clone()?;
        file.lock()?;
        let added = place.append(&file, &line, count);
        file.unlock()?;
        added?;
        Ok(place.known(&line.digest)?.unwrap_or(line))
    }

    /// Calls and tokens so far.
    pub(crate) fn spent(&self) -> (u64, u64) {
        let counts = locked(&self.counts);
        (counts.calls, counts.tokens)
    }
}

/// A call in flight, which ends when this is dropped.
struct Ended<'a>(&'a Record);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Counts {
    fn add(&mut self, line: &Line) {
        self.calls += 1;
        self.tokens = self.tokens.saturating_add(line.prompt_tokens).saturating_add(line.reply_tokens);
    }
}

impl Place {
    /// Appends a line to the file, which is locked. `others` gets the lines that other processes have written.
    fn append(&mut self, mut file: &File, line: &Line, others: impl FnMut(&Line)) -> io::Result<()> {
        self.read_on(others)?;
        // Nobody else writes now: what follows the last whole line was left by a process that was killed.
        if file.metadata()?.len() > self.read {
            file.set_len(self.read)?;
        }
        let text = serde_json::to_string(line)? + "\n";
        if text.len() > MAX_LINE {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                format!("a reply makes a line of {} bytes", text.len()),
            ));
        }
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        self.note(line, text.len());
        Ok(())
    }

    /// Reads the lines that are new, those of other processes included.
    fn read_on(&mut self, mut each: impl FnMut(&Line)) -> io::Result<()> {
        if self.file.is_none() && self.path.exists() {
            self.file = Some(File::open(&self.path)?);
        }
        let Some(mut file) = self.file.as_ref() else { return Ok(()) };
        if file.metadata()?.len() <= self.read {
            return Ok(());
        }
        let mut text = Vec::new();
        file.seek(SeekFrom::Start(self.read))?;
        file.read_to_end(&mut text)?;
        // A part without an end is being written, or was when its process was killed.
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        for bytes in text[..whole].split_inclusive(|byte| *byte == b'\n') {
            let line = parsed(bytes).map_err(|words| {
                let words = format!("the line at byte {} of {} is {words}", self.read, self.path.display());
                io::Error::new(ErrorKind::InvalidData, words)
            })?;
            each(&line);
            self.note(&line, bytes.len());
        }
        Ok(())
    }

    /// Notes where a line is, which follows those that were read. The first reply to a question counts.
    fn note(&mut self, line: &Line, length: usize) {
        if line.reply.is_some() {
            self.lines.entry(line.digest.clone()).or_insert((self.read, length));
        }
        self.read += length as u64;
    }

    fn known(&self, digest: &str) -> io::Result<Option<Line>> {
        let (Some(file), Some((at, length))) = (&self.file, self.lines.get(digest)) else { return Ok(None) };
        let mut bytes = vec![0; *length];
        file.read_exact_at(&mut bytes, *at)?;
        parsed(&bytes).map(Some).map_err(|words| io::Error::new(ErrorKind::InvalidData, words))
    }
}

/// A line, or what is wrong with it.
fn parsed(bytes: &[u8]) -> Result<Line, String> {
    let line: Line = serde_json::from_slice(bytes).map_err(|error| format!("no verdict of a judge: {error}"))?;
    let format = line.format;
    FieldError::ensure(format == FORMAT, "format", format, FORMAT.to_string()).map_err(|error| error.to_string())?;
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_LIMIT: BudgetSettings = BudgetSettings { calls: 0, tokens: 0 };

    fn line(digest: &str, reply: Option<&str>) -> Line {
        Line::new(digest, "judge", reply.map(str::to_owned), "stop".to_owned()).with_tokens(10, 5)
    }

    fn add(record: &Record, line: Line) -> Line {
        record.take_call(&NO_LIMIT).unwrap();
        record.add(line).unwrap()
    }

    #[test]
    fn a_verdict_is_found_again_by_another_process_and_the_first_reply_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(RECORD_FILE);
        let [ours, theirs] = [(); 2].map(|()| Record::open(&path, true).unwrap());
        assert_eq!(ours.find("a").unwrap(), None);
        add(&ours, line("a", Some("first")));
        assert_eq!(theirs.find("a").unwrap().unwrap().reply.unwrap(), "first");
        assert_eq!(add(&theirs, line("a", Some("second"))).reply.unwrap(), "first", "both get the same bits");
        assert_eq!(Record::open(&path, false).unwrap().find("a").unwrap().unwrap().reply.unwrap(), "first");
        assert_eq!(Record::open(&path, false).unwrap().spent(), (2, 30), "both calls were made");
    }

    #[test]
    fn a_call_that_took_too_long_is_spent_and_asked_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(RECORD_FILE);
        let record = Record::open(&path, true).unwrap();
        add(&record, line("a", None));
        assert_eq!(record.find("a").unwrap(), None);
        assert_eq!(Record::open(&path, false).unwrap().spent(), (1, 15));
    }

    #[test]
    fn a_line_that_a_killed_process_left_unfinished_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(RECORD_FILE);
        add(&Record::open(&path, true).unwrap(), line("a", Some("1")));
        let whole = std::fs::read_to_string(&path).unwrap();
        let second = serde_json::to_string(&line("b", Some("2"))).unwrap();
        for cut in [1, second.len() / 2, second.len()] {
            std::fs::write(&path, whole.clone() + &second[..cut]).unwrap();
            let record = Record::open(&path, true).unwrap();
            assert_eq!(record.find("b").unwrap(), None, "it did not count yet");
            add(&record, line("c", Some("3")));
            let again = Record::open(&path, false).unwrap();
            assert_eq!(again.find("c").unwrap().unwrap().reply.unwrap(), "3");
            assert_eq!((again.find("b").unwrap(), again.spent().0), (None, 2));
        }
    }

    #[test]
    fn what_is_no_record_is_refused_with_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(RECORD_FILE);
        let other = serde_json::to_string(&Line { format: 2, ..line("a", None) }).unwrap();
        for text in ["{}\n", "words\n", &(other + "\n")] {
            std::fs::write(&path, text).unwrap();
            let error = Record::open(&path, false).err().unwrap().to_string();
            assert!(error.starts_with("the line at byte 0 of "), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(Record::open(&path, false).unwrap().find("a").unwrap(), None, "there is none yet");
        assert!(!path.exists(), "reading creates nothing");
    }

    #[test]
    fn the_budget_holds_over_processes_and_for_calls_in_flight() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(RECORD_FILE);
        add(&Record::open(&path, true).unwrap(), line("a", Some("1")));
        let record = Record::open(&path, true).unwrap();
        let three = BudgetSettings { calls: 3, tokens: 0 };
        assert_eq!((record.take_call(&three), record.take_call(&three)), (Ok(()), Ok(())));
        assert_eq!(record.take_call(&three), Err(Spent::InFlight), "either may be given back");
        record.give_back();
        assert_eq!(record.take_call(&three), Ok(()), "one was not taken by the endpoint");
        let tokens = BudgetSettings { calls: 0, tokens: 15 };
        assert_eq!(record.take_call(&tokens), Err(Spent::InFlight));
        for digest in ["b", "c"] {
            record.add(line(digest, Some("1"))).unwrap();
        }
        let reached = |words: &str| Err(Spent::Reached(words.to_owned()));
        assert_eq!(record.take_call(&three), reached("reward.judge.budget.calls is 3, and 3 calls were made"));
        assert_eq!(record.take_call(&tokens), reached("reward.judge.budget.tokens is 15, and 45 tokens were used"));
        let unrecorded = Record::none();
        add(&unrecorded, line("a", Some("1")));
        assert_eq!((unrecorded.find("a").unwrap(), unrecorded.spent()), (None, (1, 15)));
    }
}
