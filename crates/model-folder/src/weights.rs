//! The safetensors files of a folder: which there are, names and shapes of their tensors, and their digest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use evenkeel_errors::FieldError;
use evenkeel_host::{FileDigest, open, sha256};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{FileProblem, FolderError, HeaderError};
use crate::folder::{Folder, name};

/// Longest header that is read, in bytes: what the safetensors library itself allows.
const MAX_HEADER_BYTES: u64 = 100 << 20;

/// Shape of every tensor by its name.
pub type TensorShapes = BTreeMap<String, Vec<u64>>;

/// A tensor in a safetensors file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTensor {
    pub path: PathBuf,
    /// The type of its values as safetensors names it, such as `BF16`.
    pub dtype: String,
    pub shape: Vec<u64>,
    /// Where its values begin in the file.
    pub offset: u64,
    pub bytes: u64,
}

/// The entry of a tensor in the header of a safetensors file.
#[derive(Deserialize)]
pub(crate) struct TensorInfo {
    #[serde(default)]
    pub(crate) dtype: String,
    pub(crate) shape: Vec<u64>,
    /// Where its bytes begin and end, after the header.
    pub(crate) data_offsets: [u64; 2],
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// The safetensors files of a model: the shards that the index names, else `model.safetensors`, else all that the
/// folder has. Other files of a folder with an index are none of the model's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightFiles {
    folder: PathBuf,
    names: Vec<String>,
    /// The index of its file, by the name of a tensor; absent without an index.
    file_of: Option<BTreeMap<String, usize>>,
}

impl WeightFiles {
    /// Reads the index, if there is one, and looks for the files.
    ///
    /// # Errors
    /// A folder or index that cannot be read, or an index that names a file outside of the folder.
    pub fn read(folder: &Folder) -> Result<Self, FolderError> {
        let path = folder.path();
        let found = |names, file_of| Self { folder: path.to_owned(), names, file_of };
        if let Some(text) = folder.text(name::WEIGHTS_INDEX)? {
            let index_path = path.join(name::WEIGHTS_INDEX);
            let index: Index = serde_json::from_str(&text)
                .map_err(|error| FolderError::of(&index_path, FileProblem::WeightMap(error)))?;
            let names: BTreeSet<&String> = index.weight_map.values().collect();
            let names: Vec<String> = names.into_iter().cloned().collect();
            for (tensor, file) in &index.weight_map {
                // Shards must be in the folder itself.
                if Path::new(file).components().count() != 1 || file.contains("..") {
                    let field = format!("the file of tensor `{tensor}`");
                    let allowed = "the name of a file in the folder";
                    return Err(FolderError::of(index_path, FieldError::new(field, format!("`{file}`"), allowed)));
                }
            }
            let index_of = |file: &String| names.binary_search(file).unwrap_or_default();
            let file_of = index.weight_map.iter().map(|(tensor, file)| (tensor.clone(), index_of(file))).collect();
            return Ok(found(names, Some(file_of)));
        }
        if path.join(name::WEIGHTS).exists() {
            return Ok(found(vec![name::WEIGHTS.to_owned()], None));
        }
        let unreadable = |error: std::io::Error| FolderError::of(path, error);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(path).map_err(unreadable)? {
            let file = entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned();
            if file.ends_with(".safetensors") {
                names.push(file);
            }
        }
        names.sort();
        Ok(found(names, None))
    }

    /// Whether the folder has no weights, and no index that names any.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Why a folder without weights is none of a model: by what it has instead.
    pub fn absence(&self) -> FieldError {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let names: BTreeSet<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        absent_weights(format!("weights of {}", self.folder.display()), names.iter().map(String::as_str))
    }

    /// The files, in the order of their names, whether they are there or not.
    pub fn paths(&self) -> impl Iterator<Item = PathBuf> + '_ {
        self.names.iter().map(|name| self.folder.join(name))
    }

    /// The index in [`paths`](Self::paths) of the file of each tensor, by its name; absent without an index of shards.
    pub fn file_of(&self) -> Option<&BTreeMap<String, usize>> {
        self.file_of.as_ref()
    }

    /// The names of files that are not there.
    pub fn missing(&self) -> Vec<String> {
        self.names.iter().filter(|name| !self.folder.join(name).exists()).cloned().collect()
    }

    /// Names and shapes of all tensors, from the headers of the files.
    ///
    /// # Errors
    /// A file that is not a complete safetensors file.
    pub fn shapes(&self) -> Result<TensorShapes, FolderError> {
        Ok(self.tensors()?.into_iter().map(|(name, tensor)| (name, tensor.shape)).collect())
    }

    /// Where each tensor is, by its name, from the headers of the files.
    ///
    /// # Errors
    /// A file that is not a complete safetensors file.
    pub fn tensors(&self) -> Result<BTreeMap<String, StoredTensor>, FolderError> {
        let mut tensors = BTreeMap::new();
        for path in self.paths() {
            read_header(&path, &mut tensors).map_err(|problem| FolderError::of(&path, problem))?;
        }
        Ok(tensors)
    }
}

