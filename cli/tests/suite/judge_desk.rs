//! What runs with a judge need: rows, a rubric and a key in a folder, and a fake endpoint.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use evenkeel_testkit::chat_server::{ChatAnswer, ChatRequest, ChatServer};
use serde_json::Value;

use crate::support::{WORDS, train, write_rows};

pub(crate) const KEY: &str = "sk-planted-0123456789";

/// The answer in a request, which stands between two marks.
pub(crate) fn answer_in(request: &ChatRequest) -> String {
    let body: Value = serde_json::from_str(&request.body).unwrap();
    let message = body["messages"][1]["content"].as_str().unwrap();
    let (_, rest) = message.split_once("<answer-").unwrap();
    let (mark, rest) = rest.split_once(">\n").unwrap();
    rest.split_once(&format!("\n</answer-{mark}>")).unwrap().0.to_owned()
}

/// Scores by the length of an answer.
pub(crate) fn judge() -> ChatServer {
    ChatServer::start(|_, request| {
        let quarters = answer_in(request).chars().count() % 5;
        ChatAnswer::of(&format!(r#"{{"long": {}, "rude": 0}}"#, quarters as f64 / 4.0)).after(Duration::from_millis(5))
    })
}

/// A folder with rows, a rubric and a key, for runs with a judge at `url`.
pub(crate) struct Desk {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) url: String,
}

impl Desk {
    pub(crate) fn new(url: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        write_rows(folder.path(), &WORDS);
        let rubric = "[[criteria]]\nname = \"long\"\nweight = 1.0\ndescription = \"is long\"\n\
            [[criteria]]\nname = \"rude\"\nweight = -1.0\ndescription = \"insults the reader\"\n";
        for (name, text) in [("rubric.toml", rubric), ("key", KEY)] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Self { folder, url: url.to_owned() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Sets all that a run with the judge needs, and whatever else is set.
    pub(crate) fn with_judge(&self, mut command: Command, more: &[&str]) -> Command {
        let rows = self.path("rows.jsonl");
        let settings = [
            "run.steps=4".to_owned(),
            "warm_start.steps=0".to_owned(),
            "evaluation.problems=0".to_owned(),
            format!("data.files={}", rows.display()),
            "data.verifier=essay".to_owned(),
            "data.verifiers.essay.judge=true".to_owned(),
            format!("reward.judge.endpoint={}", self.url),
            "reward.judge.model=judge".to_owned(),
            format!("reward.judge.rubric={}", self.path("rubric.toml").display()),
            format!("reward.judge.key_file={}", self.path("key").display()),
        ];
        command.args(settings.iter().map(String::as_str).chain(more.iter().copied()).flat_map(|set| ["--set", set]));
        command
    }

    pub(crate) fn train(&self, name: &str, more: &[&str]) -> Command {
        self.with_judge(train(&self.path(name)), more)
    }
}

/// How often a question was asked that had been asked before.
pub(crate) fn repeated(server: &ChatServer) -> usize {
    let requests = server.requests();
    requests.len() - requests.iter().map(|request| &request.body).collect::<BTreeSet<_>>().len()
}

/// Whether any file below a folder, but for the key's own, has a text.
pub(crate) fn has_text(folder: &Path, text: &str) -> bool {
    std::fs::read_dir(folder).unwrap().flatten().any(|entry| {
        let path = entry.path();
        let bytes = || std::fs::read(&path).unwrap();
        let holds = |bytes: Vec<u8>| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        if path.is_dir() { has_text(&path, text) } else { path.file_name().unwrap() != "key" && holds(bytes()) }
    })
}
