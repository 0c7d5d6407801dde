//! Results as files: a line for each check while it runs, and a summary at the end.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::{Value, json};

/// A check and its limit.
#[derive(Serialize)]
struct Check {
    name: String,
    value: f64,
    bound: Bound,
    limit: f64,
    passed: bool,
}

/// On which side of its limit a value must be.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Bound {
    AtMost,
    AtLeast,
}

/// One part of a run.
pub(crate) struct ReportPart<'a> {
    out: &'a Path,
    name: &'a str,
    checks: Vec<Check>,
    facts: Vec<Value>,
    failures: Vec<String>,
}

impl<'a> ReportPart<'a> {
    pub(crate) fn new(out: &'a Path, name: &'a str) -> Self {
        Self { out, name, checks: Vec::new(), facts: Vec::new(), failures: Vec::new() }
    }

    /// Records a value that must be a number up to a limit.
    pub(crate) fn check(&mut self, name: impl Into<String>, value: f64, limit: f64) {
        self.add(name.into(), value, Bound::AtMost, limit);
    }

    /// Records a value that must be a number from a limit on.
    pub(crate) fn check_least(&mut self, name: impl Into<String>, value: f64, limit: f64) {
        self.add(name.into(), value, Bound::AtLeast, limit);
    }

    fn add(&mut self, name: String, value: f64, bound: Bound, limit: f64) {
        // A NaN is on neither side.
        let (passed, side) = match bound {
            Bound::AtMost => (value <= limit, "at most"),
            Bound::AtLeast => (value >= limit, "at least"),
        };
        let verdict = if passed { "ok" } else { "FAILED" };
        println!("{verdict:<7}{}: {name}: {value:.3e} ({side} {limit:.1e})", self.name);
        self.checks.push(Check { name, value, bound, limit, passed });
    }

    /// The last fact, and whether each check passed.
    #[cfg(test)]
    pub(crate) fn into_results(self) -> (Value, Vec<bool>) {
        let last = self.facts.last().cloned().unwrap_or_default();
        (last, self.checks.iter().map(|check| check.passed).collect())
    }

    pub(crate) fn fact(&mut self, fact: Value) {
        println!("       {}: {fact}", self.name);
        self.facts.push(fact);
    }

    /// Runs one of several cases. An error fails the part and is recorded, and the next case is run.
    pub(crate) fn attempt(&mut self, case: impl std::fmt::Display, run: impl FnOnce(&mut Self) -> Result<()>) {
        if let Err(error) = run(self) {
            println!("FAILED {}: {case}: {error:#}", self.name);
            self.failures.push(format!("{case}: {error:#}"));
        }
    }

    /// Records that the rest is not run, and why.
    pub(crate) fn skip(&mut self, reason: &str) {
        println!("skipped {}: {reason}", self.name);
        self.facts.push(json!({"skipped": reason}));
    }

    /// A folder for large files, which is removed with its guard.
    pub(crate) fn scratch(&self) -> Result<Scratch> {
        // One for each part: parts may run at the same time, each in its process.
        let path = self.out.join(format!("scratch-{}", self.name));
        fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(Scratch(path))
    }

    /// A file of its own for a table.
    pub(crate) fn table(&self, name: &str) -> Result<File> {
        Ok(File::create(self.out.join(name))?)
    }
}

/// A temporary folder, removed on drop.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            println!("{} stays: {error}", self.0.display());
        }
    }
}

pub(crate) struct Report {
    out: PathBuf,
    what: String,
    device: String,
    began: Instant,
    /// The parts that are run, if not all are.
    only: Option<String>,
    /// Names that were offered.
    known: Vec<String>,
    parts: Vec<Value>,
    passed: bool,
}

impl Report {
    pub(crate) fn new(out: &Path, what: &str, device: &str) -> Self {
        let out = out.to_owned();
        let what = what.to_owned();
        let device = device.to_owned();
        let only = None;
        let known = Vec::new();
        let parts = Vec::new();
        Self { out, what, device, began: Instant::now(), only, known, parts, passed: true }
    }

    /// Runs one part alone, which writes `WHAT-PART.json`.
    pub(crate) fn only(self, part: Option<&str>) -> Self {
        Self { only: part.map(str::to_owned), ..self }
    }

