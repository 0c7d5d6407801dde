//! Starting a server: the port first, then the model.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_config::Settings;
use evenkeel_model::attention_library;
use evenkeel_proto::v1::learner_server::LearnerServer;
use evenkeel_proto::v1::weights_server::WeightsServer;
use evenkeel_proto::v1::{HeadForm, ModelInfo};
use evenkeel_rpc::BoxFuture;
use evenkeel_rpc::server::Server;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::grpc::{Described, LearnerService, NAME};
use super::instruments::watch_disks;
use super::leader::Meeting;
use super::learner_thread::LearnerThread;
use super::published_files::PublishedFiles;
use super::score_request::group_names;
use super::settings::LearnerSettings;
use super::start_error::StartError;
use super::status::StatusBoard;
use crate::error::LearnerError;
use crate::files::{validate_private, validate_writable};
use crate::learner::Learner;
use crate::publish::tied_head;
use crate::ranks::Division;

/// Binds the port, opens the model and returns a server; [`Server::run`] or [`Server::spawn`] starts it.
///
/// # Errors
/// A port in use, settings out of range, folders that cannot be written to, published weights in a folder that others
/// may write to, or a folder without a supported model.
pub fn bind(settings: LearnerSettings) -> BoxFuture<'static, Result<Server, StartError>> {
    Box::pin(start(settings))
}

async fn start(settings: LearnerSettings) -> Result<Server, StartError> {
    settings.validate().map_err(LearnerError::Setting)?;
    for (setting, folder) in [("checkpoints", &settings.checkpoints), ("weights", &settings.weights)] {
        validate_writable(setting, folder)?;
    }
    validate_private("weights", &settings.weights)?;
    let meeting = match (&settings.training.ranks, settings.training.rank_place().map_err(LearnerError::Setting)?) {
        (Some(ranks), Some(place)) => Some(Meeting::bind(ranks, place).await?),
        _ => None,
    };
    let division = meeting.as_ref().map_or(Division::ALONE, Meeting::division);
    let server = Server::bind(NAME, "learner.server", settings.server.clone()).await?;
    watch_disks([("checkpoints", settings.checkpoints.clone()), ("weights", settings.weights.clone())]);
    let (commands, receiver) = mpsc::channel(settings.queue);
    let (scores, items) = mpsc::channel(settings.queue);
    let status = StatusBoard::default();
    let (ready, opened) = oneshot::channel();
    let thread_settings = settings.clone();
    let thread_status = status.clone();
    let runtime = Handle::current();
    let has_ended = meeting.as_ref().map(|_| Ending::begin());
    let spawned = std::thread::Builder::new().name("learner".into()).spawn(move || {
        // The model is opened on the thread that uses it, since a GPU's context belongs to a thread.
        let _has_ended = has_ended;
        let LearnerSettings { model, training, engines_stay_awake, .. } = &thread_settings;
        let opened = Learner::open_rank(model, training.clone(), division, *engines_stay_awake);
        let opened = opened.and_then(|mut learner| {
            let leader = meeting.map(|meeting| meeting.assemble(&mut learner, &runtime)).transpose()?;
            Ok((learner, leader))
        });
        match opened {
            Err(error) => drop(ready.send(Err(error.into()))),
            Ok((learner, leader)) => {
                let trained = learner.parameters().trained_count() as u64;
                if let Some(refusal) = thread_settings.full_disk(trained, division) {
                    return drop(ready.send(Err(StartError::Disk(refusal))));
                }
                let described = Described {
                    trained,
                    head: tied_head(learner.trainer()) as u64,
                    model: describe(&learner),
                    tensor_groups: group_names(learner.parameters()),
                    attention_in_blocks: attention_in_blocks(&learner),
                };
                match LearnerThread::new(learner, leader, &thread_settings, items, thread_status) {
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
    let described = opened.await.map_err(|_| StartError::ThreadEnded)??;
    let max_message = server.max_message();
    let files = PublishedFiles::new(settings.weights.clone());
    let service = LearnerService::new((commands, scores), status, described, settings, server.drain());
    let service =
        LearnerServer::new(service).max_decoding_message_size(max_message).max_encoding_message_size(max_message);
    Ok(server.with_service(service).with_service(WeightsServer::new(files)))
}

/// The learners of this process whose ranks have not been told the end.
static ENDING: AtomicUsize = AtomicUsize::new(0);

/// One of them, until it is dropped.
struct Ending;

impl Ending {
    fn begin() -> Self {
        ENDING.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        ENDING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits until the ranks of all learners of this process whose servers have ended know that there is nothing more to
/// do, at most ten seconds. Without ranks it returns at once.
pub async fn wait_for_ranks() {
    for _ in 0..100 {
        if ENDING.load(Ordering::SeqCst) == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn attention_in_blocks(learner: &Learner) -> String {
    let (device, compute) = (learner.parameters().device(), &learner.settings().compute);
    if device.is_cpu() {
        return String::new();
    }
    let options = compute.network_options().attention;
    let library = attention_library(device, compute.dtype.into(), options, learner.config().head_dim);
    library.err().map(|reason| reason.to_string()).unwrap_or_default()
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
