//! More connections than a process has descriptors for.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{Process, evenkeel, succeed, wait_for, written_model};

/// What the services are allowed.
const DESCRIPTORS: u32 = 1024;
const CONNECTIONS: u32 = 2000;

/// The command, with as many descriptors.
fn limited(command: &Command) -> Command {
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("ulimit -n {DESCRIPTORS} && exec \"$0\" \"$@\"")]);
    shell.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    shell
}

/// Connections that do nothing, held by a process of its own until it is dropped.
struct Idle(Child);

impl Idle {
    /// `None` if this system allows a process fewer.
    fn open(port: u16) -> Option<Self> {
        let script = format!(
            "ulimit -n {} || exit 1; for i in $(seq {CONNECTIONS}); do exec {{connection}}<>/dev/tcp/127.0.0.1/{port}; \
             done 2>/dev/null; echo open; read",
            2 * CONNECTIONS
        );
        let mut child = Command::new("bash")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("bash is installed");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("text");
        let opened = Self(child);
        (line == "open\n").then_some(opened)
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

#[test]
fn idle_connections_beyond_the_descriptors_lock_nobody_out_of_a_service() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("rows.jsonl");
    std::fs::write(&input, "{\"gold\": \"2\", \"prediction\": \"2\"}\n").unwrap();
    let port = free_port();
    let listen = format!("server.listen=127.0.0.1:{port}");
    let settings = ["serve", "reward", "--set", &listen, "--set", "code.sandbox=off"];
    let _service = Process::start(limited(&evenkeel(&settings)));
    wait_for("the service", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    for _ in 0..3 {
        let Some(_idle) = Idle::open(port) else { return };
        let endpoint = format!("http://127.0.0.1:{port}");
        let mut command = evenkeel(&["verify", "math", "--endpoint", &endpoint, "--input"]);
        command.arg(&input);
        let verdicts = String::from_utf8(succeed(command).stdout).unwrap();
        assert!(verdicts.contains("\"equal\""), "{verdicts}");
    }
}

#[test]
fn idle_connections_beyond_the_descriptors_lock_no_probe_out_of_the_engine() {
    let dir = tempfile::tempdir().unwrap();
    let model = written_model(dir.path());
    let port = free_port();
    let listen = format!("listen=127.0.0.1:{port}");
    let model = format!("model={}", model.display());
    let settings = ["serve", "engine", "--set", &listen, "--set", &model, "--set", "header_deadline=2s"];
    let _engine = Process::start(limited(&evenkeel(&settings)));
    let ask = |path: &str| -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.lines().next().unwrap_or_default().to_owned())
    };
    wait_for("the engine", || ask("/health").is_ok_and(|line| line.ends_with("200 OK")));
    let Some(_idle) = Idle::open(port) else { return };
    // Some of the connections that are kept for probes are the idle ones' too, for a second.
    wait_for("a probe", || ask("/health").is_ok_and(|line| line.ends_with("200 OK")));
    // And once their headers are late everybody is served again.
    wait_for("an answer", || ask("/v1/models").is_ok_and(|line| line.ends_with("200 OK")));
}
