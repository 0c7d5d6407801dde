//! The orchestrator's own sections of a recipe; every key is documented in place.

mod benchmarks;
mod components;
mod correct;
mod data_section;
mod kept_folders;
mod loop_sections;
mod page_section;
mod pipeline_section;
mod rollouts;
mod rollouts_room;
mod section;
mod sources;
mod trails_section;
mod turns_section;
mod validate;
mod verifier_section;
mod verifiers;
mod word_problems_section;

use evenkeel_config::Settings;
use evenkeel_proto::FieldError;
use serde::{Deserialize, Serialize};

pub use evenkeel_trust::{AuditMode, ProofSettings, SamplerAuditSettings};

pub use benchmarks::{AnswerSampling, BenchmarkSettings, EvaluationSettings};
pub use correct::CorrectRule;
pub(crate) use data_section::HINT;
pub use data_section::{
    ControlTextInRows, CopiedAnswers, DataKind, DataSettings, InvalidRows, Overlong, ProgramMode, ProgramReward,
    ProgramWording,
};
pub use loop_sections::{
    CheckpointSettings, EnginesWhileTraining, PolicySamplingSettings, RunSettings, ServicesSettings, ShapingSettings,
    WarmStartSettings,
};
pub use page_section::PageSettings;
pub use pipeline_section::{PipelineSettings, StepOrder};
pub use rollouts::KeptRollouts;
pub use sources::{FilterSettings, Scalar, SourceSettings};
pub use trails_section::TrailsSettings;
pub use turns_section::{EarlierTurns, ToolCallSetting, ToolsSetting, TurnsSettings};
pub use verifier_section::{OnError, VerifierSettings};
pub use word_problems_section::WordProblemsSettings;

pub(crate) use benchmarks::EvaluationSteps;
pub(crate) use components::{BARE, CORRECTNESS, FORMAT, LENGTH};
pub(crate) use correct::ComponentRule;
pub(crate) use rollouts_room::too_small_for_rollouts;

/// The orchestrator's sections of a recipe: what its training loop does.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoopSettings {
    /// The run: name, seed, steps.
    pub run: RunSettings,
    /// Problems.
    pub data: DataSettings,
    /// How the policy is sampled.
    pub sampling: PolicySamplingSettings,
    /// Sampling ahead of training.
    pub pipeline: PipelineSettings,
    /// Episodes with several turns.
    #[serde(skip_serializing_if = "TurnsSettings::is_default")]
    pub turns: TurnsSettings,
    /// From raw to shaped rewards.
    pub shaping: ShapingSettings,
    /// Supervised steps before the first GRPO step.
    pub warm_start: WarmStartSettings,
    /// Problems that are never trained on.
    pub evaluation: EvaluationSettings,
    /// What is kept on disk.
    pub checkpoint: CheckpointSettings,
    /// Whether the engines have the weights that they say they have.
    pub proof: ProofSettings,
    /// Whether the engines' samples come from the policy.
    pub sampler_audit: SamplerAuditSettings,
    pub services: ServicesSettings,
}

impl Settings for LoopSettings {
    fn validate(&self) -> Result<(), FieldError> {
        self.run.validate().map_err(|error| error.within("run"))?;
        self.warm_start.validate().map_err(|error| error.within("warm_start"))?;
        self.checkpoint.validate().map_err(|error| error.within("checkpoint"))?;
        self.sampling.validate().map_err(|error| error.within("sampling"))?;
        self.pipeline.validate_with(&self.sampling).map_err(|error| error.within("pipeline"))?;
        self.shaping.validate_with(&self.sampling).map_err(|error| error.within("shaping"))?;
        self.evaluation.validate().map_err(|error| error.within("evaluation"))?;
        self.data.validate().map_err(|error| error.within("data"))?;
        self.turns.validate().map_err(|error| error.within("turns"))?;
        self.validate_turns()?;
        self.proof.validate().map_err(|error| error.within("proof"))?;
        self.sampler_audit.validate().map_err(|error| error.within("sampler_audit"))?;
        self.validate_keep_best()?;
        self.services.validate().map_err(|error| error.within("services"))
    }
}

