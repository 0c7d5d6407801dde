//! What a run needs besides this process: engines, custom verifiers, and the interpreter of the sandbox.

use std::fmt;
use std::time::Duration;

use evenkeel_config::human;
use evenkeel_data::{Purpose, TaskKind};
use evenkeel_generation::GenerationSettings;
use evenkeel_orchestrator::StartNeeds;
use evenkeel_proto::FieldError;
use evenkeel_proto::shown::with_causes;
use evenkeel_proto::v1::RewardGetStatusRequest;
use evenkeel_proto::v1::reward_client::RewardClient;
use evenkeel_reward::SandboxStart;
use evenkeel_rpc::client::{Connector, ServerAddress};
use evenkeel_rpc::server::ServerSettings;
use evenkeel_sandbox::guest::{self, Form};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::StartedParts;
use super::findings::Findings;
use super::sets::DataFacts;
use crate::recipe::Recipe;

/// How long an engine or a verifier may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Asks every engine and verifier that the recipe names, and looks for the sandbox where there are programs. Returns
/// whether every verifier has answered.
pub(super) async fn look(
    recipe: &Recipe,
    data: &DataFacts,
    needs: Option<&StartNeeds>,
    started: &StartedParts,
    findings: &mut Findings,
) -> bool {
    let evaluated = data.of(Purpose::Evaluation).filter_map(|set| set.asked).map(|asked| asked.answer_tokens);
    let longest_answer = evaluated.chain([recipe.sampling.max_tokens]).max().unwrap_or(0);
    let needed = data.longest_tokens() + u64::from(longest_answer);
    let asked: Vec<_> = recipe
        .generation
        .endpoints
        .iter()
        .map(|endpoint| {
            let mut settings = only(&recipe.generation, endpoint);
            settings.min_context_tokens = settings.min_context_tokens.max(u32::try_from(needed).unwrap_or(u32::MAX));
            tokio::spawn(evenkeel_generation::bind(settings))
        })
        .collect();
    for (index, asked) in asked.into_iter().enumerate() {
        match asked.await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => findings.problem(format!("generation.endpoints[{index}]: {error}")),
            Err(error) => findings.problem(format!("generation.endpoints[{index}]: {error}")),
        }
    }
    let components = look_for_verifiers(recipe, started, findings).await;
    let all_answer = components.is_some();
    // A verifier that is not needed may have no weight; one that did not answer is unknown.
    let nobody = needs.is_some_and(|needs| needs.verifiers.is_empty());
    if let Some(components) = components.or_else(|| nobody.then(Vec::new))
        && let Err(error) = recipe.shaping.check_components(components.iter().map(String::as_str))
    {
        findings.problem(error);
    }
    if data.has(TaskKind::Code) {
        look_for_sandbox(recipe, findings);
    }
    all_answer
}

/// Asks every worker of every custom verifier what it judges. Returns the components of all of them; `None` where one
/// could not be asked.
async fn look_for_verifiers(recipe: &Recipe, started: &StartedParts, findings: &mut Findings) -> Option<Vec<String>> {
    let connector = match Connector::new("services.client", recipe.services.client.clone()) {
        Ok(connector) => connector,
        Err(error) => {
            findings.problem(error);
            return None;
        }
    };
    let mut components = Vec::new();
    let mut all = true;
    match evenkeel_reward::check_judge(&recipe.reward_service()) {
        Ok(criteria) => components.extend(criteria),
        Err(error) => {
            findings.problem(error);
            all = false;
        }
    }
    for (name, verifier) in &recipe.data.verifiers {
        let mut endpoints = &verifier.endpoints;
        let field = verifier.place();
        if verifier.judge && !started.verifiers.contains_key(name) {
            // Its files were read; a call would cost something.
            continue;
        }
        if verifier.is_started() {
            match started.verifiers.get(name) {
                Some(Ok(addresses)) => endpoints = addresses,
                Some(Err(error)) => {
                    findings.problem(with_causes(error.as_ref()));
                    all = false;
                    continue;
                }
                None => {
                    all = false;
                    continue;
                }
            }
        } else if endpoints.is_empty() {
            let field = format!("data.verifiers.{name}.endpoints");
            let allowed = "at least one address, or `path`, a Python file with a reward function";
            findings.problem(FieldError::new(field, "empty", allowed));
            all = false;
        }
        for (index, endpoint) in endpoints.iter().enumerate() {
            // What a name resolves to changes: the run waits for a first worker behind it.
            if endpoint.starts_with("dns") {
                all = false;
                continue;
            }
            match require_custom_tasks(&connector, endpoint).await {
                Ok(theirs) => components.extend(theirs),
                Err(wrong) => {
                    let place = if verifier.is_started() { String::new() } else { format!("[{index}]") };
                    findings.problem(format!("data.verifiers.{name}.{field}{place}: {endpoint} {wrong}"));
                    all = false;
                }
            }
        }
    }
    all.then_some(components)
}

