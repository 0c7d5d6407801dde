//! From a name to a folder with the model.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use evenkeel_errors::FieldError;
use evenkeel_host::{Size, free_space};

use crate::cache::{ModelCache, create_parent, incomplete};
use crate::download::Download;
use crate::environment::Environment;
use crate::error::HubError;
use crate::listing::{Listing, RemoteFile};
use crate::name::ModelName;
use crate::needed;
use crate::request::{Requests, RetryPolicy};

/// How often progress is told.
const INTERVAL: Duration = Duration::from_secs(5);

/// The hub, and the cache of this machine.
pub struct Hub {
    environment: Environment,
    retries: RetryPolicy,
    has_substitute: bool,
    progress: Box<dyn Fn(Progress<'_>) + Send + Sync>,
}

/// How much of a file has come. Told every five seconds.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The file's name in the repository.
    pub file: &'a str,
    /// What has come, in bytes.
    pub bytes: u64,
    /// What is to come in all.
    pub size: u64,
}

/// A model in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The commit that its name means.
    pub commit: String,
    /// A Hugging Face folder with all files that a model needs.
    pub folder: PathBuf,
}

impl Hub {
    /// The hub of these variables.
    pub fn new(environment: Environment, retries: RetryPolicy) -> Self {
        Self { environment, retries, has_substitute: false, progress: Box::new(|_| {}) }
    }

    /// Reports the progress of a file.
    #[must_use]
    pub fn with_progress(self, progress: impl Fn(Progress<'_>) + Send + Sync + 'static) -> Self {
        Self { progress: Box::new(progress), ..self }
    }

    /// Notes whether the caller has another copy of the model: a hub that cannot be reached is then asked once.
    #[must_use]
    pub fn with_substitute(self, has_substitute: bool) -> Self {
        Self { has_substitute, ..self }
    }

    /// Brings a model into the cache. May be called from any thread, and from within a runtime: it waits in a thread of
    /// its own.
    ///
    /// Where the hub cannot be reached, a model that the cache has whole is taken from there, after one attempt.
    ///
    /// # Errors
    /// A model that is not there or may not be read, cannot be used, does not fit on the disk, or does not come whole.
    pub fn fetch(&self, model: &ModelName) -> Result<Snapshot, HubError> {
        let failed = |reason: String| HubError::Unreachable { url: HubError::url(&self.environment.endpoint), reason };
        std::thread::scope(|scope| {
            let work = || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.map_err(|error| failed(format!("no runtime: {error}")))?.block_on(self.fetched(model))
            };
            scope.spawn(work).join().unwrap_or_else(|_| Err(failed("the download panicked".into())))
        })
    }

    async fn fetched(&self, model: &ModelName) -> Result<Snapshot, HubError> {
        let cache = ModelCache::new(&self.environment.cache, model);
        if self.environment.is_offline {
            let folder = cache.snapshot(&cache.commit_of(model.revision()).unwrap_or_default());
            return cached(model, &cache)?.map_err(|lack| HubError::Offline { name: model.to_string(), folder, lack });
        }
        let requests = Requests::new(&self.environment, &self.retries)?;
        let listing = match self.listing(&requests, model, &cache).await {
            Err(HubError::Unreachable { url, reason }) => {
                return match cached(model, &cache)? {
                    Ok(snapshot) => {
                        let folder = snapshot.folder.display();
                        tracing::warn!(url, reason, %folder, "the model is taken from the cache");
                        Ok(snapshot)
                    }
                    Err(lack) => {
                        let reason = format!("{reason}; the cache does not have the whole model: {lack}");
                        Err(HubError::Unreachable { url, reason })
                    }
                };
            }
            listing => listing?,
        };
        let (listing, answer) = listing;
        if model.is_pinned() && listing.commit != model.revision() {
            let url = HubError::url(&self.url(model));
            let found = listing.commit;
            return Err(HubError::Answer { url, reason: format!("the hub answers with commit {found}") });
        }
        cache.keep_listing(&listing.commit, &answer);
        self.bring(&requests, model, &cache, &listing).await?;
        cache.note(model.revision(), &listing.commit)?;
        Ok(Snapshot { folder: cache.snapshot(&listing.commit), commit: listing.commit })
    }

    fn url(&self, model: &ModelName) -> String {
        let endpoint = &self.environment.endpoint;
        let revision = model.revision().replace('/', "%2F");
        format!("{endpoint}/api/models/{}/revision/{revision}?blobs=true", model.repository())
    }

