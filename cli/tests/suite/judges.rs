//! Runs with a judge: killed and resumed, replayed, stopped by the budget, tried in a dry run, compared with labels. The
//! endpoint is a fake one, and scores by the length of an answer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use evenkeel_testkit::chat_server::{ChatAnswer, ChatRequest, ChatServer};
use serde_json::Value;

use crate::support::{
    Process, WORDS, count_lines, determined_head, evenkeel, refused, resume, succeed, train, wait_for, write_rows,
    written_model,
};

const KEY: &str = "sk-planted-0123456789";

/// The answer in a request, which stands between two marks.
fn answer_in(request: &ChatRequest) -> String {
    let body: Value = serde_json::from_str(&request.body).unwrap();
    let message = body["messages"][1]["content"].as_str().unwrap();
    let (_, rest) = message.split_once("<answer-").unwrap();
    let (mark, rest) = rest.split_once(">\n").unwrap();
    rest.split_once(&format!("\n</answer-{mark}>")).unwrap().0.to_owned()
}

fn judge() -> ChatServer {
    ChatServer::start(|_, request| {
        let quarters = answer_in(request).chars().count() % 5;
        ChatAnswer::of(&format!(r#"{{"long": {}, "rude": 0}}"#, quarters as f64 / 4.0)).after(Duration::from_millis(5))
    })
}

/// A folder with rows, a rubric and a key, for runs with a judge at `url`.
struct Desk {
    folder: tempfile::TempDir,
    url: String,
}

impl Desk {
    fn new(url: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        write_rows(folder.path(), &WORDS);
        let rubric = "[[criteria]]\nname = \"long\"\nweight = 1.0\ndescription = \"is long\"\n\
            [[criteria]]\nname = \"rude\"\nweight = -1.0\ndescription = \"insults the reader\"\n";
        for (name, text) in [("rubric.toml", rubric), ("key", KEY)] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Self { folder, url: url.to_owned() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Sets all that a run with the judge needs, and whatever else is set.
    fn with_judge(&self, mut command: Command, more: &[&str]) -> Command {
        let rows = self.path("rows.jsonl");
        let settings = [
            "run.steps=4".to_owned(),
            "warm_start.steps=0".to_owned(),
            "evaluation.problems=0".to_owned(),
            format!("data.files={}", rows.display()),
            "data.verifier=essay".to_owned(),
            "data.verifiers.essay.judge=true".to_owned(),
            format!("reward.judge.endpoint={}", self.url),
            "reward.judge.model=judge".to_owned(),
            format!("reward.judge.rubric={}", self.path("rubric.toml").display()),
            format!("reward.judge.key_file={}", self.path("key").display()),
        ];
        command.args(settings.iter().map(String::as_str).chain(more.iter().copied()).flat_map(|set| ["--set", set]));
        command
    }

    fn train(&self, name: &str, more: &[&str]) -> Command {
        self.with_judge(train(&self.path(name)), more)
    }
}

/// How often a question was asked that had been asked before.
fn repeated(server: &ChatServer) -> usize {
    let requests = server.requests();
    requests.len() - requests.iter().map(|request| &request.body).collect::<BTreeSet<_>>().len()
}

/// Whether any file below a folder, but for the key's own, has a text.
fn has_text(folder: &Path, text: &str) -> bool {
    std::fs::read_dir(folder).unwrap().flatten().any(|entry| {
        let path = entry.path();
        let bytes = || std::fs::read(&path).unwrap();
        let holds = |bytes: Vec<u8>| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        if path.is_dir() { has_text(&path, text) } else { path.file_name().unwrap() != "key" && holds(bytes()) }
    })
}

#[test]
fn a_run_that_was_killed_asks_nothing_again_and_gets_the_same_bits() {
    let server = judge();
    let desk = Desk::new(&server.url);
    succeed(desk.train("whole", &[]));
    assert!(server.requests().iter().all(|request| request.authorization == format!("Bearer {KEY}")));
    assert_eq!(repeated(&server), 0, "equal answers share a call");

    let killed = judge();
    let desk = Desk { url: killed.url.clone(), ..desk };
    let out = desk.path("killed");
    let process = Process::start(desk.train("killed", &["checkpoint.every=1"]));
    wait_for("two steps", || count_lines(&out.join("metrics.jsonl")) >= 2);
    process.kill();
    // Calls in flight at the kill were made and are not recorded: they alone may be made again.
    let record = out.join("judge.jsonl");
    // The endpoint may still read what was sent.
    std::thread::sleep(Duration::from_millis(100));
    let lost = killed.requests().len() - count_lines(&record);
    succeed(resume(&out));
    assert_eq!(determined_head(&out), determined_head(&desk.path("whole")));
    assert!(repeated(&killed) <= lost, "a recorded verdict is not asked for again");
    let digests = || -> Vec<String> {
        let lines = std::fs::read_to_string(&record).unwrap();
        lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["digest"].to_string()).collect()
    };
    assert_eq!(digests().len(), digests().iter().collect::<BTreeSet<_>>().len(), "each verdict is recorded once");

    let calls = killed.requests().len();
    let mut replay = evenkeel(&["replay"]);
    replay.arg(&out);
    let said = String::from_utf8(succeed(replay).stdout).unwrap();
    assert!(said.starts_with("0 of ") && said.ends_with(" verdicts changed\n"), "{said}");
    assert_eq!(killed.requests().len(), calls, "a replay makes no call");

    // Another record says something else, and the replay finds it.
    let text = std::fs::read_to_string(&record).unwrap();
    std::fs::write(&record, text.replace(r#"\"rude\": 0"#, r#"\"rude\": 1"#)).unwrap();
    let mut replay = evenkeel(&["replay"]);
    assert_eq!(replay.arg(&out).output().unwrap().status.code(), Some(1));
    assert!(!has_text(desk.folder.path(), "planted"), "the key is in no file");
}

#[test]
fn a_run_stops_at_its_budget_with_a_checkpoint_and_goes_on_with_a_larger_one() {
    let server = judge();
    let desk = Desk::new(&server.url);
    succeed(desk.train("whole", &[]));
    let whole = server.requests().len();
    let half = whole / 2;
    let budget = format!("reward.judge.budget.calls={half}");
    let out = desk.path("stopped");
    let said = refused(desk.train("stopped", &[&budget, "checkpoint.every=100"]));
    let limit = format!("reward.judge.budget.calls is {half}, and ");
    assert!(said.contains("the judge's budget is used up") && said.contains(&limit), "{said}");
    assert!(said.contains("continue with: evenkeel resume"), "{said}");
    assert_eq!(server.requests().len(), whole + half, "not one call more");
    let mut larger = resume(&out);
    larger.args(["--set", "reward.judge.budget.calls=0"]);
    succeed(larger);
    assert_eq!(determined_head(&out), determined_head(&desk.path("whole")));
    assert_eq!(server.requests().len(), 2 * whole, "nothing is asked twice");
}

#[test]
fn a_budget_that_ends_the_first_step_wastes_no_verdict() {
    let server = judge();
    let desk = Desk::new(&server.url);
    succeed(desk.train("whole", &[]));
    let whole = server.requests().len();
    let said = refused(desk.train("early", &["reward.judge.budget.calls=2"]));
    assert!(said.contains("--set reward.judge.budget.calls=N") && said.contains("every verdict is kept"), "{said}");
    succeed(desk.train("early", &[]));
    assert_eq!(determined_head(&desk.path("early")), determined_head(&desk.path("whole")));
    assert_eq!(server.requests().len(), 2 * whole, "the first step asked for nothing again");
}

#[test]
fn an_evaluation_asks_the_same_judge_stops_at_its_budget_and_asks_nothing_twice() {
    let server = judge();
    let desk = Desk::new(&server.url);
    let model = written_model(desk.folder.path());
    let row = |word: &&str| {
        serde_json::json!({"prompt": format!("say {word}\n"), "answer": word, "verifier": "essay"}).to_string() + "\n"
    };
    std::fs::write(desk.path("judged.jsonl"), WORDS.iter().map(row).collect::<String>()).unwrap();
    let eval = |name: &str, more: &[&str]| {
        let mut command = evenkeel(&["eval", "--samples", "2", "--max-tokens", "20", "--json"]);
        command.arg("--model").arg(&model).arg("--output").arg(desk.path(name));
        command.arg("--benchmark").arg(format!("words={}", desk.path("judged.jsonl").display()));
        desk.with_judge(command, &[&["reward.code.sandbox=off"], more].concat())
    };
    let scores = |output: std::process::Output| -> BTreeMap<String, Value> {
        let line: BTreeMap<String, Value> = serde_json::from_slice(&output.stdout).unwrap();
        line.into_iter().filter(|(name, _)| name.starts_with("val-")).collect()
    };
    let whole = scores(succeed(eval("whole", &[])));
    let calls = server.requests().len();
    assert!(!whole.is_empty() && calls > 1, "{whole:?}");
    let said = refused(eval("stopped", &["reward.judge.budget.calls=1"]));
    assert!(said.contains("the judge's budget is used up") && said.contains("run the same command again"), "{said}");
    assert_eq!(scores(succeed(eval("stopped", &[]))), whole);
    assert_eq!(server.requests().len(), 2 * calls, "nothing is asked twice");
    let shared = format!("reward.judge.records={}", desk.path("whole").display());
    assert_eq!(scores(succeed(eval("shared", &[&shared]))), whole);
    assert_eq!(server.requests().len(), 2 * calls, "a shared record is read");
    assert!(!has_text(desk.folder.path(), "planted"), "the key is in no file");
}

#[test]
fn a_judge_without_a_format_ends_the_run_and_rewards_nothing() {
    let server = ChatServer::start(|_, _| ChatAnswer::of("It is a fine answer: 1.0"));
    let desk = Desk::new(&server.url);
    let said = refused(desk.train("run", &[]));
    assert!(said.contains("no sample is valid") && said.contains("judge_wrong_format"), "{said}");
}

#[test]
fn a_dry_run_reads_the_files_and_calls_the_judge_only_where_that_is_allowed() {
    let server = judge();
    let desk = Desk::new(&server.url);
    let dry = |more: &[&str]| {
        let mut command = evenkeel(&["train", "--dry-run"]);
        command.arg("--recipe").arg(crate::support::small());
        let output = desk.with_judge(command, more).output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let (can_start, said) = dry(&[]);
    assert!(can_start && said.contains("reward.judge.try_in_dry_run"), "{said}");
    assert_eq!(server.requests().len(), 0);
    let (can_start, said) = dry(&["reward.judge.key_file=/no/such/key"]);
    assert!(!can_start && said.contains("reward.judge.key_file is /no/such/key"), "{said}");
    std::fs::write(desk.path("bad.toml"), "[[criteria]]\nname = \"a\"\nweight = -1.0\ndescription = \"a\"\n").unwrap();
    let (can_start, said) = dry(&[&format!("reward.judge.rubric={}", desk.path("bad.toml").display())]);
    assert!(!can_start && said.contains("reward.judge.rubric.criteria is "), "{said}");
    assert_eq!(server.requests().len(), 0);
    let mut tried = evenkeel(&["train", "--dry-run", "--no-timing"]);
    tried.arg("--recipe").arg(crate::support::small());
    succeed(desk.with_judge(tried, &["reward.judge.try_in_dry_run=true"]));
    assert_eq!(server.requests().len(), 1, "one call for one row");
}

#[test]
fn a_judge_is_compared_with_labels_and_with_itself() {
    let server = ChatServer::start(|number, request| {
        let score = match answer_in(request).as_str() {
            "changes" => [0.25, 0.75][number % 2],
            "good" => 1.0,
            _ => 0.0,
        };
        ChatAnswer::of(&format!(r#"{{"long": {score}, "rude": 0}}"#))
    });
    let desk = Desk::new(&server.url);
    let row = |answer: &str, label: f64| {
        serde_json::json!({"prompt": "say it", "completion": answer, "label": label}).to_string() + "\n"
    };
    let labelled = desk.path("labelled.jsonl");
    std::fs::write(&labelled, row("good", 1.0) + &row("bad", 1.0)).unwrap();
    let check = || {
        let mut command = evenkeel(&["judge", "check"]);
        command.arg(&labelled).arg("--recipe").arg(crate::support::small());
        desk.with_judge(command, &["reward.judge.concurrency=1"])
    };
    let said = String::from_utf8(succeed(check()).stdout).unwrap();
    assert!(said.starts_with("2 answers, 4 calls, 440 tokens\nwith the labels: 1 of 2 scores"), "{said}");
    assert!(
        said.contains("with itself: 2 of 2 scores equal") && said.contains("line 2: label 1, score 0.000: bad"),
        "{said}"
    );
    std::fs::write(&labelled, row("changes", 1.0)).unwrap();
    let said = String::from_utf8(succeed(check()).stdout).unwrap();
    assert!(said.contains("with itself: 0 of 1 scores equal when asked twice, mean difference 0.500"), "{said}");
    std::fs::write(&labelled, row("good", 2.0)).unwrap();
    assert!(refused(check()).contains("label is 2"));
}
