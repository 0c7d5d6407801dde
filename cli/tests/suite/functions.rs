//! Runs with reward functions in a Python file: each function is logged, a process that dies is started again, and all
//! of them end with the run.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{WORDS, write_rows};

/// Two functions, whose rewards are put together.
const FUNCTIONS: &str = "import os\n\
def right(completion, row):\n    return float(completion.split()[-1:] == [row['answer']])\n\
def brief(completion, row):\n    return 1.0 / (1 + len(completion.token_ids))\n";

/// Rows, a file of functions, and a run of two steps on them.
fn run_with_functions(folder: &Path, file: &str) -> Command {
    write_rows(folder, &WORDS);
    std::fs::write(folder.join(file), FUNCTIONS).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/small.toml");
    command.args(["train", "--out", "run"]).arg("--recipe").arg(recipe).current_dir(folder);
    let settings = [
        "run.steps=2".to_owned(),
        "data.files=rows.jsonl".to_owned(),
        "data.verifier=words".to_owned(),
        format!("data.verifiers.words.path={file}"),
        "data.verifiers.words.functions={right=3.0, brief=1.0}".to_owned(),
        "data.verifiers.words.range=[0.0, 1.0]".to_owned(),
        "evaluation.problems=0".to_owned(),
    ];
    command.args(settings.iter().flat_map(|setting| ["--set", setting])).stdin(Stdio::null());
    command
}

#[test]
fn a_run_starts_a_file_of_reward_functions_and_logs_each_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut dry_run = run_with_functions(dir.path(), "reward.py");
    let output = dry_run.arg("--dry-run").env("JUDGE_API_KEY", "planted").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("runs with your rights: python3 reward.py (data.verifiers.words.path)\n"), "{said}");
    let kept =
        said.lines().find(|line| line.starts_with("withheld from them, unless keep_variables names it: ")).unwrap();
    assert!(kept.contains("JUDGE_API_KEY") && !said.contains("planted"), "{said}");
    let output = run_with_functions(dir.path(), "reward.py").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut show = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    let shown = show.args(["show", "run", "--train"]).current_dir(dir.path()).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    let answers = ["yes", "no", "maybe", "never"].map(|word| format!("gold      {word}\n"));
    assert!(answers.iter().any(|answer| shown.contains(answer)), "the row's answer: {shown}");
    let lines = std::fs::read_to_string(dir.path().join("run/metrics.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 2);
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let value = |name: &str| line[name].as_f64().unwrap_or_else(|| panic!("{name} is missing: {line}"));
        assert_eq!((value("rollout/samples"), value("rollout/invalid_samples")), (32.0, 0.0));
        let right = value("reward/components/right/mean");
        let brief = value("reward/components/brief/mean");
        assert!(brief > 0.0 && brief < 1.0, "{line}");
        assert!((value("critic/score/mean") - (3.0 * right + brief) / 4.0).abs() < 1e-9, "{line}");
    }
}

#[test]
fn a_dry_run_says_what_it_starts_before_it_does_and_a_planted_module_is_not_imported() {
    let dir = tempfile::tempdir().unwrap();
    let mut dry_run = run_with_functions(dir.path(), "reward.py");
    for module in ["json", "struct", "threading", "grpc"] {
        let planted = dir.path().join(format!("{module}.py"));
        std::fs::write(planted, "open('imported', 'w')\nraise SystemExit").unwrap();
    }
    std::fs::create_dir(dir.path().join("theirs")).unwrap();
    let look = "open('seen', 'w').write(open('said').read())\n";
    std::fs::write(dir.path().join("theirs/reward.py"), format!("{look}{FUNCTIONS}")).unwrap();
    let said = std::fs::File::create(dir.path().join("said")).unwrap();
    let status = dry_run
        .args(["--set", "data.verifiers.words.path=theirs/reward.py", "--dry-run"])
        .stdout(Stdio::null())
        .stderr(said)
        .status()
        .unwrap();
    let said = std::fs::read_to_string(dir.path().join("said")).unwrap();
    assert!(status.success(), "{said}");
    assert!(!dir.path().join("imported").exists(), "{said}");
    // What was said by the time that the file ran.
    let seen = std::fs::read_to_string(dir.path().join("seen")).unwrap();
    assert!(seen.contains("runs with your rights: python3 theirs/reward.py (data.verifiers.words.path)\n"), "{seen}");
}

#[test]
fn a_run_goes_on_with_reward_functions_that_were_mended_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let output = run_with_functions(dir.path(), "reward.py").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let resume = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command.args(["resume", "run", "--steps", "3"]).current_dir(dir.path()).stdin(Stdio::null()).output().unwrap()
    };
    std::fs::write(dir.path().join("reward.py"), FUNCTIONS.replace("1.0 /", "0.5 /")).unwrap();
    let output = resume();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("a changed input: file of reward functions") && said.contains("reward.py"), "{said}");
    let report = std::fs::read_to_string(dir.path().join("run/report.html")).unwrap();
    assert!(report.contains("After step 2 it continued with changed inputs: file of reward functions"));
}

/// Processes whose command line has a text.
fn processes(text: &str) -> Vec<String> {
    let output = Command::new("pgrep").args(["-f", text]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_file_of_reward_functions_that_dies_is_started_again_and_ends_with_its_run() {
    // No other test has processes with this name.
    const FILE: &str = "functions_that_die.py";
    // Not the run itself, which has the name in a setting: others follow there.
    let called = format!("{FILE}$");
    let dir = tempfile::tempdir().unwrap();
    let wait_for = |what: &str, holds: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !holds() {
            assert!(began.elapsed() < Duration::from_secs(300), "{what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let mut command = run_with_functions(dir.path(), FILE);
    command
        .args(["--set", "run.steps=100000", "--set", "warm_start.steps=0"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut run = command.spawn().unwrap();
    let lines = || std::fs::read_to_string(dir.path().join("run/metrics.jsonl")).unwrap_or_default();
    wait_for("the first step", &|| lines().lines().count() > 0);
    let before = processes(&called);
    assert!(!before.is_empty());
    assert!(Command::new("kill").arg("-9").args(&before).status().unwrap().success());
    let done = lines().lines().count();
    wait_for("steps after it", &|| lines().lines().count() > done + 2);
    assert!(processes(&called).iter().all(|id| !before.contains(id)));
    let text = lines();
    // The last one may not be whole yet.
    let whole: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(whole.iter().all(|line| line["rollout/invalid_samples"] == 0.0), "no answer is lost");
    run.kill().unwrap();
    run.wait().unwrap();
    wait_for("the end of the verifier", &|| processes(&called).is_empty());
}
