//! A scripted server with vLLM's HTTP API. Samples follow from prompt, seed and weights alone, as a real
//! engine's do. It runs in a runtime of its own, so that it can be killed as a process is.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::completions::completions;

/// Ids of the fake model are below it.
pub(crate) const VOCABULARY: u64 = 64;
/// Longest sequence of the fake model.
pub(crate) const CONTEXT: u64 = 512;

/// What becomes of one request for a sample.
#[derive(Clone)]
pub(crate) enum Reply {
    /// The sample, at once.
    Answer,
    /// The sample, a token in each of these.
    Tick(Duration),
    Hang,
    /// This status with this body.
    Status(u16, String),
    /// The body of the sample, changed.
    Garble(fn(String) -> String),
    /// The connection breaks after this number of bytes of the sample's body.
    Break(usize),
}

type Script = Box<dyn Fn(&Value) -> Reply + Send + Sync>;

/// What all handlers share.
pub(crate) struct FakeEngineState {
    pub(super) script: Mutex<Script>,
    /// Routes that fail: route, status, how often.
    failing: Mutex<Vec<(String, u16, usize)>>,
    /// Every request but those for health and version.
    pub(crate) log: Mutex<Vec<String>>,
    pub(crate) asked: Mutex<Vec<Value>>,
    /// Whether a request for a sample came with a trace.
    pub(crate) is_traced: AtomicBool,
    /// Requests for samples that are not answered.
    pub(crate) live: AtomicUsize,
    pub(crate) label: Mutex<String>,
    pub(crate) folder: Mutex<String>,
    /// The model folder that it reports.
    pub(crate) root: Mutex<String>,
    /// Settings that `/server_info` answers with. Null: the server has no such route.
    pub(crate) server_info: Mutex<Value>,
    /// What its worker extension answers.
    pub(crate) extension: Mutex<Value>,
    pub(crate) raw: AtomicBool,
    /// Nothing is answered any more, as of a process that was stopped.
    pub(crate) frozen: AtomicBool,
    /// Forgets the label that is set for its weights.
    pub(crate) deaf: AtomicBool,
    pub(crate) asleep: AtomicBool,
    /// Adapters by name, with the folder that each was read from. It has the routes with `lora_config` of its settings.
    pub(crate) adapters: Mutex<BTreeMap<String, String>>,
    /// Answers as the base whatever adapter is asked for, as one whose tensors have other names does.
    pub(crate) ignores_adapters: AtomicBool,
    /// Requests that wait in it, as its metrics say.
    pub(crate) waiting: AtomicUsize,
    pub(super) paused: watch::Sender<bool>,
    pub(super) aborts: watch::Sender<u64>,
}

pub(crate) struct FakeEngine {
    pub(crate) shared: Arc<FakeEngineState>,
    pub(crate) address: SocketAddr,
    runtime: Option<Runtime>,
}

impl FakeEngine {
    pub(crate) fn start() -> Self {
        Self::start_on("127.0.0.1:0".parse().unwrap())
    }

    pub(crate) fn start_on(listen: SocketAddr) -> Self {
        let shared = Arc::new(FakeEngineState {
            script: Mutex::new(Box::new(|_| Reply::Answer)),
            failing: Mutex::default(),
            log: Mutex::default(),
            asked: Mutex::default(),
            is_traced: AtomicBool::new(false),
            live: AtomicUsize::new(0),
            label: Mutex::new("default".into()),
            folder: Mutex::default(),
            root: Mutex::new("/nowhere/fake".into()),
            server_info: Mutex::default(),
            extension: Mutex::default(),
            raw: AtomicBool::new(false),
            frozen: AtomicBool::new(false),
            deaf: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            adapters: Mutex::default(),
            ignores_adapters: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            paused: watch::channel(false).0,
            aborts: watch::channel(0).0,
        });
        let (runtime, address) = run(&shared, listen);
        Self { shared, address, runtime: Some(runtime) }
    }

