//! An engine that computes with one bit of one weight flipped.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::plain_http::Request;
use crate::support::{count_lines, engine, free_ports, refused, succeed, train, written_model};
use crate::tampering::copy;

/// Flips a bit of the first value of a tensor in a folder: one in the middle, since the probabilities of a fresh model are
/// so flat that its last bit changes none of them.
fn flip(folder: &Path, tensor: &str) {
    let path = folder.join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let data = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..data]).unwrap();
    let first = header[tensor]["data_offsets"][0].as_u64().unwrap() as usize;
    bytes[data + first + 1] ^= 0x80;
    std::fs::write(path, bytes).unwrap();
}

/// A server between the generation service and an engine, which has it load copies of the published folders: with a
/// flipped bit, or as they are.
fn meddler(engine: u16, copies: PathBuf, flips: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let copies = copies.clone();
            std::thread::spawn(move || pass_on(client, engine, &copies, flips));
        }
    });
    url
}

fn pass_on(mut client: TcpStream, engine: u16, copies: &Path, flips: bool) -> Option<()> {
    let mut request = Request::read(&client)?;
    let mut call = request.json().unwrap_or_default();
    if let Some(folder) = call["kwargs"]["weights_path"].as_str().map(PathBuf::from) {
        let other = copies.join(folder.file_name()?);
        copy(&folder, &other);
        if flips {
            flip(&other, "model.norm.weight");
        }
        call["kwargs"]["weights_path"] = other.display().to_string().into();
        request.set_json(&call);
    }
    client.write_all(&request.forward(engine)?).ok()
}

#[test]
fn one_flipped_bit_of_one_weight_in_an_engine_ends_a_run_in_its_first_step() {
    let dir = tempfile::tempdir().unwrap();
    let model = written_model(dir.path());
    for (name, flips) in [("right", false), ("flipped", true)] {
        let [port] = free_ports();
        let _engine = engine(port, &model);
        let copies = dir.path().join(format!("{name}-copies"));
        let out = dir.path().join(name);
        let mut command = train(&out);
        let settings = [
            "run.steps=1".to_owned(),
            // Without any, an engine has the weights already, and may sample before it loads the copy.
            "warm_start.steps=5".to_owned(),
            "data.kind=arithmetic".to_owned(),
            "evaluation.problems=0".to_owned(),
            // The reward by length makes every group one that teaches.
            "shaping.overlong_buffer_tokens=70".to_owned(),
            format!("model.path={}", model.display()),
            format!("generation.endpoints=[\"{}\"]", meddler(port, copies.clone(), flips)),
        ];
        command.args(settings.iter().flat_map(|setting| ["--set", setting]));
        if flips {
            let error = refused(command);
            assert!(error.contains("step 1") && error.contains("the learner computes"), "{error}");
        } else {
            succeed(command);
        }
        assert!(copies.is_dir(), "the engine has loaded a copy");
        assert_eq!(count_lines(&out.join("metrics.jsonl")), usize::from(!flips));
    }
}
