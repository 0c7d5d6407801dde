//! A copy of a tied model in which the head is written out, for engines that reload only what a file has.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use evenkeel_errors::FieldError;
use evenkeel_host::{FileDigest, Size, free_space, sync_folder};
use serde_json::{Value, json};

use crate::config::ConfigFile;
use crate::error::FolderError;
use crate::folder::{COMPANION_FILES, Folder, name};
use crate::tensor_digest::{FloatType, TensorPart, tensor_digest};
use crate::tied_head::{EMBEDDING, HEAD, HeadForm, with_head_written_out};
use crate::weights::{StoredTensor, WeightFiles};

/// The result of [`write_untied`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UntiedCopy {
    /// Bytes of the head: what file and engine take more than with the source.
    pub head_bytes: u64,
    /// Whether the copy was written now; false if a complete one was found.
    pub written: bool,
}

/// Copies a tied model to the folder `to`, completely or not at all: its weights unchanged, the embedding once more as
/// `lm_head.weight`, `config.json` with `tie_word_embeddings: false` and a mark of the copy, tokenizer and chat
/// templates. A complete copy of this model stays as it is.
///
/// # Errors
/// An untied model, or one with a written-out head that is not the embedding; a folder `to` with anything
/// else in it; a file that cannot be read or written, or a disk without room.
pub fn write_untied(source: &Folder, to: &Path) -> Result<UntiedCopy, FolderError> {
    let plan = Plan::of(source)?;
    if fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_some()) {
        return if plan.is_complete(to) {
            Ok(UntiedCopy { head_bytes: plan.embedding.bytes, written: false })
        } else {
            let allowed = "a folder that does not exist yet, or a complete copy of this model";
            Err(FolderError::of(to, FieldError::new("the folder", "not empty and no copy of this model", allowed)))
        };
    }
    let failed = |error: io::Error| FolderError::of(to, error);
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(failed)?;
    let needed = plan.bytes();
    let free = free_space(parent).map_err(failed)?.free;
    if free < needed {
        let reason = format!("needed: {}, free on the disk: {}", Size(needed), Size(free));
        return Err(failed(io::Error::new(io::ErrorKind::StorageFull, reason)));
    }
    let mut partial = std::ffi::OsString::from(".");
    partial.push(to.file_name().unwrap_or_default());
    partial.push(".partial");
    let partial = to.with_file_name(partial);
    if partial.exists() {
        fs::remove_dir_all(&partial).map_err(failed)?;
    }
    let written = fs::create_dir(&partial)
        .and_then(|()| plan.write(&partial))
        .and_then(|()| sync_folder(&partial))
        .and_then(|()| fs::rename(&partial, to))
        .and_then(|()| sync_folder(parent));
    if let Err(error) = written {
        // The first error is reported, whether or not the partial folder can be removed.
        let _ = fs::remove_dir_all(&partial);
        return Err(failed(error));
    }
    Ok(UntiedCopy { head_bytes: plan.embedding.bytes, written: true })
}

/// What a copy consists of.
struct Plan {
    config: Value,
    index: Value,
    embedding: StoredTensor,
    /// Name of the file with the head; `None` if the source has it already.
    head_file: Option<&'static str>,
    /// Files that are copied, and their names.
    files: Vec<(PathBuf, String)>,
}

