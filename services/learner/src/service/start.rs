//! Starting a server: the port first, then the model.

use evenkeel_config::Settings;
use evenkeel_proto::v1::learner_server::LearnerServer;
use evenkeel_proto::v1::{HeadForm, ModelInfo};
use evenkeel_rpc::BoxFuture;
use evenkeel_rpc::server::{Server, ServerError};
use tokio::sync::{mpsc, oneshot};

use super::grpc::{LearnerService, NAME};
use super::instruments::watch_disks;
use super::learner_thread::LearnerThread;
use super::score_request::group_names;
use super::settings::LearnerSettings;
use super::status::StatusBoard;
use crate::error::LearnerError;
use crate::files::validate_writable;
use crate::learner::Learner;

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The port or a certificate.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// Settings or the model.
    #[error(transparent)]
    Learner(#[from] LearnerError),
    /// The learner's thread could not be started.
    #[error("cannot start the learner's thread: {0}")]
    Thread(std::io::Error),
    /// A defect: the learner's thread panicked before the model was open.
    #[error("the learner's thread ended while loading the model; the log says why")]
    ThreadEnded,
}

/// Binds the port, opens the model and returns a server; [`Server::run`] or [`Server::spawn`] starts it.
///
/// # Errors
/// A port in use, settings out of range, folders that cannot be written to, or a folder without a supported model.
pub fn bind(settings: LearnerSettings) -> BoxFuture<'static, Result<Server, StartError>> {
    Box::pin(start(settings))
}

async fn start(settings: LearnerSettings) -> Result<Server, StartError> {
    settings.validate().map_err(LearnerError::Setting)?;
    for (setting, folder) in [("checkpoints", &settings.checkpoints), ("weights", &settings.weights)] {
        validate_writable(setting, folder)?;
    }
    let server = Server::bind(NAME, "learner.server", settings.server.clone()).await?;
    watch_disks([("checkpoints", settings.checkpoints.clone()), ("weights", settings.weights.clone())]);
    let (commands, receiver) = mpsc::channel(settings.queue);
    let (scores, items) = mpsc::channel(settings.queue);
    let status = StatusBoard::default();
    let (ready, opened) = oneshot::channel();
    let (thread_settings, thread_status) = (settings.clone(), status.clone());
    let spawned = std::thread::Builder::new().name("learner".into()).spawn(move || {
        // The model is opened on the thread that uses it, since a GPU's context belongs to a thread.
        match Learner::open(&thread_settings.model, thread_settings.training.clone()) {
            Err(error) => drop(ready.send(Err(error.into()))),
            Ok(learner) => {
                for note in thread_settings.disk_notes(learner.parameters().trained_count()) {
                    tracing::warn!("{note}");
                }
                let described = (describe(&learner), group_names(learner.parameters()));
                match LearnerThread::new(learner, &thread_settings, items, thread_status) {
                    Err(error) => drop(ready.send(Err(StartError::Thread(error)))),
                    Ok(thread) => {
                        let _ = ready.send(Ok(described));
                        thread.run(receiver);
                    }
                }
            }
        }
    });
    spawned.map_err(StartError::Thread)?;
    let (model, tensor_groups) = opened.await.map_err(|_| StartError::ThreadEnded)??;
    let max_message = server.max_message();
    let service = LearnerService::new((commands, scores), status, (model, tensor_groups), settings, server.drain());
    let service =
        LearnerServer::new(service).max_decoding_message_size(max_message).max_encoding_message_size(max_message);
    Ok(server.with_service(service))
}

fn describe(learner: &Learner) -> ModelInfo {
    // Also of a folder in which it is written out: for the learner that is the same model.
    let head = if learner.config().tie_word_embeddings { HeadForm::Tied } else { HeadForm::Own };
    ModelInfo {
        architecture: learner.config().architecture.class().into(),
        parameters: learner.parameters().count() as u64,
        vocabulary_size: learner.config().vocab_size as u32,
        context_tokens: learner.config().max_position_embeddings as u32,
        tokenizer_digest: learner.tokenizer_digest().unwrap_or_default(),
        head: head.into(),
    }
}
