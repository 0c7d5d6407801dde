//! The yardstick: tonic's own server and channel with nothing around them, and an answer that is always the same.

use std::net::SocketAddr;

use anyhow::Result;
use evenkeel_proto::v1::reward_server::{Reward, RewardServer};
use evenkeel_proto::v1::{
    RewardGetStatusRequest, RewardGetStatusResponse, Verdict, VerifyOneRequest, VerifyOneResponse, VerifyRequest,
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};

struct Echo(Verdict);

#[tonic::async_trait]
impl Reward for Echo {
    type VerifyStream = tokio_stream::Empty<Result<Verdict, Status>>;

    async fn verify(&self, _: Request<Streaming<VerifyRequest>>) -> Result<Response<Self::VerifyStream>, Status> {
        Err(Status::unimplemented("an echo answers single calls"))
    }

    async fn verify_one(&self, request: Request<VerifyOneRequest>) -> Result<Response<VerifyOneResponse>, Status> {
        let id = request.into_inner().item.map(|item| item.id).unwrap_or_default();
        Ok(Response::new(VerifyOneResponse { verdict: Some(Verdict { id, ..self.0.clone() }) }))
    }

    async fn get_status(
        &self,
        _: Request<RewardGetStatusRequest>,
    ) -> Result<Response<RewardGetStatusResponse>, Status> {
        Err(Status::unimplemented("an echo has no status"))
    }
}

/// Starts a server that answers every call with this verdict, and connects to it.
pub(crate) async fn start(verdict: Verdict) -> Result<Channel> {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
    let address = listener.local_addr()?;
    let incoming = TcpListenerStream::new(listener);
    let server = Server::builder().tcp_nodelay(true).add_service(RewardServer::new(Echo(verdict)));
    tokio::spawn(server.serve_with_incoming(incoming));
    Ok(Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true).connect().await?)
}
