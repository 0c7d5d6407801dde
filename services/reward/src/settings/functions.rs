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
    /// Python file with the function.
    pub path: PathBuf,
    /// Python interpreter that runs the function.
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
    /// Memory of each process that calls the functions, and of each that it starts; `0B` for no limit. Addresses that are
    /// only reserved do not count.
    pub max_memory: ByteSize,
    /// Variables of the environment that the file needs although they look like secrets, such as the key of a
    /// judge: without this it gets no `*TOKEN*`, `*SECRET*`, `*PASSWORD*`, `*_KEY`, `*_HEADERS`, `SSH_AUTH_SOCK` and
    /// the like.
    pub keep_variables: Vec<String>,
    /// Processes that call the functions side by side.
    pub processes: u32,
    /// Columns with the prompt besides the usual ones, which functions of TRL get as `prompts`.
    pub prompt_fields: Vec<String>,
    /// Columns with the gold answer besides the usual ones, which functions of verl get as `ground_truth`.
    pub answer_fields: Vec<String>,
}

/// Where settings of reward functions are from, so that messages name what a person can change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FunctionTables {
    /// `functions` of a reward worker.
    #[default]
    Worker,
    /// `data.verifiers` of a recipe.
    Recipe,
}

impl FunctionTables {
    /// The table of the verifier `name`.
    pub(crate) fn table(self, name: &str) -> String {
        match self {
            Self::Worker => format!("reward.functions.{name}"),
            Self::Recipe => format!("data.verifiers.{name}"),
        }
    }
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
            keep_variables: Vec::new(),
            processes: 1,
            prompt_fields: Vec::new(),
            answer_fields: Vec::new(),
        }
    }
}

impl FunctionSettings {
    /// Refuses a path without a file. Not a part of `validate`: settings may come from others, who are not told which
    /// files there are.
    pub(crate) fn require_file(&self) -> Result<(), FieldError> {
        let allowed = "a Python file with reward functions";
        FieldError::ensure(self.path.is_file(), "path", self.path.display(), allowed)
    }

    pub(crate) fn validate(&self) -> Result<(), FieldError> {
        for (name, weight) in &self.functions {
            let good = weight.is_finite() && *weight > 0.0;
            FieldError::ensure(good, format!("functions.{name}"), weight, "a finite number above 0")?;
        }
        let has_room = self.max_memory.bytes() == 0 || self.max_memory.bytes() >= 1 << 26;
        FieldError::ensure(has_room, "max_memory", self.max_memory, "0B for no limit, or at least 64MiB")?;
        if let Some([low, high]) = self.range {
            let good = low.is_finite() && high.is_finite() && low < high;
            let allowed = "two finite numbers, the lower one first";
            FieldError::ensure(good, "range", format_args!("[{low}, {high}]"), allowed)?;
        }
        FieldError::ensure(!self.timeout.is_zero(), "timeout", human(self.timeout), "above 0")?;
        FieldError::ensure((1..=64).contains(&self.processes), "processes", self.processes, "1 to 64")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_above_0_and_a_limit_of_memory_leaves_room_for_an_interpreter() {
        let refused = |change: fn(&mut FunctionSettings)| {
            let mut settings = FunctionSettings::default();
            change(&mut settings);
            settings.validate().map_err(|error| error.to_string())
        };
        let weight = refused(|settings| settings.functions = [("right".to_owned(), 0.0)].into());
        assert_eq!(weight.unwrap_err(), "functions.right is 0, allowed: a finite number above 0");
        let memory = refused(|settings| settings.max_memory = ByteSize::mib(1));
        assert_eq!(memory.unwrap_err(), "max_memory is 1MiB, allowed: 0B for no limit, or at least 64MiB");
        assert_eq!(refused(|settings| settings.max_memory = ByteSize::b(0)), Ok(()));
    }

    #[test]
    fn settings_that_come_from_others_do_not_tell_which_files_there_are() {
        let function = |path: &str| FunctionSettings { path: path.into(), ..FunctionSettings::default() };
        assert_eq!(function("/nowhere/reward.py").validate(), Ok(()));
        assert_eq!(function("/nowhere/reward.py").validate(), function("/dev/null").validate());
        assert_eq!(function("/nowhere/reward.py").require_file().unwrap_err().field, "path");
    }
}
