//! The files that a run begins with: settings, inputs, manifest.

use std::path::Path;

use super::{LineKind, ReceiptCheck, ReceiptLine, digest_of};
use crate::error::RunFilesError;
use crate::inputs::InputRecord;
use crate::layout::INPUTS_FILE;

/// Compares them with their digests in the last line of a start, and what `inputs.json` says with the steps after it.
pub(super) fn compare(run: &Path, lines: &[ReceiptLine], check: &mut ReceiptCheck) -> Result<(), RunFilesError> {
    let Some(at) = lines.iter().rposition(|line| line.kind == LineKind::Start) else { return Ok(()) };
    let start = &lines[at];
    for (name, expected) in &start.observed.files {
        match digest_of(&run.join(name))? {
            None => check.differs(name, None, "is gone"),
            Some(found) if found.to_string() != *expected => {
                let when =
                    if start.step > 0 { format!("was resumed after step {}", start.step) } else { "began".to_owned() };
                check.differs(name, None, format!("is not what it was when the run {when}"));
            }
            Some(_) => {}
        }
    }
    let Some(part) = lines[at..].iter().rev().find_map(|line| line.determined.as_ref()) else { return Ok(()) };
    match InputRecord::read(run) {
        Ok(Some(record)) => {
            if record.settings_digest() != part.settings {
                check.differs(INPUTS_FILE, None, "has other settings than the steps were done with");
            }
            if record.inputs_digest() != part.inputs {
                check.differs(INPUTS_FILE, None, "names other inputs than the steps were done with");
            }
        }
        // A missing file has been told.
        Ok(None) => {}
        Err(error) => check.differs(INPUTS_FILE, None, format!("cannot be read: {error}")),
    }
    Ok(())
}
