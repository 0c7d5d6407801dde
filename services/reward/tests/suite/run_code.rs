//! Programs over HTTP, as clients of SandboxFusion see them.

use std::net::TcpListener;
use std::time::Duration;

use crate::support::{Worker, bounded, with_sandbox};
use evenkeel_config::Settings;
use evenkeel_reward::{CodeSettings, HttpSettings, RewardSettings, SandboxStart};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const TOKEN: &str = "0123456789abcdef";

/// A worker with its HTTP port.
struct Http {
    _worker: Worker,
    address: String,
}

impl Http {
    async fn start(change: impl FnOnce(&mut RewardSettings)) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let http = HttpSettings { listen: free.to_string(), ..HttpSettings::default() };
        let mut settings = RewardSettings { http, ..RewardSettings::default() };
        change(&mut settings);
        let address = settings.http.listen.clone();
        Self { _worker: Worker::with(settings).await, address }
    }

    async fn send(&self, head: &str, body: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        let head = format!("{head}\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    async fn post(&self, request: &Value) -> (u16, Value) {
        let (status, body) = self.send("POST /run_code HTTP/1.1", request.to_string().as_bytes()).await;
        (status, serde_json::from_str(&body).unwrap_or(body.into()))
    }

    async fn run(&self, code: &str, stdin: &str, change: Value) -> Value {
        let mut request = json!({"code": code, "language": "python", "stdin": stdin, "compile_timeout": 10, "run_timeout": 10,
            "memory_limit_MB": 256, "files": {}, "fetch_files": []});
        request.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let (status, answer) = self.post(&request).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }
}

#[test]
fn a_program_is_answered_with_what_it_wrote() {
    with_sandbox(async {
        let http = Http::start(|_| ()).await;
        let answer =
            http.run("import sys\nprint(int(input()) * 2)\nprint('é', file=sys.stderr)", "21", json!({})).await;
        assert_eq!((&answer["status"], &answer["message"]), (&json!("Success"), &json!("")));
        assert_eq!((&answer["compile_result"], &answer["files"]), (&Value::Null, &json!({})));
        let ran = &answer["run_result"];
        assert_eq!((&ran["status"], &ran["return_code"]), (&json!("Finished"), &json!(0)));
        assert_eq!((&ran["stdout"], &ran["stderr"]), (&json!("42\n"), &json!("é\n")));
        assert!(ran["execution_time"].as_f64().unwrap() > 0.0);
        // All of it, not an excerpt.
        let long = http.run("print('x' * 1_000_000)", "", json!({})).await;
        assert_eq!(long["run_result"]["stdout"].as_str().unwrap().len(), 1_000_001);
    });
}

#[test]
fn failures_have_the_shapes_that_clients_tell_apart() {
    with_sandbox(async {
        let http = Http::start(|_| ()).await;
        for (code, return_code, ends) in [
            ("import sys; print('a'); sys.exit(3)", json!(3), ""),
            ("print('a'); 1 / 0", json!(1), "ZeroDivisionError: division by zero\n"),
            ("def f(:", json!(1), "SyntaxError: invalid syntax\n"),
            ("x = bytearray(300 << 20)", json!(1), "MemoryError\n"),
            ("raise SystemExit('why')", json!(1), "why\n"),
        ] {
            let answer = http.run(code, "", json!({})).await;
            let ran = &answer["run_result"];
            assert_eq!((&answer["status"], &ran["status"]), (&json!("Failed"), &json!("Finished")), "{code}: {answer}");
            assert_eq!(ran["return_code"], return_code, "{code}");
            assert!(ran["stderr"].as_str().unwrap().ends_with(ends), "{code}: {answer}");
        }
        let answer = http.run("print('a', flush=True)\nwhile True: pass", "", json!({"run_timeout": 0.2})).await;
        let ran = &answer["run_result"];
        assert_eq!((&answer["status"], &ran["status"]), (&json!("Failed"), &json!("TimeLimitExceeded")));
        assert_eq!((&ran["return_code"], &ran["stdout"]), (&Value::Null, &json!("a\n")));
    });
}

#[test]
fn other_languages_and_files_are_a_fault_of_the_sandbox_in_the_originals_shape() {
    bounded(async {
        let http = Http::start(|_| ()).await;
        for (change, words) in
            [(json!({"language": "cpp"}), "python only"), (json!({"files": {"a.txt": "eA=="}}), "no file system")]
        {
            let answer = http.run("x", "", change).await;
            assert_eq!((&answer["status"], &answer["run_result"]), (&json!("SandboxError"), &Value::Null));
            assert!(answer["message"].as_str().unwrap().contains(words), "{answer}");
        }
    });
}

