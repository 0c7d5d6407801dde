//! What Tinker's front refuses: it takes its number, holds nothing up, and leaves little in memory.

use serde_json::{Value, json};

use crate::tinker::{Server, supervised};

/// Why a request failed.
fn error_of(answer: &Value) -> &str {
    answer["error"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn a_request_that_cannot_be_read_takes_its_number_and_what_follows_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["tinker.max_body=64KiB"]);
    let session = server.session();
    let model = server.create(&session, 0).unwrap();
    let refused = |path: &str, number: u32, more: Value| {
        let mut body = json!({"model_id": model, "seq_id": number});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = server.result(path, &body);
        assert_eq!(answer["category"], "user", "{answer}");
        error_of(&answer).to_owned()
    };
    // A learning rate that is NaN in Python.
    let error = refused("optim_step", 1, json!({"adam_params": {"learning_rate": null}}));
    assert!(error.starts_with("adam_params.learning_rate is null, allowed: a finite number"), "{error}");
    let abandoned = server.optim_step(&model, 2);
    assert!(error_of(&abandoned).contains("learning_rate is null"), "{abandoned}");
    for (number, path) in [(3, "save_weights"), (4, "save_weights_for_sampler")] {
        let error = refused(path, number, json!({"path": "a", "ttl_seconds": -1}));
        assert!(error.starts_with("ttl_seconds is -1, allowed: "), "{error}");
    }
    let error = refused("load_weights", 5, json!({"optimizer": true}));
    assert!(error.starts_with("path is absent"), "{error}");

    // Damaged and too long: what is summed without it is not applied.
    let whole = |next: i32| {
        let failed = server.optim_step(&model, next as u32);
        assert!(error_of(&failed).contains("a forward_backward was refused"), "{failed}");
        server.forward_backward(&model, next + 1, "cross_entropy", vec![supervised()]).unwrap();
        assert!(server.optim_step(&model, next as u32 + 2)["metrics"].is_object());
    };
    let (status, answer) = server.send_damaged(&model, 6);
    assert_eq!(status, 200, "{answer}");
    let error = server.retrieve(answer["request_id"].as_str().unwrap()).unwrap();
    assert!(error_of(&error).starts_with("body is not readable"), "{error}");
    whole(7);
    let long = server.forward_backward(&model, 10, "cross_entropy", vec![supervised(); 2000]).unwrap_err();
    assert!(error_of(&long).contains("tinker.max_body"), "{long}");
    whole(11);
}

#[test]
fn a_request_that_never_arrives_is_given_up_and_what_follows_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["tinker.missing_request=1s"]);
    let session = server.session();
    let model = server.create(&session, 0).unwrap();
    // The first one has no number that can be read, and the second one waits for it.
    let (status, answer) = server.post("optim_step", &json!({"model_id": model, "seq_id": null}));
    assert_eq!(status, 422, "{answer}");
    let refused = server.optim_step(&model, 2);
    assert!(error_of(&refused).contains("the request with seq_id 1 did not arrive within 1s"), "{refused}");
    server.forward_backward(&model, 3, "cross_entropy", vec![supervised()]).unwrap();
    assert!(server.optim_step(&model, 4)["metrics"].is_object());
}

#[test]
fn an_empty_list_of_stops_leaves_the_models_end_tokens_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let sampler = server.base_sampler();
    let params =
        |stop: Value| json!({"num_samples": 32, "sampling_params": {"max_tokens": 20, "seed": 1, "stop": stop}});
    let empty = server.sample(&sampler, 0, params(json!([])));
    assert_eq!(empty, server.sample(&sampler, 1, params(Value::Null)));
    assert!(empty.sequences.iter().any(|sequence| sequence.stop_reason == 0), "none ended: {empty:?}");
}

#[test]
fn adjacent_seeds_share_no_samples() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let sampler = server.base_sampler();
    let drawn = |number: u32, seed: u64| {
        let params = json!({"max_tokens": 20, "seed": seed, "stop": [0]});
        server.sample(&sampler, number, json!({"num_samples": 8, "sampling_params": params})).sequences
    };
    let first = drawn(0, 1);
    assert_eq!(first, drawn(1, 1), "a seed determines its samples");
    let second = drawn(2, 2);
    assert!(first.iter().all(|sequence| !second.contains(sequence)), "{first:?}\n{second:?}");
}

#[test]
fn weights_for_samplers_are_not_replaced_unasked() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let model = server.create(&server.session(), 0).unwrap();
    let weights = || std::fs::read_dir(dir.path().join("tinker/weights")).unwrap().count();
    let save = |number: u32, overwrite: bool| {
        let body = json!({"model_id": model, "seq_id": number, "path": "s", "overwrite": overwrite});
        server.result("save_weights_for_sampler", &body)
    };
    assert!(save(1, false)["path"].is_string());
    let before = weights();
    let refused = save(2, false);
    assert!(error_of(&refused).starts_with("path is \"s\""), "{refused}");
    assert!(save(3, true)["path"].is_string());
    assert_eq!(weights(), before, "the earlier ones are removed");
}

