//! Adapters and a real vLLM: ten versions, each proven, and the ways in which it goes on as the base without an error.
#![allow(clippy::print_stdout, reason = "a test prints what it measured")]

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::lora::{lora, names};
use crate::plain_http::{Request, ask, whole};
use crate::real_vllm::Vllm;
use crate::support::{Process, count_lines, evenkeel, lines, refused, resume, succeed, train, wait_for};

/// Largest mean difference of a log-probability over the tokens of a step, both sides in f32.
const MEAN: f64 = 1e-4;

/// What is wrong between the service and vLLM.
#[derive(Clone, Debug)]
enum VllmFault {
    /// The tensors have the names of another class of models.
    WrongPrefix,
    /// The configuration says twice the rank.
    WrongRank,
    /// The folder of an earlier version is read.
    Stale(PathBuf),
    /// The adapter is gone, and its requests reach the base.
    Evicted,
}

/// Between the service and vLLM: passes everything on, but for what is wrong.
struct Meddler {
    address: SocketAddr,
    shared: Arc<Mutex<MeddlerState>>,
}

#[derive(Default)]
struct MeddlerState {
    fault: Option<VllmFault>,
    /// Every load and unload that vLLM did.
    log: Vec<String>,
}

impl Meddler {
    fn before(engine: u16, copies: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared: Arc<Mutex<MeddlerState>> = Arc::default();
        let server = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&server);
                let copies = copies.clone();
                std::thread::spawn(move || pass_on(&client, engine, &shared, &copies));
            }
        });
        Self { address, shared }
    }

    fn log(&self) -> Vec<String> {
        self.shared.lock().unwrap().log.clone()
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn go_wrong(&self, fault: Option<VllmFault>) {
        self.shared.lock().unwrap().fault = fault;
    }
}

fn pass_on(client: &TcpStream, engine: u16, shared: &Mutex<MeddlerState>, copies: &Path) -> Option<()> {
    let mut request = Request::read(client)?;
    let fault = shared.lock().unwrap().fault.clone();
    let answer = match (request.path(), &fault) {
        ("/v1/load_lora_adapter", Some(fault)) => {
            let mut body = request.json()?;
            let path = body["lora_path"].as_str()?.to_owned();
            if let Some(copy) = instead(fault, Path::new(&path), copies) {
                body["lora_path"] = copy.display().to_string().into();
                request.set_json(&body);
            }
            request.forward(engine)?
        }
        ("/v1/completions", Some(VllmFault::Evicted)) => {
            let mut body = request.json()?;
            body["model"] = ask(engine, "GET", "/v1/models", "")?.1["data"][0]["id"].clone();
            request.set_json(&body);
            request.forward(engine)?
        }
        // It would say which folder it read.
        ("/v1/models", Some(VllmFault::WrongPrefix | VllmFault::WrongRank | VllmFault::Stale(_))) => {
            let mut models = ask(engine, "GET", "/v1/models", "")?.1;
            for model in models["data"].as_array_mut()? {
                let root = model["root"].as_str().unwrap_or_default().to_owned();
                if let Ok(original) = std::fs::read_to_string(Path::new(&root).join("instead_of")) {
                    model["root"] = original.into();
                }
            }
            whole(200, &models)
        }
        _ => request.forward(engine)?,
    };
    let done = answer.starts_with(b"HTTP/1.1 200");
    let name = request.json().and_then(|body| Some(body["lora_name"].as_str()?.to_owned()));
    match (request.path().rsplit('/').next(), name) {
        (Some(route @ ("load_lora_adapter" | "unload_lora_adapter")), Some(name)) if done => {
            let word = route.split('_').next().unwrap_or_default();
            shared.lock().unwrap().log.push(format!("{word} {name}"));
        }
        _ => {}
    }
    let mut client = client;
    client.write_all(&answer).ok()
}

/// A copy of an adapter with something wrong, which notes what it stands for.
fn instead(fault: &VllmFault, path: &Path, copies: &Path) -> Option<PathBuf> {
    let from = match fault {
        VllmFault::Evicted => return None,
        VllmFault::Stale(folder) => folder.clone(),
        VllmFault::WrongPrefix | VllmFault::WrongRank => path.to_owned(),
    };
    let kind = format!("{fault:?}").chars().take_while(char::is_ascii_alphabetic).collect::<String>();
    let copy = copies.join(format!("{kind}-{}", path.file_name()?.to_str()?));
    std::fs::create_dir_all(&copy).ok()?;
    for name in names(&from) {
        std::fs::copy(from.join(&name), copy.join(&name)).ok()?;
    }
    std::fs::write(copy.join("instead_of"), path.to_str()?).ok()?;
    match fault {
        VllmFault::WrongPrefix => {
            let file = copy.join("adapter_model.safetensors");
            let bytes = std::fs::read(&file).ok()?;
            let (length, rest) = bytes.split_at(8);
            let (header, values) = rest.split_at(usize::try_from(u64::from_le_bytes(length.try_into().ok()?)).ok()?);
            let header = std::str::from_utf8(header).ok()?;
            let header = header.replace("base_model.model.model.", "base_model.model.language_model.model.");
            let length = (header.len() as u64).to_le_bytes();
            std::fs::write(&file, [&length, header.as_bytes(), values].concat()).ok()?;
        }
        VllmFault::WrongRank => {
            let file = copy.join("adapter_config.json");
            let mut config: Value = serde_json::from_slice(&std::fs::read(&file).ok()?).ok()?;
            config["r"] = (2 * config["r"].as_u64()?).into();
            std::fs::write(&file, config.to_string()).ok()?;
        }
        VllmFault::Stale(_) | VllmFault::Evicted => {}
    }
    Some(copy)
}