/// How pickled weights end.
const PICKLED: [&str; 5] = [".bin", ".pt", ".pth", ".ckpt", ".pkl"];

/// Why files without safetensors are no model: `field` is what they have instead.
pub fn absent_weights<'a>(field: String, files: impl Iterator<Item = &'a str> + Clone) -> FieldError {
    let allowed = format!("{}, or shards with {}", name::WEIGHTS, name::WEIGHTS_INDEX);
    let ending = |endings: &[&str]| files.clone().find(|file| endings.iter().any(|ending| file.ends_with(ending)));
    match (ending(&[".gguf"]), ending(&PICKLED)) {
        (Some(file), _) => {
            FieldError::new(field, file, format!("{allowed} (a GGUF file: evenkeel model import FILE.gguf DIR)"))
        }
        (_, Some(file)) => FieldError::new(field, file, format!("{allowed}: a pickled file runs code when it is read")),
        _ => FieldError::missing(field, allowed),
    }
}

/// The digest that names published weights: `sha256:` and the SHA-256 of the hex digests of the weight files, one after
/// the other in the order of their names. The configuration of an adapter counts as well.
///
/// # Errors
/// A folder or file that cannot be read.
pub fn weights_digest(folder: &Folder) -> Result<String, FolderError> {
    weight_digests(folder).map(weights_digest_of)
}

/// The digests of the files that [`weights_digest`] is about, by their names.
///
/// # Errors
/// A folder or file that cannot be read.
pub fn weight_digests(folder: &Folder) -> Result<BTreeMap<String, FileDigest>, FolderError> {
    let weights = WeightFiles::read(folder)?;
    let config = (weights.names == [name::ADAPTER_WEIGHTS]).then(|| name::ADAPTER_CONFIG.to_owned());
    let digests = config.into_iter().chain(weights.names).map(|name| {
        let file = folder.path().join(&name);
        let digest = FileDigest::of(&file).map_err(|error| FolderError::of(&file, error))?;
        Ok((name, digest))
    });
    digests.collect()
}

/// The digest that [`weights_digest`] gives, from the digests of the weight files with their paths or names within the
/// folder.
pub fn weights_digest_of<P: Ord>(files: impl IntoIterator<Item = (P, FileDigest)>) -> String {
    let by_name: BTreeMap<P, FileDigest> = files.into_iter().collect();
    sha256(by_name.into_values().map(|digest| digest.sha256).collect::<String>())
}

/// The digest that [`weights_digest`] gives, from all files of a folder: their names, digests, and whether they hold
/// tensors. Files with tensors count, and so does the configuration of an adapter.
pub fn weights_digest_among<'a>(files: impl IntoIterator<Item = (&'a str, FileDigest, bool)>) -> String {
    let files: BTreeMap<&str, (FileDigest, bool)> =
        files.into_iter().map(|(name, digest, has_tensors)| (name, (digest, has_tensors))).collect();
    let is_adapter = files.get(name::ADAPTER_WEIGHTS).is_some_and(|(_, has_tensors)| *has_tensors);
    let counts = |name: &str, has_tensors| has_tensors || is_adapter && name == name::ADAPTER_CONFIG;
    let counted = files.into_iter().filter(|(name, (_, has_tensors))| counts(name, *has_tensors));
    weights_digest_of(counted.map(|(name, (digest, _))| (name, digest)))
}

/// The digest of a folder's files, by which whoever fetches the folder compares all of them: `sha256:` and the SHA-256 of
/// a line for each file, in the order of the names: name, NUL, hex digits of the file's SHA-256, line feed.
pub fn files_digest<'a>(files: impl IntoIterator<Item = (&'a str, FileDigest)>) -> String {
    let by_name: BTreeMap<&str, FileDigest> = files.into_iter().collect();
    sha256(by_name.into_iter().map(|(name, digest)| format!("{name}\0{}\n", digest.sha256)).collect::<String>())
}

