//! Writing fp32 values as tensors of a safetensors file, a piece at a time: no copy of the whole is ever in host
//! memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use evenkeel_host::{DigestWriter, FileDigest};
use safetensors::tensor::{Metadata, TensorInfo};

use super::finite::NonFinite;
use crate::error::{ModelError, Result};
use crate::staging::Staging;

/// Values that are converted and copied at once: of a processor as many as stay in its cache until they are digested,
/// of a GPU as many as its bus copies at full speed.
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
pub(super) struct NamedValues<'a> {
    /// The name in the file.
    pub(super) name: String,
    /// Size of each dimension, the outermost first.
    pub(super) shape: &'a [usize],
    /// Values in row-major order.
    pub(super) values: Values<'a>,
}

impl Values<'_> {
    fn device(&self) -> Device {
        match self {
            Self::Tensor(tensor) => tensor.device().clone(),
            Self::Host(_) => Device::Cpu,
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::Tensor(tensor) => tensor.elem_count(),
            Self::Host(values) => values.len(),
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

/// The name of a tensor in a file, and its shape.
#[derive(Clone, Debug)]
pub struct NamedShape<'a> {
    /// The name in the file.
    pub name: String,
    /// Size of each dimension, the outermost first.
    pub shape: &'a [usize],
}

/// Writes values that must be finite in the file, which is `synced` or left to the system. Returns its digest.
///
/// # Errors
/// As [`TensorsFile`], and [`ModelError::NotFinite`].
pub(super) fn write_finite_tensors(
    path: &Path,
    mut tensors: Vec<NamedValues<'_>>,
    dtype: DType,
    metadata: Option<BTreeMap<String, String>>,
    synced: bool,
) -> Result<FileDigest> {
    tensors.sort_by(|a, b| a.name.cmp(&b.name));
    let described = tensors.iter().map(|tensor| NamedShape { name: tensor.name.clone(), shape: tensor.shape });
    let checks = Checks { finite: true, synced };
    let mut file = TensorsFile::begin(path, described.collect(), dtype, metadata, checks)?;
    tensors.iter().try_for_each(|tensor| file.add(&tensor.name, tensor.values))?;
    file.finish()
}

/// What is asked of a file besides its values.
#[derive(Clone, Copy)]
struct Checks {
    finite: bool,
    synced: bool,
}

/// A safetensors file of one type (F32, BF16 or F16) that is written tensor by tensor, in the order of their names. The
/// digest is computed while it is written. The bytes are those that the safetensors library writes.
pub struct TensorsFile<'a> {
    path: PathBuf,
    /// Shapes of the tensors, ordered by name.
    tensors: Vec<NamedShape<'a>>,
    written: usize,
    dtype: DType,
    checks: Checks,
    out: DigestWriter<File>,
    /// For the device of the first tensor.
    staging: Option<Staging>,
}

impl<'a> TensorsFile<'a> {
    /// Creates the file, with what it will hold.
    ///
    /// # Errors
    /// A file that cannot be written, or another type.
    pub fn create(
        path: &Path,
        tensors: Vec<NamedShape<'a>>,
        dtype: DType,
        metadata: Option<BTreeMap<String, String>>,
    ) -> Result<Self> {
        Self::begin(path, tensors, dtype, metadata, Checks { finite: false, synced: true })
    }

    fn begin(
        path: &Path,
        mut tensors: Vec<NamedShape<'a>>,
        dtype: DType,
        metadata: Option<BTreeMap<String, String>>,
        checks: Checks,
    ) -> Result<Self> {
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        let file = File::create(path).map_err(ModelError::file(path))?;
        let mut out = DigestWriter::new(file);
        out.write_all(&header(path, &tensors, dtype, metadata)?).map_err(ModelError::file(path))?;
        Ok(Self { path: path.to_owned(), tensors, written: 0, dtype, checks, out, staging: None })
    }

    /// Writes the values of the next tensor, which must have this name. All are on one device, or in memory of the
    /// host.
    ///
    /// # Errors
    /// Another name than that of the next tensor, or values that do not fill its shape; a disk or a device that fails.
    pub fn add(&mut self, name: &str, values: Values<'_>) -> Result<()> {
        let expected = self.tensors.get(self.written).filter(|tensor| tensor.name == name);
        let Some(NamedShape { shape, .. }) = expected else {
            let next = self.tensors.get(self.written).map_or("nothing more", |tensor| tensor.name.as_str());
            return Err(ModelError::input("tensor to be written", name, next));
        };
        let count: usize = shape.iter().product();
        if values.count() != count {
            let found = format!("{} values of `{name}`", values.count());
            return Err(ModelError::input("tensor to be written", found, format!("{count}, of shape {shape:?}")));
        }
        let device = values.device();
        let most = if device.is_cpu() { HOST_PIECE } else { DEVICE_PIECE };
        let staging = match &mut self.staging {
            Some(staging) => staging,
            none => none.insert(Staging::new(&device, most * self.dtype.size_in_bytes())?),
        };
        let mut non_finite = None;
        for first in (0..count).step_by(most) {
            let bytes = values.bytes(first, most.min(count - first), self.dtype, staging)?;
            if self.checks.finite {
                non_finite = NonFinite::and(non_finite, NonFinite::in_bytes(bytes, self.dtype), first);
            }
            self.out.write_all(bytes).map_err(ModelError::file(&self.path))?;
        }
        self.written += 1;
        match non_finite {
            Some(found) => Err(found.error(&self.path, name, shape)),
            None => Ok(()),
        }
    }

