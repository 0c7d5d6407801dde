//! What ranks must have in common, as each says it of itself.

use std::fs::File;
use std::io;

use candle_core::DType;
use evenkeel_host::DigestWriter;
use evenkeel_model::Parameters;
use evenkeel_proto::v1::RankHello;

use crate::error::{LearnerError, Result};
use crate::learner::Learner;
use crate::ranks::{ByteWriter, Division};

/// Who this rank is, from its initial weights.
///
/// # Errors
/// The program's file cannot be read, or the device fails.
pub(super) fn identity(learner: &Learner, division: Division) -> Result<RankHello> {
    Ok(RankHello {
        rank: division.rank() as u32,
        ranks: division.ranks() as u32,
        program: program()?,
        settings_hash: learner.settings().hash(),
        weights_digest: weights_digest(learner)?,
        host: format!("{}/{}", host(), std::process::id()),
    })
}

/// Most bytes that are kept of what one rank sends: an exchange of all weights as often as the tree has levels, twice.
pub(super) fn kept_bytes(learner: &Learner) -> u64 {
    let weights = 4 * learner.parameters().trained_count() as u64;
    let levels = learner.settings().compute.gradient_blocks.ilog2() as u64 + 1;
    (64 << 20) + 2 * levels * weights
}

/// Version and digest of the program that runs, also where its file was replaced meanwhile.
fn program() -> Result<String> {
    let path = "/proc/self/exe";
    let digest = || -> io::Result<String> {
        let mut writer = DigestWriter::new(io::sink());
        io::copy(&mut File::open(path)?, &mut writer)?;
        Ok(writer.finish().1.to_string())
    };
    let digest = digest().map_err(LearnerError::file(path))?;
    Ok(format!("{} {digest}", env!("CARGO_PKG_VERSION")))
}

/// Digest of all weights as they are in memory: those that are trained, a frozen base, and those of a reference or a
/// teacher.
fn weights_digest(learner: &Learner) -> Result<String> {
    let mut digest = DigestWriter::new(io::sink());
    let all = std::iter::once(learner.parameters()).chain(learner.trainer().frozen());
    for value in all.flat_map(Parameters::values) {
        let mut writer = ByteWriter::default();
        writer.tensor(&value.to_dtype(DType::F32)?)?;
        io::copy(&mut writer.bytes().as_slice(), &mut digest).map_err(LearnerError::file("weights"))?;
    }
    Ok(digest.finish().1.to_string())
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "unknown".into() } else { name.trim().into() }
}
