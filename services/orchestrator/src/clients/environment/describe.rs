//! What workers say of environments that do not come with the program: prompts have their tools.

use std::collections::BTreeSet;
use std::time::Duration;

use evenkeel_environment::{Description, Descriptions, EnvironmentOrigin};
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::environment_client::EnvironmentClient;
use evenkeel_proto::v1::{EnvironmentGetStatusRequest, EnvironmentInfo};
use evenkeel_rpc::client::{Connector, ServerAddress};
use evenkeel_rpc::dispatch::Endpoints as Workers;
use tokio::time::{Instant, sleep, timeout};

use crate::error::RunError;
use crate::settings::LoopSettings;

/// How long one worker may take to answer.
const ANSWER: Duration = Duration::from_secs(10);
/// The pause before workers are asked again where none has answered.
const PAUSE: Duration = Duration::from_millis(200);
/// How often names are resolved.
const RESOLVE_INTERVAL: Duration = Duration::from_secs(3);

/// Asks the environment workers for those of the settings' environments that do not come with the program. Nobody is
/// asked where there are none.
///
/// # Errors
/// No worker that answers within `services.outage_timeout`, or none that has an environment.
pub async fn describe_environments(settings: &LoopSettings, workers: &[String]) -> Result<Descriptions, RunError> {
    let named = settings.data.environment.iter().chain(&settings.data.environments);
    let wanted: BTreeSet<&str> = named
        .map(String::as_str)
        .filter(|name| {
            !matches!(EnvironmentOrigin::of("data.environment", name), Ok(EnvironmentOrigin::BuiltIn(_)) | Err(_))
        })
        .collect();
    if wanted.is_empty() || workers.is_empty() {
        return Ok(Descriptions::new());
    }
    let services = &settings.services;
    let refused = |error: FieldError| RunError::Setting(error.within("endpoints.environment"));
    let connector = Connector::new("services.client", services.client.clone())
        .map_err(|error| refused(FieldError::new("client", "refused", error.to_string())))?;
    let mut addresses = Workers::parse(workers).map_err(refused)?.watch(RESOLVE_INTERVAL);
    let until = Instant::now() + services.outage_timeout;
    loop {
        let now: Vec<_> = addresses.borrow_and_update().iter().cloned().collect();
        let mut infos: Vec<EnvironmentInfo> = Vec::new();
        for address in &now {
            if let Ok(Some(theirs)) = timeout(ANSWER, ask(&connector, address)).await {
                infos.extend(theirs);
            }
        }
        let described_as = |name: &&str| infos.iter().find(|info| info.name == **name);
        let found: Vec<_> = wanted.iter().filter_map(described_as).collect();
        if found.len() == wanted.len() {
            let described = found.into_iter().map(|info| Ok((info.name.clone(), Description::of_info(info)?)));
            return described.collect::<Result<_, FieldError>>().map_err(RunError::Setting);
        }
        let lacking = wanted.iter().copied().find(|name| described_as(name).is_none()).unwrap_or_default();
        if !infos.is_empty() || Instant::now() > until {
            let have: BTreeSet<_> = infos.iter().map(|info| info.name.as_str()).collect();
            let allowed = if have.is_empty() {
                format!("one of an environment worker, and none answers at {}", workers.join(", "))
            } else {
                format!("one of the environment workers, which have {}", Vec::from_iter(have).join(", "))
            };
            return Err(RunError::Setting(FieldError::quoted("data.environment", lacking, allowed)));
        }
        sleep(PAUSE).await;
    }
}

async fn ask(connector: &Connector, address: &ServerAddress) -> Option<Vec<EnvironmentInfo>> {
    let channel = connector.connect(address).await.ok()?;
    let limit = connector.max_message();
    let mut client = EnvironmentClient::new(channel).max_decoding_message_size(limit);
    let status = client.get_status(EnvironmentGetStatusRequest {}).await.ok()?;
    Some(status.into_inner().environments)
}
