//! Data for tests, and servers that answer as the Hugging Face hub ([`hub_server`]) and as an OpenAI-compatible
//! endpoint ([`chat_server`]) do.
//!
//! Small goldens are committed in `tests/golden`. Larger ones of the same form, and data sets that may not be
//! redistributed, are kept outside the repository, in the folder that `EVENKEEL_OUTSIDE_DATA` names (default: `shared`
//! next to the checkout). A clone does not have them. A test that needs them is declared with [`outside`] or [`golden`]
//! in a test target with `harness = false`: where a file is missing it is reported as ignored, never as passed, and
//! where `EVENKEEL_REQUIRE_OUTSIDE_DATA` is set, as `.ci/run` does if the data is there, it fails.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use evenkeel_testkit::{golden, outside, run};
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

pub mod chat_server;
pub mod hub_server;
mod python_faults;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub use libtest_mimic::Trial;
use libtest_mimic::{Arguments, Failed};
pub use python_faults::{PYTHON_FAULTS, PYTHON_FAULTS_NEED};

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

/// A check of a golden file or folder, by name.
pub type GoldenCheck = (&'static str, fn(&Path));

/// A check of a golden, twice: of the committed one at `path` in `tests/golden`, and as `outside::NAME` of the larger
/// one at the same path in `golden` outside the repository.
pub fn golden(name: &str, path: &str, check: fn(&Path)) -> [Trial; 2] {
    let committed = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden")).join(path);
    let larger = format!("golden/{path}");
    let relative = larger.clone();
    let larger = outside(&format!("outside::{name}"), &[&larger], move |data| check(&data.join(relative)));
    [test(name, move || check(&committed)), larger]
}

/// A test of data outside the repository: `body` gets the folder, which has every one of `files`. A file with an
/// absolute path comes with a package of the system: without it the test is ignored, whatever is required.
pub fn outside(name: &str, files: &[&str], body: impl FnOnce(&Path) + Send + 'static) -> Trial {
    let is_set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let beside_checkout = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared"));
    let folder = is_set(OUTSIDE_DATA).map_or_else(beside_checkout, PathBuf::from);
    let missing = files.iter().map(|file| folder.join(file)).find(|path| !path.exists());
    let is_of_folder = missing.as_ref().is_some_and(|path| path.starts_with(&folder));
    let is_required = is_of_folder && is_set(REQUIRE_OUTSIDE_DATA).is_some();
    outside_in(folder, missing, is_required, name, &files.join(", "), body)
}

fn outside_in(
    folder: PathBuf,
    missing: Option<PathBuf>,
    is_required: bool,
    name: &str,
    needs: &str,
    body: impl FnOnce(&Path) + Send + 'static,
) -> Trial {
    let Some(missing) = missing else {
        return test(name, move || body(&folder));
    };
    let message = format!("{} does not exist; {OUTSIDE_DATA} names the folder with {needs}", missing.display());
    Trial::test(name, || Err(Failed::from(message))).with_ignored_flag(!is_required).with_kind(format!("needs {needs}"))
}

/// Runs the tests with the arguments of the standard harness: the whole `main` of a test target.
#[must_use]
pub fn run(tests: Vec<Trial>) -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_ignored(missing: Option<&str>, is_required: bool) -> bool {
        outside_in("shared".into(), missing.map(PathBuf::from), is_required, "rows", "rows.jsonl", |_| {})
            .has_ignored_flag()
    }

    #[test]
    fn only_a_test_without_its_file_is_ignored() {
        assert!(!is_ignored(None, false));
        assert!(is_ignored(Some("shared/rows.jsonl"), false));
    }

    #[test]
    fn nothing_is_ignored_where_outside_data_is_required() {
        assert!(!is_ignored(None, true));
        assert!(!is_ignored(Some("shared/rows.jsonl"), true));
    }
}