#[test]
fn requests_that_cannot_be_read_are_refused_by_field() {
    bounded(async {
        let http = Http::start(|settings| settings.http.max_body = evenkeel_config::ByteSize::kib(64)).await;
        let (status, answer) = http.post(&json!({"code": 5})).await;
        assert_eq!((status, &answer["detail"][1]["loc"]), (422, &json!(["body", "language"])), "{answer}");
        assert_eq!(http.send("POST /run_code HTTP/1.1", b"\xff{").await.0, 422);
        assert_eq!(http.post(&json!({"code": "x".repeat(70_000), "language": "python"})).await.0, 413);
        assert_eq!(http.send("POST /submit HTTP/1.1", b"").await, (404, r#"{"detail":"Not Found"}"#.to_owned()));
        assert_eq!(http.send("GET /v1/ping HTTP/1.1", b"").await, (200, "\"pong\"".to_owned()));
        assert_eq!(http.send("GET /health HTTP/1.1", b"").await.0, 200);
        let (_, spec) = http.send("GET /openapi.json HTTP/1.1", b"").await;
        assert!(serde_json::from_str::<Value>(&spec).unwrap()["paths"]["/run_code"].is_object());
        assert!(http.send("GET /docs HTTP/1.1", b"").await.1.contains("/run_code"));
    });
}

/// Nothing a client can tell as an answer to its program: 429 and 503 would count as wrong in verl, without another
/// try.
#[test]
fn a_program_that_gets_no_turn_is_answered_504_before_its_client_gives_up() {
    with_sandbox(async {
        let http = Http::start(|settings| {
            (settings.code.threads, settings.max_items) = (1, 1);
            settings.http.client_margin = Duration::from_secs(2);
        })
        .await;
        // A first program prepares the sandbox.
        http.run("", "", json!({})).await;
        let busy = json!({"code": "while True: pass", "language": "python", "run_timeout": 20});
        let waits = json!({"code": "print(1)", "language": "python", "run_timeout": 0.5, "compile_timeout": 0.5});
        let waiting = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let began = std::time::Instant::now();
            let (status, answer) = http.post(&waits).await;
            (status, answer, began.elapsed())
        };
        let occupied = tokio::time::timeout(Duration::from_secs(8), http.post(&busy));
        let ((status, answer, took), _) = tokio::join!(waiting, occupied);
        assert_eq!(status, 504, "{answer}");
        assert!(took < Duration::from_secs(3), "{took:?}, the client waits 3 s");
        // The busy client has gone, and its program with it.
        let answer = http.run("print(1)", "", json!({})).await;
        assert_eq!(answer["run_result"]["stdout"], json!("1\n"));
    });
}

#[test]
fn programs_need_a_token_where_there_is_one() {
    bounded(async {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), TOKEN).unwrap();
        let path = file.path().to_owned();
        let http = Http::start(|settings| settings.http.token_file = Some(path)).await;
        assert_eq!(http.post(&json!({})).await.0, 401);
        let head = format!("POST /run_code HTTP/1.1\r\nAuthorization: Bearer {TOKEN}");
        assert_eq!(http.send(&head, b"{}").await.0, 422);
        assert_eq!(http.send("GET /v1/ping HTTP/1.1", b"").await.0, 200);
    });
}

#[test]
fn web_pages_run_no_programs() {
    bounded(async {
        let http = Http::start(|_| {}).await;
        let (status, said) = http.send("POST /run_code HTTP/1.1\r\nOrigin: http://evil.example", b"{}").await;
        assert!(status == 403 && said.contains("Origin"), "{status} {said}");
    });
}

#[test]
fn a_worker_without_a_sandbox_says_so() {
    bounded(async {
        let off = CodeSettings { sandbox: SandboxStart::Off, ..CodeSettings::default() };
        let http = Http::start(|settings| settings.code = off).await;
        let answer = http.run("print(1)", "", json!({})).await;
        assert!(answer["message"].as_str().unwrap().contains("reward.code.sandbox is off"), "{answer}");
    });
}

#[test]
fn programs_for_other_machines_must_be_meant() {
    let refused =
        |http: HttpSettings| RewardSettings { http, ..RewardSettings::default() }.validate().unwrap_err().to_string();
    let listen = "0.0.0.0:8080".to_owned();
    let open = HttpSettings { listen: listen.clone(), ..HttpSettings::default() };
    let error = refused(open.clone());
    assert!(
        error.starts_with("http.listen is \"0.0.0.0:8080\" in plaintext") && error.contains("token_file"),
        "{error}"
    );
    let meant = HttpSettings { insecure: true, ..open };
    assert_eq!(RewardSettings { http: meant, ..RewardSettings::default() }.validate(), Ok(()));
    assert!(
        refused(HttpSettings { slowdown: 0.5, ..HttpSettings::default() })
            .contains("http.slowdown is 0.5, allowed: 1 to 100")
    );
}
