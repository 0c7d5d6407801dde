//! Writing fp32 values as tensors of a safetensors file, a piece at a time: no copy of the whole is ever in host memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use evenkeel_files::{DigestWriter, FileDigest};
use safetensors::tensor::{Metadata, TensorInfo};

use super::finite::NonFinite;
use crate::error::{ModelError, Result};
use crate::staging::Staging;

/// Values that are converted and copied at once: of a processor as many as stay in its cache until they are digested, of a GPU as many as its
/// bus copies at full speed.
const HOST_PIECE: usize = 1 << 17;
const DEVICE_PIECE: usize = 1 << 20;

/// The location of fp32 values.
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// A contiguous tensor of any device.
    Tensor(&'a Tensor),
    /// Memory of the host.
    Host(&'a [f32]),
}

/// A tensor to be written.
#[derive(Clone, Debug)]
pub struct NamedValues<'a> {
    /// The name in the file.
    pub name: String,
    /// Row-major.
    pub shape: &'a [usize],
    /// Row by row.
    pub values: Values<'a>,
}

impl Values<'_> {
    fn device(&self) -> Device {
        match self {
            Self::Tensor(tensor) => tensor.device().clone(),
            Self::Host(_) => Device::Cpu,
        }
    }

    /// The bytes of some of the values in a type.
    fn bytes<'s>(&self, first: usize, count: usize, dtype: DType, staging: &'s mut Staging) -> Result<&'s [u8]> {
        match self {
            Self::Tensor(tensor) => staging.copy(&tensor.flatten_all()?.narrow(0, first, count)?, dtype),
            Self::Host(values) => staging.convert(&values[first..first + count], dtype),
        }
    }
}

/// Writes and syncs a file with these tensors in a type (F32, BF16 or F16), and returns its digest, which is made on the way. The bytes are
/// those that the safetensors library writes.
///
/// # Errors
/// A file that cannot be written, another type, or values that do not fill their shape.
pub fn write_tensors(
    path: &Path,
    tensors: Vec<NamedValues<'_>>,
    dtype: DType,
    metadata: Option<BTreeMap<String, String>>,
) -> Result<FileDigest> {
    write(path, tensors, dtype, metadata, Checks { finite: false, synced: true })
}

/// Writes values that must be finite in the file, which is `synced` or left to the system.
///
/// # Errors
/// As [`write_tensors`], and [`ModelError::NotFinite`].
pub(super) fn write_finite_tensors(
    path: &Path,
    tensors: Vec<NamedValues<'_>>,
    dtype: DType,
    metadata: Option<BTreeMap<String, String>>,
    synced: bool,
) -> Result<FileDigest> {
    write(path, tensors, dtype, metadata, Checks { finite: true, synced })
}

/// What is asked of a file besides its values.
#[derive(Clone, Copy)]
struct Checks {
    finite: bool,
    synced: bool,
}

fn write(
    path: &Path,
    mut tensors: Vec<NamedValues<'_>>,
    dtype: DType,
    metadata: Option<BTreeMap<String, String>>,
    checks: Checks,
) -> Result<FileDigest> {
    tensors.sort_by(|a, b| a.name.cmp(&b.name));
    let file = File::create(path).map_err(ModelError::file(path))?;
    let mut out = DigestWriter::new(file);
    out.write_all(&header(path, &tensors, dtype, metadata)?).map_err(ModelError::file(path))?;
    let device = tensors.first().map_or(Device::Cpu, |tensor| tensor.values.device());
    let most = if device.is_cpu() { HOST_PIECE } else { DEVICE_PIECE };
    let mut staging = Staging::new(&device, most * dtype.size_in_bytes())?;
    for NamedValues { name, shape, values } in &tensors {
        let count: usize = shape.iter().product();
        let mut non_finite = None;
        for first in (0..count).step_by(most) {
            let bytes = values.bytes(first, most.min(count - first), dtype, &mut staging)?;
            if checks.finite {
                non_finite = NonFinite::and(non_finite, NonFinite::in_bytes(bytes, dtype), first);
            }
            out.write_all(bytes).map_err(ModelError::file(path))?;
        }
        if let Some(found) = non_finite {
            return Err(found.error(path, name, shape));
        }
    }
    let (file, digest) = out.finish();
    if checks.synced {
        file.sync_all().map_err(ModelError::file(path))?;
    }
    Ok(digest)
}