impl LoopSettings {
    /// Refuses a best checkpoint by a metric that no evaluation has.
    fn validate_keep_best(&self) -> Result<(), FieldError> {
        let metric = &self.checkpoint.keep_best;
        let known = self.evaluation.metrics(&self.data.name());
        if metric.is_empty() || known.contains(metric) {
            return Ok(());
        }
        let allowed = if known.is_empty() {
            "empty, since nothing is evaluated".to_owned()
        } else {
            format!("empty, or one of {}", known.join(", "))
        };
        Err(FieldError::quoted("checkpoint.keep_best", metric, allowed))
    }

    /// Whether tokens are compared with the learner's log-probabilities, where engines compute as the learner does and
    /// have the weights of the step: tokens are drawn from all of the vocabulary. Samples are audited as well, since some
    /// do not pass through the learner otherwise.
    pub fn compares_tokens(&self) -> bool {
        self.proof.every > 0 && self.sampler_audit.mode == AuditMode::Stop && self.sampling.is_untruncated()
    }

    /// Where no sample of a run can be audited: why.
    pub(crate) fn audit_note(&self) -> Option<String> {
        let is_on = self.sampler_audit.mode != AuditMode::Off && self.pipeline.order == StepOrder::Completion;
        let why = "the sampler audit is not possible here: pipeline.order = \"completion\" chooses the samples of a \
            step by their lengths";
        is_on.then(|| why.to_owned())
    }