    /// An engine started with `--enable-lora`, with a limit of adapters at a time and of their rank.
    pub(crate) fn with_adapters(live: usize, rank: usize) -> Self {
        let engine = Self::start();
        *engine.shared.server_info.lock().unwrap() =
            json!({"vllm_config": {"lora_config": {"max_loras": live, "max_lora_rank": rank}}});
        engine
    }

    /// The names of the adapters that it has.
    pub(crate) fn adapters(&self) -> Vec<String> {
        self.shared.adapters.lock().unwrap().keys().cloned().collect()
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn name(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn script(&self, script: impl Fn(&Value) -> Reply + Send + Sync + 'static) {
        *self.shared.script.lock().unwrap() = Box::new(script);
    }

    /// The next `times` requests to `route` fail.
    pub(crate) fn fail(&self, route: &str, status: u16, times: usize) {
        self.shared.failing.lock().unwrap().push((route.into(), status, times));
    }

    pub(crate) fn fail_no_more(&self) {
        self.shared.failing.lock().unwrap().clear();
    }

    /// Cuts every connection and frees the port.
    pub(crate) fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// Begins anew on the same port, with the weights that it began with.
    pub(crate) fn restart(&mut self) {
        self.kill();
        *self.shared.label.lock().unwrap() = "default".into();
        self.shared.adapters.lock().unwrap().clear();
        self.shared.paused.send_replace(false);
        self.shared.live.store(0, Ordering::SeqCst);
        self.runtime = Some(run(&self.shared, self.address).0);
    }

    pub(crate) fn live(&self) -> usize {
        self.shared.live.load(Ordering::SeqCst)
    }

    /// Requests for samples so far, without those of probes.
    pub(crate) fn asked(&self) -> Vec<Value> {
        let asked = self.shared.asked.lock().unwrap();
        asked.iter().filter(|body| body["cache_salt"] != "probe").cloned().collect()
    }

    /// Control requests since the last call.
    pub(crate) fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut *self.shared.log.lock().unwrap())
    }

    pub(crate) fn label(&self) -> String {
        self.shared.label.lock().unwrap().clone()
    }
}

impl Drop for FakeEngine {
    fn drop(&mut self) {
        self.kill();
    }
}

fn run(shared: &Arc<FakeEngineState>, address: SocketAddr) -> (Runtime, SocketAddr) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    // A killed predecessor lets go of the port in its own time.
    let listener = (0..200)
        .find_map(|_| {
            std::net::TcpListener::bind(address).inspect_err(|_| std::thread::sleep(Duration::from_millis(10))).ok()
        })
        .expect("the port is free");
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let router = router(Arc::clone(shared));
    runtime.spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        axum::serve(listener, router).await.unwrap();
    });
    (runtime, address)
}

pub(super) type App = State<Arc<FakeEngineState>>;

fn router(shared: Arc<FakeEngineState>) -> Router {
    Router::new()
        .route("/health", get(|State(s): App| async move { s.checked("/health", || json!({})).await }))
        .route(
            "/version",
            get(|State(s): App| async move { s.checked("/version", || json!({"version": "0.32.0"})).await }),
        )
        .route("/server_info", get(server_info))
        .route("/v1/models", get(models))
        .route("/weight_info", get(weight_info))
        .route(
            "/is_paused",
            get(|State(s): App| async move {
                let p = *s.paused.borrow();
                s.checked("/is_paused", || json!({"is_paused": p})).await
            }),
        )
        .route("/pause", post(pause))
        .route("/resume", post(resume))
        .route("/sleep", post(sleep))
        .route("/wake_up", post(wake_up))
        .route(
            "/is_sleeping",
            get(|State(s): App| async move {
                let asleep = s.asleep.load(Ordering::SeqCst);
                s.checked("/is_sleeping", || json!({"is_sleeping": asleep})).await
            }),
        )
        .route("/metrics", get(metrics))
        .route("/collective_rpc", post(collective_rpc))
        .route("/update_weight_version", post(update_weight_version))
        .route("/v1/load_lora_adapter", post(load_adapter))
        .route("/v1/unload_lora_adapter", post(unload_adapter))
        .route("/v1/completions", post(completions))
        .with_state(shared)
}

