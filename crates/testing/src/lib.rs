//! Data for tests.
//!
//! Small goldens are committed in `tests/golden`. Larger ones of the same form, and data sets that may not be passed on, lie outside the
//! repository, in the folder that `EVENKEEL_OUTSIDE_DATA` names (default: `shared` beside the checkout). A clone does not have them. A test
//! that needs them is declared with [`outside`] or [`golden`] in a test target with `harness = false`: where a file is missing it is reported
//! as ignored, never as passed, and where `EVENKEEL_REQUIRE_OUTSIDE_DATA` is set, as `.ci/run` does beside the data, it fails.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use evenkeel_testing::{golden, outside, run};
//!
//! fn vectors(file: &Path) {
//!     assert!(file.is_file());
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     let mut tests = Vec::from(golden("vectors", "objective.json", vectors));
//!     tests.push(outside("answers", &["data/math/gsm8k.jsonl"], |data| vectors(&data.join("data/math/gsm8k.jsonl"))));
//!     run(tests)
//! }
//! ```

use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub use libtest_mimic::Trial;
use libtest_mimic::{Arguments, Failed};

/// Names the folder of the data outside the repository.
pub const OUTSIDE_DATA: &str = "EVENKEEL_OUTSIDE_DATA";
/// Set (to anything but the empty text): a missing outside file is a failure.
pub const REQUIRE_OUTSIDE_DATA: &str = "EVENKEEL_REQUIRE_OUTSIDE_DATA";

/// A test that runs everywhere; it fails by panicking.
pub fn test(name: &str, body: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, || {
        body();
        Ok(())
    })
}

/// A check of a golden, twice: of the committed one at `path` in `tests/golden`, and as `outside::NAME` of the larger one at the same path in
/// `golden` outside the repository.
pub fn golden(name: &str, path: &str, check: fn(&Path)) -> [Trial; 2] {
    let committed = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden")).join(path);
    let larger = format!("golden/{path}");
    let relative = larger.clone();
    let larger = outside(&format!("outside::{name}"), &[&larger], move |data| check(&data.join(relative)));
    [test(name, move || check(&committed)), larger]
}

/// A test of data outside the repository: `body` gets the folder, which has every one of `files`.
pub fn outside(name: &str, files: &[&str], body: impl FnOnce(&Path) + Send + 'static) -> Trial {
    let is_set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let beside_checkout = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared"));
    let folder = is_set(OUTSIDE_DATA).map_or_else(beside_checkout, PathBuf::from);
    outside_in(folder, is_set(REQUIRE_OUTSIDE_DATA).is_some(), name, files, body)
}

fn outside_in(
    folder: PathBuf,
    required: bool,
    name: &str,
    files: &[&str],
    body: impl FnOnce(&Path) + Send + 'static,
) -> Trial {
    let missing = files.iter().map(|file| folder.join(file)).find(|path| !path.exists());
    let Some(missing) = missing else {
        return test(name, move || body(&folder));
    };
    let needs = files.join(", ");
    let message = format!("{} does not exist; {OUTSIDE_DATA} names the folder with {needs}", missing.display());
    Trial::test(name, || Err(Failed::from(message))).with_ignored_flag(!required).with_kind(format!("needs {needs}"))
}

/// Runs the tests with the arguments of the standard harness: the whole `main` of a test target.
#[must_use]
pub fn run(tests: Vec<Trial>) -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Whether the body ran, and how many tests passed, failed and were ignored.
    fn outcome(folder: &Path, required: bool) -> (bool, u64, u64, u64) {
        let ran = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ran);
        let body = move |found: &Path| seen.store(found.join("data/rows.jsonl").is_file(), Ordering::SeqCst);
        let test = outside_in(folder.to_owned(), required, "rows", &["data/rows.jsonl"], body);
        let arguments = Arguments { quiet: true, test_threads: Some(1), ..Arguments::default() };
        let found = libtest_mimic::run(&arguments, vec![test]);
        (ran.load(Ordering::SeqCst), found.num_passed, found.num_failed, found.num_ignored)
    }

    #[test]
    fn a_test_runs_where_its_file_exists() -> std::io::Result<()> {
        let folder = tempfile::tempdir()?;
        std::fs::create_dir(folder.path().join("data"))?;
        std::fs::write(folder.path().join("data/rows.jsonl"), "{}")?;
        assert_eq!(outcome(folder.path(), false), (true, 1, 0, 0));
        assert_eq!(outcome(folder.path(), true), (true, 1, 0, 0));
        Ok(())
    }

    #[test]
    fn a_test_without_its_file_is_ignored_and_not_passed() -> std::io::Result<()> {
        assert_eq!(outcome(tempfile::tempdir()?.path(), false), (false, 0, 0, 1));
        Ok(())
    }

    #[test]
    fn a_test_without_its_file_fails_where_outside_data_is_required() -> std::io::Result<()> {
        assert_eq!(outcome(tempfile::tempdir()?.path(), true), (false, 0, 1, 0));
        Ok(())
    }
}
