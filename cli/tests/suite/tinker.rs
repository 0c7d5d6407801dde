//! The front that speaks Tinker's API, as a client of it that knows nothing but HTTP.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_rpc::client::{ClientSettings, ClientTlsSettings, Connector};
use prost::Message as _;
use prost::bytes::Bytes;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{Process, evenkeel, free_ports, refused, wait_for, written_model};

const KEY: &str = "tml-0123456789abcdef";

/// `forward_backward`, as far as it is sent here.
#[derive(Clone, PartialEq, prost::Message)]
struct ForwardBackward {
    #[prost(string, tag = "1")]
    model_id: String,
    #[prost(int32, tag = "2")]
    seq_id: i32,
    #[prost(message, repeated, tag = "3")]
    data: Vec<Datum>,
    #[prost(string, tag = "4")]
    loss_fn: String,
    #[prost(bool, tag = "6")]
    forward_only: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Datum {
    #[prost(message, repeated, tag = "1")]
    model_input: Vec<Chunk>,
    #[prost(btree_map = "string, message", tag = "2")]
    loss_fn_inputs: std::collections::BTreeMap<String, Tensor>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Chunk {
    #[prost(message, optional, tag = "1")]
    text: Option<Text>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Text {
    #[prost(bytes = "bytes", tag = "1")]
    tokens: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Tensor {
    #[prost(bytes = "bytes", tag = "1")]
    dense: Bytes,
    #[prost(int32, tag = "3")]
    dtype: i32,
    #[prost(int64, repeated, tag = "4")]
    shape: Vec<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Output {
    #[prost(message, repeated, tag = "2")]
    records: Vec<Record>,
    #[prost(btree_map = "string, double", tag = "3")]
    metrics: std::collections::BTreeMap<String, f64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Record {
    #[prost(btree_map = "string, message", tag = "2")]
    fields: std::collections::BTreeMap<String, Array>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Array {
    #[prost(bytes = "bytes", tag = "1")]
    data: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Samples {
    #[prost(message, repeated, tag = "1")]
    pub(crate) sequences: Vec<Sampled>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    prompt_logprobs: Option<Bytes>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Sampled {
    #[prost(int32, tag = "1")]
    pub(crate) stop_reason: i32,
    #[prost(bytes = "bytes", tag = "2")]
    tokens: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    logprobs: Bytes,
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|part| f32::from_le_bytes(part.try_into().unwrap())).collect()
}

fn datum(tokens: &[i32], inputs: &[(&str, &[f32])]) -> Datum {
    let text = Text { tokens: tokens.iter().flat_map(|x| x.to_le_bytes()).collect() };
    let targets: Bytes = tokens.iter().skip(1).chain([&2]).flat_map(|&x| i64::from(x).to_le_bytes()).collect();
    let shape = vec![tokens.len() as i64];
    let mut loss_fn_inputs: std::collections::BTreeMap<String, Tensor> = inputs
        .iter()
        .map(|(name, values)| {
            let dense = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            ((*name).to_owned(), Tensor { dense, dtype: 1, shape: shape.clone() })
        })
        .collect();
    loss_fn_inputs.insert("target_tokens".into(), Tensor { dense: targets, dtype: 2, shape });
    Datum { model_input: vec![Chunk { text: Some(text) }], loss_fn_inputs }
}

pub(crate) fn supervised() -> Datum {
    datum(&[3, 4, 5, 6], &[("weights", &[0.0, 1.0, 1.0, 1.0])])
}

/// A server in a folder, on a port of its own.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) port: u16,
    folder: PathBuf,
    model: PathBuf,
    more: Vec<String>,
}

impl Server {
    pub(crate) fn start(folder: &Path, more: &[&str]) -> Self {
        let model = written_model(folder);
        Self::again(folder, &model, &more.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
    }

    pub(crate) fn again(folder: &Path, model: &Path, more: &[String]) -> Self {
        let [port] = free_ports();
        let mut command = evenkeel(&["serve", "tinker"]);
        let settings = [
            format!("model={}", model.display()),
            format!("tinker.listen=127.0.0.1:{port}"),
            format!("tinker.folder={}", folder.join("tinker").display()),
            "tinker.model_name=tiny".to_owned(),
            "tinker.unembed=frozen".to_owned(),
            "tinker.hold=2s".to_owned(),
            "learner.lora.rank=4".to_owned(),
            "learner.lora.alpha=4".to_owned(),
            "engine.max_model_len=64".to_owned(),
            "engine.kv_cache_tokens=1024".to_owned(),
        ];
        for setting in settings.iter().chain(more) {
            command.args(["--set", setting]);
        }
        let process = Process::start_logging(command, &folder.join(format!("log-{port}")));
        wait_for("the front", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self { process, port, folder: folder.to_owned(), model: model.to_owned(), more: more.to_vec() }
    }

    /// Ends it as an operator does, and starts it again.
    fn restart(self) -> Self {
        let Self { mut process, folder, model, more, .. } = self;
        process.signal("TERM");
        process.0.wait().unwrap();
        Self::again(&folder, &model, &more)
    }

    /// Kills it, and starts it again.
    fn crash(self) -> Self {
        let Self { process, folder, model, more, .. } = self;
        process.kill();
        Self::again(&folder, &model, &more)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join(format!("log-{}", self.port))).unwrap()
    }

    fn raw(&self, method: &str, path: &str, kind: &str, key: &str, body: &[u8]) -> (u16, String, Vec<u8>) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let head = format!(
            "{method} /api/v1/{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: {kind}\r\n\
            x-api-key: {key}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        // It may be refused before it was read.
        let _ = stream.write_all(body);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let end = answer.windows(4).position(|part| part == b"\r\n\r\n").unwrap_or_else(|| panic!("{path}: no answer"));
        let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head, answer[end + 4..].to_vec())
    }

    /// What a request with a header of one's own is answered.
    pub(crate) fn status_with_header(&self, header: &str) -> u16 {
        self.raw("POST", "create_session", &format!("application/json\r\n{header}"), KEY, b"{}").0
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let (status, _, body) = self.raw("POST", path, "application/json", KEY, body.to_string().as_bytes());
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, _, answer) = self.raw("GET", path, "application/json", KEY, b"");
        assert_eq!(status, 200, "{path}");
        serde_json::from_slice(&answer).unwrap()
    }

    pub(crate) fn ok(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.post(path, body);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    /// The result of a request: JSON, or protobuf as bytes.
    pub(crate) fn retrieve(&self, id: &str) -> Result<Value, Vec<u8>> {
        let body = json!({"request_id": id}).to_string();
        loop {
            let (status, head, answer) = self.raw("POST", "retrieve_future", "application/json", KEY, body.as_bytes());
            match status {
                408 => {}
                200 if head.contains("x-protobuf") => return Err(answer),
                200 => return Ok(serde_json::from_slice(&answer).unwrap()),
                other => panic!("{id}: {other} {}", String::from_utf8_lossy(&answer)),
            }
        }
    }

    pub(crate) fn result(&self, path: &str, body: &Value) -> Value {
        let id = self.ok(path, body)["request_id"].as_str().unwrap().to_owned();
        self.retrieve(&id).unwrap()
    }

    pub(crate) fn session(&self) -> String {
        self.ok("create_session", &json!({"sdk_version": "0.38.0"}))["session_id"].as_str().unwrap().to_owned()
    }

    /// A model in a session, or why there is none.
    pub(crate) fn create(&self, session: &str, number: u32) -> Result<String, Value> {
        let answer = self.result(
            "create_model",
            &json!({"session_id": session, "model_seq_id": number, "base_model": "tiny", "lora_config": {"rank": 4}}),
        );
        answer["model_id"].as_str().map(str::to_owned).ok_or(answer)
    }

    fn send(&self, model: &str, number: i32, loss: &str, data: Vec<Datum>) -> (u16, Value) {
        let request =
            ForwardBackward { model_id: model.into(), seq_id: number, data, loss_fn: loss.into(), forward_only: false };
        self.send_bytes(&request.encode_to_vec())
    }

    fn send_bytes(&self, bytes: &[u8]) -> (u16, Value) {
        let (status, _, body) = self.raw("POST", "forward_backward", "application/x-protobuf", KEY, bytes);
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    /// A `forward_backward` whose datums are no messages.
    pub(crate) fn send_damaged(&self, model: &str, number: i32) -> (u16, Value) {
        let request = ForwardBackward { model_id: model.into(), seq_id: number, ..ForwardBackward::default() };
        // Field 3 with a length beyond the end.
        self.send_bytes(&[request.encode_to_vec().as_slice(), &[0x1a, 100, 1, 2]].concat())
    }

    /// A sampling session of the base model.
    pub(crate) fn base_sampler(&self) -> String {
        let body = json!({"session_id": self.session(), "sampling_session_seq_id": 0, "base_model": "tiny"});
        self.ok("create_sampling_session", &body)["sampling_session_id"].as_str().unwrap().to_owned()
    }

    /// Memory of the server's process.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    pub(crate) fn forward_backward(
        &self,
        model: &str,
        number: i32,
        loss: &str,
        data: Vec<Datum>,
    ) -> Result<Output, Value> {
        let (status, answer) = self.send(model, number, loss, data);
        assert_eq!(status, 200, "{answer}");
        match self.retrieve(answer["request_id"].as_str().unwrap()) {
            Ok(failed) => Err(failed),
            Err(bytes) => Ok(Output::decode(bytes.as_slice()).unwrap()),
        }
    }

    pub(crate) fn optim_step(&self, model: &str, number: u32) -> Value {
        let adam = json!({"learning_rate": 0.02, "eps": 1e-8});
        self.result("optim_step", &json!({"model_id": model, "seq_id": number, "adam_params": adam}))
    }

    pub(crate) fn sample(&self, sampler: &str, number: u32, more: Value) -> Samples {
        let samples = self.asked_for_samples(sampler, number, &more).expect_err("protobuf");
        Samples::decode(samples.as_slice()).unwrap()
    }

    /// Why there are no samples.
    pub(crate) fn failed_sample(&self, sampler: &str, number: u32) -> Value {
        self.asked_for_samples(sampler, number, &json!({})).expect("a failure")
    }

    fn asked_for_samples(&self, sampler: &str, number: u32, more: &Value) -> Result<Value, Vec<u8>> {
        let mut body = json!({"sampling_session_id": sampler, "seq_id": number, "num_samples": 2,
            "prompt": {"chunks": [{"type": "encoded_text", "tokens": [3, 4]}, {"type": "encoded_text", "tokens": [5]}]},
            "sampling_params": {"max_tokens": 4, "seed": 7, "stop": [0]}});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let id = self.ok("asample", &body)["request_id"].as_str().unwrap().to_owned();
        self.retrieve(&id)
    }
}

#[test]
fn a_client_trains_samples_and_goes_on_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let session = server.session();
    let model = server.create(&session, 0).unwrap();
    assert_eq!(model, format!("{session}:train:0"));
    let info = server.ok("get_info", &json!({"model_id": model}));
    assert_eq!((&info["lora_rank"], &info["model_data"]["tokenizer_id"]), (&json!(4), &json!("tiny")));

    let first = server.forward_backward(&model, 1, "cross_entropy", vec![supervised(), supervised()]).unwrap();
    let logprobs = floats(&first.records[0].fields["logprobs"].data);
    let sum: f32 = logprobs[1..4].iter().chain(&logprobs[5..8]).sum();
    assert_eq!(logprobs.len(), 8, "masked positions included");
    assert!((first.metrics["loss:sum"] + f64::from(sum)).abs() < 1e-4, "{:?}", first.metrics);
    assert!(server.optim_step(&model, 2)["metrics"]["grad_norm"].as_f64().unwrap() > 0.0);
    // Weights are published for two samplers, before and after an update.
    let before = server
        .result("save_weights_for_sampler", &json!({"model_id": model, "seq_id": 3, "sampling_session_seq_id": 0}));
    let before = before["sampling_session_id"].as_str().unwrap().to_owned();
    let second = server.forward_backward(&model, 4, "cross_entropy", vec![supervised()]).unwrap();
    assert!(second.metrics["loss:sum"] < first.metrics["loss:sum"] / 2.0, "it learns");
    server.optim_step(&model, 5);
    let named = server.result("save_weights_for_sampler", &json!({"model_id": model, "seq_id": 6, "path": "s1"}));
    let path = named["path"].as_str().unwrap().to_owned();
    assert_eq!(path, format!("tinker://{model}/sampler_weights/s1"));
    let after = server.ok(
        "create_sampling_session",
        &json!({"session_id": session, "sampling_session_seq_id": 1, "model_path": path}),
    );
    let after = after["sampling_session_id"].as_str().unwrap().to_owned();
    let base = server.ok(
        "create_sampling_session",
        &json!({"session_id": session, "sampling_session_seq_id": 2, "base_model": "tiny"}),
    );
    let base = base["sampling_session_id"].as_str().unwrap().to_owned();

    // Samples are those of the weights that were asked for, in any order, and their log-probabilities the learner's.
    let with = json!({"prompt_logprobs": true});
    let samples = [&before, &after, &base, &before].map(|sampler| sampler.as_str());
    let samples: Vec<Samples> =
        samples.iter().enumerate().map(|(at, sampler)| server.sample(sampler, at as u32, with.clone())).collect();
    let prompt = |samples: &Samples| floats(samples.prompt_logprobs.as_ref().unwrap())[1..].to_vec();
    assert_eq!(samples[0], samples[3], "a snapshot stays what it is");
    assert_ne!(prompt(&samples[0]), prompt(&samples[1]));
    assert_ne!(prompt(&samples[1]), prompt(&samples[2]));
    assert!(samples.iter().all(|samples| samples.sequences.len() == 2 && samples.sequences[0].stop_reason == 1));
    let tokens: Vec<i32> =
        samples[1].sequences[0].tokens.chunks_exact(4).map(|x| i32::from_le_bytes(x.try_into().unwrap())).collect();
    let sampled = floats(&samples[1].sequences[0].logprobs);
    assert_eq!((tokens.len(), sampled.len()), (4, 4));
    // On the policy every ratio is 1, so that the sum of ratios is the number of tokens.
    let whole: Vec<i32> = [3, 4, 5].iter().chain(&tokens[..3]).copied().collect();
    let mut rl = datum(
        &whole,
        &[
            ("logprobs", &[0.0, 0.0, sampled[0], sampled[1], sampled[2], sampled[3]]),
            ("advantages", &[0.0, 0.0, 1.0, 1.0, 1.0, 1.0]),
        ],
    );
    let targets: Bytes =
        [4i64, 5].into_iter().chain(tokens.iter().map(|&x| i64::from(x))).flat_map(i64::to_le_bytes).collect();
    rl.loss_fn_inputs.get_mut("target_tokens").unwrap().dense = targets;
    let on_policy = server.forward_backward(&model, 7, "importance_sampling", vec![rl]).unwrap();
    assert!((on_policy.metrics["ratio:sum"] - 4.0).abs() < 1e-3, "{:?}", on_policy.metrics);

    let saved =
        server.result("save_weights", &json!({"model_id": model, "seq_id": 8, "path": "000001", "ttl_seconds": 600}));
    assert_eq!(saved["path"], format!("tinker://{model}/weights/000001"));
    // What was accumulated at 7 is not saved with the weights, so that the next update fails rather than being another.
    let server = server.restart();
    let lost = server.optim_step(&model, 9);
    assert!(lost["error"].as_str().unwrap().contains("restarted"), "{lost}");
    let third = server.forward_backward(&model, 10, "cross_entropy", vec![supervised()]).unwrap();
    assert!(third.metrics["loss:sum"] < second.metrics["loss:sum"], "the weights are those of before");
    assert!(server.optim_step(&model, 11)["metrics"].is_object());
    assert_eq!(server.sample(&after, 9, with.clone()).prompt_logprobs, samples[1].prompt_logprobs);

    // A crash loses what was not saved; who goes on says so, and continues from a checkpoint.
    let server = server.crash();
    let (status, gone) = server.send(&model, 12, "cross_entropy", vec![supervised()]);
    assert!(status == 410 && gone["error"].as_str().unwrap().contains("load a checkpoint"), "{status} {gone}");
    let kept = server.sample(&after, 10, with.clone());
    assert_eq!(
        kept.prompt_logprobs, samples[1].prompt_logprobs,
        "what was saved is sampled from before anything is loaded"
    );
    let load = json!({"session_id": session, "model_seq_id": 1, "path": saved["path"], "optimizer": true});
    let loaded = server.result("load_weights", &load);
    let resumed = loaded["model_id"].as_str().unwrap_or_else(|| panic!("{loaded}")).to_owned();
    let fourth = server.forward_backward(&resumed, 1, "cross_entropy", vec![supervised()]).unwrap();
    assert_eq!(fourth.metrics["loss:sum"], third.metrics["loss:sum"], "the same weights");
    assert!(server.optim_step(&resumed, 2)["metrics"].is_object());
    server.ok(&format!("sessions/{session}/finish"), &json!({}));
}

#[test]
fn requests_count_once_and_in_order_whatever_order_they_arrive_in() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let model = server.create(&server.session(), 0).unwrap();
    let ids: Vec<String> = [3, 2, 1]
        .map(|number| server.send(&model, number, "cross_entropy", vec![supervised()]).1)
        .iter()
        .map(|answer| answer["request_id"].as_str().unwrap().to_owned())
        .collect();
    // A lost response: the same request again, and its result twice.
    let again = server.send(&model, 2, "cross_entropy", vec![supervised()]).1;
    assert_eq!(again["request_id"], ids[1]);
    assert_eq!(server.retrieve(&ids[1]), server.retrieve(&ids[1]));
    let (status, other) = server.send(&model, 2, "cross_entropy", vec![supervised(), supervised()]);
    assert!(status == 400 && other["error"].as_str().unwrap().contains("taken by another request"), "{status} {other}");
    let norm = server.optim_step(&model, 4)["metrics"]["grad_norm"].as_f64().unwrap();
    let apart = tempfile::tempdir().unwrap();
    let single = Server::start(apart.path(), &[]);
    let other = single.create(&single.session(), 0).unwrap();
    single.forward_backward(&other, 1, "cross_entropy", vec![supervised()]).unwrap();
    let of_one = single.optim_step(&other, 2)["metrics"]["grad_norm"].as_f64().unwrap();
    assert!((norm / of_one - 3.0).abs() < 1e-3, "three chunks, no more: {norm} {of_one}");
}

#[test]
fn what_is_not_served_is_refused_by_name_and_nothing_of_it_is_applied() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let session = server.session();
    let refusal = |body: Value| {
        let mut whole =
            json!({"session_id": session, "model_seq_id": 9, "base_model": "tiny", "lora_config": {"rank": 4}});
        whole.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        let answer = server.result("create_model", &whole);
        assert_eq!(answer["category"], "user", "{answer}");
        answer["error"].as_str().unwrap().to_owned()
    };
    assert!(refusal(json!({"base_model": "other"})).contains("base_model is \"other\""));
    assert!(refusal(json!({"lora_config": {"rank": 32}})).contains("lora_config.rank is 32"));
    assert!(refusal(json!({"lora_config": {"rank": 4, "train_mlp": false}})).contains("lora_config.train_mlp"));
    assert!(refusal(json!({"optimizer_config": {"type": "dimuon"}})).contains("optimizer_config.type is \"dimuon\""));
}

#[test]
fn the_output_head_is_not_left_out_unasked() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["tinker.unembed=refuse"]);
    let session = server.session();
    let refused = server.create(&session, 0).unwrap_err();
    assert!(refused["error"].as_str().unwrap().starts_with("lora_config.train_unembed is true"), "{refused}");
    let asked = json!({"session_id": session, "model_seq_id": 1, "base_model": "tiny",
        "lora_config": {"rank": 4, "train_unembed": false}});
    assert_eq!(server.result("create_model", &asked)["model_id"], format!("{session}:train:1"));
}

#[test]
fn an_unknown_loss_fails_with_its_update_and_the_next_one_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let model = server.create(&server.session(), 0).unwrap();
    server.forward_backward(&model, 1, "cross_entropy", vec![supervised()]).unwrap();
    let failed = server.forward_backward(&model, 2, "stable_reinforce", vec![supervised()]).unwrap_err();
    assert!(failed["category"] == "user" && failed["error"].as_str().unwrap().starts_with("loss_fn is"), "{failed}");
    let update = server.optim_step(&model, 3);
    assert!(update["error"].as_str().unwrap().contains("stable_reinforce"), "{update}");
    let other = json!({"model_id": model, "seq_id": 4, "optimizer_params": {"type": "muon"}});
    assert!(server.result("optim_step", &other)["error"].as_str().unwrap().starts_with("optimizer_params is"));
    server.forward_backward(&model, 5, "cross_entropy", vec![supervised()]).unwrap();
    let abandoned = server.optim_step(&model, 6);
    assert!(abandoned["error"].as_str().unwrap().contains("optim_step was refused"), "{abandoned}");
    server.forward_backward(&model, 7, "cross_entropy", vec![supervised()]).unwrap();
    assert!(server.optim_step(&model, 8)["metrics"].is_object());
}

#[test]
fn a_second_model_is_refused_while_the_first_client_is_there_and_takes_over_when_it_has_died() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["tinker.session_expiry=3s"]);
    let first = server.session();
    let other = server.session();
    let model = server.create(&first, 0).unwrap();
    server.result("save_weights_for_sampler", &json!({"model_id": model, "seq_id": 1, "sampling_session_seq_id": 0}));
    let weights = || std::fs::read_dir(dir.path().join("tinker/weights")).unwrap().count();
    assert_eq!(weights(), 2, "the base and a snapshot");
    let refused = server.create(&first, 1).unwrap_err();
    assert!(refused["error"].as_str().unwrap().contains("one model at a time"), "{refused}");
    // The other asks, and the first is heard of meanwhile.
    let body = json!({"session_id": other, "model_seq_id": 0, "base_model": "tiny", "lora_config": {"rank": 4}});
    let id = server.ok("create_model", &body)["request_id"].as_str().unwrap().to_owned();
    std::thread::sleep(Duration::from_millis(500));
    server.ok("session_heartbeat", &json!({"session_id": first}));
    let refused = server.retrieve(&id).unwrap();
    assert!(refused["category"] == "user" && refused["error"].as_str().unwrap().contains(&model), "{refused}");
    // It dies.
    server.ok("session_heartbeat", &json!({"session_id": other}));
    let body = json!({"session_id": other, "model_seq_id": 1, "base_model": "tiny", "lora_config": {"rank": 4}});
    let id = server.ok("create_model", &body)["request_id"].as_str().unwrap().to_owned();
    for _ in 0..4 {
        std::thread::sleep(Duration::from_secs(1));
        server.ok("session_heartbeat", &json!({"session_id": other}));
    }
    let taken = server.retrieve(&id).unwrap();
    assert_eq!(taken["model_id"], format!("{other}:train:1"), "{taken}");
    let (status, _) = server.post("session_heartbeat", &json!({"session_id": first}));
    assert_eq!(status, 410);
    assert_eq!(weights(), 1, "what only it sampled from is gone");
}

