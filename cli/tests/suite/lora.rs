//! Runs that train adapters beside a frozen model, with the embedded engine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::pipeline::assert_agrees_on;
use crate::support::{
    Process, count_lines, engine, evenkeel, free_ports, refused, resume, small, succeed, train, wait_for, written_model,
};

/// A model in a folder that has learned to end its answers: adapters beside random weights learn nothing.
pub(crate) fn learned(folder: &Path) -> PathBuf {
    let run = folder.join("full");
    let model = folder.join("model");
    let mut command = train(&run);
    command.args(["--steps", "1", "--set", "evaluation.problems=0"]);
    succeed(command);
    let mut command = evenkeel(&["export"]);
    command.arg(&run).arg("--to").arg(&model);
    succeed(command);
    model
}

/// Another recipe of that name in a folder: the small one with adapters beside a model.
fn recipe(folder: &Path, model: &Path) -> PathBuf {
    let path = folder.join("small.toml");
    let small = std::fs::read_to_string(small()).unwrap();
    let named = format!("[model]\npath = \"{}\"\n", model.display());
    let text = small.replace("[model.fresh]\nlayers = 3\n", &named);
    assert!(text.contains(&named), "{text}");
    // It solves nothing, but the reward by length makes groups ones that teach.
    let changes = [("= 1.5e-4", "= 1e-2\nwarmup_updates = 0"), ("[warm_start]\nsteps = 60", "[warm_start]\nsteps = 0")];
    let text = changes.iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "{text}");
        text.replace(from, to)
    });
    let more = "[data]\nkind = \"arithmetic\"\n\n[shaping]\noverlong_buffer_tokens = 70\n\n[learner.lora]\nrank = 4\n\
        alpha = 8.0\nseed = 5\n";
    std::fs::write(&path, format!("{text}\n{more}")).unwrap();
    path
}

pub(crate) fn lora(out: &Path, model: &Path) -> Command {
    let mut command = evenkeel(&["train", "--recipe"]);
    command.arg(recipe(out.parent().unwrap(), model)).arg("--out").arg(out);
    command
}

/// The names of a folder's entries.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_run_of_adapters_agrees_to_the_bit_in_one_process_in_five_and_killed() {
    let dir = tempfile::tempdir().unwrap();
    let model = learned(dir.path());
    let run = assert_agrees_on(dir.path(), &recipe(dir.path(), &model), || model);
    let lines = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert!(last["actor/grad_norm"].as_f64().unwrap() > 0.0, "{last}");
    assert!(last["proof/equal_tokens"].as_u64().unwrap() > 0, "{last}");
    // Adapters alone are written, each version under a name of its own.
    for version in names(&run.join("weights")) {
        let (number, digest) = version.split_once('-').unwrap();
        assert!(number.parse::<u64>().is_ok() && digest.len() == 12, "{version}");
        let files = names(&run.join("weights").join(&version));
        assert_eq!(files, ["adapter_config.json", "adapter_model.safetensors", "evenkeel-version.json"]);
    }
    for checkpoint in std::fs::read_dir(run.join("checkpoints")).unwrap().flatten() {
        for step in names(&checkpoint.path()) {
            assert!(!names(&checkpoint.path().join(step)).contains(&"model.safetensors".to_owned()));
        }
    }
}

