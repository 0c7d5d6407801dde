//! A run of the orchestrator, from its start to its end.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use evenkeel_proto::v1::start_run_request::Configuration;
use evenkeel_proto::v1::{GetRunRequest, GetRunResponse, RunState, StartRunRequest};
use prost::Message;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::wire::{self, Failed};

const RUN: &str = "honest";
const TIMEOUT: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_millis(200);

/// Starts or resumes the run, and waits until it has done `steps` steps.
pub(crate) async fn run(address: &str, recipe: &str, setting: &str, steps: u64, resume: bool) -> Result<Value, Failed> {
    let home = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let end = Instant::now() + TIMEOUT;
    let configuration = (!resume).then(|| std::fs::read_to_string(recipe).map(Configuration::Toml)).transpose()?;
    let start = StartRunRequest {
        run_id: RUN.to_owned(),
        configuration,
        overrides: vec![setting.to_owned()],
        total_steps: Some(steps),
        resume,
        accept_changed_inputs: false,
    };
    loop {
        // Services come up one after the other.
        let started = async {
            let channel = wire::channel(home, address.parse()?).await?;
            let (code, _) = wire::unary(&channel, "/evenkeel.v1.Orchestrator/StartRun", wire::encoded(&start)).await?;
            Ok::<_, Failed>((channel, code))
        };
        let (channel, code) = match started.await {
            Ok(started) => started,
            Err(error) if Instant::now() > end => return Err(error),
            Err(_) => {
                tokio::time::sleep(LOOK).await;
                continue;
            }
        };
        if code != "Ok" {
            return Err(format!("the start was answered {code}").into());
        }
        loop {
            let get = GetRunRequest { run_id: RUN.to_owned() };
            let (_, answer) = wire::unary(&channel, "/evenkeel.v1.Orchestrator/GetRun", wire::encoded(&get)).await?;
            let run = GetRunResponse::decode(answer)?.run.unwrap_or_default();
            match run.state() {
                RunState::Completed => return Ok(json!({ "steps": run.step, "version": run.policy_version })),
                RunState::Failed | RunState::Stopped => return Err(format!("the run ended: {}", run.message).into()),
                _ if Instant::now() > end => return Err(format!("the run is still at step {}", run.step).into()),
                _ => tokio::time::sleep(LOOK).await,
            }
        }
    }
}