/// [`files_digest`] of a folder in which the `known` files, by their names, have been read already. Files whose names
/// begin with a dot do not count: nobody fetches them.
///
/// # Errors
/// A folder or file that cannot be read.
pub fn folder_files_digest(folder: &Folder, known: &BTreeMap<String, FileDigest>) -> Result<String, FolderError> {
    let path = folder.path();
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(path).map_err(|error| FolderError::of(path, error))? {
        let file = entry.map_err(|error| FolderError::of(path, error))?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.starts_with('.') {
            let digest = known.get(&name).cloned().map_or_else(|| FileDigest::of(&file), Ok);
            files.insert(name, digest.map_err(|error| FolderError::of(&file, error))?);
        }
    }
    Ok(files_digest(files.iter().map(|(name, digest)| (name.as_str(), digest.clone()))))
}

/// Names and shapes of all tensors, from the headers of the files.
///
/// # Errors
/// A folder that cannot be read, or a file that is not a complete safetensors file.
pub fn tensor_shapes(folder: &Folder) -> Result<TensorShapes, FolderError> {
    WeightFiles::read(folder)?.shapes()
}

fn read_header(path: &Path, tensors: &mut BTreeMap<String, StoredTensor>) -> Result<(), FileProblem> {
    let (mut file, entries) = open_tensors(path)?;
    let begin = file.stream_position()?;
    tensors.extend(entries.into_iter().map(|(name, TensorInfo { dtype, shape, data_offsets: [first, last] })| {
        let offset = first.saturating_add(begin);
        let bytes = last.saturating_sub(first);
        (name, StoredTensor { path: path.to_owned(), dtype, shape, offset, bytes })
    }));
    Ok(())
}

/// A safetensors file behind its header, and the entries of its tensors.
pub(crate) fn open_tensors(path: &Path) -> Result<(File, BTreeMap<String, TensorInfo>), FileProblem> {
    let (file, length, header) = open_header(path)?;
    let mut tensors = BTreeMap::new();
    let mut end = 0;
    for (name, info) in header {
        if name == METADATA {
            continue;
        }
        let info: TensorInfo = match serde_json::from_str(info.get()) {
            Ok(info) => info,
            Err(error) => return Err(HeaderError::Tensor { name, error }.into()),
        };
        end = end.max(info.data_offsets[1]);
        tensors.insert(name, info);
    }
    let expected = end.saturating_add(8 + length);
    let found = file.metadata()?.len();
    if found < expected {
        return Err(HeaderError::Short { found, expected }.into());
    }
    Ok((file, tensors))
}

/// The entry of a header that is no tensor.
const METADATA: &str = "__metadata__";

/// What a header says, by name.
type Header = BTreeMap<String, Box<RawValue>>;

/// A file after its header, the length of the header, and what it says.
fn open_header(path: &Path) -> Result<(File, u64, Header), FileProblem> {
    let mut file = open(path, u64::MAX)?;
    let mut length = [0; 8];
    file.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER_BYTES {
        return Err(HeaderError::TooLong { bytes: length, max: MAX_HEADER_BYTES }.into());
    }
    let mut header = Vec::new();
    (&mut file).take(length).read_to_end(&mut header)?;
    Ok((file, length, serde_json::from_slice(&header).map_err(HeaderError::Json)?))
}

