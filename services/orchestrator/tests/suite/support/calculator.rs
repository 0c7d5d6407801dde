//! Services with an environment worker, and a model that does sums with the calculator.

use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_model::fresh::{FreshModel, FreshShape, write_fresh_model};
use evenkeel_orchestrator::{
    Endpoints, LoopSettings, ResolvedRecipe, RunError, RunHandle, RunOptions, RunOutcome, start_run,
};
use evenkeel_proto::v1::{GenerateItem, SegmentSource, TrainGroup};
use evenkeel_run::RunDirectory;

use super::environment::{FakeEnvironment, Fault, agent, file};
use super::generation::text_of;
use super::{Cluster, finish, mix, recipe};

/// Says who spoke, names the tools, and ends every turn with `<eos>`.
pub(crate) const TEMPLATE: &str = "{% for t in tools or [] %}[{{ t.function.name }}]{% endfor %}\
    {% for m in messages %}{{ m.role }}\n{{ m.content }}\
    {% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<eos>\n{% endfor %}\
    {% if add_generation_prompt %}assistant\n{% endif %}";

/// A model folder with a chat template.
pub(crate) fn model(folder: &Path) -> PathBuf {
    let shape = FreshShape {
        hidden_size: 32,
        intermediate_size: 32,
        layers: 1,
        heads: 1,
        context_tokens: 512,
        ..FreshShape::default()
    };
    let model = folder.join("model");
    write_fresh_model(&model, &FreshModel { shape, seed: 0 }).unwrap();
    std::fs::write(model.join("chat_template.jinja"), TEMPLATE).unwrap();
    model
}

/// Sums with the calculator.
pub(crate) fn settings() -> LoopSettings {
    let mut settings = recipe();
    settings.run.steps = 3;
    settings.run.rollout_tokens = true;
    settings.sampling.max_tokens = 240;
    settings.data.environment = Some("calculator".to_owned());
    settings.turns.step_deadline = Duration::from_secs(2);
    settings
}

/// What the model says in a turn: it calls the calculator, and gives an answer that is right for some seeds.
pub(crate) fn turn(item: &GenerateItem) -> Option<String> {
    let prompt = text_of(&item.prompt_token_ids);
    let (_, asked) = prompt.rsplit_once("user\n")?;
    let (sum, _) = asked.split_once('=')?;
    let (a, b) = sum.split_once('+')?;
    let a: u64 = a.parse().ok()?;
    let b: u64 = b.parse().ok()?;
    let sampled = |source: i32| source == i32::from(SegmentSource::Sampled);
    let turns = item.prefix_segments.iter().filter(|segment| sampled(segment.source)).count();
    let before: usize = item.prefix_segments.iter().map(|segment| segment.token_ids.len()).sum();
    let seed = item.sampling.as_ref().and_then(|sampling| sampling.seed).unwrap();
    let said = match turns {
        0 => format!("<tool_call>{{\"name\":\"calculator\",\"arguments\":{{\"expression\":\"{a}+{b}\"}}}}</tool_call>"),
        _ => format!("\\boxed{{{}}}", a + b + mix(seed) % 2),
    };
    // The service writes what is missing behind the prefix.
    Some("x".repeat(before) + &said)
}

/// Services with an environment worker.
pub(crate) struct Table {
    pub(crate) cluster: Cluster,
    pub(crate) environment: FakeEnvironment,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) model: PathBuf,
}

impl Table {
    pub(crate) async fn start(most: u64) -> Self {
        let cluster = Cluster::start().await;
        let environment = FakeEnvironment::start(most).await;
        *cluster.generation.state.answers.lock().unwrap() = Some(Box::new(turn));
        let folder = tempfile::tempdir().unwrap();
        let model = model(folder.path());
        Self { cluster, environment, folder, model }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn endpoints(&self) -> Endpoints {
        Endpoints {
            environment: vec![self.environment.server.endpoint().to_owned()],
            described: [agent(), file()].map(|described| (described.name.clone(), described)).into(),
            ..self.cluster.endpoints()
        }
    }

    pub(crate) fn begin(&self, name: &str, settings: &LoopSettings) -> Result<RunHandle, RunError> {
        let recipe = ResolvedRecipe::new(settings.clone(), self.model.clone()).unwrap();
        let directory = RunDirectory::create(&self.path(name), recipe.record()).unwrap();
        start_run(recipe, directory, self.endpoints(), RunOptions::default())
    }

    /// Runs to its end.
    pub(crate) async fn run(&self, name: &str, settings: &LoopSettings) -> Result<PathBuf, RunError> {
        let (_, result) = finish(self.begin(name, settings)?).await;
        assert_eq!(result?.0, RunOutcome::Completed);
        Ok(self.path(name))
    }

    pub(crate) fn script(&self, script: impl Fn(&str, &str, u32) -> Option<Fault> + Send + Sync + 'static) {
        *self.environment.state.script.lock().unwrap() = Some(Box::new(script));
    }

    pub(crate) fn groups(&self) -> Vec<TrainGroup> {
        self.cluster.learner.state.groups.lock().unwrap().values().flatten().cloned().collect()
    }
}