#[test]
fn a_server_without_room_answers_429_and_still_takes_what_the_others_wait_for() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["tinker.max_requests=2"]);
    let model = server.create(&server.session(), 0).unwrap();
    let sent = [3, 2].map(|number| server.send(&model, number, "cross_entropy", vec![supervised()]));
    assert!(sent.iter().all(|(status, _)| *status == 200), "{sent:?}");
    assert_eq!(server.send(&model, 4, "cross_entropy", vec![supervised()]).0, 429);
    server.forward_backward(&model, 1, "cross_entropy", vec![supervised()]).unwrap();
    sent.iter().for_each(|(_, answer)| drop(server.retrieve(answer["request_id"].as_str().unwrap())));
    assert!(server.optim_step(&model, 4)["metrics"].is_object(), "a request that was refused took no number");
}

#[test]
fn keys_are_required_where_there_are_some_and_never_logged() {
    let dir = tempfile::tempdir().unwrap();
    let keys = dir.path().join("keys");
    std::fs::write(&keys, KEY).unwrap();
    let server = Server::start(dir.path(), &[&format!("tinker.token_file={}", keys.display())]);
    let (status, _, body) = server.raw("POST", "create_session", "application/json", "tml-wrongwrongwrong", b"{}");
    assert_eq!(status, 401, "{}", String::from_utf8_lossy(&body));
    server.session();
    server.ok("telemetry", &json!({"events": [{"headers": {"x-api-key": KEY}}]}));
    let log = server.log();
    assert!(!log.contains(KEY) && !log.contains("tml-wrong"), "{log}");
    let mut command = evenkeel(&["serve", "tinker", "--set", "model=m", "--set", "tinker.model_name=x"]);
    command.args(["--set", "tinker.listen=0.0.0.0:0"]);
    let message = refused(command);
    assert!(message.contains("tinker.listen") && message.contains("in plaintext"), "{message}");
    // Encrypted, but for everybody.
    let mut command = evenkeel(&["serve", "tinker", "--set", "model=m", "--set", "tinker.model_name=x"]);
    command.args(["--set", "tinker.listen=0.0.0.0:0"]);
    command.args(["--set", "tinker.tls={certificate_file = \"a.pem\", key_file = \"b.pem\"}"]);
    let message = refused(command);
    assert!(message.contains("tinker.listen") && message.contains("without credentials"), "{message}");
}

