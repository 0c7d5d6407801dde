//! Names and shapes of the tensors in a folder, from the headers of its safetensors files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Error, ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;

/// Longest header that is read.
const MAX_HEADER_BYTES: u64 = 100 << 20;

/// The shape of every tensor, by name.
pub(crate) type Shapes = BTreeMap<String, Vec<u64>>;

#[derive(Deserialize)]
struct Tensor {
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// The safetensors files of a folder, by name.
pub(crate) fn weight_files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "safetensors") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Every tensor of a folder. A file shorter than its header says is an error.
pub(crate) fn read_shapes(folder: &Path) -> Result<Shapes, Error> {
    let mut shapes = Shapes::new();
    for path in weight_files(folder)? {
        let within = |error: Error| Error::new(error.kind(), format!("{}: {error}", path.display()));
        read_header(&path, &mut shapes).map_err(within)?;
    }
    Ok(shapes)
}

fn read_header(path: &Path, shapes: &mut Shapes) -> Result<(), Error> {
    let broken = |message: String| Error::new(ErrorKind::InvalidData, message);
    let mut file = File::open(path)?;
    let mut length = [0; 8];
    file.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER_BYTES {
        return Err(broken(format!("its header is {length} bytes long, allowed: at most {MAX_HEADER_BYTES}")));
    }
    let mut header = Vec::new();
    (&mut file).take(length).read_to_end(&mut header)?;
    let header: BTreeMap<String, Box<RawValue>> =
        serde_json::from_slice(&header).map_err(|error| broken(format!("its header is not JSON: {error}")))?;
    let mut end = 0;
    for (name, tensor) in header {
        if name == "__metadata__" {
            continue;
        }
        let tensor: Tensor =
            serde_json::from_str(tensor.get()).map_err(|error| broken(format!("tensor {name}: {error}")))?;
        end = end.max(tensor.data_offsets[1]);
        shapes.insert(name, tensor.shape);
    }
    let (expected, found) = (8 + length + end, file.metadata()?.len());
    if found < expected {
        return Err(broken(format!("it is {found} bytes long, its header says {expected}")));
    }
    Ok(())
}
