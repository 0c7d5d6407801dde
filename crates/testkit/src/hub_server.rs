//! A small server that answers as the Hugging Face hub does, well or badly: HTTP/1.1 as far as tests need it, one
//! connection a request.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use sha1::Digest;

/// A request: its path without the query, and its headers.
#[derive(Clone)]
pub struct Request {
    /// Path without the query, such as `/api/models/org/tiny/revision/main`.
    pub path: String,
    headers: Vec<(String, String)>,
}

impl Request {
    /// The value of a header, whose name is in lower case.
    pub fn header(&self, name: &str) -> Option<&String> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value)
    }
}

/// What is answered, and how badly.
pub struct HubAnswer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    ranges: bool,
    cut: usize,
    silent: bool,
    slow: bool,
}

impl HubAnswer {
    /// The whole of it.
    pub fn of(body: Vec<u8>) -> Self {
        Self { status: 200, headers: Vec::new(), body, ranges: true, cut: usize::MAX, silent: false, slow: false }
    }

    /// A status with the hub's code for it, if it has one.
    pub fn refused(status: u16, code: &'static str) -> Self {
        let headers = if code.is_empty() { Vec::new() } else { vec![("X-Error-Code", code.to_owned())] };
        Self { status, headers, ..Self::of(b"{\"error\": \"words\"}".to_vec()) }
    }

    /// The file lies elsewhere.
    pub fn redirect(to: String) -> Self {
        Self { status: 302, headers: vec![("Location", to)], ..Self::of(Vec::new()) }
    }

    /// The connection breaks after that many bytes.
    pub fn cut_after(self, cut: usize) -> Self {
        Self { cut, ..self }
    }

    /// Sends the whole file, whatever is asked for.
    pub fn without_ranges(self) -> Self {
        Self { ranges: false, ..self }
    }

    /// Sends the headers and nothing more.
    pub fn silent(self) -> Self {
        Self { silent: true, ..self }
    }

    /// Sends a few bytes at a time.
    pub fn slow(self) -> Self {
        Self { slow: true, ..self }
    }

    pub fn map(mut self, change: impl FnOnce(&mut Vec<u8>)) -> Self {
        change(&mut self.body);
        self
    }

    fn send(self, request: &Request, stream: &mut TcpStream) -> std::io::Result<()> {
        let range = request.header("range").filter(|_| self.ranges && self.status == 200);
        let from: Option<usize> = range.and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
        let (status, body) = match from {
            Some(from) if from >= self.body.len() => (416, &[][..]),
            Some(from) => (206, &self.body[from..]),
            None => (self.status, &self.body[..]),
        };
        let mut head = format!("HTTP/1.1 {status} words\r\nContent-Length: {}\r\nConnection: close\r\n", body.len());
        if let Some(from) = from {
            let total = self.body.len();
            head += &format!("Content-Range: bytes {from}-{}/{total}\r\n", total.saturating_sub(1));
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        stream.write_all(format!("{head}\r\n").as_bytes())?;
        if self.silent {
            thread::sleep(Duration::from_secs(2));
            return Ok(());
        }
        if self.slow {
            for piece in body.chunks(10).take(40) {
                stream.write_all(piece)?;
                thread::sleep(Duration::from_millis(50));
            }
            return Ok(());
        }
        stream.write_all(&body[..body.len().min(self.cut)])
    }
}

/// A server on a port of its own, until the test ends.
pub struct Server {
    /// Address of the server: `http://127.0.0.1:PORT`.
    pub url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Answers each request by itself.
    pub fn start(answer: impl Fn(&Request) -> HubAnswer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a test fails by panicking");
        let url = format!("http://{}", listener.local_addr().expect("a test fails by panicking"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let answer = Arc::new(answer);
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(mut stream), seen, answer) = (stream, Arc::clone(&seen), Arc::clone(&answer)) else { continue };
                thread::spawn(move || {
                    if let Some(request) = read(&stream) {
                        seen.lock().expect("a test fails by panicking").push(request.clone());
                        let _ = answer(&request).send(&request, &mut stream);
                    }
                });
            }
        });
        Self { url, requests }
    }

    pub fn closed() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a test fails by panicking");
        Self {
            url: format!("http://{}", listener.local_addr().expect("a test fails by panicking")),
            requests: Arc::default(),
        }
    }

    /// What was asked for so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("a test fails by panicking").clone()
    }
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    let path = first.split(' ').nth(1)?.split('?').next()?.to_owned();
    let mut headers = Vec::new();
    for line in lines {
        let line = line.ok()?;
        let Some((name, value)) = line.split_once(": ") else { break };
        headers.push((name.to_lowercase(), value.to_owned()));
    }
    Some(Request { path, headers })
}

