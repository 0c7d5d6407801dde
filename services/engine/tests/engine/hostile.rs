//! Hostile clients: API key, development routes, deadlines and limits of connections.

use std::time::Duration;

use evenkeel_engine::EngineSettings;
use evenkeel_rpc::private::tokens_for;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{TIMEOUT, config, model, serve_with, write_model};

/// Whether the server closes the connection within the tests' time limit, with or without a response.
async fn closes(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let end = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut rest)).await;
    let _ = end.expect("it is closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_key_only_probes_are_open_and_everything_else_is_401_as_in_vllm() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "secret-of-the-engine\n").unwrap();
    let path = file.path().to_owned();
    let served = serve_with(|settings| EngineSettings { api_key_file: Some(path), ..settings }).await;
    let client = served.client;
    let guarded = [
        ("GET", "/v1/models"),
        ("POST", "/v1/completions"),
        ("GET", "/v1/nothing"),
        ("POST", "/pause"),
        ("POST", "/collective_rpc"),
        ("POST", "/update_weights"),
        ("POST", "/tokenize"),
    ];
    for (method, path) in guarded {
        for header in
            ["", "Bearer wrong", "Bearer secret-of-the-engin", "Basic secret-of-the-engine", "secret-of-the-engine"]
        {
            let headers = [("authorization", header)];
            let answer = client.raw(method, path, &headers[usize::from(header.is_empty())..], String::new()).await;
            assert_eq!((answer.status, answer.json()), (401, json!({"error": "Unauthorized"})), "{path} {header}");
        }
    }
    for path in ["/health", "/ping", "/version", "/metrics", "/load"] {
        assert_eq!(client.get(path).await.status, 200, "{path}");
    }
    let models =
        client.raw("GET", "/v1/models", &[("authorization", "bearer secret-of-the-engine")], String::new()).await;
    assert_eq!(models.good()["data"][0]["id"], "tiny");
    assert_eq!(
        client.raw("POST", "/pause", &[("authorization", "Bearer secret-of-the-engine")], String::new()).await.status,
        200
    );
    served.engine.stop().await;
}