    /// Runs a part. An error fails the run and ends only the part; what was recorded before it stays. The file is
    /// written after each part, so that a run that is stopped has left what it knew.
    pub(crate) fn part(&mut self, name: &str, run: impl FnOnce(&mut ReportPart<'_>) -> Result<()>) {
        self.known.push(name.to_owned());
        if self.only.as_deref().is_some_and(|only| only != name) {
            return;
        }
        let began = Instant::now();
        let mut part = ReportPart::new(&self.out, name);
        let error = run(&mut part).err().map(|error| format!("{error:#}"));
        let seconds = began.elapsed().as_secs_f64();
        if let Some(error) = &error {
            println!("FAILED {name}: {error}");
        }
        println!("       {name}: {seconds:.1} s");
        let ReportPart { checks, facts, failures, .. } = part;
        // A part that checks and measures nothing has shown nothing.
        let passed = error.is_none()
            && failures.is_empty()
            && checks.iter().all(|check| check.passed)
            && !(checks.is_empty() && facts.is_empty());
        self.passed &= passed;
        self.parts.push(json!({
            "part": name, "passed": passed, "seconds": seconds, "error": error, "failures": failures, "checks": checks,
            "facts": facts,
        }));
        if let Err(error) = self.write(false) {
            println!("FAILED {name}: {error:#}");
            self.passed = false;
        }
    }

    /// Writes `WHAT.json` (or `WHAT-PART.json`): also before the end, in place of what was written before.
    fn write(&self, complete: bool) -> Result<()> {
        let seconds = self.began.elapsed().as_secs_f64();
        let summary = json!({
            "what": self.what, "device": self.device, "complete": complete, "passed": self.passed, "seconds": seconds,
            "parts": self.parts,
        });
        let name = self.only.iter().fold(self.what.clone(), |name, part| format!("{name}-{part}"));
        let path = self.out.join(format!("{name}.json"));
        let temporary = self.out.join(format!("{name}.json.part"));
        let mut file = File::create(&temporary)?;
        serde_json::to_writer_pretty(&mut file, &summary)?;
        writeln!(file)?;
        Ok(fs::rename(temporary, path)?)
    }

    /// Writes the whole, and says whether everything passed.
    ///
    /// # Errors
    /// A part was asked for that there is not.
    pub(crate) fn finish(self) -> Result<bool> {
        if let Some(only) = self.only.as_ref().filter(|only| !self.known.contains(only)) {
            anyhow::bail!("--only is {only}, allowed: {}", self.known.join(", "));
        }
        self.write(true)?;
        let seconds = self.began.elapsed().as_secs_f64();
        println!("{}: {} in {seconds:.0} s", self.what, if self.passed { "passed" } else { "FAILED" });
        Ok(self.passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_on_the_right_side_of_its_limit_or_fails_and_a_nan_always_fails() {
        let mut part = ReportPart::new(Path::new("."), "part");
        for value in [1.0, 2.0, 3.0, f64::NAN] {
            part.check("most", value, 2.0);
            part.check_least("least", value, 2.0);
        }
        assert_eq!(part.into_results().1, [true, false, true, true, false, true, false, false]);
    }

    #[test]
    fn a_part_that_fails_or_shows_nothing_fails_the_run_and_what_was_recorded_before_stays() {
        let folder = tempfile::tempdir().unwrap();
        let passed = |parts: &[fn(&mut ReportPart<'_>) -> Result<()>]| {
            let mut report = Report::new(folder.path(), "what", "cpu");
            parts.iter().for_each(|part| report.part("part", part));
            let passed = report.finish().unwrap();
            let file = fs::read(folder.path().join("what.json")).unwrap();
            (passed, serde_json::from_slice::<Value>(&file).unwrap())
        };
        let good = |part: &mut ReportPart<'_>| -> Result<()> {
            part.check("good", 1.0, 2.0);
            Ok(())
        };
        assert!(passed(&[good]).0);
        assert!(!passed(&[good, |_| Ok(())]).0);
        let (is_good, summary) = passed(&[|part| {
            part.check("good", 1.0, 2.0);
            anyhow::bail!("the rest could not be run")
        }]);
        assert!(!is_good);
        assert_eq!(summary["parts"][0]["checks"][0]["bound"], "at_most", "{summary}");
        assert_eq!(summary["parts"][0]["error"], "the rest could not be run");
    }

    #[test]
    fn a_case_that_fails_is_named_and_the_next_one_is_run() {
        let folder = tempfile::tempdir().unwrap();
        let mut report = Report::new(folder.path(), "what", "cpu");
        report.part("part", |part| {
            part.attempt("the first case", |_| anyhow::bail!("out of memory"));
            part.attempt("the second", |part| {
                part.check("good", 1.0, 2.0);
                Ok(())
            });
            Ok(())
        });
        assert!(!report.finish().unwrap());
        let summary: Value = serde_json::from_slice(&fs::read(folder.path().join("what.json")).unwrap()).unwrap();
        let part = &summary["parts"][0];
        assert_eq!(part["failures"], json!(["the first case: out of memory"]));
        assert_eq!((&part["passed"], &part["checks"][0]["passed"]), (&json!(false), &json!(true)));
    }

    #[test]
    fn what_is_known_after_a_part_is_in_the_file_before_the_next_one_begins() {
        let folder = tempfile::tempdir().unwrap();
        let read = || -> Value { serde_json::from_slice(&fs::read(folder.path().join("what.json")).unwrap()).unwrap() };
        let good = |part: &mut ReportPart<'_>| -> Result<()> {
            part.check("good", 1.0, 2.0);
            Ok(())
        };
        let mut report = Report::new(folder.path(), "what", "cpu");
        report.part("first", good);
        report.part("second", |part| {
            let so_far = read();
            assert_eq!((&so_far["complete"], &so_far["parts"][0]["part"]), (&json!(false), &json!("first")));
            good(part)
        });
        assert!(report.finish().unwrap());
        assert_eq!((&read()["complete"], read()["parts"].as_array().unwrap().len()), (&json!(true), 2));
    }

    #[test]
    fn one_part_alone_has_a_file_of_its_own_and_one_that_there_is_not_is_refused_with_those_that_are() {
        let folder = tempfile::tempdir().unwrap();
        let run = |only: &str| {
            let mut report = Report::new(folder.path(), "what", "cpu").only(Some(only));
            for name in ["first", "second"] {
                report.part(name, |part| {
                    part.check(name, 1.0, 2.0);
                    Ok(())
                });
            }
            report.finish()
        };
        assert!(run("second").unwrap());
        let file = fs::read(folder.path().join("what-second.json")).unwrap();
        let summary: Value = serde_json::from_slice(&file).unwrap();
        assert_eq!(summary["parts"].as_array().unwrap().len(), 1);
        assert_eq!(summary["parts"][0]["checks"][0]["name"], "second");
        assert_eq!(run("third").unwrap_err().to_string(), "--only is third, allowed: first, second");
    }
}