/// Why a worker cannot verify for a custom verifier.
#[derive(Debug)]
enum VerifierFault {
    Unreachable(String),
    /// Something listens there that is no gRPC server.
    NotGrpc,
    NoCustomTasks,
}

impl fmt::Display for VerifierFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(message) => write!(formatter, "cannot be reached: {message}"),
            Self::NotGrpc => formatter.write_str("answers, but does not speak gRPC"),
            Self::NoCustomTasks => formatter.write_str("judges no custom tasks (`custom` of its status is false)"),
        }
    }
}

async fn require_custom_tasks(connector: &Connector, endpoint: &str) -> Result<Vec<String>, VerifierFault> {
    let asked = async {
        let channel = connector.connect(&ServerAddress::new(endpoint)).await;
        let channel = channel.map_err(|error| VerifierFault::Unreachable(error.to_string()))?;
        let status = RewardClient::new(channel).get_status(RewardGetStatusRequest {}).await;
        let status = status.map_err(|status| VerifierFault::Unreachable(status.message().to_owned()))?;
        let status = status.into_inner();
        if status.custom { Ok(status.components) } else { Err(VerifierFault::NoCustomTasks) }
    };
    let late = || VerifierFault::Unreachable(format!("no answer within {}", human(TIMEOUT)));
    let found = tokio::time::timeout(TIMEOUT, asked).await.unwrap_or_else(|_| Err(late()));
    match found {
        Err(VerifierFault::Unreachable(_)) if speaks_http(endpoint).await => Err(VerifierFault::NotGrpc),
        found => found,
    }
}

/// Whether an address answers an old request of the web, which no gRPC server does.
async fn speaks_http(endpoint: &str) -> bool {
    let Some(address) = endpoint.strip_prefix("http://") else { return false };
    let asked = async {
        let mut stream = TcpStream::connect(address.trim_end_matches('/')).await?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
        let mut first = [0; 5];
        stream.read_exact(&mut first).await?;
        std::io::Result::Ok(first == *b"HTTP/")
    };
    matches!(tokio::time::timeout(Duration::from_secs(1), asked).await, Ok(Ok(true)))
}

/// The settings for one of the engines, which must answer soon.
fn only(settings: &GenerationSettings, endpoint: &str) -> GenerationSettings {
    let mut settings = settings.clone();
    settings.server = ServerSettings::on("127.0.0.1:0");
    settings.endpoints = vec![endpoint.to_owned()];
    settings.engine.startup_timeout = settings.engine.startup_timeout.min(TIMEOUT);
    settings
}

fn look_for_sandbox(recipe: &Recipe, findings: &mut Findings) {
    let code = &recipe.reward.code;
    if code.sandbox == SandboxStart::Off {
        let allowed = "\"on_first_use\" or \"at_start\", since the data has programs";
        findings.problem(FieldError::quoted("reward.code.sandbox", "off", allowed));
        return;
    }
    let folder = match &code.guest_dir {
        Some(folder) => folder.clone(),
        None => match guest::default_folder() {
            Ok(folder) => folder,
            Err(error) => return findings.problem(format!("reward.code.guest_dir: {error}")),
        },
    };
    let file = if code.deterministic { Form::Counted } else { Form::Timed }.file_name();
    let folders = guest::image_folder().into_iter().chain([folder.clone()]);
    if !folders.into_iter().any(|folder| guest::is_whole(&folder.join(&file))) {
        let folder = folder.display();
        findings.note(format!(
            "the data has programs, and {folder} has no interpreter for them yet: the first program waits while it is \
             built (run `evenkeel guest` to build it now)"
        ));
    }
}
