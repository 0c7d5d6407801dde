//! Values that have the right type and are still invalid: ranges, and settings that contradict each other within a
//! section.

use std::time::Duration;

use evenkeel_config::{Settings, at_least_1ms, at_least_one, human};
use evenkeel_proto::{FieldError, validate_kept_versions};
use evenkeel_run::is_run_name;

use super::{
    CheckpointSettings, CorrectRule, DataKind, DataSettings, HINT, Overlong, PolicySamplingSettings, ProgramMode,
    ProgramReward, RunSettings, ServicesSettings, SourceSettings, WarmStartSettings,
};

fn positive(field: &str, value: u64) -> Result<(), FieldError> {
    at_least_one(&[(field, value)])
}

impl Settings for RunSettings {
    fn validate(&self) -> Result<(), FieldError> {
        let named = self.name.is_empty() || is_run_name(&self.name);
        FieldError::ensure(
            named,
            "name",
            format_args!("{:?}", self.name),
            "letters, digits, `-`, `_` and `.`, at most 128",
        )?;
        FieldError::ensure(i64::try_from(self.seed).is_ok(), "seed", self.seed, "0 to 2^63 - 1")
    }
}

impl Settings for WarmStartSettings {
    fn validate(&self) -> Result<(), FieldError> {
        positive("examples_per_step", self.examples_per_step.into())
    }
}

impl Settings for CheckpointSettings {
    fn validate(&self) -> Result<(), FieldError> {
        positive("every", self.every)?;
        let grace = self.grace;
        FieldError::ensure(grace >= Duration::from_secs(1), "grace", human(grace), "at least 1s")?;
        validate_kept_versions("keep_weights", self.keep_weights)
    }
}

impl Settings for PolicySamplingSettings {
    fn validate(&self) -> Result<(), FieldError> {
        positive("prompts_per_step", self.prompts_per_step.into())?;
        positive("group_size", self.group_size.into())?;
        let limit = self.max_prompts_per_step;
        if self.dynamic {
            let allowed = "at least 2 with sampling.dynamic, since one reward is no signal";
            FieldError::ensure(self.group_size >= 2, "group_size", self.group_size, allowed)?;
            let prompts = self.prompts_per_step;
            let allowed = format!("0, or at least sampling.prompts_per_step, which is {prompts}");
            FieldError::ensure(limit == 0 || limit >= prompts, "max_prompts_per_step", limit, allowed)?;
        } else {
            FieldError::ensure(limit == 0, "max_prompts_per_step", limit, "0 without sampling.dynamic")?;
        }
        let t = self.temperature;
        FieldError::ensure(t.is_finite() && t > 0.0, "temperature", t, "a finite number above 0")?;
        FieldError::ensure(self.top_p > 0.0 && self.top_p <= 1.0, "top_p", self.top_p, "above 0, at most 1")?;
        FieldError::ensure((0.0..=1.0).contains(&self.min_p), "min_p", self.min_p, "0 to 1")?;
        positive("max_tokens", self.max_tokens.into())?;
        let allowed = format!("0 to sampling.max_tokens, which is {}", self.max_tokens);
        FieldError::ensure(self.min_tokens <= self.max_tokens, "min_tokens", self.min_tokens, allowed)
    }
}

impl Settings for DataSettings {
    fn validate(&self) -> Result<(), FieldError> {
        self.validate_files()?;
        self.validate_verifiers()?;
        let of_environment = self.environment_correct.iter().try_for_each(CorrectRule::validate);
        of_environment.map_err(|error| error.within("environment_correct"))?;
        self.trails.validate_with(self.kind() == DataKind::Trails).map_err(|error| error.within("trails"))?;
        let is_asked = self.kind() == DataKind::WordProblems;
        self.word_problems.validate_with(is_asked).map_err(|error| error.within("word_problems"))?;
        // A name with a slash would make other metric names than those that are documented.
        let plain = !self.source.contains(['/', '\n']);
        FieldError::ensure(plain, "source", format_args!("{:?}", self.source), "a name without `/`")?;
        self.validate_hint()?;
        let graded = self.program_mode == ProgramMode::Livecodebench;
        let whole = self.program_reward == ProgramReward::AllOrNothing;
        let allowed = "all-or-nothing with data.program_mode = \"livecodebench\", which stops at the first failure";
        FieldError::ensure(whole || !graded, "program_reward", "passed-fraction", allowed)?;
        let Some(tolerance) = self.program_float_tolerance else { return Ok(()) };
        FieldError::ensure((0.0..=1.0).contains(&tolerance), "program_float_tolerance", tolerance, "0 to 1")?;
        let allowed = "absent with data.program_mode = \"livecodebench\", which has its own rule";
        FieldError::ensure(!graded, "program_float_tolerance", tolerance, allowed)
    }
}