#[test]
fn an_exported_adapter_begins_another_run_and_a_merged_one_is_a_model() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let model = learned(dir.path());
    let mut command = lora(&run, &model);
    command.args(["--steps", "2"]);
    succeed(command);
    let export = |to: &str, more: &[&str]| {
        let to = dir.path().join(to);
        let mut command = evenkeel(&["export", run.to_str().unwrap(), "--to", to.to_str().unwrap()]);
        command.args(more);
        succeed(command);
        to
    };
    let adapter = export("adapter", &[]);
    let merged = export("merged", &["--merged"]);
    assert!(adapter.join("adapter_model.safetensors").exists() && !adapter.join("model.safetensors").exists());
    assert!(merged.join("model.safetensors").exists() && !merged.join("adapter_config.json").exists());
    // Evaluated beside its base it answers as the merged model does; the engine alone answers otherwise.
    let rows = (0..8).map(|b| format!("{{\"id\": \"{b}\", \"prompt\": \"1+{b}=\\n\", \"answer\": {}}}\n", b + 1));
    let sums = dir.path().join("sums.jsonl");
    std::fs::write(&sums, rows.collect::<String>()).unwrap();
    let answers = |name: &str, of: &Path, more: &[&str]| {
        let output = dir.path().join(name);
        let mut command =
            evenkeel(&["eval", "--samples", "2", "--max-tokens", "20", "--set", "reward.code.sandbox=off"]);
        command.arg("--model").arg(of).arg("--output").arg(&output).arg("--benchmark").arg(&sums).args(more);
        succeed(command);
        let shown = succeed({
            let mut command = evenkeel(&["show", "--json"]);
            command.arg(&output);
            command
        });
        let rows = String::from_utf8(shown.stdout).unwrap();
        rows.lines().map(|row| serde_json::from_str::<Value>(row).unwrap()["text"].clone()).collect::<Vec<_>>()
    };
    // A folder of this machine is named nowhere.
    for file in ["adapter_config.json", "README.md"] {
        let text = std::fs::read_to_string(adapter.join(file)).unwrap();
        assert!(!text.contains(dir.path().to_str().unwrap()), "{file}: {text}");
    }
    let card = std::fs::read_to_string(adapter.join("README.md")).unwrap();
    for words in
        ["library_name: peft", "PeftModel.from_pretrained(base, \"ADAPTER\")", "--lora-modules trained=ADAPTER"]
    {
        assert!(card.contains(words), "{words}: {card}");
    }
    let mut unnamed = evenkeel(&["eval", "--max-tokens", "20", "--model", adapter.to_str().unwrap()]);
    unnamed.arg("--benchmark").arg(&sums);
    assert!(refused(unnamed).contains("--base is absent"));
    let beside = answers("of-adapter", &adapter, &["--base", model.to_str().unwrap()]);
    let alone = answers("of-base", &model, &[]);
    assert!(beside.len() == 16 && beside[0].is_string(), "{beside:?}");
    assert_eq!(beside, answers("of-merged", &merged, &[]));
    assert!(beside != alone);
    // Another base is refused at once, and not waited for.
    let mut other = evenkeel(&["eval", "--max-tokens", "20", "--base", merged.to_str().unwrap()]);
    other.arg("--model").arg(&adapter).arg("--benchmark").arg(&sums);
    let error = refused(other);
    assert!(error.contains("is an adapter for another base") && !error.contains("waiting"), "{error}");
    // An adapter as PEFT writes it does not say what it belongs to, which is noted.
    let file = adapter.join("adapter_model.safetensors");
    let bytes = std::fs::read(&file).unwrap();
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut json: serde_json::Map<String, Value> = serde_json::from_slice(&bytes[8..header]).unwrap();
    json["__metadata__"].as_object_mut().unwrap().remove("base").unwrap();
    let mut written = serde_json::to_vec(&json).unwrap();
    written.resize(header - 8, b' ');
    std::fs::write(&file, [&bytes[..8], &written, &bytes[header..]].concat()).unwrap();
    let mut command = evenkeel(&["eval", "--samples", "1", "--max-tokens", "5", "--set", "reward.code.sandbox=off"]);
    command.arg("--model").arg(&adapter).arg("--base").arg(&model).arg("--benchmark").arg(&sums);
    command.arg("--output").arg(dir.path().join("of-peft"));
    let said = String::from_utf8(succeed(command).stderr).unwrap();
    assert!(said.contains("names no base and does not hold its digest"), "{said}");
    std::fs::write(&file, &bytes).unwrap();

    let mut command = evenkeel(&["eval", "--max-tokens", "20", "--model", model.to_str().unwrap(), "--base", "m"]);
    command.arg("--benchmark").arg(&sums);
    assert!(refused(command).contains("--base is m, allowed: absent"));

    let next = dir.path().join("next");
    let mut command = lora(&next, &model);
    command.args(["--steps", "1"]);
    command.args(["--set", &format!("learner.lora.start={}", adapter.display())]);
    succeed(command);
    let mut other = lora(&dir.path().join("other"), &model);
    other.args(["--set", &format!("learner.lora.start={}", adapter.display()), "--set", "learner.lora.rank=2"]);
    let error = refused(other);
    assert!(error.contains("is an adapter of rank 4"), "{error}");
    // The dry run says what the start would say, of rank-stabilised scaling by its name.
    let described = std::fs::read_to_string(adapter.join("adapter_config.json")).unwrap();
    std::fs::write(
        adapter.join("adapter_config.json"),
        described.replace("\"use_rslora\": false", "\"use_rslora\": true"),
    )
    .unwrap();
    let mut dry = lora(&dir.path().join("dry"), &model);
    dry.args(["--dry-run", "--set", &format!("learner.lora.start={}", adapter.display())]);
    let output = dry.output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(
        !output.status.success() && said.contains("learner.lora.start is") && said.contains("use_rslora"),
        "{said}"
    );
}

#[test]
fn a_head_that_is_not_the_embedding_is_trained_proven_and_exported_with_its_adapter() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let model = learned(dir.path());
    let mut command = lora(&run, &model);
    command.args(["--steps", "3", "--set", "learner.lora.targets=[\"q_proj\", \"lm_head\"]"]);
    succeed(command);
    let lines = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert!(last["proof/equal_tokens"].as_u64().unwrap() > 0, "{last}");
    let to = dir.path().join("merged");
    succeed(evenkeel(&["export", run.to_str().unwrap(), "--merged", "--to", to.to_str().unwrap()]));
    assert!(to.join("model.safetensors").exists() && !to.join("adapter_config.json").exists());
}

