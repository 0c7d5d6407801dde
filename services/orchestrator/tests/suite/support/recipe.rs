//! The recipe of a program with sections of its own, and the small model of the tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_config::{ConfigError, Loader, Settings};
use evenkeel_model::ModelError;
use evenkeel_model::fresh::{FreshModel, FreshShape, write_fresh_model};
use evenkeel_orchestrator::{
    CheckpointSettings, DataSettings, EvaluationSettings, LoadLimits, LoopSettings, ModelSource, PipelineSettings,
    PolicySamplingSettings, ProofSettings, RecipeReader, ResolvedRecipe, RunError, RunSettings, SamplerAuditSettings,
    ServicesSettings, ShapingSettings, TurnsSettings, WarmStartSettings,
};
use evenkeel_proto::FieldError;
use serde::{Deserialize, Serialize};

/// The orchestrator's sections, a model, and a learner that takes any setting but one.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Program {
    run: RunSettings,
    data: DataSettings,
    sampling: PolicySamplingSettings,
    pipeline: PipelineSettings,
    turns: TurnsSettings,
    shaping: ShapingSettings,
    warm_start: WarmStartSettings,
    evaluation: EvaluationSettings,
    checkpoint: CheckpointSettings,
    proof: ProofSettings,
    sampler_audit: SamplerAuditSettings,
    services: ServicesSettings,
    model: Model,
    learner: toml::Table,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Model {
    path: Option<PathBuf>,
    fresh: FreshShape,
}

impl Default for Model {
    fn default() -> Self {
        let fresh = FreshShape {
            hidden_size: 32,
            intermediate_size: 32,
            layers: 1,
            heads: 1,
            context_tokens: 128,
            ..FreshShape::default()
        };
        Self { path: None, fresh }
    }
}

impl Settings for Program {
    fn validate(&self) -> Result<(), FieldError> {
        self.loop_settings().validate()?;
        if let Err(ModelError::Input(error)) = self.model.fresh.validate() {
            return Err(error.within("model.fresh"));
        }
        match self.learner.get("learning_rate") {
            Some(value) => Err(FieldError::new("learner.learning_rate", value, "learner.optimizer.learning_rate")),
            None => Ok(()),
        }
    }
}

impl Program {
    pub(crate) fn of(settings: &LoopSettings) -> Self {
        let LoopSettings {
            run,
            data,
            sampling,
            pipeline,
            turns,
            shaping,
            warm_start,
            evaluation,
            checkpoint,
            proof,
            sampler_audit,
            services,
        } = settings.clone();
        let (model, learner) = Default::default();
        Self {
            run,
            data,
            sampling,
            pipeline,
            turns,
            shaping,
            warm_start,
            evaluation,
            checkpoint,
            proof,
            sampler_audit,
            services,
            model,
            learner,
        }
    }

    fn loop_settings(&self) -> LoopSettings {
        let Self {
            run,
            data,
            sampling,
            pipeline,
            turns,
            shaping,
            warm_start,
            evaluation,
            checkpoint,
            proof,
            sampler_audit,
            services,
            ..
        } = self.clone();
        LoopSettings {
            run,
            data,
            sampling,
            pipeline,
            turns,
            shaping,
            warm_start,
            evaluation,
            checkpoint,
            proof,
            sampler_audit,
            services,
        }
    }

    pub(crate) fn resolved(&self) -> Result<ResolvedRecipe, ConfigError> {
        let toml = toml::to_string(self).map_err(|error| ConfigError::Write(error.to_string()))?;
        let resolved = ResolvedRecipe::new(self.loop_settings(), self.clone())?;
        Ok(ResolvedRecipe { toml, aggregation: Some("balanced".to_owned()), ..resolved })
    }
}

impl ModelSource for Program {
    fn named(&self) -> Option<&Path> {
        self.model.path.as_deref()
    }

    fn folder(&self, run_directory: &Path, limits: &LoadLimits) -> Result<PathBuf, RunError> {
        if let Some(path) = &self.model.path {
            return Ok(path.clone());
        }
        if self.model.fresh.parameters() > limits.max_fresh_parameters {
            let allowed = "fewer (limits.max_fresh_parameters)";
            return Err(FieldError::new("model.fresh", self.model.fresh.parameters(), allowed).into());
        }
        let folder = run_directory.join("model");
        let model = FreshModel { shape: self.model.fresh.clone(), seed: self.run.seed };
        write_fresh_model(&folder, &model).map_err(|error| RunError::model(&folder, error))?;
        Ok(folder)
    }
}

/// The small model in a folder.
pub(crate) fn write_model(folder: &Path) {
    write_fresh_model(folder, &FreshModel { shape: Model::default().fresh, seed: 0 }).unwrap();
}

/// Reads recipes of [`Program`].
pub(crate) struct Reader;

impl RecipeReader for Reader {
    fn names(&self) -> Vec<String> {
        vec!["arithmetic".to_owned()]
    }

    fn built_in(&self, name: &str) -> Result<Option<Loader>, ConfigError> {
        Ok((name == "arithmetic").then(Loader::new))
    }

    fn text(&self, text: &str) -> Result<Loader, ConfigError> {
        Loader::new().text("toml", text)
    }

    fn merged(&self, recipes: &[String]) -> Result<String, ConfigError> {
        let mut text = String::new();
        for path in recipes {
            text += &evenkeel_config::parse_file(path.as_ref())?.to_string();
        }
        Ok(text)
    }

    fn resolve(&self, loader: Loader) -> Result<ResolvedRecipe, ConfigError> {
        loader.load::<Program>()?.settings.resolved()
    }

    fn resolve_fork(&self, _: Loader, fork: Loader) -> Result<ResolvedRecipe, ConfigError> {
        self.resolve(fork)
    }
}

/// The reader of all tests.
pub(crate) fn reader() -> Arc<dyn RecipeReader> {
    Arc::new(Reader)
}
