//! Runs with a judge: killed and resumed, replayed, on the record of another run, stopped by the budget, tried in a dry
//! run, compared with labels. The endpoint is a fake one, and scores by the length of an answer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use evenkeel_testkit::chat_server::{ChatAnswer, ChatServer};
use serde_json::Value;

use crate::judge_desk::{Desk, KEY, answer_in, has_text, judge, repeated};
use crate::support::{
    Process, WORDS, count_lines, determined_head, evenkeel, refused, resume, succeed, wait_for, written_model,
};

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
fn a_run_on_the_record_of_another_makes_no_call_and_has_its_bits() {
    let server = judge();
    let desk = Desk::new(&server.url);
    succeed(desk.train("first", &[]));
    let calls = server.requests().len();
    let shared = format!("reward.judge.records={}", desk.path("first").display());
    succeed(desk.train("second", &[&shared]));
    assert_eq!(server.requests().len(), calls);
    assert_eq!(determined_head(&desk.path("second")), determined_head(&desk.path("first")));
    assert!(!desk.path("second").join("judge.jsonl").exists(), "verdicts are in the shared record alone");
}

#[test]
fn the_key_is_in_no_log_and_no_file_at_the_most_talkative_level() {
    // The endpoint repeats it in an error, and in a reply.
    let server = ChatServer::start(|number, _| match number {
        0 => ChatAnswer::error(500, &format!("the key {KEY} is fine, try again")),
        1 => ChatAnswer::of(&format!("your key is {KEY}")),
        _ => ChatAnswer::of(&format!(r#"{{"long": {}, "rude": 0}}"#, number % 2)),
    });
    let desk = Desk::new(&server.url);
    let mut command = desk.train("run", &["run.steps=1"]);
    command.args(["--log", "trace"]).env("RUST_LOG", "trace");
    let output = succeed(command);
    assert!(server.requests().iter().all(|request| request.authorization.ends_with(KEY)));
    let [stdout, stderr] = [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap());
    assert!(stderr.contains("TRACE"), "every log is written");
    assert!(!stdout.contains("planted") && !stderr.contains("planted"), "the key is in no log");
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
