//! Bad input is refused before anything starts, naming key, value and what is allowed.

use std::net::TcpListener;

use crate::support::{evenkeel, refused, succeed, train, written_model};

fn refusal(settings: &[&str]) -> String {
    let dir = tempfile::tempdir().expect("a folder");
    let out = dir.path().join("run");
    let mut command = train(&out);
    command.args(settings.iter().flat_map(|setting| ["--set", setting]));
    let message = refused(command);
    assert!(!out.exists(), "nothing has started, and nothing is left that would stand in the way of the next try");
    message
}

#[test]
fn a_misspelt_key_is_refused_with_the_nearest_one() {
    for (setting, nearest) in [
        ("sampling.group_sise=8", "sampling.group_size"),
        ("learner.optimizer.learning_rat=1e-5", "learner.optimizer.learning_rate"),
        ("engine.max_sequence=8", "engine.max_sequences"),
    ] {
        let message = refusal(&[setting]);
        assert!(message.contains("unknown key") && message.contains(nearest), "{message}");
    }
}

#[test]
fn a_wrong_type_and_an_impossible_value_are_refused_with_what_is_allowed() {
    for (settings, words) in [
        (&["sampling.group_size=many"][..], &["sampling.group_size", "many", "integer"][..]),
        (
            &["sampling.temperature=0.5", "learner.temperature=1"],
            &["learner.temperature", "sampling.temperature", "0.5"],
        ),
        (&["learner.objective.clip_low=-1"], &["learner.objective.clip_low", "-1", "0 to 1"]),
        (&["learner.epochs=0"], &["learner.epochs", "0", "1 or more"]),
        (&["learner.compute.recompute=some"], &["learner.compute.recompute", "some", "none, selective, full"]),
        (&["learner.objective.aggregation=avarage"], &["aggregation", "avarage", "balanced"]),
        (&["reward.threads=100000"], &["reward.threads", "100000"]),
        (&["sampling.group_size=1"], &["sampling.group_size", "at least 2 with advantage = grpo"]),
        (&["shaping.overlong_penalty=1e30"], &["shaping.overlong_penalty", "finite number up to 1e18"]),
        (
            &["learner.old_logp=rollout", "learner.objective.correction=token-truncate"],
            &["learner.objective.correction", "token-truncate", "none with old_logp = rollout"],
        ),
        (&["sampling.stop_token_ids=[5,128]"], &["sampling.stop_token_ids", "128", "below vocab_size"]),
        (&["checkpoint.keep_weights=1"], &["checkpoint.keep_weights", "0 (all), or at least 2"]),
        (&["learner.seed=7"], &["unknown key `learner.seed`"]),
        (
            &["model.fresh.context_tokens=60", "sampling.max_tokens=40", "shaping.overlong_buffer_tokens=0"],
            &["demonstration of `", "at most the model's context of 60"],
        ),
        (
            &["learner.mini_batch_groups=3"],
            &["learner.mini_batch_groups", "3", "a divisor of the 4 groups of a step, or 0 for all of them"],
        ),
        (
            &["sampling.max_tokens=40", "shaping.overlong_buffer_tokens=41"],
            &["shaping.overlong_buffer_tokens", "41", "0 to sampling.max_tokens, which is 40"],
        ),
        (&["services.max_late_share=2"], &["services.max_late_share", "0 to 1"]),
        (&["sampling.max_tokens=256"], &["model.fresh.context_tokens", "256", "above sampling.max_tokens"]),
    ] {
        let message = refusal(settings);
        for word in words {
            assert!(message.contains(word), "{settings:?}: no {word} in {message}");
        }
    }
}

#[test]
fn a_folder_that_is_no_model_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let message = refusal(&["data.kind=arithmetic", &format!("model.path={}", dir.path().display())]);
    assert!(message.contains("config.json"), "{message}");
}

#[test]
fn a_tokenizer_with_more_tokens_than_the_model_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let model = written_model(dir.path());
    let tokenizer = model.join("tokenizer.json");
    let mut value: serde_json::Value = serde_json::from_slice(&std::fs::read(&tokenizer).unwrap()).unwrap();
    let vocabulary = value["model"]["vocab"].as_object_mut().unwrap();
    for id in vocabulary.len()..140 {
        vocabulary.insert(format!("<extra-{id}>"), id.into());
    }
    std::fs::write(&tokenizer, value.to_string()).unwrap();
    let message = refusal(&["data.kind=arithmetic", &format!("model.path={}", model.display())]);
    assert!(
        message.contains("tokenizer.json") && message.contains("vocab_size") && message.contains("127"),
        "{message}"
    );
}

