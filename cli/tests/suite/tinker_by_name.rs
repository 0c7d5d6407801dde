//! The front that speaks Tinker's API, before engines that take adapters by name, as vLLM does.

use std::path::Path;

use serde_json::{Value, json};

use crate::adapter_server::{AdapterFault, AdapterServer, LIVE};
use crate::support::{evenkeel, refused, written_model};
use crate::tinker::{Samples, Server, supervised};

/// Sampling sessions: the first version that was trained, the second, and the base.
fn samplers(server: &Server) -> [String; 3] {
    let session = server.session();
    let model = server.create(&session, 0).unwrap();
    let id = |answer: &Value| answer["sampling_session_id"].as_str().unwrap().to_owned();
    let [first, second] = [0, 1].map(|number| {
        let seq_id = 3 * number + 1;
        server.forward_backward(&model, seq_id, "cross_entropy", vec![supervised(); 2]).unwrap();
        server.optim_step(&model, seq_id as u32 + 1);
        let body = json!({"model_id": model, "seq_id": seq_id + 2, "sampling_session_seq_id": number});
        id(&server.result("save_weights_for_sampler", &body))
    });
    let base = json!({"session_id": session, "sampling_session_seq_id": 2, "base_model": "tiny"});
    [first, second, id(&server.ok("create_sampling_session", &base))]
}

#[test]
fn engines_that_take_adapters_by_name_draw_what_the_embedded_engine_draws() {
    let dir = tempfile::tempdir().unwrap();
    let model = written_model(dir.path());
    let engine = AdapterServer::start(&model);
    let folders = ["named", "embedded"].map(|name| dir.path().join(name));
    let endpoints = [vec![format!("generation.endpoints=[\"{}\"]", engine.url())], Vec::new()];
    let mut servers = Vec::new();
    let drawn = [0, 1].map(|at| {
        std::fs::create_dir(&folders[at]).unwrap();
        let server = Server::again(&folders[at], &model, &endpoints[at]);
        let samplers = samplers(&server);
        // In turns, so that each is loaded again after another.
        let order = [0, 1, 2, 0].map(|sampler| &samplers[sampler]);
        let drawn: Vec<Samples> = order
            .iter()
            .enumerate()
            .map(|(number, sampler)| server.sample(sampler, number as u32, json!({})))
            .collect();
        servers.push((server, samplers));
        drawn
    });
    assert_eq!(drawn[0], drawn[1], "tokens and log-probabilities");
    assert_eq!(drawn[0][0], drawn[0][3], "a snapshot stays what it is");
    assert!(drawn[0][0] != drawn[0][1] && drawn[0][1] != drawn[0][2], "{drawn:?}");
    let live = |entry: &String| if entry.starts_with("load ") { 1 } else { -1_i64 };
    let log = engine.log();
    let most = log.iter().scan(0, |now, entry| Some((*now += live(entry), *now).1)).max();
    assert!(log.len() >= 4 && most <= Some(LIVE as i64), "{log:?}");

    let (embedded, samplers) = &servers[1];
    assert_eq!(proof_of(embedded, &samplers[0])["state"], "verified", "to the bit");
    let (server, samplers) = &servers[0];
    liars_draw_nothing(server, &engine, &folders[0], samplers);
    assert_eq!(server.sample(&samplers[0], 20, json!({})), drawn[0][0], "other weights are drawn from");
}

/// What a client is told of the weights of a sampling session.
fn proof_of(server: &Server, sampler: &str) -> Value {
    server.get(&format!("samplers/{sampler}"))["weights_proof"].clone()
}

/// Weights that engines lie about are never sampled from: those of an adapter that does not arrive, and of one that is
/// kept in the place of the next.
fn liars_draw_nothing(server: &Server, engine: &AdapterServer, folder: &Path, samplers: &[String; 3]) {
    let mut published: Vec<_> =
        std::fs::read_dir(folder.join("tinker/weights")).unwrap().map(|entry| entry.unwrap().path()).collect();
    published.sort();
    // The base, the first version, the second.
    let first = published[1].clone();
    for (number, fault) in [AdapterFault::Base, AdapterFault::Stale(first)].into_iter().enumerate() {
        engine.go_wrong(Some(fault));
        let refusal = server.failed_sample(&samplers[1], 10 + number as u32);
        let error = refusal["error"].as_str().unwrap();
        assert!(error.contains("does not have the weights that it reports"), "{refusal}");
        assert_eq!((&refusal["category"], &refusal["reason"]), (&json!("server"), &json!("WEIGHTS_UNPROVEN")));
        assert_eq!(proof_of(server, &samplers[1]), Value::Null, "what is refused is not verified");
        engine.go_wrong(None);
        // Others are loaded in between, so that the adapter is loaded again.
        for other in [0, 2] {
            server.sample(&samplers[other], 12 + number as u32, json!({}));
        }
    }
}

#[test]
fn engines_with_the_learners_arithmetic_have_its_bits_or_draw_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let model = written_model(dir.path());
    let engine = AdapterServer::start(&model).with_arithmetic();
    let server = Server::again(dir.path(), &model, &[format!("generation.endpoints=[\"{}\"]", engine.url())]);
    let samplers = samplers(&server);
    let drawn = server.sample(&samplers[0], 0, json!({}));
    let proof = proof_of(&server, &samplers[0]);
    assert!(proof["reason"].as_str().unwrap().contains("tokens have the learner's log-probabilities"), "{proof}");
    server.sample(&samplers[2], 0, json!({}));
    liars_draw_nothing(&server, &engine, dir.path(), &samplers);
    assert_eq!(server.sample(&samplers[0], 20, json!({})), drawn);
}

#[test]
fn engines_that_take_no_adapters_of_this_rank_are_refused_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let model = written_model(dir.path());
    let engine = AdapterServer::start(&model);
    let mut command = evenkeel(&["serve", "tinker"]);
    for setting in [
        format!("model={}", model.display()),
        format!("tinker.folder={}", dir.path().join("tinker").display()),
        format!("generation.endpoints=[\"{}\"]", engine.url()),
        "tinker.listen=127.0.0.1:0".to_owned(),
        "tinker.model_name=tiny".to_owned(),
        "learner.lora.rank=32".to_owned(),
    ] {
        command.args(["--set", &setting]);
    }
    let error = refused(command);
    assert!(error.contains("generation.endpoints: learner.lora.rank is 32"), "{error}");
    assert!(error.contains("up to rank 16 (vLLM: --max-lora-rank)") && engine.log().is_empty(), "{error}");
}
