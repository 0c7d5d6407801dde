//! Certificates and tokens, on both sides of the agent.

use evenkeel_proto::v1::weights_agent_client::WeightsAgentClient;
use evenkeel_rpc::client::ClientSettings;
use evenkeel_rpc::server::{AuthSettings, Role, ServerSettings};
use evenkeel_weights_agent::{WeightsAgentSettings, bind};
use tonic::{Code, Status};

use crate::certificates::{Folder, at, connector};
use crate::source::{FakeLearner, Published};
use crate::{Agent, TENSORS, assert_same, bounded, settings};

/// A server that knows callers by their certificates.
fn server(certificates: &Folder, roles: &[(&str, Role)]) -> ServerSettings {
    let roles = roles.iter().map(|(name, role)| ((*name).to_owned(), *role)).collect();
    ServerSettings {
        tls: Some(certificates.server(Some(certificates.path("ca.pem")))),
        auth: AuthSettings { certificates: roles, ..AuthSettings::default() },
        ..ServerSettings::default()
    }
}

async fn pull(agent: &str, certificates: &Folder, name: &str, published: &Published) -> Result<String, Status> {
    let channel = connector(Some(certificates.client_as(name)), None).connect_lazy(&at(agent)).unwrap();
    let request = published.request();
    WeightsAgentClient::new(channel).pull(request).await.map(|pulled| pulled.into_inner().path)
}

#[tokio::test]
async fn with_certificates_only_the_generation_service_has_weights_fetched_and_only_the_agent_fetches_them() {
    bounded(async {
        let certificates = Folder::new(&["localhost", "agent", "generation", "dashboard"]);
        let learner = server(&certificates, &[("agent", Role::Agent), ("dashboard", Role::Reader)]);
        let source = FakeLearner::with(learner).await;
        let folder = tempfile::tempdir().unwrap();
        let published = source.publish(1, &TENSORS);
        let agent = |name: &str| WeightsAgentSettings {
            server: server(&certificates, &[("generation", Role::Agent), ("dashboard", Role::Reader)]),
            client: ClientSettings { tls: Some(certificates.client_as(name)), ..ClientSettings::default() },
            ..settings(&source, folder.path())
        };
        let allowed = bind(agent("agent")).await.unwrap().spawn();
        assert!(allowed.endpoint().starts_with("https://"));
        let status = pull(allowed.endpoint(), &certificates, "dashboard", &published).await.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied);
        let stranger = bind(agent("dashboard")).await.unwrap().spawn();
        let status = pull(stranger.endpoint(), &certificates, "generation", &published).await.unwrap_err();
        let words = "the role `reader` may not call evenkeel.v1.Weights/Describe, which requires `agent`";
        assert!(status.message().contains(words), "{status}");
        let path = pull(allowed.endpoint(), &certificates, "generation", &published).await.unwrap();
        assert_same(&path, &published);
    })
    .await;
}

#[tokio::test]
async fn a_token_is_needed_where_the_learner_has_one_and_its_absence_is_named() {
    bounded(async {
        let tokens = Folder::new(&[]);
        tokens.write("token", "token-of-an-agent-in-a-test\n");
        let auth = AuthSettings { tokens: [(Role::Agent, tokens.path("token"))].into(), ..AuthSettings::default() };
        let source = FakeLearner::with(ServerSettings { auth, ..ServerSettings::default() }).await;
        let folder = tempfile::tempdir().unwrap();
        let published = source.publish(1, &TENSORS);
        let status = Agent::start(&source, folder.path()).await.pull(&published).await.unwrap_err();
        assert!(status.message().contains("a bearer token is required"), "{status}");
        let client = ClientSettings { token_file: Some(tokens.path("token")), ..ClientSettings::default() };
        let agent = Agent::with(WeightsAgentSettings { client, ..settings(&source, folder.path()) }).await;
        assert_same(&agent.pull(&published).await.unwrap().path, &published);
    })
    .await;
}
