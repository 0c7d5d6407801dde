//! A GGUF file: metadata with typed access, and tensors as f32.

use std::fs::File;
use std::io::BufReader;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::{Device, Tensor};
use evenkeel_errors::FieldError;

use crate::error::{ModelError, Result};

/// The factors of Llama 3's scaled rotary positions, which are no parameter.
pub(super) const ROPE_FACTORS: &str = "rope_freqs.weight";
/// The architectures whose tensors and metadata are known here.
const ARCHITECTURES: [&str; 3] = ["llama", "qwen2", "qwen3"];

/// An open GGUF file, with its metadata and the places of its tensors.
pub(super) struct GgufFile {
    path: PathBuf,
    reader: BufReader<File>,
    content: Content,
    architecture: String,
}

impl GgufFile {
    /// Reads the header.
    ///
    /// # Errors
    /// A file that is no GGUF file or was cut, or one of an architecture that is not known here.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = evenkeel_host::open(path, u64::MAX).map_err(|error| corrupt(path, &error))?;
        let mut reader = BufReader::new(file);
        // candle divides by the alignment that a file says.
        let content = catch_unwind(AssertUnwindSafe(|| Content::read(&mut reader)))
            .map_err(|_| corrupt(path, &"its alignment is 0"))?
            .map_err(|error| corrupt(path, &format_args!("is not a complete GGUF file: {}", first_line(&error))))?;
        let mut file = Self { path: path.to_owned(), reader, content, architecture: String::new() };
        if let Some(parts) = file.size("split.count")?.filter(|&parts| parts > 1) {
            let part = file.size("split.no")?.unwrap_or_default() + 1;
            let allowed = "a whole model in one file, as `llama-gguf-split --merge` makes it of its parts";
            return Err(file.refused("split.count", format_args!("{parts} (the file is part {part})"), allowed));
        }
        let architecture = file.text("general.architecture")?.unwrap_or_default();
        if !ARCHITECTURES.contains(&architecture) {
            let allowed = ARCHITECTURES.join(", ");
            return Err(file.refused("general.architecture", format_args!("{architecture:?}"), allowed));
        }
        file.architecture = architecture.to_owned();
        Ok(file)
    }

    /// `llama`, `qwen2` or `qwen3`.
    pub(super) fn architecture(&self) -> &str {
        &self.architecture
    }

    /// A key of the metadata that the file's architecture gives its name to.
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }

    /// A whole number of the metadata; `None` where the key is absent.
    pub(super) fn size(&self, key: &str) -> Result<Option<u64>> {
        self.typed(key, "a whole number", |value| match value {
            Value::U8(n) => Some(u64::from(*n)),
            Value::U16(n) => Some(u64::from(*n)),
            Value::U32(n) => Some(u64::from(*n)),
            Value::U64(n) => Some(*n),
            Value::I32(n) => u64::try_from(*n).ok(),
            Value::I64(n) => u64::try_from(*n).ok(),
            // Older writers list a number for each layer.
            Value::Array(values) => {
                let first = values.first().and_then(|value| value.to_u32().ok())?;
                values.iter().all(|value| value.to_u32().ok() == Some(first)).then_some(u64::from(first))
            }
            _ => None,
        })
    }

    /// A number of the metadata; `None` where the key is absent.
    pub(super) fn number(&self, key: &str) -> Result<Option<f64>> {
        self.typed(key, "a number", |value| match value {
            // The shortest decimal number that is the f32: what the file was made from.
            Value::F32(n) => n.to_string().parse().ok(),
            Value::F64(n) => Some(*n),
            _ => None,
        })
    }

    /// A boolean of the metadata; `None` where the key is absent.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>> {
        self.typed(key, "true or false", |value| value.to_bool().ok())
    }

    /// A text of the metadata; `None` where the key is absent.
    pub(super) fn text(&self, key: &str) -> Result<Option<&str>> {
        self.typed(key, "a text", |value| value.to_string().ok().map(String::as_str))
    }

    /// A list of texts.
    pub(super) fn texts(&self, key: &str) -> Result<Option<Vec<&str>>> {
        self.list(key, "a list of texts", |value| value.to_string().ok().map(String::as_str))
    }

    /// A list of numbers.
    pub(super) fn numbers(&self, key: &str) -> Result<Option<Vec<f32>>> {
        self.list(key, "a list of numbers", |value| value.to_f32().ok())
    }

    /// A list of whole numbers.
    pub(super) fn kinds(&self, key: &str) -> Result<Option<Vec<i64>>> {
        self.list(key, "a list of whole numbers", |value| match value {
            Value::I32(n) => Some(i64::from(*n)),
            Value::U32(n) => Some(i64::from(*n)),
            _ => None,
        })
    }

    fn list<'a, T>(&'a self, key: &str, allowed: &str, of: impl Fn(&'a Value) -> Option<T>) -> Result<Option<Vec<T>>> {
        self.typed(key, allowed, |value| match value {
            Value::Array(values) => values.iter().map(&of).collect(),
            _ => None,
        })
    }

    fn typed<'a, T>(&'a self, key: &str, allowed: &str, of: impl Fn(&'a Value) -> Option<T>) -> Result<Option<T>> {
        let Some(value) = self.content.metadata.get(key) else { return Ok(None) };
        match of(value) {
            Some(found) => Ok(Some(found)),
            None => Err(self.refused(key, format_args!("of type {:?}", value.value_type()), allowed)),
        }
    }

    /// A value of the metadata that is not allowed.
    pub(super) fn refused(&self, key: &str, value: impl std::fmt::Display, allowed: impl Into<String>) -> ModelError {
        ModelError::Input(FieldError::new(format!("{key} of {}", self.path.display()), value, allowed))
    }

    /// Whether the file has a tensor.
    pub(super) fn has(&self, name: &str) -> bool {
        self.content.tensor_infos.contains_key(name)
    }

    /// The shape of a tensor, row-major.
    pub(super) fn shape(&self, name: &str) -> Option<&[usize]> {
        self.content.tensor_infos.get(name).map(|info| info.shape.dims())
    }

    /// Refuses tensors that are not among these.
    pub(super) fn refuse_others(&self, names: &[String]) -> Result<()> {
        let mut all: Vec<&String> = self.content.tensor_infos.keys().collect();
        all.sort();
        let other = all.into_iter().find(|name| name.as_str() != ROPE_FACTORS && !names.contains(name));
        match other {
            Some(name) => Err(self.wrong(name, "is not a parameter of this architecture".into())),
            None => Ok(()),
        }
    }

    /// The values of a tensor, as f32.
    ///
    /// # Errors
    /// A tensor that is missing, has another shape, or lies beyond the end of the file.
    pub(super) fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Tensor> {
        let Some(info) = self.content.tensor_infos.get(name) else {
            return Err(self.wrong(name, "is missing".into()));
        };
        // Before anything is made of it.
        if info.shape.dims() != shape {
            let reason = format!("has shape {:?}, the metadata requires {shape:?}", info.shape.dims());
            return Err(self.wrong(name, reason));
        }
        let read = self.content.tensor(&mut self.reader, name, &Device::Cpu);
        let read = read.and_then(|tensor| tensor.dequantize(&Device::Cpu));
        read.map_err(|error| self.wrong(name, format!("cannot be read: {}", first_line(&error))))
    }

    /// The factors of rotary frequencies.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub(super) fn factors(&self, count: usize) -> Result<Vec<f32>> {
        let file = File::open(&self.path).map_err(ModelError::file(&self.path))?;
        let read = self.content.tensor(&mut BufReader::new(file), ROPE_FACTORS, &Device::Cpu);
        let read = read.and_then(|tensor| tensor.dequantize(&Device::Cpu)?.to_vec1());
        let read = read.map_err(|error| self.wrong(ROPE_FACTORS, format!("cannot be read: {}", first_line(&error))))?;
        debug_assert_eq!(read.len(), count);
        Ok(read)
    }

    fn wrong(&self, name: &str, reason: String) -> ModelError {
        ModelError::Tensor { path: self.path.clone(), tensor: name.to_owned(), reason }
    }
}

fn corrupt(path: &Path, reason: &dyn std::fmt::Display) -> ModelError {
    ModelError::Corrupt { path: path.to_owned(), reason: reason.to_string() }
}

/// Without the backtrace that candle may add.
fn first_line(error: &candle_core::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}