#[test]
fn what_no_adapter_of_the_model_can_be_is_refused_before_the_run_and_the_learning_rate_is_noted() {
    let dir = tempfile::tempdir().unwrap();
    let model = written_model(dir.path());
    let dry = |setting: &str| {
        let mut command = lora(&dir.path().join("run"), &model);
        command.args(["--dry-run", "--set", setting]);
        command
    };
    let said = String::from_utf8(succeed(dry("learner.lora.seed=1")).stdout).unwrap();
    assert!(said.contains("about ten times that of all weights"), "{said}");
    for (setting, words) in [
        ("learner.lora.rank=4000", "learner.lora.rank"),
        ("learner.lora.rank=0", "learner.lora.rank"),
        ("learner.lora.alpha=nan", "learner.lora.alpha"),
        ("learner.lora.targets=[\"embed_tokens\"]", "learner.lora.targets"),
        ("learner.lora.targets=[]", "learner.lora.targets"),
        ("learner.lora.start=/nowhere", "learner.lora.start"),
    ] {
        let output = dry(setting).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(words), "{setting}: {said}");
    }
}

/// Between the generation service and an engine: passes everything on, and has the engine load another folder than it
/// is told.
struct Meddler {
    address: SocketAddr,
    /// The folder that is loaded instead, if any.
    instead: Arc<Mutex<Option<PathBuf>>>,
}

impl Meddler {
    fn before(engine: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let instead = Arc::new(Mutex::default());
        let shared = Arc::clone(&instead);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let instead = Arc::clone(&shared);
                std::thread::spawn(move || pass_on(&client, engine, &instead));
            }
        });
        Self { address, instead }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

fn pass_on(client: &TcpStream, engine: u16, instead: &Mutex<Option<PathBuf>>) -> Option<()> {
    let mut server = TcpStream::connect(("127.0.0.1", engine)).ok()?;
    let mut answers = server.try_clone().ok()?;
    let mut back = client.try_clone().ok()?;
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut answers, &mut back);
        let _ = back.shutdown(std::net::Shutdown::Both);
    });
    let mut reader = BufReader::new(client);
    loop {
        let mut head = String::new();
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            } else if line != "\r\n" {
                head += &line;
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        if head.starts_with("POST /collective_rpc")
            && let Some(folder) = &*instead.lock().unwrap()
        {
            let mut json: Value = serde_json::from_slice(&body).ok()?;
            json["kwargs"]["weights_path"] = folder.display().to_string().into();
            body = json.to_string().into_bytes();
        }
        server.write_all(format!("{head}content-length: {}\r\n\r\n", body.len()).as_bytes()).ok()?;
        server.write_all(&body).ok()?;
    }
}

#[test]
fn an_engine_that_answers_as_the_base_or_with_a_stale_adapter_is_found_by_the_proof() {
    let dir = tempfile::tempdir().unwrap();
    let model = learned(dir.path());
    let [port] = free_ports();
    let _engine = engine(port, &model);
    let meddler = Meddler::before(port);
    let run = dir.path().join("run");
    let begin = || {
        let mut command = lora(&run, &model);
        // More than are done before it is killed.
        command.args(["--steps", "2000"]);
        command.args(["--set", &format!("generation.endpoints=[\"{}\"]", meddler.url())]);
        // As with engines of other bits: nothing is compared token by token.
        command.args(["--set", "sampling.top_k=19", "--set", "sampler_audit.mode=\"off\""]);
        command
    };
    let process = Process::start(begin());
    wait_for("steps", || count_lines(&run.join("metrics.jsonl")) >= 3);
    process.kill();
    let stale = names(&run.join("weights")).into_iter().map(|name| run.join("weights").join(name));
    let kept = dir.path().join("stale");
    let oldest = stale.min_by_key(|path| {
        path.file_name().unwrap().to_str().unwrap().split('-').next().unwrap().parse::<u64>().unwrap()
    });
    let oldest = oldest.unwrap();
    std::fs::create_dir(&kept).unwrap();
    for name in names(&oldest) {
        std::fs::copy(oldest.join(&name), kept.join(&name)).unwrap();
    }
    // An adapter that was evicted: the base answers. From the first proof of a process that begins with adapters that
    // have learned.
    *meddler.instead.lock().unwrap() = Some(model.clone());
    let error = refused(resume(&run));
    assert!(error.contains("it answers as the base model"), "{error}");
    // The folder of an earlier version.
    *meddler.instead.lock().unwrap() = Some(kept);
    let error = refused(resume(&run));
    assert!(error.contains("engine") && error.contains("does not have version"), "{error}");
}

#[test]
fn an_engine_that_answers_as_the_base_is_found_by_the_first_token_where_it_has_the_learners_bits() {
    let dir = tempfile::tempdir().unwrap();
    let model = learned(dir.path());
    let [port] = free_ports();
    let _engine = engine(port, &model);
    let meddler = Meddler::before(port);
    *meddler.instead.lock().unwrap() = Some(model.clone());
    let mut command = lora(&dir.path().join("run"), &model);
    command.args(["--steps", "5", "--set", &format!("generation.endpoints=[\"{}\"]", meddler.url())]);
    let error = refused(command);
    // The first update moves the adapters away from the base.
    assert!(error.contains("step 2"), "{error}");
    assert!(error.contains("the learner computes") || error.contains("learner's logits give"), "{error}");
}
