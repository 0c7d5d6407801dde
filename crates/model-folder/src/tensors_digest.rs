//! A digest of weights by their tensors: the same however they are split over files, and whatever else the files say.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::Path;

use evenkeel_host::{DigestWriter, FieldsDigest};

use crate::error::{FileProblem, FolderError};
use crate::weights::{WeightFiles, open_tensors};

/// Bytes that are hashed between two looks at whether the digest is still wanted.
const CHUNK: u64 = 16 << 20;

/// The digest of each tensor by its name: of its type, its shape and its bytes.
pub type TensorDigests = BTreeMap<String, String>;

impl WeightFiles {
    /// The SHA-256 of every tensor. Reads all files to their end, or until `is_wanted` becomes false.
    ///
    /// # Errors
    /// A file that is not a complete safetensors file, or whose tensors overlap; [`FolderError::Cancelled`].
    pub fn tensor_digests(&self, is_wanted: impl Fn() -> bool) -> Result<TensorDigests, FolderError> {
        let mut digests = TensorDigests::new();
        for path in self.paths() {
            match read_digests(&path, &is_wanted, &mut digests) {
                Ok(true) => {}
                Ok(false) => return Err(FolderError::Cancelled),
                Err(problem) => return Err(FolderError::of(path, problem)),
            }
        }
        Ok(digests)
    }
}

/// One digest of all tensors, in the order of their names.
pub fn tensors_digest(tensors: &TensorDigests) -> String {
    let mut all = FieldsDigest::new();
    for (name, digest) in tensors {
        all.text(name).text(digest);
    }
    all.finish_named()
}

/// Whether the file was read to its end.
fn read_digests(path: &Path, is_wanted: impl Fn() -> bool, into: &mut TensorDigests) -> Result<bool, FileProblem> {
    let (mut file, tensors) = open_tensors(path)?;
    let mut tensors: Vec<_> = tensors.into_iter().collect();
    tensors.sort_by_key(|(_, info)| info.data_offsets);
    let mut position = 0;
    for (name, info) in tensors {
        let [begin, end] = info.data_offsets;
        // A file may be another person's: bytes that a thousand tensors share would be read a thousand times.
        if begin < position || end < begin {
            let message = format!("tensor {name} begins at {begin} and ends at {end}, allowed: from {position} on");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message).into());
        }
        io::copy(&mut (&mut file).take(begin - position), &mut io::sink())?;
        let mut digest = DigestWriter::new(io::sink());
        let mut described = FieldsDigest::new();
        described.text(&info.dtype);
        info.shape.iter().for_each(|size| {
            described.text(&size.to_string());
        });
        digest.write_all(&described.finish())?;
        let mut left = end - begin;
        while left > 0 {
            if !is_wanted() {
                return Ok(false);
            }
            let part = left.min(CHUNK);
            if io::copy(&mut (&mut file).take(part), &mut digest)? != part {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            left -= part;
        }
        position = end;
        into.insert(name, digest.finish().1.to_string());
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Folder;

    /// A file of tensors of two bytes each, with what it says of itself.
    fn file(tensors: &[(&str, &str, [u8; 2])], metadata: &str) -> Vec<u8> {
        let entries = tensors.iter().enumerate().map(|(index, (name, shape, _))| {
            let begin = 2 * index;
            let end = 2 * index + 2;
            format!(r#""{name}": {{"dtype": "U8", "shape": {shape}, "data_offsets": [{begin}, {end}]}}"#)
        });
        let entries = std::iter::once(format!(r#""__metadata__": {{"format": "{metadata}"}}"#)).chain(entries);
        let header = format!("{{{}}}", entries.collect::<Vec<_>>().join(", "));
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        tensors.iter().for_each(|(_, _, data)| bytes.extend_from_slice(data));
        bytes
    }

    fn digests(files: &[(&str, Vec<u8>)]) -> Result<TensorDigests, FolderError> {
        let dir = tempfile::tempdir().unwrap();
        files.iter().for_each(|(name, bytes)| std::fs::write(dir.path().join(name), bytes).unwrap());
        WeightFiles::read(&Folder::new(dir.path())).unwrap().tensor_digests(|| true)
    }

    const A: (&str, &str, [u8; 2]) = ("a", "[2]", [1, 2]);
    const B: (&str, &str, [u8; 2]) = ("b", "[2]", [3, 4]);

    #[test]
    fn files_and_their_order_do_not_matter_and_every_byte_and_shape_does() {
        let digest = |files: &[(&str, Vec<u8>)]| tensors_digest(&digests(files).unwrap());
        let one = digest(&[("model.safetensors", file(&[A, B], "pt"))]);
        assert_eq!(one, digest(&[("model.safetensors", file(&[B, A], "mlx"))]));
        assert_eq!(
            one,
            digest(&[("model-1.safetensors", file(&[B], "pt")), ("model-2.safetensors", file(&[A], "pt"))])
        );
        for other in [("b", "[2]", [3, 5]), ("b", "[1, 2]", [3, 4]), ("c", "[2]", [3, 4])] {
            assert_ne!(one, digest(&[("model.safetensors", file(&[A, other], "pt"))]), "{other:?}");
        }
    }

    #[test]
    fn the_tensor_that_changed_has_another_digest_and_no_other_one_has() {
        let before = digests(&[("model.safetensors", file(&[A, B], "pt"))]).unwrap();
        let after = digests(&[("model.safetensors", file(&[A, ("b", "[2]", [3, 5])], "pt"))]).unwrap();
        assert_eq!((before["a"] == after["a"], before["b"] == after["b"]), (true, false));
    }

    #[test]
    fn tensors_that_share_bytes_are_refused_and_reading_ends_once_nobody_waits() {
        let mut shared = file(&[A, B], "pt");
        let offset = shared.windows(4).position(|bytes| bytes == b"[2, ").unwrap();
        shared[offset + 1] = b'1';
        let error = digests(&[("model.safetensors", shared)]).unwrap_err().to_string();
        assert!(error.contains("tensor b begins at 1 and ends at 4, allowed: from 2 on"), "{error}");
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("model.safetensors"), file(&[A], "pt")).unwrap();
        let files = WeightFiles::read(&Folder::new(dir.path())).unwrap();
        assert!(matches!(files.tensor_digests(|| false), Err(FolderError::Cancelled)));
    }
}