impl Plan {
    fn of(source: &Folder) -> Result<Self, FolderError> {
        let config_path = source.path().join(name::CONFIG);
        let config = ConfigFile::read(source)?.into_json();
        let refuse = |error: FieldError| FolderError::of(&config_path, error);
        let allowed = "true: a model with a separate head is loaded as it is";
        match HeadForm::of(&config) {
            HeadForm::Tied => {}
            HeadForm::Own => return Err(refuse(FieldError::new("tie_word_embeddings", false, allowed))),
            HeadForm::WrittenOut => {
                return Err(refuse(FieldError::new("tied_head_written_out", true, "false: the folder is such a copy")));
            }
        }
        let weights = WeightFiles::read(source)?;
        let tensors = weights.tensors()?;
        let embedding = tensors.get(EMBEDDING).cloned().ok_or_else(|| {
            FolderError::of(source.path(), FieldError::missing(EMBEDDING, "the embedding of a tied model"))
        })?;
        if let Some(head) = tensors.get(HEAD) {
            check_same(head, &embedding)?;
        }
        let single = weights.paths().count() == 1;
        let has_head = tensors.contains_key(HEAD);
        let head_file = match (has_head, single) {
            (true, _) => None,
            (false, true) => Some("model-00002-of-00002.safetensors"),
            (false, false) => Some("model-head.safetensors"),
        };
        // transformers would read a `model.safetensors` without looking at the index.
        let named = |path: &Path| match (single, has_head) {
            (true, false) => "model-00001-of-00002.safetensors".to_owned(),
            (true, true) => "model-00001-of-00001.safetensors".to_owned(),
            (false, _) => file_name(path),
        };
        let mut weight_map: BTreeMap<String, String> =
            tensors.iter().map(|(tensor, stored)| (tensor.clone(), named(&stored.path))).collect();
        weight_map.extend(head_file.map(|file| (HEAD.to_owned(), file.to_owned())));
        let total: u64 = tensors.values().map(|tensor| tensor.bytes).sum();
        let total = if has_head { total } else { total + embedding.bytes };
        let index = json!({"metadata": {"total_size": total}, "weight_map": weight_map});
        let mut files: Vec<_> = weights.paths().map(|path| (path.clone(), named(&path))).collect();
        let companions = COMPANION_FILES.iter().map(|file| (source.path().join(file), (*file).to_owned()));
        files.extend(companions.filter(|(path, _)| path.exists()));
        if let Ok(templates) = fs::read_dir(source.path().join(name::CHAT_TEMPLATES)) {
            let templates = templates.flatten().map(|entry| entry.path()).filter(|path| path.is_file());
            files.extend(templates.map(|path| {
                let to = format!("{}/{}", name::CHAT_TEMPLATES, file_name(&path));
                (path, to)
            }));
        }
        Ok(Self { config: with_head_written_out(config), index, embedding, head_file, files })
    }

    fn bytes(&self) -> u64 {
        let size = |path: &PathBuf| fs::metadata(path).map_or(0, |metadata| metadata.len());
        self.files.iter().map(|(path, _)| size(path)).sum::<u64>() + self.embedding.bytes
    }

    fn write(&self, folder: &Path) -> io::Result<()> {
        for (from, to) in &self.files {
            let to = folder.join(to);
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::copy(from, &to)?;
            File::open(to)?.sync_all()?;
        }
        if let Some(head) = self.head_file {
            write_head(&folder.join(head), &self.embedding)?;
        }
        evenkeel_host::write(&folder.join(name::WEIGHTS_INDEX), serde_json::to_vec_pretty(&self.index)?)?;
        evenkeel_host::write(&folder.join(name::CONFIG), serde_json::to_vec_pretty(&self.config)?)
    }

    /// Whether a folder is what [`write`](Self::write) would write.
    fn is_complete(&self, folder: &Path) -> bool {
        let copy = Folder::new(folder);
        let json = |name: &str| copy.json(name).ok().flatten();
        let same =
            |from: &Path, to: &Path| matches!((FileDigest::of(from), FileDigest::of(to)), (Ok(a), Ok(b)) if a == b);
        let head = || {
            let tensors = WeightFiles::read(&copy).and_then(|files| files.tensors());
            tensors.is_ok_and(|tensors| tensors.get(HEAD).is_some_and(|head| check_same(head, &self.embedding).is_ok()))
        };
        json(name::CONFIG).as_ref() == Some(&self.config)
            && json(name::WEIGHTS_INDEX).as_ref() == Some(&self.index)
            && self.files.iter().all(|(from, to)| same(from, &folder.join(to)))
            && head()
    }
}

/// Refuses a head that is not the embedding, bit by bit.
pub(crate) fn check_same(head: &StoredTensor, embedding: &StoredTensor) -> Result<(), FolderError> {
    let differs = |what: String| {
        let allowed = format!("that of {EMBEDDING}, to which config.json ties it");
        Err(FolderError::of(&head.path, FieldError::new(HEAD, what, allowed)))
    };
    if (&head.dtype, &head.shape) != (&embedding.dtype, &embedding.shape) {
        return differs(format!("{} of {:?}", head.dtype, head.shape));
    }
    let digest = |tensor: &StoredTensor| tensor_digest(tensor, &TensorPart::whole(tensor), FloatType::F32);
    if digest(head)? == digest(embedding)? { Ok(()) } else { differs("another matrix".to_owned()) }
}