    /// The files of a revision, with the hub's own words. Several attempts are made only where nothing else is at hand.
    async fn listing(
        &self,
        requests: &Requests,
        model: &ModelName,
        cache: &ModelCache,
    ) -> Result<(Listing, Vec<u8>), HubError> {
        let url = self.url(model);
        let mut delay = self.retries.delay;
        let mut failed = 0;
        loop {
            match requests.answer(&url).await {
                Ok(body) => return Ok((Listing::parse(&url, &body)?, body)),
                Err(error @ HubError::Unreachable { .. }) => {
                    failed += 1;
                    let is_last = failed >= self.retries.attempts.min(3);
                    if is_last || self.has_substitute || cached(model, cache)?.is_ok() {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
            tokio::time::sleep(delay).await;
            delay *= 2;
        }
    }

    /// The small files first, so that a folder with all its weights has everything else too.
    async fn bring(
        &self,
        requests: &Requests,
        model: &ModelName,
        cache: &ModelCache,
        listing: &Listing,
    ) -> Result<(), HubError> {
        let small = needed::small_files(model.repository(), listing)?;
        for file in small {
            self.file(requests, model, cache, &listing.commit, file).await?;
        }
        let weights = needed::weights(model.repository(), listing, cache.shards(&listing.commit)?)?;
        let missing = weights.iter().filter(|file| !is_there(&cache.blob(file.digest.hex()), file.size));
        let bytes = missing.map(|file| file.size).fold(0u64, u64::saturating_add);
        refuse_full_disk(&self.environment.cache, model, bytes)?;
        for file in weights {
            self.file(requests, model, cache, &listing.commit, file).await?;
        }
        Ok(())
    }

    async fn file(
        &self,
        requests: &Requests,
        model: &ModelName,
        cache: &ModelCache,
        commit: &str,
        file: &RemoteFile,
    ) -> Result<(), HubError> {
        let blob = cache.blob(file.digest.hex());
        discard_damaged(cache, &blob, file)?;
        if !is_there(&blob, file.size) {
            let _lock = cache.lock(file.digest.hex(), self.retries.window).await?;
            // Another process may have brought it meanwhile.
            if !is_there(&blob, file.size) {
                create_parent(&blob)?;
                let url =
                    format!("{}/{}/resolve/{commit}/{}", self.environment.endpoint, model.repository(), file.name);
                let mut told = Instant::now();
                let mut report = |bytes: u64| {
                    if told.elapsed() > INTERVAL {
                        told = Instant::now();
                        (self.progress)(Progress { file: &file.name, bytes, size: file.size });
                    }
                };
                let download = Download { requests, retries: &self.retries, url, file };
                let part = incomplete(&blob);
                download.to(&part, &mut report).await?;
                std::fs::rename(&part, &blob).map_err(HubError::file(&blob))?;
                cache.verified(&blob, file)?;
            }
        }
        cache.link(commit, &file.name, file.digest.hex())
    }
}

/// The model as the cache has it, or what is not there.
fn cached(model: &ModelName, cache: &ModelCache) -> Result<Result<Snapshot, String>, HubError> {
    let Some(commit) = cache.commit_of(model.revision()) else {
        return Ok(Err("it has no commit of this name".to_owned()));
    };
    let lack = cache.lack(model.repository(), &commit)?;
    Ok(lack.map_or_else(|| Ok(Snapshot { folder: cache.snapshot(&commit), commit }), Err))
}

/// Removes a blob that has the right size and another content, so that it comes again.
fn discard_damaged(cache: &ModelCache, blob: &Path, file: &RemoteFile) -> Result<(), HubError> {
    if !is_there(blob, file.size) {
        return Ok(());
    }
    match cache.verified(blob, file) {
        Err(error @ HubError::Damaged { .. }) => {
            tracing::warn!(file = file.name, %error, "a damaged file of the cache is downloaded again");
            std::fs::remove_file(blob).map_err(HubError::file(blob))
        }
        verified => verified,
    }
}

/// Whether a blob is there with its size.
fn is_there(blob: &Path, size: u64) -> bool {
    std::fs::metadata(blob).is_ok_and(|found| found.len() == size)
}

fn refuse_full_disk(cache: &Path, model: &ModelName, bytes: u64) -> Result<(), HubError> {
    match free_space(cache).ok().map(|space| space.free) {
        Some(free) if free < bytes => {
            let allowed = format!("at most the {} that are free in {}", Size(free), cache.display());
            Err(FieldError::new(format!("size of {model}"), Size(bytes), allowed).into())
        }
        _ => Ok(()),
    }
}