impl DataSettings {
    /// Refuses hints without a place, and those of prompts that may become others.
    fn validate_hint(&self) -> Result<(), FieldError> {
        let Some(hint) = &self.hint else { return Ok(()) };
        if !hint.contains(HINT) {
            return Err(FieldError::quoted("hint", hint, format!("a text with {HINT}, the place of the row's hint")));
        }
        if self.environment.is_some() || !self.environments.is_empty() {
            let allowed = "absent with an environment: turns may have prompts of their own, which have no hint";
            return Err(FieldError::quoted("hint", hint, allowed));
        }
        let allowed = "\"refuse\" or \"skip\" with data.hint: a prompt with its hint is not cut";
        FieldError::ensure(self.overlong != Overlong::Cut, "overlong", "\"cut\"", allowed)
    }

    fn validate_files(&self) -> Result<(), FieldError> {
        let lists = [("files", &self.files), ("held_out_files", &self.held_out_files)];
        match self.kind() {
            DataKind::Files if self.files.is_empty() && self.sources.is_empty() => {
                return Err(FieldError::missing("files", "at least one file, with data.kind = \"files\""));
            }
            DataKind::Files if !self.files.is_empty() && !self.sources.is_empty() => {
                return Err(FieldError::new("sources", "present", "absent if data.files is set"));
            }
            DataKind::Files => {}
            DataKind::Arithmetic
            | DataKind::Programs
            | DataKind::Products
            | DataKind::Trails
            | DataKind::WordProblems => {
                const ALLOWED: &str = "absent with this data.kind, which makes its own problems";
                for (field, files) in lists {
                    if let Some(first) = files.first() {
                        return Err(FieldError::new(field, first.display(), ALLOWED));
                    }
                }
                if let Some(source) = self.sources.first() {
                    return Err(FieldError::new("sources", source.name(), ALLOWED));
                }
            }
        }
        for (index, filter) in self.filters.iter().enumerate() {
            filter.validate().map_err(|error| error.within(format_args!("filters[{index}]")))?;
        }
        for (index, source) in self.sources.iter().enumerate() {
            source.validate().map_err(|error| error.within(format_args!("sources[{index}]")))?;
            let name = source.name();
            if self.sources[..index].iter().any(|other| other.name() == name) {
                let allowed = "a name that no other source has (sources[].name)";
                return Err(FieldError::quoted(format!("sources[{index}].name"), name, allowed));
            }
        }
        Ok(())
    }
}

impl SourceSettings {
    fn validate(&self) -> Result<(), FieldError> {
        if self.files.is_empty() {
            return Err(FieldError::missing("files", "at least one file"));
        }
        let weight = self.weight;
        FieldError::ensure(weight.is_finite() && weight > 0.0, "weight", weight, "a finite number above 0")?;
        let plain = !self.name.contains(['/', '\n']);
        FieldError::ensure(plain, "name", format_args!("{:?}", self.name), "a name without `/`")?;
        for (index, filter) in self.filters.iter().enumerate() {
            filter.validate().map_err(|error| error.within(format_args!("filters[{index}]")))?;
        }
        Ok(())
    }
}

impl Settings for ServicesSettings {
    fn validate(&self) -> Result<(), FieldError> {
        at_least_1ms(&[
            ("outage_timeout", self.outage_timeout),
            ("backoff_initial", self.backoff_initial),
            ("rollout_deadline", self.rollout_deadline),
            ("verify_deadline", self.verify_deadline),
            ("call_deadline", self.call_deadline),
        ])?;
        at_least_one(&[
            ("sample_attempts", self.sample_attempts.into()),
            ("verify_attempts", self.verify_attempts.into()),
            ("max_rollouts", self.max_rollouts as u64),
            ("max_verifications", self.max_verifications as u64),
            ("max_episodes", self.max_episodes as u64),
        ])?;
        for (field, share) in [("max_late_share", self.max_late_share), ("max_invalid_share", self.max_invalid_share)] {
            FieldError::ensure((0.0..=1.0).contains(&share), field, share, "0 to 1")?;
        }
        let allowed = format!("at least services.backoff_initial, which is {}", human(self.backoff_initial));
        FieldError::ensure(self.backoff_max >= self.backoff_initial, "backoff_max", human(self.backoff_max), allowed)?;
        self.client.validate().map_err(|error| error.within("client"))
    }
}
