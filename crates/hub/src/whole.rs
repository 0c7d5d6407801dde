//! Whether the cache has all that a model needs of a commit, with the content that the hub listed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use evenkeel_host::{read_optional, replace};
use evenkeel_model_folder::{Folder, WeightFiles, name};

use crate::cache::{ModelCache, create_parent};
use crate::error::HubError;
use crate::listing::{Digest, Listing, RemoteFile};
use crate::needed;
use crate::verify::digest_of;

/// Largest list of files that is read, in bytes.
const MAX_LISTING: u64 = 64 << 20;
/// Files without which prompts or end tokens are other ones, and which other programs may have left out.
const USUAL: [&str; 2] = [name::TOKENIZER_CONFIG, name::GENERATION_CONFIG];
/// A file of every repository of the hub.
const GIT_ATTRIBUTES: &str = ".gitattributes";

impl ModelCache {
    /// Keeps the hub's list of the files of a commit, by which the cache is judged when the hub cannot be asked. A
    /// cache that cannot be written to goes without.
    pub(crate) fn keep_listing(&self, commit: &str, answer: &[u8]) {
        let path = self.listing_path(commit);
        let kept = create_parent(&path).and_then(|()| replace(&path, answer).map_err(HubError::file(&path)));
        if let Err(error) = kept {
            tracing::debug!(%error, "the list of a model's files is not kept");
        }
    }

    fn listing_path(&self, commit: &str) -> PathBuf {
        self.own().join(commit).with_extension("json")
    }

    fn kept_listing(&self, commit: &str) -> Option<Listing> {
        let path = self.listing_path(commit);
        let answer = read_optional(&path, MAX_LISTING).ok()??;
        Listing::parse(&path.display().to_string(), &answer).ok().filter(|listing| listing.commit == commit)
    }

    /// What the folder of a commit lacks; `None` where it has all that a model needs.
    ///
    /// # Errors
    /// A damaged file.
    pub(crate) fn lack(&self, repository: &str, commit: &str) -> Result<Option<String>, HubError> {
        match self.kept_listing(commit) {
            Some(listing) => self.lack_of_listed(repository, &listing),
            None => self.lack_of_usual(commit),
        }
    }

    fn lack_of_listed(&self, repository: &str, listing: &Listing) -> Result<Option<String>, HubError> {
        let folder = self.snapshot(&listing.commit);
        let absent = |files: &[&RemoteFile]| {
            let absent = files.iter().find(|file| !folder.join(&file.name).is_file())?;
            Some(format!("{} is absent, which its repository has", absent.name))
        };
        let small = needed::small_files(repository, listing)?;
        if let Some(lack) = absent(&small) {
            return Ok(Some(lack));
        }
        let weights = needed::weights(repository, listing, self.shards(&listing.commit)?)?;
        if let Some(lack) = absent(&weights) {
            return Ok(Some(lack));
        }
        for file in small.into_iter().chain(weights) {
            self.verified(&folder.join(&file.name), file)?;
        }
        Ok(None)
    }

    /// Judges a commit that another program downloaded by what every model has.
    fn lack_of_usual(&self, commit: &str) -> Result<Option<String>, HubError> {
        let folder = self.snapshot(commit);
        let is_there = |file: &str| folder.join(file).is_file();
        if let Some(file) = [name::CONFIG, name::TOKENIZER].into_iter().find(|file| !is_there(file)) {
            return Ok(Some(format!("{file} is absent")));
        }
        let weights = match WeightFiles::read(&Folder::new(&folder)) {
            Ok(weights) if !weights.is_empty() => weights,
            Ok(_) => return Ok(Some("weights are absent".to_owned())),
            Err(error) => return Ok(Some(error.to_string())),
        };
        if let Some(missing) = weights.missing().first() {
            return Ok(Some(format!("{missing} is absent")));
        }
        let has_template = [name::CHAT_TEMPLATE, name::CHAT_TEMPLATE_JSON].into_iter().any(is_there)
            || fs::read_to_string(folder.join(name::TOKENIZER_CONFIG))
                .is_ok_and(|text| text.contains("\"chat_template\""));
        let usual = USUAL.into_iter().filter(|file| !is_there(file));
        let mut usual = usual.chain((!has_template).then_some(name::CHAT_TEMPLATE));
        // huggingface_hub notes what it asked for in vain. Hardly any program asks for `GIT_ATTRIBUTES` by itself: where it
        // is, the repository was downloaded, or its download was interrupted. Every tokenizer has a configuration.
        let asked_in_vain = self.folder().join(".no_exist").join(commit);
        let is_known_absent = |file: &str| {
            (file != name::TOKENIZER_CONFIG && is_there(GIT_ATTRIBUTES)) || asked_in_vain.join(file).is_file()
        };
        if let Some(file) = usual.find(|file| !is_known_absent(file)) {
            return Ok(Some(format!("{file} is absent, and nothing in the cache says that its repository has none")));
        }
        let files = fs::read_dir(&folder).map_err(HubError::file(&folder))?.filter_map(Result::ok);
        let small = files
            .map(|file| file.path())
            .filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(needed::is_small));
        for path in small.chain(weights.paths()) {
            if let Some(file) = linked(&path) {
                self.verified(&path, &file)?;
            }
        }
        Ok(None)
    }

    /// Compares a file with its digest, unless it was compared before and has not been written to since.
    ///
    /// # Errors
    /// Another content, or a file that cannot be read.
    pub(crate) fn verified(&self, path: &Path, file: &RemoteFile) -> Result<(), HubError> {
        let found = state(path)?;
        let note = self.own().join("verified").join(file.digest.hex());
        if read_optional(&note, 100).ok().flatten().is_some_and(|noted| noted == found.as_bytes()) {
            return Ok(());
        }
        let digest = digest_of(path, &file.digest)?;
        if digest != file.digest.hex() {
            let wanted = file.digest.hex().to_owned();
            // The blob, where this is a link to it.
            let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
            return Err(HubError::Damaged { path, found: digest, wanted });
        }
        // Without a note it is compared again the next time.
        if create_parent(&note).is_ok() {
            let _ = replace(&note, found);
        }
        Ok(())
    }
}

/// Size and time of the last change.
fn state(path: &Path) -> Result<String, HubError> {
    let found = fs::metadata(path).map_err(HubError::file(path))?;
    let changed = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    Ok(format!("{} {}", found.len(), changed.as_nanos()))
}

/// What the name of its blob says of a file; `None` of one that is not a link to a blob.
fn linked(path: &Path) -> Option<RemoteFile> {
    let target = fs::read_link(path).ok()?;
    let digest = Digest::of_blob(target.file_name()?.to_str()?)?;
    let name = path.file_name()?.to_string_lossy().into_owned();
    Some(RemoteFile { name, size: fs::metadata(path).ok()?.len(), digest })
}
