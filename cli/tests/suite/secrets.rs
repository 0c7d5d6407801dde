//! Secrets: a run with tokens, keys and certificates everywhere leaves nothing of them in what it writes, logs and
//! answers.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use evenkeel_rpc::client::{ClientSettings, ClientTlsSettings, Connector};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::hub::{hub, short};
use crate::support::{Process, evenkeel, free_ports, refused, small, succeed, summary, train, wait_for, written_model};

/// Words that begin every planted token and password.
const PLANTED: &str = "planted-secret";

/// The folder of secrets, and what must never be seen of them.
struct Secrets {
    folder: PathBuf,
    needles: Vec<String>,
}

impl Secrets {
    fn new(folder: PathBuf) -> Self {
        std::fs::create_dir(&folder).unwrap();
        let mut secrets = Self { folder, needles: vec![PLANTED.to_owned()] };
        let authority_key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        std::fs::write(secrets.path("ca.pem"), params.self_signed(&authority_key).unwrap().pem()).unwrap();
        let issuer = Issuer::new(params, authority_key);
        for name in ["localhost", "orchestrator"] {
            let key = KeyPair::generate().unwrap();
            let certificate = CertificateParams::new(vec![name.into()]).unwrap().signed_by(&key, &issuer).unwrap();
            std::fs::write(secrets.path(&format!("{name}.pem")), certificate.pem()).unwrap();
            std::fs::write(secrets.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
            let lines: Vec<String> = key.serialize_pem().lines().map(str::to_owned).collect();
            secrets.needles.extend_from_slice(&lines[1..lines.len() - 1]);
        }
        for name in ["orchestrator", "reader", "engine"] {
            std::fs::write(secrets.path(&format!("{name}.token")), format!("{PLANTED}-{name}\n")).unwrap();
        }
        secrets
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Settings of a server with TLS, certificates of clients, and tokens.
    fn server(&self) -> Vec<String> {
        let file = |key: &str, name: &str| format!("server.{key}={}", self.path(name).display());
        vec![
            file("tls.certificate_file", "localhost.pem"),
            file("tls.key_file", "localhost.key"),
            file("tls.client_ca_file", "ca.pem"),
            file("auth.tokens.orchestrator", "orchestrator.token"),
            file("auth.tokens.reader", "reader.token"),
            "server.auth.certificates.orchestrator=orchestrator".to_owned(),
        ]
    }

    /// How the orchestrator calls the services.
    fn client(&self) -> Vec<String> {
        let file = |key: &str, name: &str| format!("client.{key}={}", self.path(name).display());
        vec![
            file("token_file", "orchestrator.token"),
            file("tls.ca_file", "ca.pem"),
            file("tls.certificate_file", "orchestrator.pem"),
            file("tls.key_file", "orchestrator.key"),
        ]
    }

    /// What is seen of them in a text.
    fn seen(&self, text: &[u8]) -> Option<&str> {
        self.needles.iter().map(String::as_str).find(|needle| holds(text, needle))
    }
}

fn holds(text: &[u8], needle: &str) -> bool {
    text.windows(needle.len()).any(|window| window == needle.as_bytes())
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() { all.extend(files(&entry.path())) } else { all.push(entry.path()) }
    }
    all
}

fn head(path: &str, authorization: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {authorization}\r\nConnection: close\r\n\r\n")
}

/// The answer to a request with that `authorization` header.
fn get(port: u16, path: &str, authorization: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(head(path, authorization).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// GETs a page over TLS.
#[tokio::main(flavor = "current_thread")]
async fn get_encrypted(ca_file: PathBuf, port: u16, path: &str, authorization: &str) -> String {
    let tls = Some(ClientTlsSettings { ca_file, ..ClientTlsSettings::default() });
    let connector = Connector::new("client", ClientSettings { tls, ..ClientSettings::default() }).unwrap();
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let mut stream = connector.encrypt_http1("localhost", stream).await.unwrap();
    stream.write_all(head(path, authorization).as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[test]
fn nothing_that_a_secured_run_writes_logs_or_answers_holds_a_secret() {
    let dir = tempfile::tempdir().unwrap();
    let secrets = Secrets::new(dir.path().join("secrets"));
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let model = written_model(&data);
    let recipe = small();
    let recipe = recipe.to_str().unwrap();
    let [engine, generation, reward, learner, orchestrator, page, metrics] = free_ports();
    let place = |name: &str| format!("{name}={}", data.join(name).display());
    let file = |key: &str, name: &str| format!("{key}={}", secrets.path(name).display());
    let start = |service: &str, settings: &[String], flags: &[&str]| {
        let mut arguments = vec!["--log", "debug", "serve", service, "--recipe", recipe];
        arguments.extend(settings.iter().flat_map(|setting| ["--set", setting.as_str()]));
        arguments.extend(flags);
        Process::start_logging(evenkeel(&arguments), &data.join(format!("{service}.log")))
    };
    let listen = |port: u16| [vec![format!("server.listen=127.0.0.1:{port}")], secrets.server()].concat();
    let traced: &[&str] = if cfg!(feature = "traces") { &["--traces", "http://127.0.0.1:1"] } else { &[] };
    let metrics_address = format!("127.0.0.1:{metrics}");
    let on_orchestrator = [
        place("runs"),
        format!("start.set={:?}", [format!("model.path={}", model.display())]),
        format!("page.listen=127.0.0.1:{page}"),
        file("page.token_file", "reader.token"),
        format!("endpoints.generation=https://localhost:{generation}"),
        format!("endpoints.reward=[\"https://localhost:{reward}\"]"),
        format!("endpoints.learner=https://localhost:{learner}"),
    ];
    let on_generation = [
        format!("endpoints=[\"https://localhost:{engine}\"]"),
        file("api_key_file", "engine.token"),
        file("ca_file", "ca.pem"),
    ];
    let on_engine = [
        format!("listen=127.0.0.1:{engine}"),
        place("model"),
        file("api_key_file", "engine.token"),
        file("tls.certificate_file", "localhost.pem"),
        file("tls.key_file", "localhost.key"),
    ];
    let _services = [
        start(
            "orchestrator",
            &[&listen(orchestrator)[..], &on_orchestrator, &secrets.client()].concat(),
            &["--metrics", &metrics_address],
        ),
        start("learner", &[&listen(learner)[..], &["model", "checkpoints", "weights"].map(place)].concat(), &[]),
        start("reward", &listen(reward), &[]),
        start("generation", &[&listen(generation)[..], &on_generation].concat(), traced),
        start("engine", &on_engine, &[]),
    ];
    let run = data.join("runs/small");
    wait_for("the run's end", || summary(&run).is_some_and(|summary| summary["state"] == "completed"));

    let reader = format!("Bearer {PLANTED}-reader");
    for (port, path) in [(page, "/"), (page, "/run/small"), (page, "/run/small/lines"), (metrics, "/metrics")] {
        assert!(get(port, path, "Bearer wrong-wrong-wrong-wrong").starts_with("HTTP/1.1 401"), "{path}");
        let answer = get(port, path, &reader);
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        assert_eq!(secrets.seen(answer.as_bytes()), None, "{path}");
    }
    let authority = secrets.path("ca.pem");
    let keyed = get_encrypted(authority.clone(), engine, "/server_info", &format!("Bearer {PLANTED}-engine"));
    assert!(keyed.starts_with("HTTP/1.1 200"), "{keyed}");
    assert_eq!(secrets.seen(keyed.as_bytes()), None, "{keyed}");
    let probe = format!("https://localhost:{engine}/health");
    let healthy = succeed(evenkeel(&["health", &probe, "--ca", authority.to_str().unwrap()]));
    assert_eq!(String::from_utf8(healthy.stdout).unwrap(), format!("{probe} answers 200\n"));
    assert!(refused(evenkeel(&["health", &probe])).contains("no certificates"), "nobody is trusted by default");
    let written = files(&data);
    assert!(written.len() > 10 && written.iter().any(|file| file.ends_with("report.html")), "{written:?}");
    for file in written {
        let seen = secrets.seen(&std::fs::read(&file).unwrap());
        assert_eq!(seen, None, "{}", file.display());
    }
}

#[test]
fn neither_the_password_of_a_mirror_nor_a_token_of_the_hub_is_in_what_a_run_writes_or_says() {
    let dir = tempfile::tempdir().unwrap();
    let hub = hub(dir.path());
    let mirror = hub.url.replace("http://", &format!("http://user:{PLANTED}@"));
    let with = |endpoint: &str, mut command: Command| {
        command.args(["--log", "debug"]).env("HF_ENDPOINT", endpoint).env("HF_HOME", dir.path().join("hf"));
        command.env("HF_TOKEN", format!("{PLANTED}-of-the-hub")).env_remove("HF_HUB_CACHE");
        command
    };
    let said = succeed(with(&mirror, short(train(&dir.path().join("run")), "hf:org/tiny")));
    assert!(!hub.requests().is_empty(), "the model came from the mirror");
    let asked = |endpoint: &str| refused(with(endpoint, evenkeel(&["generate", "hf:org/absent", "1+1="])));
    let errors = [mirror.clone(), mirror.replace("http://", "")].map(|endpoint| asked(&endpoint).into_bytes());
    for said in [said.stdout, said.stderr].iter().chain(&errors) {
        assert!(!holds(said, PLANTED), "{}", String::from_utf8_lossy(said));
    }
    let written = files(dir.path());
    assert!(written.iter().any(|file| file.ends_with("report.html")), "{written:?}");
    for file in written {
        assert!(!holds(&std::fs::read(&file).unwrap(), PLANTED), "{}", file.display());
    }
}

#[test]
fn no_error_and_no_settings_show_a_password_of_a_url() {
    let url = format!("http://user:{PLANTED}@host:1");
    let endpoints = format!("endpoints=[{url:?}]");
    for arguments in [
        vec!["serve", "generation", "--set", &endpoints],
        vec!["serve", "orchestrator", "--set", &format!("endpoints.reward=[{url:?}]")],
        vec!["serve", "reward", "--traces", &url],
        vec!["serve", "reward", "--traces", &url.replace("http", "ftp")],
        vec!["serve", "reward", "--set", &format!("server.drain={url}")],
        vec!["verify", "math", "--endpoint", &url, "--input", "/dev/null"],
    ] {
        let message = refused(evenkeel(&arguments));
        assert!(!message.contains(PLANTED), "{message}");
    }
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, format!("{PLANTED}-of-a-client\n")).unwrap();
    let set = format!("services.client.token_file={}", token.display());
    let output = succeed(evenkeel(&["config", "--set", &set]));
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("token_file") && !shown.contains(PLANTED), "{shown}");
}
