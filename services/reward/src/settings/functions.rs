//! Settings `reward.functions.NAME`: Python files with reward functions.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use evenkeel_config::{ByteSize, HumanDuration, human};
use evenkeel_proto::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A Python file with reward functions. It is trusted code: it runs with the rights of the service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FunctionSettings {
    /// The file.
    pub path: PathBuf,
    /// Its interpreter.
    pub python: PathBuf,
    /// The functions and the weight of each in the reward. Empty: `reward`, `reward_batch` or `compute_score`, whichever
    /// the file has, or the only reward function in it.
    pub functions: BTreeMap<String, f64>,
    /// The lowest and the highest reward that a function may give; they count as 0 and 1, and the highest is correct.
    /// Absent: rewards are taken as they are, and no answer is known to be correct.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
    /// Whether a sample has no reward as soon as one of several functions gives none.
    pub require_all: bool,
    /// The longest that a call of a function may take.
    #[serde(with = "HumanDuration")]
    #[schemars(with = "HumanDuration")]
    pub timeout: Duration,
    /// Address space of each process that calls the functions.
    pub max_memory: ByteSize,
    /// Processes that call the functions side by side.
    pub processes: u32,
}

impl Default for FunctionSettings {
    fn default() -> Self {
        Self {
            path: PathBuf::new(),
            python: "python3".into(),
            functions: BTreeMap::new(),
            range: None,
            require_all: false,
            timeout: Duration::from_secs(10),
            max_memory: ByteSize::gib(8),
            processes: 1,
        }
    }
}

impl FunctionSettings {
    pub(crate) fn validate(&self) -> Result<(), FieldError> {
        let is_file = self.path.is_file();
        let path = self.path.display();
        FieldError::ensure(is_file, "path", path, "a Python file with reward functions")?;
        if let Some([low, high]) = self.range {
            let good = low.is_finite() && high.is_finite() && low < high;
            let allowed = "two finite numbers, the lower one first";
            FieldError::ensure(good, "range", format_args!("[{low}, {high}]"), allowed)?;
        }
        FieldError::ensure(!self.timeout.is_zero(), "timeout", human(self.timeout), "above 0")?;
        FieldError::ensure((1..=64).contains(&self.processes), "processes", self.processes, "1 to 64")
    }
}
