//! Headless Chromium over the DevTools protocol, through a pipe.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const PROGRAM: &str = "chromium";

/// Command that reads from descriptor 3 and writes answers to descriptor 4; a shell puts them where this process has
/// its pipes.
const START: &str = "exec chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
                     --disable-background-networking --disable-component-update --disable-sync --window-size=1280,900 \
                     --remote-debugging-pipe --user-data-dir=\"$0\" 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null";

/// How often a condition is looked at.
const PAUSE: Duration = Duration::from_millis(50);
/// Time limit of a condition, and of an answer of the browser.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A browser with one page. It ends with this value.
pub(crate) struct Chromium {
    process: Child,
    commands: ChildStdin,
    answers: Receiver<Value>,
    session: String,
    next: u64,
    complaints: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Chromium {
    pub(crate) fn is_installed() -> bool {
        let mut version = Command::new(PROGRAM);
        version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        version.status().is_ok_and(|status| status.success())
    }

    pub(crate) fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", START]).arg(profile.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut browser = Self {
            commands: process.stdin.take().unwrap(),
            answers: answers(process.stdout.take().unwrap()),
            process,
            session: String::new(),
            next: 0,
            complaints: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let session = browser.call("Target.attachToTarget", json!({"targetId": target["targetId"], "flatten": true}));
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, json!({}));
        }
        browser.call("Performance.enable", json!({"timeDomain": "threadTicks"}));
        browser
    }

    pub(crate) fn open(&mut self, url: &str) {
        let opened = self.call("Page.navigate", json!({"url": url}));
        assert!(opened.get("errorText").is_none(), "{url}: {opened}");
    }

    /// The value of an expression in the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let answer = self.call("Runtime.evaluate", json!({"expression": expression, "returnByValue": true}));
        answer["result"]["value"].clone()
    }

    /// Milliseconds of CPU that the main thread of the page's process has used for all that it did: parsing, styles,
    /// layout, scripts.
    pub(crate) fn cpu_ms(&mut self) -> f64 {
        let metrics = self.call("Performance.getMetrics", json!({}));
        let all = metrics["metrics"].as_array().unwrap();
        let tasks = all.iter().find(|metric| metric["name"] == "TaskDuration").unwrap();
        1e3 * tasks["value"].as_f64().unwrap()
    }

    /// Waits until an expression is true; an error, as on a page that is not loaded yet, is not.
    pub(crate) fn until(&mut self, expression: &str) {
        let began = Instant::now();
        while self.value(expression) != true {
            if began.elapsed() > TIMEOUT {
                let text = self.value("document.body.innerText.slice(0, 1000)");
                panic!("not within {TIMEOUT:?}: {expression}\n{text}\n{:?}", self.complaints);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// What the browser has complained about, but for connections that were lost.
    pub(crate) fn complaints(&self) -> Vec<&str> {
        let is_loss =
            |text: &&str| text.contains("net::ERR_CONNECTION") || text.contains("net::ERR_INCOMPLETE_CHUNKED");
        self.complaints.iter().map(String::as_str).filter(|text| !is_loss(text)).collect()
    }

    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.next += 1;
        let mut message = json!({"id": self.next, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).unwrap();
        loop {
            let message = self.answers.recv_timeout(TIMEOUT).expect("the browser answers");
            match message["method"].as_str() {
                Some("Log.entryAdded") => self.complain(&message["params"]["entry"]),
                Some("Runtime.exceptionThrown") => self.complaints.push(message["params"].to_string()),
                _ if message["id"] == self.next => {
                    assert!(message.get("error").is_none(), "{method}: {message}");
                    return message["result"].clone();
                }
                _ => {}
            }
        }
    }

    fn complain(&mut self, entry: &Value) {
        if matches!(entry["level"].as_str(), Some("error" | "warning")) {
            self.complaints.push(format!("{}: {}", entry["text"], entry["url"]));
        }
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // The shell has become the browser.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The messages of the browser, each of which ends with a zero byte.
fn answers(stdout: ChildStdout) -> Receiver<Value> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for message in BufReader::new(stdout).split(0).map_while(Result::ok) {
            if sender.send(serde_json::from_slice(&message).unwrap_or_default()).is_err() {
                return;
            }
        }
    });
    receiver
}