/// A file with the values of the embedding as the head.
fn write_head(path: &Path, embedding: &StoredTensor) -> io::Result<()> {
    let info = json!({"dtype": embedding.dtype, "shape": embedding.shape, "data_offsets": [0, embedding.bytes]});
    // Python readers refuse a file without the format of its framework.
    let mut header = serde_json::to_vec(&json!({"__metadata__": {"format": "pt"}, HEAD: info}))?;
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut file = File::create(path)?;
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(&header)?;
    let mut from = File::open(&embedding.path)?;
    from.seek(SeekFrom::Start(embedding.offset))?;
    if io::copy(&mut from.take(embedding.bytes), &mut file)? != embedding.bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    file.sync_all()
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tied model of two tensors, in one file.
    fn model(dir: &Path, config: &str, head: Option<f32>) -> Folder {
        fs::create_dir_all(dir.join("additional_chat_templates")).unwrap();
        let mut tensors = vec![(EMBEDDING, [1.5f32; 6]), ("model.norm.weight", [1.0; 6])];
        tensors.extend(head.map(|value| (HEAD, [value; 6])));
        let entries = tensors.iter().enumerate().map(|(at, (name, _))| {
            let begin = at * 24;
            let end = at * 24 + 24;
            format!(r#""{name}":{{"dtype":"F32","shape":[3,2],"data_offsets":[{begin},{end}]}}"#)
        });
        let header = format!("{{{}}}", entries.collect::<Vec<_>>().join(","));
        let values = tensors.iter().flat_map(|(_, values)| values.iter().flat_map(|value| value.to_le_bytes()));
        let bytes = (header.len() as u64).to_le_bytes().into_iter().chain(header.bytes()).chain(values);
        fs::write(dir.join(name::WEIGHTS), bytes.collect::<Vec<_>>()).unwrap();
        fs::write(dir.join(name::CONFIG), config).unwrap();
        fs::write(dir.join("tokenizer.json"), "{}").unwrap();
        fs::write(dir.join("additional_chat_templates/a.jinja"), "x").unwrap();
        Folder::new(dir)
    }

    const TIED: &str = r#"{"vocab_size": 3, "tie_word_embeddings": true}"#;

    #[test]
    fn the_copy_has_every_tensor_the_head_and_the_other_files() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("model");
        let to = dir.path().join("deep/untied");
        let source = model(&from, TIED, None);
        assert_eq!(write_untied(&source, &to).unwrap(), UntiedCopy { head_bytes: 24, written: true });
        let copy = Folder::new(&to);
        let tensors = WeightFiles::read(&copy).unwrap().tensors().unwrap();
        let names: Vec<_> = tensors.keys().map(String::as_str).collect();
        assert_eq!(names, [HEAD, EMBEDDING, "model.norm.weight"]);
        check_same(&tensors[HEAD], &tensors[EMBEDDING]).unwrap();
        assert_eq!(HeadForm::of(ConfigFile::read(&copy).unwrap().json()), HeadForm::WrittenOut);
        assert!(!to.join(name::WEIGHTS).exists(), "transformers would read it alone");
        assert_eq!(fs::read_to_string(to.join("additional_chat_templates/a.jinja")).unwrap(), "x");
        assert!(!dir.path().join("deep/.untied.partial").exists());
    }

    #[test]
    fn a_complete_copy_is_left_and_anything_else_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("model");
        let to = dir.path().join("untied");
        let source = model(&from, TIED, None);
        write_untied(&source, &to).unwrap();
        assert!(!write_untied(&source, &to).unwrap().written);
        let head = to.join("model-00002-of-00002.safetensors");
        let mut bytes = fs::read(&head).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&head, bytes).unwrap();
        let error = write_untied(&source, &to).unwrap_err().to_string();
        assert!(error.contains("not empty and no copy of this model"), "{error}");
    }

    #[test]
    fn only_a_tied_model_is_copied() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("model");
        let to = dir.path().join("untied");
        let refused = |config: &str, head| write_untied(&model(&from, config, head), &to).unwrap_err().to_string();
        let error = refused(r#"{"tie_word_embeddings": false}"#, None);
        assert!(error.contains("tie_word_embeddings is false, allowed: true"), "{error}");
        let error = refused(r#"{"tie_word_embeddings": false, "tied_head_written_out": true}"#, None);
        assert!(error.contains("tied_head_written_out is true"), "{error}");
        let error = refused(TIED, Some(2.0));
        assert!(
            error.contains("lm_head.weight is another matrix, allowed: that of model.embed_tokens.weight"),
            "{error}"
        );
        assert!(!to.exists());
        assert!(write_untied(&model(&from, TIED, Some(1.5)), &to).unwrap().written, "a head that is the embedding");
        assert!(!write_untied(&Folder::new(&from), &to).unwrap().written);
    }
}