/// What the header of a safetensors file says besides its tensors; empty where it says nothing that is text.
///
/// # Errors
/// A file that is not a safetensors file.
pub fn tensors_metadata(path: &Path) -> Result<BTreeMap<String, String>, FolderError> {
    let (_, _, header) = open_header(path).map_err(|problem| FolderError::of(path, problem))?;
    let said = header.get(METADATA).and_then(|value| serde_json::from_str(value.get()).ok());
    Ok(said.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn safetensors(header: &str, data: usize) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.resize(bytes.len() + data, 0);
        bytes
    }

    const FIRST: &str =
        r#"{"__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}"#;
    const SECOND: &str = r#"{"b": {"dtype": "BF16", "shape": [], "data_offsets": [0, 2]}}"#;

    #[test]
    fn shapes_and_digest_cover_every_file_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let one = safetensors(FIRST, 24);
        let two = safetensors(SECOND, 2);
        std::fs::write(dir.path().join("model-2.safetensors"), &two).unwrap();
        std::fs::write(dir.path().join("model-1.safetensors"), &one).unwrap();
        std::fs::write(dir.path().join("model.bin"), "not read").unwrap();
        let folder = Folder::new(dir.path());
        let shapes = tensor_shapes(&folder).unwrap();
        assert_eq!(shapes, TensorShapes::from([("a".into(), vec![2, 3]), ("b".into(), vec![])]));
        let hex = |bytes: &[u8]| sha256(bytes).trim_start_matches("sha256:").to_owned();
        assert_eq!(weights_digest(&folder).unwrap(), sha256(hex(&one) + &hex(&two)));
        let described = [
            ("model-1.safetensors", &one[..], true),
            ("model-2.safetensors", &two, true),
            ("model.bin", b"not read", false),
        ];
        let described = described.map(|(name, bytes, has_tensors)| (name, FileDigest::of_bytes(bytes), has_tensors));
        assert_eq!(weights_digest(&folder).unwrap(), weights_digest_among(described));
    }

    #[test]
    fn an_index_says_which_files_are_the_models() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path());
        assert!(WeightFiles::read(&folder).unwrap().is_empty());
        let write = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).unwrap();
        let index =
            r#"{"weight_map": {"b": "model-2.safetensors", "a": "model-1.safetensors", "c": "model-2.safetensors"}}"#;
        write("model.safetensors.index.json", index.as_bytes());
        write("model-1.safetensors", &safetensors(FIRST, 24));
        write("stray.safetensors", b"not the model's");
        let weights = WeightFiles::read(&folder).unwrap();
        let names = ["model-1.safetensors", "model-2.safetensors"];
        assert_eq!(weights.paths().collect::<Vec<_>>(), names.map(|name| dir.path().join(name)));
        assert_eq!(weights.missing(), ["model-2.safetensors"]);
        let file_of = [("a", 0), ("b", 1), ("c", 1)].map(|(tensor, file)| (tensor.to_owned(), file));
        assert_eq!(weights.file_of(), Some(&BTreeMap::from(file_of)));
        write("model-2.safetensors", &safetensors(SECOND, 2));
        assert_eq!(weights.shapes().unwrap().len(), 2);
        assert!(weights_digest(&folder).unwrap().starts_with("sha256:"));

        for (index, words) in [
            ("{", "is not a weight map"),
            (r#"{"weight_map": {"a": "../a.safetensors"}}"#, "the file of tensor `a` is `../a.safetensors`, allowed"),
            (r#"{"weight_map": {"a": "sub/a.safetensors"}}"#, "the name of a file in the folder"),
        ] {
            write("model.safetensors.index.json", index.as_bytes());
            let error = WeightFiles::read(&folder).unwrap_err().to_string();
            assert!(error.contains("index.json: ") && error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_folder_without_weights_is_refused_by_what_it_has_instead() {
        let dir = tempfile::tempdir().unwrap();
        let absence = || WeightFiles::read(&Folder::new(dir.path())).unwrap().absence().to_string();
        assert!(absence().contains("is absent, required: model.safetensors, or shards with"), "{}", absence());
        std::fs::write(dir.path().join("pytorch_model.bin"), "").unwrap();
        let words =
            "is pytorch_model.bin, allowed: model.safetensors, or shards with model.safetensors.index.json: a pickled";
        assert!(absence().contains(words), "{}", absence());
        std::fs::write(dir.path().join("model.gguf"), "").unwrap();
        assert!(absence().contains("is model.gguf") && absence().contains("evenkeel model import"), "{}", absence());
    }

    #[test]
    fn broken_files_are_named() {
        let refused = [
            (safetensors(FIRST, 23), "bytes, its header says"),
            (safetensors("{", 0), "its header is not JSON"),
            (safetensors(r#"{"a": {"shape": [2]}}"#, 0), "tensor a:"),
            (u64::MAX.to_le_bytes().to_vec(), "allowed: at most 104857600"),
            (safetensors(r#"{"a": {"shape": [], "data_offsets": [0, 18446744073709551615]}}"#, 0), "its header says"),
            (vec![1, 2, 3], "model.safetensors"),
        ];
        for (bytes, words) in refused {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("model.safetensors"), bytes).unwrap();
            let error = tensor_shapes(&Folder::new(dir.path())).unwrap_err().to_string();
            assert!(error.contains("model.safetensors") && error.contains(words), "{error}");
        }
    }

    #[test]
    fn the_digest_of_all_files_sees_every_file_and_nothing_hidden() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path());
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        let digest = || folder_files_digest(&folder, &BTreeMap::new()).unwrap();
        write("b", "two");
        write("a", "one");
        let hex = |text: &str| FileDigest::of_bytes(text.as_bytes()).sha256;
        let whole = digest();
        assert_eq!(whole, sha256(format!("a\0{}\nb\0{}\n", hex("one"), hex("two"))));
        write(".hidden", "x");
        assert_eq!(digest(), whole);
        let known = BTreeMap::from([("a".to_owned(), FileDigest::of_bytes(b"other"))]);
        assert_ne!(folder_files_digest(&folder, &known).unwrap(), whole, "what is known is not read again");
        write("b", "2");
        assert_ne!(digest(), whole);
        write("b", "two");
        write("c", "");
        assert_ne!(digest(), whole);
    }
}
