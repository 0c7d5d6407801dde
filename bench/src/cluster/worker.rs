//! A reward worker that takes as long as a verdict does, and finds about half of the answers right.

use std::time::Duration;

use evenkeel_proto::v1::reward_server::{Reward, RewardServer};
use evenkeel_proto::v1::{
    Outcome, RewardGetStatusRequest, RewardGetStatusResponse, Verdict, VerifyItem, VerifyOneRequest, VerifyOneResponse,
    VerifyRequest,
};
use evenkeel_rpc::items::{ItemLimits, ItemServer, ResponseStream, VerifyItems};
use evenkeel_rpc::server::Server;
use tonic::{Request, Response, Status, Streaming};

struct Worker {
    items: ItemServer<VerifyItems>,
    verdict: Duration,
}

/// Adds one to a server.
pub(crate) fn serve(server: Server, verdict: Duration) -> Server {
    let limits =
        ItemLimits { max_items: 256, max_memory: ItemLimits::DEFAULT_MEMORY, max_running: 16, grace: Duration::ZERO };
    let most = server.max_message();
    let worker = Worker { items: ItemServer::new(limits, server.drain()), verdict };
    server.with_service(RewardServer::new(worker).max_decoding_message_size(most).max_encoding_message_size(most))
}

#[tonic::async_trait]
impl Reward for Worker {
    type VerifyStream = ResponseStream<Verdict>;

    async fn verify(&self, request: Request<Streaming<VerifyRequest>>) -> Result<Response<Self::VerifyStream>, Status> {
        let verdict = self.verdict;
        let handler = move |item: VerifyItem, _| async move {
            tokio::time::sleep(verdict).await;
            let hash =
                item.id.bytes().fold(7_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
            match hash >> 20 & 1 {
                1 => Verdict::judged(&item.id, Outcome::Correct, "equal", 1.0),
                _ => Verdict::judged(&item.id, Outcome::Incorrect, "unequal", 0.0),
            }
        };
        Ok(self.items.serve(request, handler))
    }

    async fn verify_one(&self, _: Request<VerifyOneRequest>) -> Result<Response<VerifyOneResponse>, Status> {
        Err(Status::unimplemented("not needed"))
    }

    async fn get_status(
        &self,
        _: Request<RewardGetStatusRequest>,
    ) -> Result<Response<RewardGetStatusResponse>, Status> {
        let queue = Some(self.items.status());
        Ok(Response::new(RewardGetStatusResponse {
            math: true,
            code: true,
            queue,
            ..RewardGetStatusResponse::default()
        }))
    }
}
