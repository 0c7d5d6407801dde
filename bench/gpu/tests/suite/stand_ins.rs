//! What the scripts do with their program, their clock and NVIDIA's sanitizer, with stand-ins for all three.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// Says what it was called with, and writes a result.
const PASSES: &str = r#"echo "program: $*"; echo '{"passed": true}' > "$2/$1.json""#;
/// Runs what follows its own options.
const SANITIZER: &str = r#"echo "sanitizer: $1 $2 $3 $4"; shift 4; "$@""#;

/// A machine with these programs on its path.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new(programs: &[(&str, &str)]) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        for (name, body) in programs {
            let path = machine.0.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        machine
    }

    /// Runs a script on its program `program`.
    fn run(&self, script: &str) -> (Output, String) {
        let folder = self.0.path();
        let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join(script));
        command.arg(folder.join("out")).arg(folder.join("program"));
        command.env("PATH", format!("{}:/usr/bin:/bin", folder.display())).env("CUDA_HOME", "/nowhere");
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output, text)
    }
}

#[test]
fn each_script_runs_its_part_of_the_program_on_the_goldens_and_keeps_the_output() {
    for part in ["correct", "speed"] {
        let machine = Machine::new(&[("program", PASSES)]);
        let (output, text) = machine.run(&format!("{part}.sh"));
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(text.contains(&format!("program: {part} ")) && text.contains("tests/golden cuda"), "{text}");
        let log = std::fs::read_to_string(machine.0.path().join("out").join(format!("{part}.log"))).unwrap();
        assert!(log.contains("program: "), "{log}");
    }
}

#[test]
fn the_status_of_the_program_is_that_of_the_script() {
    for status in [0, 1, 77] {
        let machine = Machine::new(&[("program", &format!("exit {status}"))]);
        assert_eq!(machine.run("speed.sh").0.status.code(), Some(status));
    }
}

/// A clock that has run out: it says what it was to stop after how many seconds.
const CLOCK: &str = r#"echo "limit: $1 $2"; exit 124"#;

#[test]
fn time_that_runs_out_is_a_failure_and_all_scripts_together_have_25_minutes() {
    let mut minutes = 0.0;
    for (script, sanitizer) in [("correct.sh", None), ("memcheck.sh", Some(SANITIZER)), ("speed.sh", None)] {
        let mut programs = vec![("program", PASSES), ("timeout", CLOCK)];
        programs.extend(sanitizer.map(|body| ("compute-sanitizer", body)));
        let (output, text) = Machine::new(&programs).run(script);
        assert_eq!(output.status.code(), Some(1), "{text}");
        let limit = text.lines().find_map(|line| line.strip_prefix("limit: --kill-after=10 ")).unwrap();
        assert!(text.contains(&format!("stopped after {limit} s")), "{text}");
        minutes += limit.parse::<f64>().unwrap() / 60.0;
    }
    assert!(minutes <= 25.0, "{minutes}");
}

#[test]
fn memory_is_checked_under_the_sanitizer() {
    let machine = Machine::new(&[("program", PASSES), ("compute-sanitizer", SANITIZER)]);
    let (output, text) = machine.run("memcheck.sh");
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("sanitizer: --tool memcheck --error-exitcode 99"), "{text}");
    assert!(text.contains("program: memcheck "), "{text}");
}

#[test]
fn what_the_sanitizer_finds_fails_the_check() {
    let finds = "shift 4; \"$@\"; echo '========= Invalid __global__ write of size 4 bytes'; exit 99";
    let (output, text) = Machine::new(&[("program", PASSES), ("compute-sanitizer", finds)]).run("memcheck.sh");
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("the sanitizer found errors, listed in "), "{text}");
}

#[test]
fn a_machine_that_has_no_sanitizer_or_does_not_let_it_attach_skips_the_check_and_says_so() {
    let (output, text) = Machine::new(&[("program", PASSES)]).run("memcheck.sh");
    assert_eq!(output.status.code(), Some(77), "{text}");
    assert!(text.contains("skipped, compute-sanitizer is not installed"), "{text}");
    let refused = "echo '========= Error: Target application terminated before first instrumented API call'; exit 1";
    let (output, text) = Machine::new(&[("program", PASSES), ("compute-sanitizer", refused)]).run("memcheck.sh");
    assert_eq!(output.status.code(), Some(77), "{text}");
    assert!(text.contains("skipped, the sanitizer cannot attach on this machine"), "{text}");
}