/// A tiny model that vLLM takes, which has learned to end its answers.
fn learned(folder: &Path) -> PathBuf {
    let run = folder.join("full");
    let model = folder.join("model");
    let mut command = train(&run);
    command.args(["--steps", "1", "--set", "evaluation.problems=0", "--set", "model.fresh.context_tokens=2048"]);
    succeed(command);
    let mut command = evenkeel(&["export"]);
    command.arg(&run).arg("--to").arg(&model);
    succeed(command);
    model
}

/// ```text
/// VLLM=ENV/bin/vllm cargo test --release --workspace --test suite adapters_and_a_real_vllm -- --ignored --nocapture
/// ```
///
/// With `VLLM_LORA=PORT=MODEL` instead against one that serves that folder already, with the same options.
#[test]
#[ignore = "needs a real vLLM: VLLM is its program"]
fn adapters_and_a_real_vllm() {
    let dir = tempfile::tempdir().unwrap();
    let start = |model: &Path| {
        Vllm::start(model, &dir.path().join("vllm.log"), |command| {
            command.args(["--enable-lora", "--max-lora-rank", "8", "--max-loras", "2", "--lora-target-modules"]);
            command.args(["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]);
            command.env("VLLM_ALLOW_RUNTIME_LORA_UPDATING", "1");
        })
    };
    let serving = std::env::var("VLLM_LORA").ok();
    let (model, engine, port) = match serving.as_deref().and_then(|text| text.split_once('=')) {
        Some((port, model)) => (PathBuf::from(model), None, port.parse().unwrap()),
        None => {
            let model = learned(dir.path());
            let engine = start(&model);
            let port = engine.port;
            (model, Some(engine), port)
        }
    };
    let meddler = Meddler::before(port, dir.path().join("copies"));
    let begin = |out: &Path, steps: u32| {
        let mut command = lora(out, &model);
        let settings = [
            format!("generation.endpoints=[\"{}\"]", meddler.url()),
            format!("run.steps={steps}"),
            "evaluation.problems=0".to_owned(),
            "generation.engine.control_timeout=2m".to_owned(),
        ];
        command.args(settings.iter().flat_map(|setting| ["--set", setting]));
        command
    };

    // Ten versions, each proven before the next.
    let out = dir.path().join("run");
    let output = succeed(begin(&out, 10));
    println!("{}", String::from_utf8_lossy(&output.stderr));
    let steps: Vec<_> = lines(&out).into_iter().filter(|line| line.contains_key("actor/grad_norm")).collect();
    let text = std::fs::read_to_string(out.join("metrics.jsonl")).unwrap();
    let metrics: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let gaps: Vec<f64> = metrics.iter().filter_map(|line| line["proof/mean_gap"].as_f64()).collect();
    let excluded: Vec<_> = metrics.iter().map(|line| (&line["proof/excluded"], &line["proof/suspicions"])).collect();
    println!("by how much the tokens of each step's proof differ: {gaps:?}; excluded {excluded:?}");
    assert!(steps.len() == 10 && gaps.len() == 10 && gaps.iter().all(|gap| *gap < MEAN), "{gaps:?}");
    let last = metrics.last().unwrap();
    assert_eq!((&last["proof/excluded"], &last["proof/excluded/base"]), (&last["proof/suspicions"], &1.into()));
    let log = meddler.log();
    println!("{log:#?}");
    let live =
        |upto: usize| log[..upto].iter().map(|entry| if entry.starts_with("load ") { 1 } else { -1 }).sum::<i32>();
    assert!((0..=log.len()).all(|upto| live(upto) <= 2) && live(log.len()) == 1, "{log:?}");
    assert!(log.iter().filter(|entry| entry.starts_with("load ")).count() >= 11, "{log:?}");

    // What vLLM itself does not miss.
    let out = dir.path().join("wrong");
    let process = Process::start(begin(&out, 2000));
    wait_for("steps", || count_lines(&out.join("metrics.jsonl")) >= 3);
    process.kill();
    let version = |name: &String| name.split('-').next().unwrap().parse::<u64>().unwrap();
    let oldest = out.join("weights").join(names(&out.join("weights")).into_iter().min_by_key(version).unwrap());
    let stale = dir.path().join("stale");
    std::fs::create_dir(&stale).unwrap();
    for name in names(&oldest) {
        std::fs::copy(oldest.join(&name), stale.join(&name)).unwrap();
    }
    for (fault, words) in [
        (VllmFault::WrongPrefix, "it answers as the base model"),
        (VllmFault::WrongRank, "does not have version"),
        (VllmFault::Stale(stale), "does not have version"),
        (VllmFault::Evicted, "it answers as the base model"),
    ] {
        meddler.go_wrong(Some(fault.clone()));
        let error = refused(resume(&out));
        println!("{fault:?}: {error}");
        assert!(error.contains(words), "{fault:?}: {error}");
        meddler.go_wrong(None);
    }
    drop(engine);
}
