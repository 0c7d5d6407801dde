//! What a cluster consists of besides the services that are measured: engines, reward workers and a learner that only
//! take time, all in this process. `run.py` starts it, and the real services beside it.
//!
//! ```text
//! evenkeel-bench cluster MODEL ENGINES WORKERS SAMPLE_MS VERDICT_MS STEP_MS
//! ```
//!
//! It prints one line of JSON with its addresses, and serves until standard input ends.
//!
//! ```text
//! evenkeel-bench cluster pull AGENT VERSION DIGEST
//! ```
//!
//! has an agent fetch weights (`bench/weights/run.py`).

mod engine;
mod learner;
mod worker;

use std::time::Duration;

use anyhow::{Context, Result};
use evenkeel_proto::v1::PullRequest;
use evenkeel_proto::v1::weights_agent_client::WeightsAgentClient;
use evenkeel_rpc::client::{ClientSettings, Connector, ServerAddress};
use evenkeel_rpc::server::{Server, ServerSettings};
use serde_json::json;

/// Has an agent fetch a version.
async fn pull(agent: &str, version: u64, digest: &str) -> Result<()> {
    let connector = Connector::new("client", ClientSettings::default())?;
    let channel = connector.connect(&ServerAddress::new(agent)).await?;
    let request = PullRequest { version, digest: digest.to_owned(), ..PullRequest::default() };
    WeightsAgentClient::new(channel).pull(request).await?;
    Ok(())
}

/// A server on a free port of loopback.
async fn server(name: &str) -> Result<Server> {
    Ok(Server::bind(name, "server", ServerSettings { max_connections: 2048, ..ServerSettings::default() }).await?)
}

#[tokio::main]
pub(crate) async fn run(arguments: &[String]) -> Result<()> {
    if let [word, agent, version, digest] = arguments
        && word == "pull"
    {
        return pull(agent, version.parse()?, digest).await;
    }
    let [model, engines, workers, sample, verdict, step] = arguments else {
        anyhow::bail!("usage: evenkeel-bench cluster MODEL ENGINES WORKERS SAMPLE_MS VERDICT_MS STEP_MS");
    };
    let number = |text: &String| text.parse::<u64>().with_context(|| format!("`{text}` is no number"));
    let time = |text: &String| number(text).map(Duration::from_millis);
    let engines = number(engines)?;
    let workers = number(workers)?;
    let mut engine_urls = Vec::new();
    let mut worker_urls = Vec::new();
    let mut running = Vec::new();
    for _ in 0..engines {
        engine_urls.push(engine::serve(model, time(sample)?).await?);
    }
    for _ in 0..workers {
        let server = worker::serve(server("worker").await?, time(verdict)?).spawn();
        worker_urls.push(server.endpoint().to_owned());
        running.push(server);
    }
    let learner = learner::serve(server("learner").await?, model, time(step)?).spawn();
    println!("{}", json!({ "engines": engine_urls, "workers": worker_urls, "learner": learner.endpoint() }));
    tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink())).await??;
    Ok(())
}