    /// The settings that decide what the run computes. What may change when it is resumed (`run` but `seed`,
    /// `evaluation` but `problems` and the files of benchmarks, `checkpoint`, `proof`, `sampler_audit`, `services`, the
    /// addresses of verifiers) is as by default.
    pub fn result_affecting(&self) -> Self {
        // The identity of a run has been a digest of this value since tokens were not kept by default.
        let run = RunSettings { seed: self.run.seed, steps: 0, rollout_tokens: false, ..RunSettings::default() };
        Self {
            run,
            data: self.data.without_addresses(),
            turns: self.turns.result_affecting(),
            evaluation: self.evaluation.result_affecting(),
            checkpoint: CheckpointSettings::default(),
            proof: ProofSettings::default(),
            sampler_audit: SamplerAuditSettings::default(),
            services: ServicesSettings::default(),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_config::Loader;

    use super::*;

    pub(super) fn load(text: &str) -> Result<LoopSettings, String> {
        let loaded = Loader::new().text("test", text).and_then(Loader::load::<LoopSettings>);
        loaded.map(|loaded| loaded.settings).map_err(|error| error.to_string())
    }

    #[test]
    fn impossible_settings_name_key_value_and_what_is_allowed() {
        let cases = [
            ("[sampling]\ngroup_size = 0", "`sampling.group_size` is 0 in test, allowed: at least 1"),
            ("[run]\nname = \"a/b\"", "`run.name` is \"a/b\" in test, allowed: letters"),
            ("[samplign]\n", "unknown key `samplign` in test, nearest allowed: `sampling`"),
            (
                "[sampling]\ngroup_sise = 3",
                "unknown key `sampling.group_sise` in test, nearest allowed: `sampling.group_size`",
            ),
            ("[sampling]\ngroup_size = \"x\"", "`sampling.group_size` is \"x\" in test, allowed: an integer"),
            (
                "[sampling]\ndynamic = true\ngroup_size = 1",
                "`sampling.group_size` is 1 in test, allowed: at least 2 with",
            ),
            (
                "[sampling]\nmax_prompts_per_step = 5",
                "`sampling.max_prompts_per_step` is 5 in test, allowed: 0 without",
            ),
            ("[pipeline]\nmax_lag = 17", "`pipeline.max_lag` is 17 in test, allowed: 0 to 16"),
            (
                "[pipeline]\norder = \"completion\"",
                "`pipeline.order` is \"completion\" in test, allowed: \"data\" with pipeline.max_lag = 0",
            ),
            (
                "[pipeline]\nmax_lag = 1\n[sampling]\nengines_while_training = \"offload\"",
                "`pipeline.max_lag` is 1 in test, allowed: 0 with sampling.engines_while_training = \"offload\"",
            ),
            ("[pipeline]\nsplit = 2", "`pipeline.split` is 2 in test, allowed: 0 with pipeline.max_lag = 0"),
            (
                "[pipeline]\nmax_lag = 1\nsplit = 8\n[sampling]\nprompts_per_step = 8",
                "`pipeline.split` is 8 in test, allowed: 0 to 7 with sampling.prompts_per_step = 8",
            ),
            (
                "[pipeline]\nmax_versions = 3",
                "`pipeline.max_versions` is 3 in test, allowed: absent without pipeline.partial = true",
            ),
            (
                "[pipeline]\npartial = true",
                "`pipeline.partial` is true in test, allowed: false with pipeline.max_lag = 0",
            ),
            (
                "[pipeline]\npartial = true\nmax_lag = 1\nsplit = 2",
                "`pipeline.partial` is true in test, allowed: false with pipeline.max_lag = 1 and pipeline.split = 2",
            ),
            (
                "[pipeline]\npartial = true\nmax_lag = 2\nmax_versions = 4",
                "`pipeline.max_versions` is 4 in test, allowed: 2 to 3 with pipeline.max_lag = 2",
            ),
            (
                "[pipeline]\npartial = true\nmax_lag = 3\nmax_versions = 4\n[sampling]\nmax_tokens = 3",
                "`pipeline.max_versions` is 4 in test, allowed: at most sampling.max_tokens = 3",
            ),
            (
                "[pipeline]\npartial = true\nmax_lag = 2\nmax_versions = 3\n[sampling]\ndynamic = true",
                "`pipeline.max_versions` is 3 in test, allowed: 2 with sampling.dynamic",
            ),
            (
                "[pipeline]\npartial = true\nmax_lag = 2\nsplit = 1\n[sampling]\ndynamic = true",
                "`pipeline.split` is 1 in test, allowed: 0 with pipeline.partial and sampling.dynamic",
            ),
            ("[sampling]\ntemperature = 0.0", "`sampling.temperature` is 0 in test, allowed: a finite number above 0"),
            (
                "[evaluation]\nsamples = 4",
                "`evaluation.samples` is 4 in test, allowed: 1 with evaluation.temperature 0",
            ),
            ("[[evaluation.benchmarks]]\nname = \"a\"", "`evaluation.benchmarks[0].files` is absent in test"),
            (
                "[[evaluation.benchmarks]]\nfiles = [\"a/x.jsonl\"]\n[[evaluation.benchmarks]]\n\
                files = [\"b/x.jsonl\"]",
                "`evaluation.benchmarks[1].name` is \"x\" in test, allowed: a name that no other benchmark has",
            ),
            (
                "[[evaluation.benchmarks]]\nname = \"../x\"\nfiles = [\"x\"]",
                "`evaluation.benchmarks[0].name` is \"../x\" in test, allowed: a name of letters",
            ),
            (
                "[[evaluation.benchmarks]]\nname = \"average\"\nfiles = [\"x\"]",
                "`evaluation.benchmarks[0].name` is \"average\" in test, allowed: another name",
            ),
            (
                "[evaluation]\nsamples = 8\ntemperature = 1.0\n[[evaluation.benchmarks]]\nfiles = [\"x\"]\n\
                temperature = 0.0",
                "`evaluation.benchmarks[0].samples` is 8 in test, allowed: 1 with evaluation.temperature 0",
            ),
            (
                "[checkpoint]\nkeep_best = \"val-core/arithmetic/acc/mean@8\"",
                "`checkpoint.keep_best` is \"val-core/arithmetic/acc/mean@8\" in test, allowed: empty, or one of \
                 val-core/arithmetic/acc/mean@1",
            ),
            ("[data]\nkind = \"files\"", "`data.files` is absent, required: at least one file"),
            ("[data]\nkind = \"jsonl\"", "`data.kind` is \"jsonl\" in test, allowed: "),
            ("[data]\nkind = \"arithmetic\"\nfiles = [\"x\"]", "`data.files` is x in test, allowed: absent with"),
            (
                "[data]\nfiles = [\"x\"]\n[[data.sources]]\nfiles = [\"y\"]",
                "`data.sources` is present in test, allowed: absent if data.files is set",
            ),
            (
                "[[data.sources]]\nfiles = [\"a/x.parquet\"]\n[[data.sources]]\nfiles = [\"b/x.jsonl\"]",
                "`data.sources[1].name` is \"x\" in test, allowed: a name that no other source has",
            ),
            (
                "[[data.sources]]\nfiles = [\"x\"]\nweight = 0.0",
                "`data.sources[0].weight` is 0 in test, allowed: a finite number above 0",
            ),
            ("[[data.sources]]\nname = \"x\"", "`data.sources[0].files` is absent in test"),
            (
                "[data]\nfiles = [\"x\"]\nfilters = [{ field = \"level\", min = \"6/8\", max = \"1/8\" }]",
                "`data.filters[0].min` is 0.75 in test, allowed: at most `max`",
            ),
            (
                "[data]\nfiles = [\"x\"]\nfilters = [{ field = \"level\", min = \"hard\" }]",
                "`data.filters[0].min` is hard in test, allowed: a number or a fraction",
            ),
            (
                "[data]\nfiles = [\"x\"]\nfilters = [{ field = \"level\" }]",
                "`data.filters[0].values` is absent in test, required: `values`, or",
            ),
            (
                "[data]\nprogram_mode = \"livecodebench\"\nprogram_reward = \"passed-fraction\"",
                "`data.program_reward` is passed-fraction in test, allowed: all-or-nothing with",
            ),
            (
                "[data]\nhint = \"{hint}\"\noverlong = \"cut\"",
                "`data.overlong` is \"cut\" in test, allowed: \"refuse\" or \"skip\" with data.hint",
            ),
            (
                "[data]\nhint = \"{hint}\"\nenvironment = \"calculator\"",
                "`data.hint` is \"{hint}\" in test, allowed: absent with an environment",
            ),
            ("[data]\nprogram_float_tolerance = 1.5", "`data.program_float_tolerance` is 1.5 in test, allowed: 0 to 1"),
            (
                "[data]\nprogram_mode = \"livecodebench\"\nprogram_float_tolerance = 1e-3",
                "`data.program_float_tolerance` is 0.001 in test, allowed: absent with data.program_mode",
            ),
            (
                "[services]\nbackoff_max = \"1ms\"",
                "`services.backoff_max` is 1ms in test, allowed: at least services.backoff_initial",
            ),
            (
                "[services.client]\nconnect_timeout = \"0s\"",
                "`services.client.connect_timeout` is 0s in test, allowed: at least 1ms",
            ),
        ];
        for (text, words) in cases {
            let error = load(text).unwrap_err();
            assert!(error.starts_with(words), "{text}: {error}");
        }
    }

    #[test]
    fn what_a_resumed_run_may_change_is_not_among_its_rules() {
        let affecting = |text: &str| load(text).unwrap().result_affecting();
        assert_eq!(affecting(""), affecting("[run]\nsteps = 500\n[checkpoint]\nevery = 3"));
        assert_ne!(affecting(""), affecting("[sampling]\ngroup_size = 3"));
        assert_ne!(affecting(""), affecting("[pipeline]\nmax_lag = 1"));
        assert_ne!(affecting("[pipeline]\nmax_lag = 1"), affecting("[pipeline]\nmax_lag = 1\nsplit = 1"));
        assert_ne!(affecting("[pipeline]\nmax_lag = 1"), affecting("[pipeline]\nmax_lag = 1\norder = \"completion\""));
        let benchmark = "[[evaluation.benchmarks]]\nfiles = [\"x\"]\n";
        assert_eq!(affecting(benchmark), affecting(&format!("{benchmark}samples = 1\nmax_tokens = 9\nname = \"y\"")));
        assert_ne!(affecting(benchmark), affecting(""), "what it asks is not trained on");
    }
}
