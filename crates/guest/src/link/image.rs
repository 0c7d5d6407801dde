//! The initial memory of the guest.

use wasm_encoder::{ConstExpr, DataSection};
use wasmparser::DataKind;

use super::graph::Graph;
use super::numbers::{Value, evaluate};
use super::{LinkError, unexpected};

/// Granularity in which zeros are omitted.
const PAGE: usize = 4096;

/// The content of the memory, from address 0 to the end of the last segment.
pub(super) struct Image(Vec<u8>);

impl Image {
    /// The content of the data segments of all modules.
    pub(super) fn of(graph: &Graph<'_>) -> Result<Self, LinkError> {
        let mut bytes = Vec::new();
        for data in graph.modules.iter().flat_map(|module| &module.data) {
            let DataKind::Active { offset_expr, .. } = &data.kind else {
                return Err(unexpected("data that is written later"));
            };
            let no_global = |_| Err(unexpected("data whose address is not constant"));
            let Value::I32(start) = evaluate(offset_expr, &no_global)? else {
                return Err(unexpected("data with a 64-bit address"));
            };
            let start = start.cast_unsigned() as usize;
            let end = start + data.data.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[start..end].copy_from_slice(data.data);
        }
        Ok(Self(bytes))
    }

    /// The address of these bytes, which must occur exactly once at a multiple of four.
    pub(super) fn find_unique(&self, what: &str, bytes: &[u8]) -> Result<u32, LinkError> {
        let mut found = (0..self.0.len()).step_by(4).filter(|at| self.0[*at..].starts_with(bytes));
        match (found.next(), found.next()) {
            (Some(at), None) => u32::try_from(at).map_err(|_| unexpected("a memory that is too large")),
            (None, _) => Err(unexpected(format!("{what} not found"))),
            (Some(_), Some(_)) => Err(unexpected(format!("{what} found twice"))),
        }
    }

    /// The 32-bit word at an address; zero beyond the end.
    pub(super) fn word(&self, address: u32) -> u32 {
        let at = address as usize;
        let bytes = self.0.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u32::from_le_bytes)
    }

    /// Overwrites the bytes from `address` on.
    pub(super) fn write(&mut self, address: u32, bytes: &[u8]) -> Result<(), LinkError> {
        let at = address as usize;
        let target = self.0.get_mut(at..at + bytes.len());
        target.ok_or_else(|| unexpected(format!("no data at {address:#x}")))?.copy_from_slice(bytes);
        Ok(())
    }

    /// A data segment for every run of non-zero pages.
    pub(super) fn section(&self) -> DataSection {
        let mut section = DataSection::new();
        let full = |page: &[u8]| page.iter().any(|byte| *byte != 0);
        let mut at = 0;
        for run in self.0.chunks(PAGE).collect::<Vec<_>>().chunk_by(|left, right| full(left) == full(right)) {
            let length = run.iter().map(|page| page.len()).sum::<usize>();
            if full(run[0]) {
                // Addresses are below 4 GiB and encoded as signed numbers.
                let offset = ConstExpr::i32_const((at as u32).cast_signed());
                section.active(0, &offset, self.0[at..at + length].iter().copied());
            }
            at += length;
        }
        section
    }
}
