//! Runs the commands of a page in a folder that has what pages speak of, with `programs/` in place of what would take
//! long.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

use tempfile::TempDir;

use crate::blocks::Class;
use crate::root;

/// Seconds after which a page hangs; a busy machine may need ten times what an idle one does.
const MOST_RUN: u32 = 600;
const MOST_SLOW: u32 = 1800;

/// With a loopback interface of its own, and no other: ports are free, and there is no network.
const ALONE: [&str; 7] =
    ["unshare", "--map-root-user", "--net", "bash", "-c", "ip link set lo up && exec \"$@\"", "alone"];

static CAN_BE_ALONE: LazyLock<bool> = LazyLock::new(|| {
    let mut command = Command::new(ALONE[0]);
    command.args(&ALONE[1..]).arg("true").stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
});

/// Serializes tests of pages, whose ports are those of the machine.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What `set_up.sh` makes, for every page the same.
static FOLDER: LazyLock<TempDir> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pages/set_up.sh");
    let mut command = Command::new("bash");
    command.arg(script).current_dir(dir.path()).env("EVENKEEL", env!("CARGO_BIN_EXE_evenkeel")).env("CLONE", clone());
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "set_up.sh: {}", String::from_utf8_lossy(&output.stderr));
    dir
});

fn clone() -> std::path::PathBuf {
    root().canonicalize().unwrap()
}

fn done(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}

/// Runs a script of a page.
///
/// # Errors
/// What it said, where a command fails or a server ends.
pub(crate) fn succeeds(script: &str, class: Class) -> Result<(), String> {
    let is_alone = class == Class::Run && *CAN_BE_ALONE;
    let _turn = (!is_alone).then(|| ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner));
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("page");
    done(Command::new("cp").arg("-r").arg(FOLDER.path()).arg(&folder));
    let mut path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pages/programs").display().to_string();
    if class == Class::Slow {
        // Of its own, for what the page installs.
        let environment = dir.path().join("python");
        done(Command::new("python3").args(["-m", "venv"]).arg(&environment));
        path = format!("{path}:{}", environment.join("bin").display());
    }
    let (log, faults) = (dir.path().join("log"), dir.path().join("faults"));
    let most = if class == Class::Run { MOST_RUN } else { MOST_SLOW }.to_string();
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", &most]).args(if is_alone { &ALONE[..] } else { &[] });
    command.args(["bash", "-eux", "-o", "pipefail", "-c", script]).current_dir(&folder).stdin(Stdio::null());
    // Files, since servers that are left running hold them open.
    let file = File::create(&log).unwrap();
    command.stdout(file.try_clone().unwrap()).stderr(file).process_group(0);
    command.env("PATH", format!("{path}:{}", std::env::var("PATH").unwrap())).env("CLONE", clone());
    command.env("EVENKEEL", env!("CARGO_BIN_EXE_evenkeel")).env("FAULTS", &faults).env("PIP_QUIET", "1");
    let mut child = command.spawn().unwrap();
    let status = child.wait().unwrap();
    let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).stderr(Stdio::null()).status();
    let faults = std::fs::read_to_string(&faults).unwrap_or_default();
    if status.success() && faults.is_empty() {
        return Ok(());
    }
    let log = String::from_utf8_lossy(&std::fs::read(&log).unwrap()).into_owned();
    let lines: Vec<&str> = log.lines().collect();
    Err(format!("{status}\n{}\n{faults}", lines[lines.len().saturating_sub(60)..].join("\n")))
}

/// A command with a wrong flag, a server with one, and what succeeds where it has to fail.
pub(crate) fn planted() {
    assert_eq!(succeeds("evenkeel config --list", Class::Run), Ok(()));
    for wrong in [
        "evenkeel config --lists\nevenkeel config --list",
        "evenkeel serve reward --sets a=b &\nwait",
        "if (\ntrue\n); then exit 1; fi",
    ] {
        assert!(succeeds(wrong, Class::Run).is_err(), "{wrong}");
    }
}
