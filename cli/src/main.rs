//! `evenkeel`: trains a model, serves each service, judges answers and programs, shows settings.
#![deny(unsafe_code)]

#[macro_use]
mod terminal;

mod allocator;
mod arguments;
#[cfg(test)]
mod book;
mod check;
mod cluster;
mod columns;
mod compare;
mod data;
mod documentation;
mod dry_run;
mod eval;
mod export;
mod fork;
mod free_directory;
mod generate;
mod gpu;
mod guest;
mod health;
mod hub;
mod init;
mod judge;
mod local_model;
mod metrics;
mod model;
mod plan;
mod programs;
mod ranks;
mod replay;
mod report;
mod results;
mod runs;
mod serve;
mod show;
mod signals;
mod tinker;
mod train;
mod verifiers;
mod verify;
mod watch;

use std::process::ExitCode;

use arguments::{Arguments, Command, Format};
use clap::error::ErrorKind;
use evenkeel_rpc::server::exit_on_early_signal;
use evenkeel_telemetry::{LogFormat, TelemetrySettings, init_logging};

fn main() -> ExitCode {
    let arguments = match Arguments::read() {
        Ok(arguments) => arguments,
        Err(error) => {
            let named = std::env::args().skip(1).find(|word| !word.starts_with('-'));
            let tip =
                named.filter(|_| error.kind() == ErrorKind::InvalidSubcommand).and_then(|name| arguments::tip(&name));
            // A reader that is gone is no error.
            let _ = error.print();
            tip.into_iter().for_each(|tip| terminal::note(&format!("tip: {tip}")));
            return u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    let result = logging(&arguments).and_then(|()| {
        evenkeel_rpc::server::allow_hosts("--hosts", &arguments.hosts)?;
        allocator::return_freed_memory()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            if std::process::id() == 1 {
                exit_on_early_signal()?;
            }
            match arguments.command {
                Command::Train(options) => train::train(*options).await,
                Command::Resume(options) => train::train(options.into()).await,
                Command::Init(options) => init::init(&options).await,
                Command::Compare(options) => compare::compare(options).await,
                Command::Serve(options) => serve::serve(options).await,
                Command::Health(options) => health::check(&options).await,
                Command::Model(arguments) => model::run(&arguments),
                Command::Config(options) => documentation::print(&options),
                Command::Export(options) => export::export(&options),
                Command::Runs(options) => runs::list(&options),
                Command::Watch(options) => watch::watch(&options).await,
                Command::Metrics(options) => metrics::print(&options),
                Command::Check(options) => check::check(&options).await,
                Command::Replay(options) => replay::replay(&options).await,
                Command::Report(options) => report::write(&options),
                Command::Verify(command) => verify::verify(command).await,
                Command::Judge(command) => judge::run(command).await,
                Command::Eval(options) => eval::eval(options).await,
                Command::Generate(options) => generate::generate(options).await,
                Command::Show(options) => show::show(&options),
                Command::Data(command) => data::run(&command),
                Command::Guest(options) => guest::make(&options),
                Command::Gpu(command) => gpu::gpu(&command),
                Command::Plan(options) => plan::plan(&options),
                #[cfg(feature = "sandbox")]
                Command::SandboxWorker(options) => guest::sandbox_worker(&options),
            }
        })
    });
    match result {
        Ok(code) => code,
        Err(error) => {
            terminal::print_error(&error);
            ExitCode::FAILURE
        }
    }
}

/// Logs go to stderr: only warnings while there are progress bars, otherwise everything that the user asked for.
fn logging(arguments: &Arguments) -> anyhow::Result<()> {
    let log = match (&arguments.log, &arguments.command) {
        (Some(log), _) => log.clone(),
        (None, Command::Serve(_)) => "info".into(),
        (None, _) => "warn".into(),
    };
    let log_format = match arguments.log_format {
        Format::Human => LogFormat::Human,
        Format::Json => LogFormat::Json,
    };
    Ok(init_logging(&TelemetrySettings { log, log_format, ..TelemetrySettings::default() })?)
}
