//! A WebSocket: one request at a time, and its answer. A task reads it all the time, since servers end connections
//! whose pings nobody answers while the model is at its turn.

use std::time::Duration;

use evenkeel_proto::v1::EpisodeFailure;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::tls::Connection;
use super::websocket::WebSocket;
use crate::failure::Failure;

/// How long saying goodbye may take.
const CLOSE: Duration = Duration::from_secs(2);

type Reply = oneshot::Sender<Result<Value, Failure>>;

/// An open socket. Dropping it closes it; dropping it while an answer is awaited closes it at once.
pub(super) struct Socket {
    requests: mpsc::Sender<(String, Reply)>,
}

impl Socket {
    /// Connects to `ADDRESS/ws`.
    pub(super) async fn connect(address: &str) -> Result<Self, Failure> {
        let connected = WebSocket::connect(address).await;
        let stream = connected.map_err(|error| Failure::crashed(format!("{address}/ws cannot be reached: {error}")))?;
        let (requests, receiver) = mpsc::channel(1);
        tokio::spawn(serve(stream, receiver));
        Ok(Self { requests })
    }

    /// Sends a request and waits for its answer: the fields of `data` of an answer of the kind `observation`. The
    /// caller limits the time; what it does not wait for ends the socket.
    pub(super) async fn ask(&mut self, request: Value) -> Result<SocketAnswer, Failure> {
        let (reply, answer) = oneshot::channel();
        let gone = || Failure::crashed("the server closed the connection");
        self.requests.send((request.to_string(), reply)).await.map_err(|_| gone())?;
        SocketAnswer::of(answer.await.map_err(|_| gone())??)
    }
}

/// What a server says to a request.
#[derive(Debug, PartialEq)]
pub(super) enum SocketAnswer {
    Observation(Value),
    /// The request does not fit what the environment takes; the session goes on.
    Refused(String),
}

impl SocketAnswer {
    fn of(mut said: Value) -> Result<Self, Failure> {
        let data = said.get_mut("data").map(Value::take).unwrap_or_default();
        let text = |field: &str| data.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        match said.get("type").and_then(Value::as_str) {
            Some("observation") => Ok(Self::Observation(data)),
            Some("error") => {
                let code = text("code");
                let message = text("message");
                let said = format!("{code}: {message}");
                match code.as_str() {
                    "VALIDATION_ERROR" => Ok(Self::Refused(details(&data).unwrap_or(message))),
                    "CAPACITY_REACHED" => Err(Failure::new(EpisodeFailure::Overloaded, said)),
                    "INVALID_JSON" | "UNKNOWN_TYPE" => Err(Failure::new(EpisodeFailure::Internal, said)),
                    _ => Err(Failure::crashed(said)),
                }
            }
            other => {
                let kind = other.unwrap_or("none");
                Err(Failure::crashed(format!(
                    "the server gave an answer of the kind `{kind}`, allowed: observation, error"
                )))
            }
        }
    }
}

/// What is wrong with an action, where the server says so.
fn details(data: &Value) -> Option<String> {
    let errors = data.get("errors")?.as_array()?;
    let one = |error: &Value| {
        let place: Vec<String> =
            error["loc"].as_array()?.iter().map(|part| part.to_string().replace('"', "")).collect();
        Some(format!("`{}`: {}", place.join("."), error["msg"].as_str()?))
    };
    let said: Vec<String> = errors.iter().take(8).filter_map(one).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

async fn serve(mut stream: WebSocket<Connection>, mut requests: mpsc::Receiver<(String, Reply)>) {
    let mut waiting: Option<Reply> = None;
    // A server that is full says so without being asked.
    let mut refusal: Option<Value> = None;
    loop {
        let is_free = waiting.is_none();
        let closed = async {
            match &mut waiting {
                Some(reply) => reply.closed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            // Nobody waits for the answer: it would be taken for that of the next request.
            () = closed => return,
            // What was said before a request is no answer to it.
            message = stream.read(), if refusal.is_none() => {
                let said = match message {
                    Ok(Some(text)) => serde_json::from_str::<Value>(&text)
                        .map_err(|error| Failure::crashed(format!("the server gave no valid JSON: {error}"))),
                    Ok(None) => Err(Failure::crashed("the server closed the connection")),
                    Err(why) => Err(Failure::crashed(why)),
                };
                let is_broken = said.is_err();
                match (waiting.take(), said) {
                    (Some(reply), said) => drop(reply.send(said)),
                    (None, Ok(said)) if said["type"] == "error" => refusal = Some(said),
                    // Something that nobody asked for: answers and requests do not belong together any more.
                    (None, _) => return,
                }
                if is_broken {
                    return;
                }
            }
            request = requests.recv(), if is_free => {
                let Some((request, reply)) = request else {
                    let goodbye = async {
                        let _ = stream.send(json!({"type": "close"}).to_string()).await;
                        let _ = stream.close().await;
                    };
                    let _ = timeout(CLOSE, goodbye).await;
                    return;
                };
                if let Some(refusal) = refusal.take() {
                    let _ = reply.send(Ok(refusal));
                    return;
                }
                // Where that fails, reading says why.
                let _ = stream.send(request).await;
                waiting = Some(reply);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_of_a_server_means_what_it_is() {
        let answer = |code: &str| SocketAnswer::of(json!({"type": "error", "data": {"code": code, "message": "no"}}));
        let kind = |code: &str| answer(code).unwrap_err().kind;
        assert_eq!(answer("VALIDATION_ERROR"), Ok(SocketAnswer::Refused("no".into())));
        assert_eq!(kind("CAPACITY_REACHED"), EpisodeFailure::Overloaded);
        for code in ["EXECUTION_ERROR", "FACTORY_ERROR", "SESSION_ERROR", "ANOTHER", ""] {
            assert_eq!(kind(code), EpisodeFailure::Crashed, "{code}");
        }
        for code in ["INVALID_JSON", "UNKNOWN_TYPE"] {
            assert_eq!(kind(code), EpisodeFailure::Internal, "{code}");
        }
        assert!(SocketAnswer::of(json!({"type": "state", "data": {}})).unwrap_err().message.contains("`state`"));
        let errors = json!([{"loc": ["text"], "msg": "Field required"}]);
        let refused =
            SocketAnswer::of(json!({"type": "error", "data": {"code": "VALIDATION_ERROR", "errors": errors}}));
        assert_eq!(refused, Ok(SocketAnswer::Refused("`text`: Field required".into())));
    }
}