/// What a page of a web site can have a browser send.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn web_pages_cannot_control_the_engine() {
    let served = serve_with(|settings| settings).await;
    let client = served.client;
    let origin = [("origin", "http://evil.example")];
    assert_eq!(client.raw("POST", "/pause?mode=abort", &origin, String::new()).await.status, 403);
    let load = json!({"method": "reload_weights"}).to_string();
    for path in ["/pause", "/resume", "/abort_requests", "/collective_rpc", "/update_weight_version"] {
        let answer = client.raw("POST", path, &[("content-type", "text/plain")], load.clone()).await;
        assert_eq!((answer.status, &answer.json()["error"]["param"]), (400, &json!("content-type")), "{path}");
    }
    let mut foreign = TcpStream::connect(client.0).await.unwrap();
    foreign.write_all(b"GET /v1/models HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    foreign.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("Host header"), "{answer}");
    assert_eq!(client.get("/is_paused").await.good()["is_paused"], json!(false));
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_private_engine_answers_nothing_without_the_secret_of_its_process() {
    let served = serve_with(|settings| {
        let model = settings.model.clone();
        settings.private(model)
    })
    .await;
    for path in ["/v1/models", "/server_info", "/is_paused", "/health", "/metrics", "/nothing"] {
        assert_eq!(served.client.get(path).await.status, 401, "{path}");
    }
    let endpoint = served.engine.endpoint();
    let secret = tokens_for(&endpoint).and_then(|tokens| tokens.first()).expect("clients of this process have it");
    let key = format!("Bearer {}", secret.expose());
    for path in ["/v1/models", "/health"] {
        let answer = served.client.raw("GET", path, &[("authorization", &key)], String::new()).await;
        assert_eq!(answer.status, 200, "{path}");
    }
    served.engine.stop().await;
    assert!(tokens_for(&endpoint).is_none(), "whoever listens there next does not get it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_development_routes_the_engine_cannot_be_changed() {
    let served = serve_with(|settings| EngineSettings { development_routes: false, ..settings }).await;
    for path in ["/pause", "/resume", "/collective_rpc", "/update_weight_version", "/abort_requests", "/update_weights"]
    {
        assert_eq!(served.client.post(path, Value::Null).await.status, 404, "{path}");
    }
    served.client.complete(json!({})).await.good();
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_headers_and_bodies_and_idle_connections_are_closed() {
    let deadlines = |settings| EngineSettings {
        header_deadline: Duration::from_millis(400),
        body_deadline: Duration::from_millis(400),
        ..settings
    };
    let served = serve_with(deadlines).await;
    let address = served.client.0;
    let body = "POST /tokenize HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{";
    for sent in ["", "GET /health HTT", "GET /health HTTP/1.1\r\nhost: localhost\r\nx: ", body] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        closes(&mut stream).await;
    }
    // A connection that is idle after a request.
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    closes(&mut stream).await;
    // A response may take longer than the deadline.
    served.client.freeze().await;
    let client = served.client;
    let slow = tokio::spawn(async move { client.complete(json!({})).await });
    served.client.until("num_requests_waiting", 1.0).await;
    tokio::time::sleep(Duration::from_millis(900)).await;
    served.client.thaw().await;
    slow.await.unwrap().good();
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_engine_still_answers_probes() {
    let places = |settings| EngineSettings { max_connections: 3, header_deadline: Duration::from_secs(3), ..settings };
    let served = serve_with(places).await;
    let mut idle = Vec::new();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(served.client.0).await.unwrap();
        stream.write_all(b"GET /health HTTP/1.1\r\n").await.unwrap();
        idle.push(stream);
    }
    assert_eq!(served.client.get("/health").await.status, 200);
    assert_eq!(served.client.complete(json!({})).await.status, 503);
    for stream in &mut idle {
        closes(stream).await;
    }
    // The connections are available again.
    served.client.complete(json!({})).await.good();
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_do_not_keep_probes_out() {
    let places = |settings| EngineSettings { max_connections: 3, header_deadline: Duration::from_secs(30), ..settings };
    let served = serve_with(places).await;
    let mut silent = Vec::new();
    for _ in 0..60 {
        silent.push(TcpStream::connect(served.client.0).await.unwrap());
    }
    assert_eq!(served.client.get("/health").await.status, 200);
    drop(silent);
    served.engine.stop().await;
}

/// A client that asks for much and reads nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_takes_nothing_of_its_response_is_given_up() {
    let short =
        |settings| EngineSettings { max_sequences: 64, unread_deadline: Duration::from_millis(300), ..settings };
    let served = serve_with(short).await;
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(1024).unwrap();
    let mut silent = socket.connect(served.client.0).await.unwrap();
    let prompts = vec![vec![5; 30]; 1024];
    let body = json!({"model": "tiny", "prompt": prompts, "max_tokens": 480, "ignore_eos": true, "temperature": 1, "seed": 1,
        "logprobs": 20, "return_token_ids": true, "stream": true});
    let body = body.to_string();
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    silent.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    served.client.until("num_requests_running", 64.0).await;
    // Long before all of them are done.
    served.client.until("num_requests_running", 0.0).await;
    assert!(served.client.metric("generation_tokens_total").await < 512.0 * 480.0);
    served.client.complete(json!({})).await.good();
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_header_without_an_end_is_refused_by_its_size() {
    let served = serve_with(|settings| settings).await;
    let mut stream = TcpStream::connect(served.client.0).await.unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nx: ").await.unwrap();
    let mut sent = 0;
    while sent < 1 << 20 && stream.write_all(&[b'x'; 4096]).await.is_ok() {
        sent += 4096;
    }
    closes(&mut stream).await;
    assert_eq!(served.client.get("/health").await.status, 200);
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn weights_are_taken_from_below_the_configured_folders_only() {
    let published = tempfile::tempdir().unwrap();
    let root = published.path().canonicalize().unwrap();
    let inside = root.join("step-1");
    std::fs::create_dir(&inside).unwrap();
    write_model(&inside, &config(), 2);
    let outside = model(3);
    std::os::unix::fs::symlink(outside.path(), root.join("step-2")).unwrap();
    let served = serve_with(|settings| EngineSettings { weights_roots: vec![root.clone()], ..settings }).await;
    let load = |path: String| json!({"method": "reload_weights", "kwargs": {"weights_path": path}});
    for path in [
        outside.path().display().to_string(),
        root.join("step-2").display().to_string(),
        format!("{}/../step-1", inside.display()),
        "/etc".to_owned(),
        "/nowhere\n\x1b[31m".repeat(10_000),
    ] {
        let answer = served.client.post("/collective_rpc", load(path.clone())).await;
        let text = answer.text;
        assert_eq!(answer.status, 500, "{text}");
        assert!(text.contains("allowed: a folder below weights_roots") && text.len() < 2_000, "{text}");
    }
    let before = served.client.complete(json!({"temperature": 0, "max_tokens": 8})).await.good();
    served.client.post("/collective_rpc", load(inside.display().to_string())).await.good();
    let after = served.client.complete(json!({"temperature": 0, "max_tokens": 8})).await.good();
    assert_ne!(before["choices"], after["choices"], "the weights inside were taken, and none before");
    // Without a path the last folder is loaded.
    served.client.post("/collective_rpc", json!({"method": "reload_weights"})).await.good();
    served.engine.stop().await;
}