/// Asks over TLS as a client that trusts this certificate; `None` where it does not believe the front. The first line
/// of the answer.
async fn ask_encrypted(port: u16, trusted: &Path, request: &str) -> Option<String> {
    let tls = Some(ClientTlsSettings { ca_file: trusted.to_owned(), ..ClientTlsSettings::default() });
    let client = Connector::new("client", ClientSettings { tls, ..ClientSettings::default() }).unwrap();
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let mut stream = client.encrypt_http1("localhost", stream).await.ok()?;
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // Whoever is done may end without a farewell.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).lines().next().map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_certificate_the_front_speaks_tls_to_those_who_trust_it_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let certificate = |name: &str| {
        let folder = dir.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let certificate = folder.join("certificate.pem");
        let key = folder.join("key.pem");
        std::fs::write(&certificate, cert.pem()).unwrap();
        std::fs::write(&key, signing_key.serialize_pem()).unwrap();
        (certificate, key)
    };
    let (own, key) = certificate("own");
    let (other, _) = certificate("other");
    let keys = dir.path().join("keys");
    std::fs::write(&keys, KEY).unwrap();
    let settings = [
        format!("tinker.tls.certificate_file={}", own.display()),
        format!("tinker.tls.key_file={}", key.display()),
        format!("tinker.token_file={}", keys.display()),
    ];
    let server = Server::start(dir.path(), &settings.each_ref().map(String::as_str));
    let body = r#"{"sdk_version": "0.38.0"}"#;
    let session = |key: &str| {
        format!(
            "POST /api/v1/create_session HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-type: application/json\r\n\
             x-api-key: {key}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    assert_eq!(ask_encrypted(server.port, &own, &session(KEY)).await.unwrap(), "HTTP/1.1 200 OK");
    let refused = ask_encrypted(server.port, &own, &session("tml-wrongwrongwrong")).await.unwrap();
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    assert_eq!(
        ask_encrypted(server.port, &other, &session(KEY)).await,
        None,
        "a client must not believe another certificate"
    );
    let mut plain = tokio::net::TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    plain.write_all(session(KEY).as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!String::from_utf8_lossy(&answer).contains("200"), "plaintext is answered");
    assert!(!server.log().contains(KEY));
}

#[test]
fn a_certificate_without_its_key_is_refused_by_its_setting() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = evenkeel(&["serve", "tinker", "--set", "tinker.model_name=x", "--set", "tinker.unembed=frozen"]);
    let model = written_model(dir.path());
    command.args(["--set", &format!("model={}", model.display()), "--set", "tinker.listen=127.0.0.1:0"]);
    command.args(["--set", &format!("tinker.folder={}", dir.path().join("tinker").display())]);
    command.args(["--set", "tinker.tls={certificate_file = \"/nowhere/a.pem\", key_file = \"/nowhere/b.pem\"}"]);
    let message = refused(command);
    assert!(message.contains("tls.certificate_file") && message.contains("/nowhere/a.pem"), "{message}");
}
