//! Calls of any shape: what is sent need not be a message, and need not be read.

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt;
use prost::Message;
use tokio::net::{TcpSocket, TcpStream};
use tokio_stream::Stream;
use tonic::Status;
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::codegen::http::{Request, Response};
use tonic::transport::{Channel, Endpoint};

pub(crate) type Failed = Box<dyn Error + Send + Sync>;

/// How long a connection may take to stand.
const CONNECT: Duration = Duration::from_secs(5);

/// A TCP connection from an address of this machine.
pub(crate) async fn tcp(from: IpAddr, to: SocketAddr) -> Result<TcpStream, Failed> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(from, 0))?;
    Ok(tokio::time::timeout(CONNECT, socket.connect(to)).await??)
}

/// An HTTP/2 connection from an address of this machine.
pub(crate) async fn channel(from: IpAddr, to: SocketAddr) -> Result<Channel, Failed> {
    let endpoint = Endpoint::from_shared(format!("http://{to}"))?.local_address(Some(from)).connect_timeout(CONNECT);
    Ok(tokio::time::timeout(CONNECT, endpoint.connect()).await??)
}

/// A message with its flag and length in front.
pub(crate) fn framed(message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(message.len() + 5);
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    bytes.put_slice(message);
    bytes.freeze()
}

/// A message with its flag and length in front.
pub(crate) fn encoded(message: &impl Message) -> Bytes {
    framed(&message.encode_to_vec())
}

/// Bytes as a body, which stays open on request.
struct Pieces<S> {
    pieces: S,
    stays_open: bool,
}

impl<S: Stream<Item = Bytes> + Unpin> HttpBody for Pieces<S> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match Pin::new(&mut self.pieces).poll_next(context) {
            Poll::Ready(Some(piece)) => Poll::Ready(Some(Ok(Frame::data(piece)))),
            Poll::Ready(None) if self.stays_open => Poll::Pending,
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// A call whose body is these bytes. With `stays_open` the request never ends.
pub(crate) async fn call(
    channel: &Channel,
    path: &str,
    pieces: Vec<Bytes>,
    stays_open: bool,
) -> Result<Response<Body>, Failed> {
    stream(channel, path, tokio_stream::iter(pieces), stays_open).await
}

/// As [`call`], with bytes that come in time.
pub(crate) async fn stream(
    channel: &Channel,
    path: &str,
    pieces: impl Stream<Item = Bytes> + Send + Unpin + 'static,
    stays_open: bool,
) -> Result<Response<Body>, Failed> {
    let mut channel = channel.clone();
    let request = Request::post(format!("http://server{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(Pieces { pieces, stays_open }))?;
    std::future::poll_fn(|context| GrpcService::poll_ready(&mut channel, context)).await?;
    Ok(GrpcService::call(&mut channel, request).await?)
}

/// The name of the code that a call ended with, and the bytes of its first message.
pub(crate) async fn end(response: Response<Body>) -> (String, Bytes) {
    let code = |headers: &http::HeaderMap| headers.get("grpc-status").and_then(|code| code.to_str().ok()?.parse().ok());
    let headers = code(response.headers());
    let collected = match response.into_body().collect().await {
        Ok(collected) => collected,
        Err(status) => return (format!("{:?}", status.code()), Bytes::new()),
    };
    let status: Option<i32> = headers.or_else(|| collected.trailers().and_then(code));
    let bytes = collected.to_bytes();
    let status = status.map_or_else(|| "no status".to_owned(), |code| format!("{:?}", tonic::Code::from(code)));
    (status, if bytes.len() > 5 { bytes.slice(5..) } else { Bytes::new() })
}

/// One request and the code that it was answered with.
pub(crate) async fn unary(channel: &Channel, path: &str, message: Bytes) -> Result<(String, Bytes), Failed> {
    Ok(end(call(channel, path, vec![message], false).await?).await)
}
