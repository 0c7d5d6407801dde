//! A custom verifier, as settings declare it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use evenkeel_config::{ByteSize, HumanDuration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::correct::CorrectRule;

/// A custom verifier: anything that speaks `evenkeel.v1.Reward` and judges custom tasks, or a Python file with reward
/// functions, which the run starts, watches and stops, or a judge. It has one of `endpoints`, `path`, `command` and
/// `judge`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct VerifierSettings {
    /// The workers: `http://HOST:PORT` or `https://HOST:PORT` each, or `dns://HOST:PORT` for every address behind a
    /// name.
    pub endpoints: Vec<String>,
    /// Which rows it judges in addition to those that name it: those whose column `data_source` is one of these, or
    /// begins with the part before the `*` of one that ends in `*`.
    pub data_sources: Vec<String>,
    /// A Python file with reward functions. It is trusted code: it runs as a program of the user's own, with the user's
    /// rights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// A program, with its arguments, that serves gRPC at the address in the variable `EVENKEEL_VERIFIER_LISTEN` of its
    /// environment: `unix:PATH`, a socket in a folder that only you may enter. The run prints the command and starts
    /// it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Whether the judge of `reward.judge` is this verifier. One verifier of a recipe may be it.
    #[serde(skip_serializing_if = "is_false")]
    pub judge: bool,
    /// The interpreter of `path`.
    #[serde(skip_serializing_if = "is_python")]
    pub python: PathBuf,
    /// The functions of `path` and the weight of each in the reward. Empty: `reward`, `reward_batch` or
    /// `compute_score`, whichever the file has, or the only reward function in it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub functions: BTreeMap<String, f64>,
    /// The lowest and the highest reward that a function may give; they count as 0 and 1, and the highest is correct.
    /// Absent: rewards are taken as they are, and no answer is known to be correct unless `correct` says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
    /// Which answers are correct: those with at least this reward (`0.5`), those whose component of that name is at least
    /// 1 or `at_least` (`{ component = "right" }`), or `"unknown"`. Absent: those with the highest reward of `range`, or
    /// those that a service of your own calls correct.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correct: Option<CorrectRule>,
    /// What a failure of a function does, such as an exception: `limit` ends the run once more than 2 % of the answers of
    /// the last ten steps have failed, and at least three; `stop` ends it at the first one; `drop` leaves such answers
    /// out, up to `services.max_invalid_share`.
    #[serde(skip_serializing_if = "is_limit")]
    pub on_error: OnError,
    /// Whether a sample has no reward as soon as one of several functions gives none. Otherwise that component is left
    /// out.
    #[serde(skip_serializing_if = "is_false")]
    pub require_all: bool,
    /// The longest that a call of a function may take.
    #[serde(with = "HumanDuration", skip_serializing_if = "is_usual_time")]
    #[schemars(with = "HumanDuration")]
    pub timeout: Duration,
    /// Memory of each process that calls the functions, and of each that it starts; `0B` for no limit. Addresses that are
    /// only reserved do not count.
    #[serde(skip_serializing_if = "is_usual_memory")]
    pub max_memory: ByteSize,
    /// Variables of your environment that `path` or `command` needs although they look like secrets, such as
    /// the key of a judge: without this it gets no `*TOKEN*`, `*SECRET*`, `*PASSWORD*`, `*_KEY`, `*_HEADERS`,
    /// `SSH_AUTH_SOCK` and the like.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keep_variables: Vec<String>,
    /// Processes that call the functions side by side.
    #[serde(skip_serializing_if = "is_one")]
    pub processes: u32,
}

/// What a failure of a reward function does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnError {
    /// Too many of them end the run.
    #[default]
    Limit,
    /// The first one ends the run.
    Stop,
    /// The answer is left out.
    Drop,
}

const PYTHON: &str = "python3";
const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_MEMORY: ByteSize = ByteSize::gib(8);

impl Default for VerifierSettings {
    fn default() -> Self {
        Self {
            endpoints: Vec::new(),
            data_sources: Vec::new(),
            path: None,
            command: Vec::new(),
            judge: false,
            python: PYTHON.into(),
            functions: BTreeMap::new(),
            range: None,
            correct: None,
            on_error: OnError::Limit,
            require_all: false,
            timeout: TIMEOUT,
            max_memory: MAX_MEMORY,
            keep_variables: Vec::new(),
            processes: 1,
        }
    }
}

impl VerifierSettings {
    /// Whether the run starts it.
    pub fn is_started(&self) -> bool {
        self.path.is_some() || !self.command.is_empty() || self.judge
    }

    /// The setting that says where it is or how it is started.
    pub fn place(&self) -> &'static str {
        match (&self.path, self.command.is_empty()) {
            _ if self.judge => "judge",
            (Some(_), _) => "path",
            (None, false) => "command",
            (None, true) => "endpoints",
        }
    }

    /// What decides which rows it judges and what they are worth, without where it is and what it may take.
    pub(super) fn without_place(&self) -> Self {
        let Self { data_sources, judge, functions, range, correct, require_all, .. } = self.clone();
        Self { data_sources, judge, functions, range, correct, require_all, ..Self::default() }
    }
}

/// A verifier that sets none of these is recorded as one was before there were any.
fn is_python(python: &std::path::Path) -> bool {
    python.as_os_str() == PYTHON
}

fn is_limit(on_error: &OnError) -> bool {
    *on_error == OnError::Limit
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_usual_time(timeout: &Duration) -> bool {
    *timeout == TIMEOUT
}

fn is_usual_memory(memory: &ByteSize) -> bool {
    *memory == MAX_MEMORY
}

fn is_one(processes: &u32) -> bool {
    *processes == 1
}