/// The length of the header, and the header, filled up with blanks to a multiple of eight bytes.
fn header(
    path: &Path,
    tensors: &[NamedValues<'_>],
    dtype: DType,
    metadata: Option<BTreeMap<String, String>>,
) -> Result<Vec<u8>> {
    let failed =
        |e: &dyn std::fmt::Display| ModelError::Corrupt { path: path.into(), reason: format!("not written: {e}") };
    let kind = match dtype {
        DType::F32 => safetensors::Dtype::F32,
        DType::BF16 => safetensors::Dtype::BF16,
        DType::F16 => safetensors::Dtype::F16,
        other => return Err(ModelError::input("type of tensors", format!("{other:?}"), "F32, BF16 or F16")),
    };
    let mut end = 0;
    let infos = tensors.iter().map(|tensor| {
        let begin = end;
        end += tensor.shape.iter().product::<usize>() * dtype.size_in_bytes();
        let info = TensorInfo { dtype: kind, shape: tensor.shape.to_vec(), data_offsets: (begin, end) };
        (tensor.name.clone(), info)
    });
    let described = Metadata::new(None, infos.collect()).map_err(|e| failed(&e))?;
    let mut text = serde_json::to_vec(&described).map_err(|e| failed(&e))?;
    if let Some(metadata) = metadata {
        // The library would write the entries in an order of chance, and the same tensors in files of different digests.
        let metadata = serde_json::to_string(&metadata).map_err(|e| failed(&e))?;
        let more = if tensors.is_empty() { "" } else { "," };
        text.splice(1..1, format!("\"__metadata__\":{metadata}{more}").into_bytes());
    }
    text.resize(text.len().next_multiple_of(8), b' ');
    Ok([&(text.len() as u64).to_le_bytes()[..], &text].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_bytes_that_the_library_writes_and_their_digest() {
        let folder = tempfile::tempdir().unwrap();
        // More than one piece, an empty tensor, and a part of a larger one.
        let large = Tensor::randn(0.0f32, 1.0, (3, HOST_PIECE / 2 + 7), &Device::Cpu).unwrap();
        let empty = Tensor::zeros((0, 4), DType::F32, &Device::Cpu).unwrap();
        let rows = large.narrow(0, 1, 1).unwrap();
        let host: Vec<f32> = vec![1.0, f32::NAN, -0.0, 1e-40, 3.1, f32::INFINITY];
        let host_tensor = Tensor::from_slice(&host, (2, 3), &Device::Cpu).unwrap();
        let metadata = || Some(BTreeMap::from([("format".to_owned(), "pt".to_owned())]));
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            let named = |name: &str, shape, values| NamedValues { name: name.into(), shape, values };
            let tensors = vec![
                named("z", large.dims(), Values::Tensor(&large)),
                named("a.host", &[2, 3], Values::Host(&host)),
                named("m", empty.dims(), Values::Tensor(&empty)),
                named("n", rows.dims(), Values::Tensor(&rows)),
            ];
            let path = folder.path().join("ours.safetensors");
            let digest = write_tensors(&path, tensors, dtype, metadata()).unwrap();
            let all = [("z", &large), ("a.host", &host_tensor), ("m", &empty), ("n", &rows)];
            let all = all.map(|(name, tensor)| (name, tensor.contiguous().unwrap().to_dtype(dtype).unwrap()));
            let wanted = safetensors::serialize(all, metadata().map(|all| all.into_iter().collect())).unwrap();
            assert!(std::fs::read(&path).unwrap() == wanted, "{dtype:?}");
            assert_eq!(digest, FileDigest::of_bytes(&wanted));
        }
    }

    #[test]
    fn the_same_tensors_have_the_same_bytes_however_much_is_said_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let said = || (0..20).map(|number| (format!("key {number}"), format!("\"{number}\"")));
        let path = folder.path().join("x.safetensors");
        let host = [1.0];
        let digests = [(); 4].map(|()| {
            let tensors = vec![NamedValues { name: "a".into(), shape: &[1], values: Values::Host(&host) }];
            write_tensors(&path, tensors, DType::F32, Some(said().collect())).unwrap()
        });
        assert!(digests.iter().all(|digest| *digest == digests[0]));
        let (_, read) = safetensors::SafeTensors::read_metadata(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(read.metadata().clone().unwrap().into_iter().collect::<BTreeMap<_, _>>(), said().collect());
        // Also of a file without tensors.
        write_tensors(&path, Vec::new(), DType::F32, Some(said().collect())).unwrap();
        assert!(safetensors::SafeTensors::deserialize(&std::fs::read(&path).unwrap()).unwrap().is_empty());
    }

    #[test]
    fn a_type_that_models_do_not_have_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = write_tensors(&folder.path().join("x"), Vec::new(), DType::U8, None).unwrap_err().to_string();
        assert!(error.contains("type of tensors is U8, allowed: F32, BF16 or F16"), "{error}");
    }
}
