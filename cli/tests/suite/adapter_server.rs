//! A server that takes adapters by name, as vLLM does, and computes them as the embedded engine does: in front of one
//! engine for the base and one for each adapter. It can be made to go wrong in the ways that vLLM does without an
//! error.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::plain_http::{Request, ask, refusal, whole};
use crate::support::{Process, engine, free_ports};

/// Adapters that it computes at a time.
pub(crate) const LIVE: usize = 2;
/// The largest rank that it takes.
const RANK: u64 = 16;

/// What it does instead of what it is asked for, from the next load on.
#[derive(Clone)]
pub(crate) enum AdapterFault {
    /// Nothing of the adapter arrives: its tensors have other names, or it was evicted. The base answers.
    Base,
    /// The folder of an earlier version is read.
    Stale(PathBuf),
    /// The server takes the adapter for one of another rank: this many times as much of it is added.
    WrongRank(f64),
}

pub(crate) struct AdapterServer {
    address: SocketAddr,
    shared: Arc<SharedServer>,
    _engines: Vec<Process>,
}

struct SharedServer {
    model: PathBuf,
    /// Copies of adapters that are not loaded as they are.
    copies: tempfile::TempDir,
    base: u16,
    /// Whether it says how it computes, which vLLM does not.
    has_arithmetic: AtomicBool,
    state: Mutex<LoadedAdapters>,
}

struct LoadedAdapters {
    /// Engines without an adapter.
    free: Vec<u16>,
    /// Folder and engine of each adapter, by its name.
    adapters: BTreeMap<String, (String, u16)>,
    /// Every load and unload.
    log: Vec<String>,
    fault: Option<AdapterFault>,
}

impl AdapterServer {
    /// Serves a model until the test ends.
    pub(crate) fn start(model: &Path) -> Self {
        let ports: [u16; LIVE + 1] = free_ports();
        let engines = ports.map(|port| engine(port, model));
        let state =
            LoadedAdapters { free: ports[1..].to_vec(), adapters: BTreeMap::new(), log: Vec::new(), fault: None };
        let copies = tempfile::tempdir().unwrap();
        let shared = Arc::new(SharedServer {
            model: model.to_owned(),
            copies,
            base: ports[0],
            has_arithmetic: AtomicBool::new(false),
            state: Mutex::new(state),
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&server);
                std::thread::spawn(move || serve(&client, &shared));
            }
        });
        Self { address, shared, _engines: engines.into() }
    }

    /// Says that it computes as its engines do.
    pub(crate) fn with_arithmetic(self) -> Self {
        self.shared.has_arithmetic.store(true, Ordering::Relaxed);
        self
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From the next adapter on.
    pub(crate) fn go_wrong(&self, fault: Option<AdapterFault>) {
        self.shared.state.lock().unwrap().fault = fault;
    }

    /// Every load and unload so far.
    pub(crate) fn log(&self) -> Vec<String> {
        self.shared.state.lock().unwrap().log.clone()
    }

    /// The names of the adapters that it has.
    pub(crate) fn adapters(&self) -> Vec<String> {
        self.shared.state.lock().unwrap().adapters.keys().cloned().collect()
    }
}

fn serve(client: &TcpStream, shared: &SharedServer) -> Option<()> {
    let mut request = Request::read(client)?;
    let answer = match request.path() {
        "/server_info" => {
            let mut config = json!({"lora_config": {"max_loras": LIVE, "max_lora_rank": RANK}});
            if shared.has_arithmetic.load(Ordering::Relaxed) {
                let own = ask(shared.base, "GET", "/server_info", "")?.1;
                config["model_config"]["arithmetic"] = own["vllm_config"]["model_config"]["arithmetic"].clone();
            }
            whole(200, &json!({"vllm_config": config}))
        }
        "/v1/models" => whole(200, &shared.models()?),
        "/v1/load_lora_adapter" => shared.load(&request.json()?),
        "/v1/unload_lora_adapter" => shared.unload(&request.json()?),
        "/v1/completions" => {
            let mut body = request.json()?;
            let name = body["model"].as_str()?.to_owned();
            let base = shared.base_name()?;
            match shared.engine_of(&name) {
                Some(engine) => {
                    body["model"] = base.into();
                    request.set_json(&body);
                    request.forward(engine)?
                }
                None if base == name => request.forward(shared.base)?,
                None => refusal(404, &format!("The model `{name}` does not exist.")),
            }
        }
        _ => request.forward(shared.base)?,
    };
    let mut client = client;
    client.write_all(&answer).ok()
}

impl SharedServer {
    fn base_name(&self) -> Option<String> {
        Some(ask(self.base, "GET", "/v1/models", "")?.1["data"][0]["id"].as_str()?.to_owned())
    }

    fn engine_of(&self, name: &str) -> Option<u16> {
        self.state.lock().unwrap().adapters.get(name).map(|(_, engine)| *engine)
    }

    fn models(&self) -> Option<Value> {
        let (_, mut models) = ask(self.base, "GET", "/v1/models", "")?;
        let base = models["data"][0]["id"].clone();
        for (name, (path, _)) in &self.state.lock().unwrap().adapters {
            models["data"].as_array_mut()?.push(json!({"id": name, "object": "model", "root": path, "parent": base}));
        }
        Some(models)
    }

    fn load(&self, request: &Value) -> Vec<u8> {
        let text = |field: &str| request[field].as_str().unwrap_or_default().to_owned();
        let name = text("lora_name");
        let path = text("lora_path");
        if name.is_empty() || path.is_empty() {
            return refusal(400, "Both 'lora_name' and 'lora_path' must be provided.");
        }
        let mut state = self.state.lock().unwrap();
        if state.adapters.contains_key(&name) {
            return refusal(400, &format!("The lora adapter '{name}' has already been loaded."));
        }
        let Some(engine) = state.free.pop() else {
            return refusal(500, "more adapters at a time than it was started for");
        };
        let folder = match &state.fault {
            None => path.clone().into(),
            Some(AdapterFault::Base) => self.model.clone(),
            Some(AdapterFault::Stale(folder)) => folder.clone(),
            Some(AdapterFault::WrongRank(times)) => self.scaled(&name, Path::new(&path), *times),
        };
        let call = json!({"method": "reload_weights", "kwargs": {"weights_path": folder}}).to_string();
        match ask(engine, "POST", "/collective_rpc", &call) {
            Some((200, _)) => {
                state.log.push(format!("load {name}"));
                state.adapters.insert(name, (path, engine));
                whole(200, &json!("Success"))
            }
            answer => {
                state.free.push(engine);
                refusal(500, &format!("{answer:?}"))
            }
        }
    }

    fn unload(&self, request: &Value) -> Vec<u8> {
        let name = request["lora_name"].as_str().unwrap_or_default();
        let mut state = self.state.lock().unwrap();
        let Some((_, engine)) = state.adapters.remove(name) else {
            return refusal(404, &format!("The lora adapter '{name}' cannot be found."));
        };
        state.free.push(engine);
        state.log.push(format!("unload {name}"));
        whole(200, &json!("Success"))
    }

    /// A copy of an adapter, of which more or less is added to the base.
    fn scaled(&self, name: &str, path: &Path, times: f64) -> PathBuf {
        let copy = self.copies.path().join(name);
        std::fs::create_dir_all(&copy).unwrap();
        for entry in std::fs::read_dir(path).unwrap().flatten() {
            std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
        let file = copy.join("adapter_config.json");
        let mut config: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        config["lora_alpha"] = (config["lora_alpha"].as_f64().unwrap() * times).into();
        std::fs::write(&file, config.to_string()).unwrap();
        copy
    }
}
