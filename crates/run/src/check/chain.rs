//! Whether each line follows the one before it.

use std::path::Path;

use super::{LineKind, ReceiptCheck, ReceiptLine};
use crate::error::RunFilesError;
use crate::layout::RECEIPT_FILE;
use crate::lines::read_text;
use crate::receipt::Determined;

/// The lines that can be read. Heads are compared with what each line says after what the line before it says, so that
/// one edited line is one difference.
pub(super) fn read(run: &Path, check: &mut ReceiptCheck) -> Result<Vec<ReceiptLine>, RunFilesError> {
    let text = read_text(&run.join(RECEIPT_FILE))?;
    let mut lines: Vec<ReceiptLine> = Vec::new();
    let mut follows = true;
    for (number, text) in (1..).zip(text.lines()) {
        let Some(line) = ReceiptLine::from_json(text) else {
            check.differs(RECEIPT_FILE, None, format!("line {number} is not one that a run writes"));
            follows = false;
            continue;
        };
        let previous = lines.last().map_or_else(|| line.heads_before(), |last| last.heads.clone());
        if std::mem::replace(&mut follows, true) && line.heads_after(&previous) != line.heads {
            let what = "has a head that does not follow from its content and the line before it: this line or the one \
                        before was edited, or lines were moved or removed";
            check.differs(RECEIPT_FILE, Some(line.step), format!("line {number} {what}"));
        }
        if let Some(last) = lines.last() {
            compare_order(last, &line, number, check);
        }
        note(&line, check);
        lines.push(line);
    }
    compare_changes(&lines, check);
    Ok(lines)
}

fn compare_order(last: &ReceiptLine, line: &ReceiptLine, number: u64, check: &mut ReceiptCheck) {
    // Nothing but the next step comes after what was noted of a step.
    let expected = if line.kind == LineKind::Step { last.step + 1 } else { last.step };
    if line.step != expected || line.place() <= last.place() {
        let what = format!("line {number} does not come after step {}: lines were moved or removed", last.step);
        check.differs(RECEIPT_FILE, Some(line.step), what);
    }
    if line.kind == LineKind::Step && line.determined.as_ref().is_none_or(|part| part.content.is_none()) {
        check.differs(RECEIPT_FILE, Some(line.step), format!("line {number} does not say what the step was made of"));
    }
}

fn note(line: &ReceiptLine, check: &mut ReceiptCheck) {
    if let Some(part) = &line.determined {
        check.weights.insert(part.version, (line.step, part.weights.clone()));
    }
    check.heads.push((line.step, line.heads.clone()));
}

/// Settings never change. A program or an input changes only where a run was resumed, an input only where its change was
/// accepted.
fn compare_changes(lines: &[ReceiptLine], check: &mut ReceiptCheck) {
    let mut before: Option<&Determined> = None;
    let (mut has_started, mut accepts, mut accepted) = (true, false, 0);
    for line in lines {
        if line.kind == LineKind::Start {
            has_started = true;
            accepts |= line.observed.accepted_changes > accepted;
            accepted = line.observed.accepted_changes;
        }
        let Some(part) = &line.determined else { continue };
        if let Some(before) = before {
            let changes = [
                ("other settings", before.settings == part.settings),
                ("other inputs", before.inputs == part.inputs || accepts),
                ("another program", before.program == part.program || has_started),
            ];
            for (what, _) in changes.into_iter().filter(|(_, is_allowed)| !is_allowed) {
                let what = format!("has {what} than the step before, without a start between them");
                check.differs(RECEIPT_FILE, Some(line.step), what);
            }
        }
        (before, has_started, accepts) = (Some(part), false, false);
    }
}