#[test]
fn a_prompt_longer_than_the_context_is_refused_by_its_id() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data.jsonl");
    let long = "1+".repeat(200);
    let rows = [("short", "1+1=\n"), ("endless", long.as_str())];
    let rows = rows.map(|(id, prompt)| serde_json::json!({"id": id, "prompt": prompt, "answer": "2"}).to_string());
    std::fs::write(&data, rows.join("\n")).unwrap();
    let path = format!("data.files={}", data.display());
    let message = refusal(&[&path, "evaluation.problems=0", "warm_start.steps=0"]);
    assert!(message.contains("endless"), "{message}");
}

#[test]
fn a_demonstration_longer_than_the_context_is_refused_by_its_row() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data.jsonl");
    let row = |id: &str, prompt: &str, text: &str| {
        serde_json::json!({"id": id, "prompt": prompt, "answer": "2", "demonstration": text}).to_string()
    };
    let rows = [row("short", "1+1=\n", "2"), row("endless", "2+0=\n", &"2 ".repeat(200))];
    std::fs::write(&data, rows.join("\n")).unwrap();
    let path = format!("data.files={}", data.display());
    let message = refusal(&[&path, "evaluation.problems=0"]);
    assert!(message.contains("demonstration of `endless`"), "{message}");
}

#[test]
fn the_folder_of_another_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let mut command = train(&out);
    command.args(["--steps", "1", "--set", "warm_start.steps=0"]);
    succeed(command);
    let message = refused(train(&out));
    assert!(message.contains("holds run `run` already"), "{message}");
    std::fs::remove_file(out.join("run.json")).unwrap();
    let message = refused(train(&out));
    assert!(message.contains("allowed: an empty or a new directory"), "{message}");
}

#[test]
fn a_port_that_is_taken_is_refused_by_name() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let message = refused(evenkeel(&["serve", "reward", "--set", &format!("server.listen={address}")]));
    assert!(message.contains("server.listen") && message.contains(&address), "{message}");
    let dir = tempfile::tempdir().unwrap();
    let model = format!("model={}", written_model(dir.path()).display());
    let message = refused(evenkeel(&["serve", "engine", "--set", &model, "--set", &format!("listen={address}")]));
    assert!(message.contains("listen") && message.contains(&address), "{message}");
}

#[test]
fn plaintext_for_other_machines_is_refused_unless_it_is_meant() {
    let dir = tempfile::tempdir().unwrap();
    let model = format!("model={}", written_model(dir.path()).display());
    let everywhere = "listen=0.0.0.0:0";
    let cases: [(&[&str], &str); 4] = [
        (&["reward", "--set", "server.listen=0.0.0.0:0"], "server.listen"),
        (&["engine", "--set", &model, "--set", everywhere, "--set", "weights_roots=[\"/\"]"], "listen"),
        (&["orchestrator", "--set", "page.listen=0.0.0.0:0"], "page.listen"),
        (&["reward", "--set", "server.listen=127.0.0.1:0", "--metrics", "0.0.0.0:0"], "--metrics"),
    ];
    for (arguments, setting) in cases {
        let message = refused(evenkeel(&[&["serve"], arguments].concat()));
        assert!(message.contains(setting) && message.contains("in plaintext"), "{message}");
        assert!(message.contains("a loopback address") && message.contains("insecure = true"), "{message}");
    }
}

#[test]
fn a_token_that_can_be_guessed_is_refused_without_being_shown() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    std::fs::write(&path, "hunter2\n").unwrap();
    for setting in ["server.token_file", "server.auth.tokens.reader"] {
        let message = refused(evenkeel(&["serve", "reward", "--set", &format!("{setting}={}", path.display())]));
        let expected = format!("names {}, which cannot be used: it contains a token of 7 characters", path.display());
        assert!(message.contains(setting) && message.contains(&expected), "{message}");
        assert!(!message.contains("hunter2"), "{message}");
    }
}

#[test]
fn a_recipe_that_is_not_there_is_refused_with_those_that_are() {
    let message = refused(evenkeel(&["train", "--recipe", "arithmetics"]));
    assert!(message.contains("arithmetics") && message.contains("arithmetic is the nearest recipe"), "{message}");
}
