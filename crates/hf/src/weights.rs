//! The safetensors files of a folder: which there are, names and shapes of their tensors, and their digest.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use evenkeel_files::{FileDigest, sha256};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::FolderError;
use crate::folder::Folder;

/// Longest header that is read, in bytes: what the safetensors library itself allows.
const MAX_HEADER_BYTES: u64 = 100 << 20;

/// Shape of every tensor by its name.
pub type TensorShapes = BTreeMap<String, Vec<u64>>;

#[derive(Deserialize)]
struct TensorInfo {
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// The safetensors files, in the order of their names.
///
/// # Errors
/// A folder that cannot be read.
pub fn weight_files(folder: &Folder) -> Result<Vec<PathBuf>, FolderError> {
    let path = folder.path();
    let unreadable = |error: std::io::Error| FolderError::file(path, format_args!("cannot be read: {error}"));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        if file.extension().is_some_and(|extension| extension == "safetensors") {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// The digest that names published weights: `sha256:` and the SHA-256 of the hex digests of the weight files, one after the other in
/// the order of their names.
///
/// # Errors
/// A folder or file that cannot be read.
pub fn weights_digest(folder: &Folder) -> Result<String, FolderError> {
    let digests = weight_files(folder)?.into_iter().map(|file| {
        let digest = FileDigest::of(&file).map_err(|error| FolderError::file(&file, error))?;
        Ok((file, digest))
    });
    Ok(weights_digest_of(digests.collect::<Result<Vec<_>, FolderError>>()?))
}

/// The same from the digests of the weight files, with their paths or names within the folder.
pub fn weights_digest_of<P: Ord>(files: impl IntoIterator<Item = (P, FileDigest)>) -> String {
    let by_name: BTreeMap<P, FileDigest> = files.into_iter().collect();
    sha256(by_name.into_values().map(|digest| digest.sha256).collect::<String>())
}

/// Names and shapes of all tensors, from the headers of the files.
///
/// # Errors
/// A file that is no safetensors file, or shorter than its header says.
pub fn tensor_shapes(folder: &Folder) -> Result<TensorShapes, FolderError> {
    let mut shapes = TensorShapes::new();
    for path in weight_files(folder)? {
        read_header(&path, &mut shapes).map_err(|reason| FolderError::file(&path, reason))?;
    }
    Ok(shapes)
}

fn read_header(path: &Path, shapes: &mut TensorShapes) -> Result<(), String> {
    let io = |error: std::io::Error| error.to_string();
    let mut file = File::open(path).map_err(io)?;
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(io)?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER_BYTES {
        return Err(format!("its header has {length} bytes, allowed: at most {MAX_HEADER_BYTES}"));
    }
    let mut header = Vec::new();
    (&mut file).take(length).read_to_end(&mut header).map_err(io)?;
    let header: BTreeMap<String, Box<RawValue>> =
        serde_json::from_slice(&header).map_err(|error| format!("its header is not JSON: {error}"))?;
    let mut end = 0;
    for (name, info) in header {
        if name == "__metadata__" {
            continue;
        }
        let info: TensorInfo = serde_json::from_str(info.get()).map_err(|error| format!("tensor {name}: {error}"))?;
        end = end.max(info.data_offsets[1]);
        shapes.insert(name, info.shape);
    }
    let expected = end.saturating_add(8 + length);
    let found = file.metadata().map_err(io)?.len();
    if found < expected {
        return Err(format!("has {found} bytes, its header says {expected}"));
    }
    Ok(())
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
        let (one, two) = (safetensors(FIRST, 24), safetensors(SECOND, 2));
        std::fs::write(dir.path().join("model-2.safetensors"), &two).unwrap();
        std::fs::write(dir.path().join("model-1.safetensors"), &one).unwrap();
        std::fs::write(dir.path().join("model.bin"), "not read").unwrap();
        let folder = Folder::new(dir.path());
        let shapes = tensor_shapes(&folder).unwrap();
        assert_eq!(shapes, TensorShapes::from([("a".into(), vec![2, 3]), ("b".into(), vec![])]));
        let hex = |bytes: &[u8]| sha256(bytes).trim_start_matches("sha256:").to_owned();
        assert_eq!(weights_digest(&folder).unwrap(), sha256(hex(&one) + &hex(&two)));
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
}
