//! `evenkeel check`: whether the files of a run are those that its receipt says, whether its data order is whole, and
//! whether a step follows from the state before it.

mod answer;
mod data_order;
mod drawing;
mod step;
mod verdicts;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use evenkeel_learner::{published_versions, verify_published};
use evenkeel_proto::FieldError;
use evenkeel_run::{FoundHead, Heads, RECEIPT_FILE, ReceiptCheck, RunRecord, check_receipt};
use evenkeel_run_report::audit;

use crate::arguments::CheckOptions;
use crate::runs::require_run;
use crate::terminal::print_result;

/// The exit status where nothing can be compared.
const CANNOT_TELL: u8 = 3;

/// What is said of a first head, which someone keeps who writes the rest of the receipt anew.
const ONLY_DETERMINED: &str = "the given head does not cover lines of metrics, prompts and evaluations, texts, \
    proofs, checkpoints, or what is said to be thinned out: the second head does";

/// Prints what is different and what cannot be compared, and in a word whether the run is what its receipt says; with
/// `--step` whether recomputing the step gives what the run recorded.
pub(crate) async fn check(options: &CheckOptions) -> Result<ExitCode> {
    if let Some(step) = options.step {
        return step::check(options, step).await;
    }
    let ComparedFiles { order, is_in_order, receipt, notes } = ComparedFiles::of(options)?;
    let receipt = match receipt {
        Ok(receipt) => receipt,
        Err(NoReceipt { why, is_different }) => {
            print_result(&format!("{order}{why}\n"))?;
            return Ok(if is_in_order && !is_different { CANNOT_TELL.into() } else { ExitCode::FAILURE });
        }
    };
    let differences: String = receipt.differences.iter().map(|difference| format!("{difference}\n")).collect();
    let notes: String = receipt.notes.iter().chain(&notes).map(|note| format!("{note}\n")).collect();
    let is_equal = is_in_order && receipt.differences.is_empty();
    print_result(&format!("{order}{differences}{notes}{}{}\n", heads(&receipt), verdict(&receipt, is_equal)))?;
    Ok(if is_equal { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The files of a run, compared with its receipt.
struct ComparedFiles {
    /// What is said of the data order.
    order: String,
    /// Whether that has no faults.
    is_in_order: bool,
    receipt: Result<ReceiptCheck, NoReceipt>,
    /// What is to be said of the head that was given.
    notes: Vec<String>,
}

/// A run without a receipt.
struct NoReceipt {
    /// A sentence for people.
    why: String,
    /// Whether it must have had one.
    is_different: bool,
}

impl ComparedFiles {
    fn of(options: &CheckOptions) -> Result<Self> {
        require_run(&options.run)?;
        let head = options.head.as_deref().map(digest).transpose()?;
        let audit = audit(&RunRecord::read(&options.run)?)?;
        let (order, is_in_order) = (data_order::shown(&audit), audit.is_clean());
        let Some(mut receipt) = check_receipt(&options.run)? else {
            let why = match &head {
                Some(head) => {
                    format!("different: {RECEIPT_FILE} is gone, and the head {head} belongs to a run that has one")
                }
                None => format!("cannot tell: the run has no {RECEIPT_FILE}, which every run of this version writes"),
            };
            let receipt = Err(NoReceipt { why, is_different: head.is_some() });
            return Ok(Self { order, is_in_order, receipt, notes: Vec::new() });
        };
        compare_weights(&options.run, &mut receipt)?;
        let notes = head.map_or_else(Vec::new, |head| compare_head(&head, &mut receipt));
        Ok(Self { order, is_in_order, receipt: Ok(receipt), notes })
    }
}

/// A head on the command line, with or without `sha256:`.
fn digest(text: &str) -> Result<String, FieldError> {
    let digits = text.strip_prefix("sha256:").unwrap_or(text);
    if digits.len() == 64 && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
        return Ok(format!("sha256:{digits}"));
    }
    Err(FieldError::quoted("--head", text, "sha256: and 64 hexadecimal digits, as a run prints its head at its end"))
}

/// Compares a head that was published elsewhere. Returns what is to be said of one that is found.
fn compare_head(head: &str, receipt: &mut ReceiptCheck) -> Vec<String> {
    let Some(FoundHead { step, is_last, is_whole }) = receipt.find_head(head) else {
        let what = format!("does not lead to the head {head}: it belongs to another run, was cut, or was recomputed");
        receipt.differs(RECEIPT_FILE, None, what);
        return Vec::new();
    };
    let last = receipt.heads.last().map_or(0, |(step, _)| *step);
    let mut said = Vec::new();
    if step < last {
        said.push(format!("the given head is that of step {step}; the receipt continues to step {last}"));
    } else if is_whole && !is_last && !receipt.evaluations_after.is_empty() {
        let steps = receipt.evaluations_after.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        said.push(format!("the given head does not cover the evaluations that came after it: steps {steps}"));
    }
    if !is_whole {
        said.push(ONLY_DETERMINED.to_owned());
    }
    said
}

/// Compares published weights, all of which are read, with their digests.
fn compare_weights(run: &Path, receipt: &mut ReceiptCheck) -> Result<()> {
    let folder = run.join("weights");
    if !folder.is_dir() {
        return Ok(());
    }
    let first = receipt.weights.first_key_value().map_or(0, |(version, _)| *version);
    let last = receipt.weights.last_key_value().map_or(0, |(version, _)| *version);
    for (version, path) in published_versions(&folder)? {
        let name = format!("weights/{}", path.file_name().unwrap_or_default().to_string_lossy());
        let Some((step, expected)) = receipt.weights.get(&version).cloned() else {
            match version {
                // Those before the chain begins.
                version if version < first => {}
                _ if receipt.is_open && version == last + 1 => {
                    receipt.notes.push(format!("{name} is not in the receipt yet"))
                }
                _ if receipt.is_resumed && version > last => {
                    receipt.notes.push(format!("{name} is from before the run was resumed"))
                }
                _ => receipt.differs(name, None, "belongs to no step of the receipt"),
            }
            continue;
        };
        match verify_published(&path) {
            Ok(found) if found.digest == expected => {}
            Ok(_) => receipt.differs(name, Some(step), "has other weights than the step made"),
            Err(error) => receipt.differs(name, Some(step), format!("cannot be verified: {error}")),
        }
    }
    Ok(())
}

fn heads(receipt: &ReceiptCheck) -> String {
    let Some((step, Heads { determined, whole })) = &receipt.last_step else { return String::new() };
    format!("head after step {step}: {determined}\n  with what was observed: {whole}\n")
}

fn verdict(receipt: &ReceiptCheck, is_equal: bool) -> String {
    match (is_equal, receipt.differences.len()) {
        (true, _) => "equal: the files of the run are those of its receipt".to_owned(),
        (false, 0) => "different: the record of prompts has faults".to_owned(),
        (false, 1) => "different: 1 file or line is not what the receipt says".to_owned(),
        (false, count) => format!("different: {count} files or lines are not what the receipt says"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_taken_with_and_without_its_prefix_and_another_text_is_refused_by_name() {
        let digits = "ab".repeat(32);
        let full = format!("sha256:{digits}");
        assert_eq!((digest(&digits).unwrap(), digest(&full).unwrap()), (full.clone(), full.clone()));
        for text in ["", "sha256:", &digits[1..], &digits.to_uppercase(), &format!("sha512:{digits}")] {
            let error = digest(text).unwrap_err().to_string();
            assert!(error.contains("--head") && error.contains("64 hexadecimal digits"), "{error}");
        }
    }
}
