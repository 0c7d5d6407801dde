//! Refusals at the start, by file and value.

use evenkeel_engine::{Engine, EngineError, EngineSettings, validate_model_folder};
use serde_json::json;

use crate::support::{Client, config, model, settings, tokenizer_json, write_model};

async fn refused(settings: EngineSettings) -> String {
    match Engine::start(settings).await {
        Ok(_) => panic!("it started"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn an_invalid_folder_is_refused_by_file_and_value() {
    let folder = model(1);
    let path = folder.path();
    let keep = |name: &str| std::fs::read(path.join(name)).unwrap();
    let config_json = keep("config.json");
    let weights = keep("model.safetensors");
    let tokenizer = keep("tokenizer.json");

    std::fs::remove_file(path.join("config.json")).unwrap();
    assert!(refused(settings(path)).await.contains("config.json"));
    let mut other = config().to_json().unwrap();
    other["num_attention_heads"] = json!(3);
    std::fs::write(path.join("config.json"), other.to_string()).unwrap();
    let error = refused(settings(path)).await;
    assert!(error.contains("model.layers.0.self_attn.q_proj.weight"), "{error}");
    std::fs::write(path.join("config.json"), config_json).unwrap();

    std::fs::write(path.join("model.safetensors"), &weights[..weights.len() - 5]).unwrap();
    assert!(refused(settings(path)).await.contains("model.safetensors"));
    std::fs::remove_file(path.join("model.safetensors")).unwrap();
    assert!(refused(settings(path)).await.contains("model.safetensors"));
    std::fs::write(path.join("model.safetensors"), weights).unwrap();

    let mut large = tokenizer_json();
    large["model"]["vocab"]["zz"] = json!(128);
    std::fs::write(path.join("tokenizer.json"), large.to_string()).unwrap();
    let error = refused(settings(path)).await;
    assert!(["tokenizer.json", "\"zz\"", "128", "127"].iter().all(|part| error.contains(part)), "{error}");
    std::fs::write(path.join("tokenizer.json"), "{").unwrap();
    assert!(refused(settings(path)).await.contains("tokenizer.json"));
    std::fs::write(path.join("tokenizer.json"), tokenizer).unwrap();

    std::fs::write(path.join("tokenizer_config.json"), json!({"eos_token": {"content": "<none>"}}).to_string())
        .unwrap();
    let error = refused(settings(path)).await;
    assert!(error.contains("tokenizer_config.json") && error.contains("<none>"), "{error}");
    std::fs::write(path.join("tokenizer_config.json"), json!({"eos_token": {"content": "<eos>"}}).to_string()).unwrap();

    std::fs::write(path.join("generation_config.json"), json!({"eos_token_id": [1, 128]}).to_string()).unwrap();
    let error = refused(settings(path)).await;
    assert!(error.contains("generation_config.json") && error.contains("128"), "{error}");
    std::fs::remove_file(path.join("generation_config.json")).unwrap();
    validate_model_folder(&settings(path)).unwrap();
}

#[tokio::test]
async fn a_taken_port_is_refused_before_the_model_is_read() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let settings = EngineSettings { listen: listen.clone(), ..settings("/there/is/no/model".as_ref()) };
    let error = Engine::start(settings).await.err().unwrap();
    assert!(matches!(&error, EngineError::Listen { .. }) && error.to_string().contains(&listen), "{error}");
}

#[tokio::test]
async fn a_cache_that_cannot_hold_one_sequence_is_refused() {
    let folder = model(1);
    let error = refused(EngineSettings { kv_cache_tokens: 511, ..settings(folder.path()) }).await;
    assert!(error.contains("kv_cache_tokens") && error.contains("512"), "{error}");
    let error = refused(EngineSettings { max_model_len: Some(513), ..settings(folder.path()) }).await;
    assert!(error.contains("max_model_len") && error.contains("512"), "{error}");
    assert!(refused(EngineSettings { max_sequences: 0, ..settings(folder.path()) }).await.contains("max_sequences"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_on_any_port_reports_it_and_several_run_in_one_process() {
    let one = model(1);
    let two = tempfile::tempdir().unwrap();
    write_model(two.path(), &evenkeel_model::Config { max_position_embeddings: 64, ..config() }, 2);
    let one = Engine::start(settings(one.path())).await.unwrap();
    let two = Engine::start(EngineSettings {
        listen: "0.0.0.0:0".into(),
        insecure: true,
        served_model_name: None,
        weights_roots: vec![two.path().to_owned()],
        ..settings(two.path())
    });
    let two = two.await.unwrap();
    assert_ne!(one.address().port(), two.address().port());
    assert_eq!(two.endpoint(), format!("http://127.0.0.1:{}", two.address().port()));
    let context =
        |client: Client| async move { client.get("/v1/models").await.good()["data"][0]["max_model_len"].clone() };
    assert_eq!(context(Client(one.address())).await, 512);
    let local = Client(([127, 0, 0, 1], two.address().port()).into());
    assert_eq!(context(local).await, 64);
    assert_eq!(local.metric("generation_tokens_total").await, 0.0);
    one.stop().await;
    two.stop().await;
}
