//! `evenkeel eval`: benchmarks without a run, through the same generation and reward services, in one process.

mod adapter;
mod request;
mod table;

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use evenkeel_engine::{Engine, EngineSettings, RunningEngine};
use evenkeel_generation::{GenerationSettings, LogProbabilitySetting};
use evenkeel_orchestrator::{EvaluationHandle, EvaluationJudge, EvaluationRequest, Event, RunError, RunProgress};
use evenkeel_proto::FieldError;
use evenkeel_recipe::Recipe;
use evenkeel_reward::RewardSettings;
use evenkeel_rpc::server::{RunningServer, ServerSettings};
use evenkeel_run::MetricsLine;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::watch;

use crate::arguments::EvalOptions;
use crate::cluster::Environments;
use crate::generate::refuse_run;
use crate::programs::announce_evaluation;
use crate::signals::{Received, Signals};
use crate::terminal::print_result;

/// Interval between redraws of the bar.
const TICK: Duration = Duration::from_millis(200);

/// The services of an evaluation. Dropping it stops them.
struct Services {
    generation: RunningServer,
    reward: RunningServer,
    /// The verifier that the judge is, if rows may name it.
    judge: Option<String>,
    environments: Environments,
    _engine: Option<RunningEngine>,
}

pub(crate) async fn eval(options: EvalOptions) -> Result<ExitCode> {
    refuse_run(&options.model).map_err(|error| FieldError { field: "--model".to_owned(), ..error })?;
    // Answers of an adapter are kept under its own name, and those of a model of the hub under that.
    let options = EvalOptions { output: Some(request::output(&options)?), ..options };
    let (model, adapter) = adapter::folders(&options)?;
    let options = EvalOptions { model, ..options };
    let recipe = request::recipe(&options)?;
    let output = request::output(&options)?;
    announce_evaluation(&recipe);
    let services = Services::start(&recipe, &options, &output).await?;
    let reward = vec![services.reward.endpoint().to_owned()];
    let request = EvaluationRequest {
        settings: recipe.loop_settings(),
        model: options.model.clone(),
        adapter,
        output: output.clone(),
        generation: services.generation.endpoint().to_owned(),
        environment: services.environments.server.iter().map(|server| server.endpoint().to_owned()).collect(),
        described: services.environments.described.clone(),
        judge: judge(&recipe)?,
        verifiers: services.judge.iter().map(|name| (name.clone(), reward.clone())).collect(),
        reward,
    };
    let handle = request.start().map_err(by_option)?;
    for note in handle.notes() {
        crate::terminal::note(note);
    }
    let line = match follow(handle).await.with_context(|| hint(&output))? {
        Ended::Finished(line) => line,
        Ended::Stopped(by) => {
            crate::terminal::note(&hint(&output));
            return Ok(ExitCode::from(by.exit_status()));
        }
    };
    report(&line, &output, options.json)?;
    Ok(ExitCode::SUCCESS)
}

/// What the judge decides by, if there is one.
fn judge(recipe: &Recipe) -> Result<Option<EvaluationJudge>, FieldError> {
    let Some(judge) = &recipe.reward.judge else { return Ok(None) };
    let digest = judge.digest().map_err(|error| error.within("reward.judge"))?;
    Ok(Some(EvaluationJudge { digest, undecided: judge.undecided }))
}

/// A setting that an option of this command sets is named by the option.
fn by_option(error: RunError) -> anyhow::Error {
    match error {
        RunError::Setting(error)
            if error.field.starts_with("evaluation.benchmarks[") && error.field.ends_with(".max_tokens") =>
        {
            FieldError { field: "--max-tokens".to_owned(), ..error }.into()
        }
        other => other.into(),
    }
}

fn hint(output: &Path) -> String {
    format!("every answer so far is kept in {}; run the same command again to continue", output.display())
}

fn report(line: &MetricsLine, output: &Path, json: bool) -> std::io::Result<()> {
    print_result(&if json {
        format!("{}\n", line.to_json())
    } else {
        format!("{}\nread the answers with: evenkeel show {}\n", table::table(line), output.display())
    })
}

/// How an evaluation ended.
enum Ended {
    Finished(Box<MetricsLine>),
    Stopped(Received),
}

/// Shows progress until the end; Ctrl-C, SIGTERM and SIGHUP stop it.
async fn follow(handle: EvaluationHandle) -> Result<Ended> {
    let mut signals = Signals::listen().context("cannot listen for signals")?;
    let mut stopped = None;
    let mut events = handle.subscribe();
    let progress = handle.progress();
    let stopper = handle.stopper();
    let bar = bar();
    let mut ended = std::pin::pin!(handle.join());
    loop {
        tokio::select! {
            result = &mut ended => {
                bar.finish_and_clear();
                return Ok(match result? {
                    Some(line) => Ended::Finished(Box::new(line)),
                    None => Ended::Stopped(stopped.unwrap_or(Received::Interrupt)),
                });
            }
            Some(event) = events.recv() => bar.suspend(|| show(&event)),
            received = signals.next() => {
                stopped.get_or_insert(received);
                stopper.stop(evenkeel_orchestrator::StopWhen::Now);
            }
            () = tokio::time::sleep(TICK) => draw(&bar, &progress),
        }
    }
}

fn show(event: &Event) {
    if let Event::Waiting { .. } | Event::Recovered { .. } | Event::Note { .. } | Event::Warning { .. } = event {
        event.in_words().iter().for_each(|words| crate::terminal::note(words));
    }
}

fn bar() -> ProgressBar {
    let target =
        if std::io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template("{bar:28} {pos}/{len} samples  {elapsed}, {eta} left");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸─");
    ProgressBar::with_draw_target(Some(0), target).with_style(style)
}

fn draw(bar: &ProgressBar, progress: &watch::Receiver<RunProgress>) {
    let progress = progress.borrow();
    bar.set_length(progress.samples as u64);
    bar.set_position(progress.samples_done as u64);
    bar.tick();
}

impl Services {
    async fn start(recipe: &Recipe, options: &EvalOptions, output: &Path) -> Result<Self> {
        let judge = recipe.reward_service().judge;
        let name = judge.as_ref().map(|judge| judge.verifier.clone()).filter(|name| !name.is_empty());
        let reward = RewardSettings {
            server: ServerSettings::private(),
            judge,
            judge_records: Some(output.to_owned()),
            ..recipe.reward.clone()
        };
        let reward = evenkeel_reward::bind_with_worker_processes(reward, crate::guest::worker_process)
            .await
            .context("the reward service")?
            .spawn();
        let mut generation = GenerationSettings {
            server: ServerSettings::private(),
            // Nothing is trained on: an engine with any kind of them will do.
            log_probabilities: LogProbabilitySetting::Raw,
            ..recipe.generation.clone()
        };
        // An adapter may be anybody's.
        generation.weights.marker.clear();
        generation.weights.roots.clear();
        if !options.engine.is_empty() {
            generation.endpoints.clone_from(&options.engine);
        }
        let mut engine = None;
        if generation.endpoints.is_empty() {
            let settings =
                EngineSettings { per_request_metrics: true, ..recipe.engine.clone().private(&options.model) };
            let started = Engine::start(settings).await.context("the engine")?;
            generation.endpoints = vec![started.endpoint()];
            engine = Some(started);
        }
        let generation = evenkeel_generation::bind(generation).await.context("the generation service")?.spawn();
        let environments = Environments::start(recipe).await?;
        Ok(Self { generation, reward, judge: name, environments, _engine: engine })
    }
}