impl FakeEngineState {
    pub(super) async fn checked(&self, route: &str, answer: impl FnOnce() -> Value) -> Response {
        if self.frozen.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let failing = {
            let mut failing = self.failing.lock().unwrap();
            let entry = failing.iter_mut().find(|(name, _, times)| name == route && *times > 0);
            entry.map(|entry| {
                entry.2 -= 1;
                entry.1
            })
        };
        match failing {
            Some(status) => {
                let body = json!({"error": {"message": format!("{route} fails"), "code": status}});
                (StatusCode::from_u16(status).unwrap(), axum::Json(body)).into_response()
            }
            None => axum::Json(answer()).into_response(),
        }
    }

    fn note(&self, entry: String) {
        self.log.lock().unwrap().push(entry);
    }
}

async fn models(State(shared): App) -> Response {
    let root = shared.root.lock().unwrap().clone();
    let model = json!({"id": "fake", "object": "model", "root": root, "parent": null, "max_model_len": CONTEXT});
    let adapters = shared.adapters.lock().unwrap().clone();
    let adapters =
        adapters.into_iter().map(|(id, root)| json!({"id": id, "object": "model", "root": root, "parent": "fake"}));
    let data: Vec<Value> = std::iter::once(model).chain(adapters).collect();
    shared.checked("/v1/models", || json!({"object": "list", "data": data})).await
}

async fn server_info(State(shared): App) -> Response {
    let info = shared.server_info.lock().unwrap().clone();
    if info.is_null() { StatusCode::NOT_FOUND.into_response() } else { shared.checked("/server_info", || info).await }
}

fn refusal(status: u16, message: String) -> Response {
    let body = json!({"error": {"message": message, "type": "BadRequestError", "code": status}});
    (StatusCode::from_u16(status).unwrap(), axum::Json(body)).into_response()
}

impl FakeEngineState {
    fn lora_config(&self) -> Option<Value> {
        let info = self.server_info.lock().unwrap();
        Some(info["vllm_config"]["lora_config"].clone()).filter(|config| !config.is_null())
    }
}

/// As vLLM 0.32: a name once, and whatever else is wrong is its own error.
async fn load_adapter(State(shared): App, axum::Json(body): axum::Json<Value>) -> Response {
    let Some(config) = shared.lora_config() else { return StatusCode::NOT_FOUND.into_response() };
    let response = shared.checked("/v1/load_lora_adapter", || json!("Success")).await;
    if !response.status().is_success() {
        return response;
    }
    let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
    let name = text("lora_name");
    let path = text("lora_path");
    if name.is_empty() || path.is_empty() {
        return refusal(400, "Both 'lora_name' and 'lora_path' must be provided.".into());
    }
    shared.note(format!("load {name} live={} paused={}", shared.live.load(Ordering::SeqCst), *shared.paused.borrow()));
    assert_eq!(body["load_inplace"], false, "never in place");
    assert!(!shared.asleep.load(Ordering::SeqCst), "its memory is given away");
    if shared.adapters.lock().unwrap().contains_key(&name) {
        return refusal(400, format!("The lora adapter '{name}' has already been loaded."));
    }
    let Ok(text) = std::fs::read_to_string(format!("{path}/adapter_config.json")) else {
        return refusal(404, format!("Loading lora {name} failed: No adapter found for {path}"));
    };
    let rank = serde_json::from_str::<Value>(&text).unwrap()["r"].as_u64();
    if rank > config["max_lora_rank"].as_u64() {
        return refusal(500, format!("LoRA rank {rank:?} is greater than max_lora_rank"));
    }
    shared.adapters.lock().unwrap().insert(name, path);
    response
}

async fn unload_adapter(State(shared): App, axum::Json(body): axum::Json<Value>) -> Response {
    if shared.lora_config().is_none() {
        return StatusCode::NOT_FOUND.into_response();
    }
    let name = body["lora_name"].as_str().unwrap().to_owned();
    shared.note(format!("unload {name}"));
    let response = shared.checked("/v1/unload_lora_adapter", || json!("Success")).await;
    if response.status().is_success() && shared.adapters.lock().unwrap().remove(&name).is_none() {
        return refusal(404, format!("The lora adapter '{name}' cannot be found."));
    }
    response
}