#[test]
fn refused_samples_leave_little_in_memory_and_what_they_leave_counts() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["tinker.max_body=512KiB", "tinker.max_memory=1MiB"]);
    let sampler = server.base_sampler();
    let ask = |number: u32| {
        let body = json!({"sampling_session_id": sampler, "seq_id": number, "num_samples": 1024,
            "prompt": {"chunks": [{"type": "encoded_text", "tokens": [3]}]}, "topk_sample_logprobs": 1});
        server.post("asample", &body).0
    };
    let before = server.resident_bytes();
    let statuses: Vec<u16> = (0..1000).map(ask).collect();
    let admitted = statuses.iter().filter(|&&status| status == 200).count();
    // Each leaves its record and its result, 1.5 KiB.
    assert!((600..=700).contains(&admitted) && statuses.ends_with(&[429]), "{admitted}");
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes for {admitted} refusals of 1024 samples each");
}

#[test]
fn metadata_of_a_model_or_checkpoint_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let session = server.session();
    let long = "x".repeat(64 << 10);
    let create = |metadata: &str| {
        json!({"session_id": session, "model_seq_id": 0, "base_model": "tiny", "lora_config": {"rank": 4},
            "user_metadata": {"note": metadata}})
    };
    let (status, answer) = server.post("create_model", &create(&long));
    let error = error_of(&answer);
    assert!(status == 422 && error.starts_with("user_metadata is 65547 bytes, allowed: "), "{status} {error}");
    let model = server.result("create_model", &create("short"))["model_id"].as_str().unwrap().to_owned();
    // A training request takes its number, so that its result has the refusal.
    for (number, path) in [(1, "save_weights"), (2, "save_weights_for_sampler")] {
        let body = json!({"model_id": model, "seq_id": number, "path": "a", "user_metadata": {"note": long}});
        assert!(error_of(&server.result(path, &body)).starts_with("user_metadata is 65547 bytes"), "{path}");
    }
    let body = json!({"model_id": model, "seq_id": 3, "path": "a", "user_metadata": {"note": "short"}});
    assert!(server.result("save_weights", &body)["path"].is_string());
}

#[test]
fn web_pages_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    assert_eq!(server.status_with_header("origin: http://evil.example"), 403);
    assert_eq!(server.status_with_header("x-from: a client"), 200);
}

#[test]
fn a_session_that_ends_takes_nothing_of_another_whose_name_begins_alike() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let sessions: Vec<String> = (0..20).map(|_| server.session()).collect();
    let (short, long) = sessions
        .iter()
        .flat_map(|short| sessions.iter().map(move |long| (short, long)))
        .find(|(short, long)| short != long && long.starts_with(short.as_str()))
        .unwrap();
    let create = json!({"session_id": long, "sampling_session_seq_id": 0, "base_model": "tiny"});
    let sampler = server.ok("create_sampling_session", &create)["sampling_session_id"].clone();
    let sample = json!({"sampling_session_id": sampler, "seq_id": 0,
        "prompt": {"chunks": [{"type": "encoded_text", "tokens": [3, 4]}]}, "sampling_params": {"max_tokens": 1}});
    let id = server.ok("asample", &sample)["request_id"].clone();
    server.ok(&format!("sessions/{short}/finish"), &json!({}));
    assert_eq!(server.ok("asample", &sample)["request_id"], id, "the same request has its first id");
}

#[test]
fn a_name_that_is_saved_again_keeps_the_files_of_the_last_one_only() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["tinker.keep_samplers=1"]);
    let session = server.session();
    let model = server.create(&session, 0).unwrap();
    for step in 0..3 {
        server.forward_backward(&model, 3 * step + 1, "cross_entropy", vec![supervised()]).unwrap();
        server.optim_step(&model, 3 * step as u32 + 2);
        let body = json!({"model_id": model, "seq_id": 3 * step + 3, "path": "latest", "overwrite": true});
        let path = server.result("save_weights_for_sampler", &body)["path"].clone();
        // Each is sampled from, as a training loop does.
        let sampler = json!({"session_id": session, "sampling_session_seq_id": step, "model_path": path});
        server.ok("create_sampling_session", &sampler);
    }
    let weights = || std::fs::read_dir(dir.path().join("tinker/weights")).unwrap().count();
    assert_eq!(weights(), 3, "the base, the last, and one that a session may still sample from");
    server.ok(&format!("sessions/{session}/finish"), &json!({}));
    assert_eq!(weights(), 2, "the base, and what has the name");
}

#[test]
fn a_change_that_cannot_be_written_is_undone_with_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let model = server.create(&server.session(), 0).unwrap();
    let weights = || std::fs::read_dir(dir.path().join("tinker/weights")).unwrap().count();
    let before = weights();
    // It stands where the next state is written.
    let obstacle = dir.path().join("tinker/state.writing");
    std::fs::create_dir(&obstacle).unwrap();
    let save = |number: u32| {
        let body = json!({"model_id": model, "seq_id": number, "path": "a"});
        server.result("save_weights_for_sampler", &body)
    };
    let failed = save(1);
    assert!(error_of(&failed).contains("cannot write its state"), "{failed}");
    assert_eq!(weights(), before);
    std::fs::remove_dir(&obstacle).unwrap();
    assert!(save(2)["path"].is_string(), "the name is free");
    assert_eq!(weights(), before + 1, "the weights are published again");
}