    /// Ends the file, and returns its digest.
    ///
    /// # Errors
    /// A tensor that is missing; a file that cannot be synced.
    pub fn finish(self) -> Result<FileDigest> {
        if let Some(missing) = self.tensors.get(self.written) {
            let reason = format!("not written: `{}` is missing", missing.name);
            return Err(ModelError::Corrupt { path: self.path, reason });
        }
        let (file, digest) = self.out.finish();
        if self.checks.synced {
            file.sync_all().map_err(ModelError::file(&self.path))?;
        }
        Ok(digest)
    }
}

/// The length of the header, and the header, filled up with blanks to a multiple of eight bytes.
fn header(
    path: &Path,
    tensors: &[NamedShape<'_>],
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
        // The library would write the entries in an order of chance, and the same tensors in files of different
        // digests.
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

    fn write_tensors(
        path: &Path,
        mut tensors: Vec<NamedValues<'_>>,
        dtype: DType,
        metadata: Option<BTreeMap<String, String>>,
    ) -> Result<FileDigest> {
        let described = tensors.iter().map(|tensor| NamedShape { name: tensor.name.clone(), shape: tensor.shape });
        let mut file = TensorsFile::create(path, described.collect(), dtype, metadata)?;
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        tensors.iter().try_for_each(|tensor| file.add(&tensor.name, tensor.values))?;
        file.finish()
    }

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
        let metadata = || (0..20).map(|number| (format!("key {number}"), format!("\"{number}\"")));
        let path = folder.path().join("x.safetensors");
        let host = [1.0];
        let digests = [(); 4].map(|()| {
            let tensors = vec![NamedValues { name: "a".into(), shape: &[1], values: Values::Host(&host) }];
            write_tensors(&path, tensors, DType::F32, Some(metadata().collect())).unwrap()
        });
        assert!(digests.iter().all(|digest| *digest == digests[0]));
        let (_, read) = safetensors::SafeTensors::read_metadata(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(read.metadata().clone().unwrap().into_iter().collect::<BTreeMap<_, _>>(), metadata().collect());
        // Also of a file without tensors.
        write_tensors(&path, Vec::new(), DType::F32, Some(metadata().collect())).unwrap();
        assert!(safetensors::SafeTensors::deserialize(&std::fs::read(&path).unwrap()).unwrap().is_empty());
    }

    #[test]
    fn tensors_come_in_the_order_of_their_names_each_whole_and_none_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        let begun = || {
            let described = ["b", "a"].map(|name| NamedShape { name: name.into(), shape: &[2] });
            TensorsFile::create(&path, described.into(), DType::F32, None).unwrap()
        };
        let error = begun().add("b", Values::Host(&[1.0, 2.0])).unwrap_err().to_string();
        assert_eq!(error, "tensor to be written is b, allowed: a");
        let error = begun().add("a", Values::Host(&[1.0])).unwrap_err().to_string();
        assert_eq!(error, "tensor to be written is 1 values of `a`, allowed: 2, of shape [2]");
        let mut file = begun();
        file.add("a", Values::Host(&[1.0, 2.0])).unwrap();
        let error = file.finish().unwrap_err().to_string();
        assert!(error.ends_with("x.safetensors: not written: `b` is missing"), "{error}");
        let mut file = begun();
        ["a", "b"].into_iter().for_each(|name| file.add(name, Values::Host(&[1.0, 2.0])).unwrap());
        let error = file.add("c", Values::Host(&[1.0])).unwrap_err().to_string();
        assert_eq!(error, "tensor to be written is c, allowed: nothing more");
        file.finish().unwrap();
    }

    #[test]
    fn a_type_that_models_do_not_have_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = write_tensors(&folder.path().join("x"), Vec::new(), DType::U8, None).unwrap_err().to_string();
        assert!(error.contains("type of tensors is U8, allowed: F32, BF16 or F16"), "{error}");
    }
}