/// A repository with one commit.
#[derive(Clone)]
pub struct Repository {
    /// Name of the repository: `OWNER/NAME`.
    pub name: String,
    pub commit: String,
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Repository {
    /// A repository with the files of a folder.
    pub fn of_folder(name: &str, commit: &str, folder: &Path) -> Self {
        let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        let files = entries.filter(|path| path.is_file()).map(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (name, std::fs::read(path).expect("a file"))
        });
        Self { name: name.to_owned(), commit: commit.to_owned(), files: files.collect() }
    }

    /// Large files are named by SHA-256 and lie elsewhere.
    fn is_large(name: &str) -> bool {
        name.ends_with(".safetensors") || name.ends_with(".bin")
    }

    /// The digest by which the hub lists a file.
    pub fn digest(&self, name: &str) -> String {
        let bytes = &self.files[name];
        if Self::is_large(name) { sha256(bytes) } else { git_blob(bytes) }
    }

    fn listing(&self) -> String {
        let sibling = |(name, bytes): (&String, &Vec<u8>)| {
            let size = bytes.len();
            let digest = self.digest(name);
            if Self::is_large(name) {
                format!(
                    r#"{{"rfilename": "{name}", "size": {size}, "blobId": "0", "lfs": {{"sha256": "{digest}", "size": {size}}}}}"#
                )
            } else {
                format!(r#"{{"rfilename": "{name}", "size": {size}, "blobId": "{digest}"}}"#)
            }
        };
        let siblings: Vec<String> = self.files.iter().map(sibling).collect();
        format!(r#"{{"sha": "{}", "siblings": [{}]}}"#, self.commit, siblings.join(", "))
    }

    /// Answers as the hub does; `elsewhere` is the URL where large files lie.
    pub fn answer(&self, path: &str, elsewhere: &str) -> HubAnswer {
        if path.starts_with(&format!("/api/models/{}/revision/", self.name)) {
            return HubAnswer::of(self.listing().into_bytes());
        }
        let prefix = format!("/{}/resolve/{}/", self.name, self.commit);
        let file = path.strip_prefix(&prefix).and_then(|name| Some((name, self.files.get(name)?)));
        match file {
            Some((name, _)) if Self::is_large(name) => HubAnswer::redirect(format!("{elsewhere}/{name}")),
            Some((_, bytes)) => HubAnswer::of(bytes.clone()),
            None => HubAnswer::refused(404, "EntryNotFound"),
        }
    }

    /// Answers as the place of large files does.
    pub fn large(&self, path: &str) -> HubAnswer {
        match self.files.get(path.trim_start_matches('/')) {
            Some(bytes) => HubAnswer::of(bytes.clone()),
            None => HubAnswer::refused(404, ""),
        }
    }
}

fn sha256(bytes: &[u8]) -> String {
    hex(&sha2::Sha256::digest(bytes))
}

/// The name that git gives a file with this content.
fn git_blob(bytes: &[u8]) -> String {
    hex(&sha1::Sha1::new().chain_update(format!("blob {}\0", bytes.len())).chain_update(bytes).finalize())
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
