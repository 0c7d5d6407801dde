//! A server with the part of vLLM's HTTP API that samples need. As many answers to a prompt are right as its
//! script says.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// The `n`th answer to a prompt, from 0, both as texts of the fresh model's characters.
type Script = fn(prompt: &str, n: usize) -> String;

pub(crate) struct ScriptedEngine {
    address: SocketAddr,
    asked: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl ScriptedEngine {
    /// Serves until the test ends, each answer after `delay`.
    pub(crate) fn start(script: Script, delay: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let asked = Arc::new(Mutex::default());
        let shared = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let asked = Arc::clone(&shared);
                std::thread::spawn(move || serve(&stream, script, delay, &asked));
            }
        });
        Self { address, asked }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Samples that were requested.
    pub(crate) fn asked(&self) -> usize {
        self.asked.lock().expect("no thread panics").values().sum()
    }
}

/// Answers the requests of one connection until it is closed.
fn serve(stream: &TcpStream, script: Script, delay: Duration, asked: &Mutex<BTreeMap<String, usize>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
        let path = line.split_whitespace().nth(1)?.split('?').next()?.to_owned();
        let mut length = 0;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).ok()?;
            match header.trim().split_once(':') {
                None => break,
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse().ok()?
                }
                Some(_) => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let (status, text) = match path.as_str() {
            "/health" => (200, "{}".to_owned()),
            "/version" => (200, json!({"version": "0.32.0"}).to_string()),
            "/v1/models" => {
                let model = json!({"id": "m", "object": "model", "root": "/nowhere/m", "max_model_len": 128});
                (200, json!({"object": "list", "data": [model]}).to_string())
            }
            "/weight_info" => (200, json!({"weight_version": "default"}).to_string()),
            "/is_paused" => (200, json!({"is_paused": false}).to_string()),
            "/is_sleeping" => (200, json!({"is_sleeping": false}).to_string()),
            "/metrics" => (200, "vllm:num_requests_running{engine=\"0\"} 0.0\n".to_owned()),
            "/v1/completions" => (200, completion(&serde_json::from_slice(&body).ok()?, script, delay, asked)),
            _ => (404, "{}".to_owned()),
        };
        let head =
            format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", text.len());
        writer.write_all((head + &text).as_bytes()).ok()?;
    }
}

fn completion(body: &Value, script: Script, delay: Duration, asked: &Mutex<BTreeMap<String, usize>>) -> String {
    let prompt: Vec<u64> = body["prompt"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
    let most = body["max_tokens"].as_u64().unwrap_or(1) as usize;
    let ids: Vec<u64> = if body["cache_salt"] == "probe" {
        vec![5; most]
    } else {
        let prompt = text_of(&prompt);
        let number = {
            let mut asked = asked.lock().expect("no thread panics");
            let count = asked.entry(prompt.clone()).or_default();
            *count += 1;
            *count - 1
        };
        std::thread::sleep(delay);
        ids_of(&script(&prompt, number)).into_iter().chain([1]).take(most).collect()
    };
    let finish = if ids.last() == Some(&1) { "stop" } else { "length" };
    let tokens: Vec<String> = ids.iter().map(u64::to_string).collect();
    let choice = json!({
        "index": 0, "text": tokens.join(" "), "finish_reason": finish, "stop_reason": null,
        "logprobs": {"text_offset": vec![0; ids.len()], "token_logprobs": vec![0.0; ids.len()], "tokens": tokens, "top_logprobs": null},
        "token_ids": ids, "prompt_token_ids": prompt,
    });
    let usage = json!({"prompt_tokens": prompt.len(), "completion_tokens": ids.len()});
    json!({"id": "c", "object": "text_completion", "created": 1, "model": "m", "choices": [choice], "usage": usage})
        .to_string()
}

/// The fresh model has a token for each character.
fn ids_of(text: &str) -> Vec<u64> {
    let id = |character: char| match character {
        '\n' => 2,
        ' ' => 3,
        visible => u64::from(visible as u32) - u64::from('!') + 4,
    };
    text.chars().map(id).collect()
}

fn text_of(ids: &[u64]) -> String {
    let character = |id: &u64| match id {
        2 => Some('\n'),
        3 => Some(' '),
        4..=97 => char::from_u32('!' as u32 + *id as u32 - 4),
        _ => None,
    };
    ids.iter().filter_map(character).collect()
}
