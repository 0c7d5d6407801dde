//! The folder of published weights.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Instant;

use candle_core::DType;
use evenkeel_host::arriving;
use evenkeel_proto::v1::{PublishRequest, PublishResponse, WeightsRef, weights_ref};
use evenkeel_proto::validate_kept_versions;
use evenkeel_rpc::error::{ServiceError, micros};

use super::artifacts::size;
use super::{convert, retention};
use crate::error::{LearnerError, Result};
use crate::files::make_private;
use crate::learner::Learner;
use crate::publish::PublishOptions;

/// A folder of published weights.
pub(super) struct WeightsStore {
    folder: PathBuf,
    options: PublishOptions,
    /// Whether all readers are in this process: a version is then published once its files are whole, before they are
    /// on the disk.
    read_here: bool,
    /// The last version that this process published, and whether its head is written out.
    latest: Option<(WeightsRef, bool)>,
    /// A version that is not known to be on the disk.
    unsettled: Option<Unsettled>,
}

/// A published version on its way to the disk.
struct Unsettled {
    version: u64,
    request: PublishRequest,
    /// What brings it there; absent once that has failed.
    arriving: Option<JoinHandle<Result<()>>>,
}

impl WeightsStore {
    pub(super) fn new(folder: PathBuf, options: PublishOptions, read_here: bool) -> Self {
        Self { folder, options, read_here, latest: None, unsettled: None }
    }

    /// Publishes the current version unless it already was, and removes old ones.
    pub(super) fn publish(
        &mut self,
        learner: &mut Learner,
        request: &PublishRequest,
    ) -> Result<PublishResponse, ServiceError> {
        validate_kept_versions("keep", request.keep.unwrap_or_default())?;
        let write_out_head = self.writes_out_head(learner, request);
        let is_current = |(weights, has_head): &(WeightsRef, bool)| {
            weights.version == learner.version() && *has_head == write_out_head && is_there(weights)
        };
        if let Some((weights, _)) = self.latest.clone().filter(is_current) {
            return Ok(PublishResponse { weights: Some(weights), already_published: true, write_us: 0 });
        }
        let start = Instant::now();
        self.settle(learner)?;
        let weights = self.write(learner, request, self.read_here)?;
        let write_us = micros(start.elapsed());
        Ok(PublishResponse { weights: Some(weights), already_published: false, write_us })
    }

    /// Waits until the last version is on the disk. One that did not get there, and is still that of the learner, is
    /// written again.
    ///
    /// # Errors
    /// It is not on the disk.
    pub(super) fn settle(&mut self, learner: &mut Learner) -> Result<(), ServiceError> {
        let Some(Unsettled { version, request, arriving }) = self.unsettled.take() else { return Ok(()) };
        let finished = arriving.map(join);
        if let Some(Ok(())) = finished {
            return Ok(());
        }
        self.latest = None;
        let error = finished.and_then(Result::err);
        if version != learner.version() {
            return error.map_or(Ok(()), |error| Err(convert::error(error)));
        }
        let error = error.as_ref().map(ToString::to_string);
        tracing::warn!(error, version, "weights did not reach the disk and are written again");
        let written = self.write(learner, &request, false).map(drop);
        written.inspect_err(|_| self.unsettled = Some(Unsettled { version, request, arriving: None }))
    }

    /// Notes that the weights were replaced: the same version may now have other bits.
    pub(super) fn forget(&mut self) {
        self.latest = None;
        if let Some(Err(error)) = self.unsettled.take().and_then(|unsettled| unsettled.arriving).map(join)
            // A run that was only tried removes its folders.
            && self.folder.is_dir()
        {
            tracing::warn!(%error, "earlier weights are not on the disk");
        }
    }

    fn writes_out_head(&self, learner: &Learner, request: &PublishRequest) -> bool {
        request.write_out_head && learner.config().tie_word_embeddings
    }

    /// Writes the current version, and brings it to the disk now or `later`; then old ones are removed.
    fn write(
        &mut self,
        learner: &mut Learner,
        request: &PublishRequest,
        later: bool,
    ) -> Result<WeightsRef, ServiceError> {
        let write_out_head = self.writes_out_head(learner, request);
        let options = PublishOptions { write_out_head, ..self.options };
        if let Err(error) = make_private(&self.folder) {
            // What somebody changed in the middle of a run does not end it: engines' weights are compared anyway.
            if !self.folder.is_dir() {
                return Err(convert::error(error));
            }
            tracing::warn!(%error, "the folder of published weights is not private");
        }
        let (published, mut staged) = learner.stage(&self.folder, options).map_err(convert::error)?;
        let size = size(staged.place()).map_err(convert::error)?;
        if later {
            staged.announce();
            if options.dtype == DType::F32 && !write_out_head {
                learner.lend(staged.place()).map_err(convert::error)?;
            }
        }
        let folder = self.folder.clone();
        let keep = request.keep;
        let besides = request.keep_versions.clone();
        let path = published.path.clone();
        let finish = move || {
            staged.finish()?;
            retention::remove_others(&path)?;
            retention::remove_old(&folder, keep, &besides)
        };
        if later {
            let thread = std::thread::Builder::new().name("publish".into()).spawn(finish);
            let thread = thread.map_err(LearnerError::file(&self.folder)).map_err(convert::error)?;
            let version = published.version;
            let request = request.clone();
            self.unsettled = Some(Unsettled { version, request, arriving: Some(thread) });
        } else {
            finish().map_err(convert::error)?;
        }
        let path = std::path::absolute(&published.path).unwrap_or(published.path);
        let weights = WeightsRef::at_path(published.version, published.digest, path.display().to_string(), size)
            .with_files_digest(published.files_digest);
        self.latest = Some((weights.clone(), write_out_head));
        Ok(weights)
    }
}

impl Drop for WeightsStore {
    fn drop(&mut self) {
        self.forget();
    }
}

/// Whether the folder is still there: who asked for it may have removed it, as Tinker's front does once nothing refers
/// to it.
fn is_there(weights: &WeightsRef) -> bool {
    let Some(weights_ref::Source::Path(at)) = &weights.source else { return false };
    arriving::read_in_place(Path::new(&at.path), Path::is_dir)
}

fn join(arriving: JoinHandle<Result<()>>) -> Result<()> {
    arriving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