async fn weight_info(State(shared): App) -> Response {
    let label = shared.label.lock().unwrap().clone();
    shared.checked("/weight_info", || json!({"weight_version": label})).await
}

async fn pause(State(shared): App, Query(query): Query<BTreeMap<String, String>>) -> Response {
    let mode = query.get("mode").map(String::as_str).unwrap_or("abort").to_owned();
    shared
        .note(format!("pause mode={mode} clear_cache={}", query.get("clear_cache").map(String::as_str).unwrap_or("-")));
    let response = shared.checked("/pause", || json!({"status": "paused"})).await;
    if response.status().is_success() {
        shared.paused.send_replace(true);
        if mode == "abort" {
            shared.aborts.send_modify(|count| *count += 1);
        }
    }
    response
}

async fn resume(State(shared): App) -> Response {
    shared.note("resume".into());
    let response = shared.checked("/resume", || json!({"status": "resumed"})).await;
    if response.status().is_success() {
        shared.paused.send_replace(false);
    }
    response
}

async fn sleep(State(shared): App, Query(query): Query<BTreeMap<String, String>>) -> Response {
    shared.note(format!("sleep level={} live={}", query["level"], shared.live.load(Ordering::SeqCst)));
    let response = shared.checked("/sleep", || json!({"status": "sleeping"})).await;
    if response.status().is_success() {
        shared.paused.send_replace(true);
        shared.asleep.store(true, Ordering::SeqCst);
    }
    response
}

async fn wake_up(State(shared): App, Query(query): Query<BTreeMap<String, String>>) -> Response {
    let tags = query.get("tags").map(String::as_str).unwrap_or("all");
    shared.note(format!("wake_up {tags}"));
    let response = shared.checked("/wake_up", || json!({"status": "awake"})).await;
    if response.status().is_success() && tags != "weights" {
        shared.asleep.store(false, Ordering::SeqCst);
        shared.paused.send_replace(false);
    }
    response
}

async fn metrics(State(shared): App) -> Response {
    let running = shared.live.load(Ordering::SeqCst);
    let waiting = shared.waiting.load(Ordering::SeqCst);
    let text = format!(
        "vllm:num_requests_running{{engine=\"0\"}} {running}.0\nvllm:num_requests_waiting{{engine=\"0\"}} {waiting}.0\n\
         vllm:kv_cache_usage_perc{{engine=\"0\"}} 0.5\n"
    );
    let response = shared.checked("/metrics", || json!({})).await;
    if response.status().is_success() { text.into_response() } else { response }
}

async fn collective_rpc(State(shared): App, axum::Json(body): axum::Json<Value>) -> Response {
    if body["method"] == "evenkeel_weights" {
        let answer = shared.extension.lock().unwrap().clone();
        return if answer.is_null() {
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        } else {
            shared.checked("/collective_rpc", || json!({"results": [answer]})).await
        };
    }
    let path = body["kwargs"]["weights_path"].as_str().unwrap_or_default().to_owned();
    shared.note(format!(
        "{} {path} live={} paused={}",
        body["method"].as_str().unwrap(),
        shared.live.load(Ordering::SeqCst),
        *shared.paused.borrow()
    ));
    let response = shared.checked("/collective_rpc", || json!({"results": [null]})).await;
    if response.status().is_success() {
        *shared.folder.lock().unwrap() = path;
    }
    response
}

async fn update_weight_version(State(shared): App, axum::Json(body): axum::Json<Value>) -> Response {
    let label = body["new_version"].as_str().unwrap().to_owned();
    shared.note(format!("version {label}"));
    let answer = json!({"success": true, "new_version": label});
    let response = shared.checked("/update_weight_version", || answer).await;
    if response.status().is_success() && !shared.deaf.load(Ordering::SeqCst) {
        *shared.label.lock().unwrap() = label;
    }
    response
}
