//! What an engine says of digests of its tensors.

use std::time::Duration;

use evenkeel_proto::v1::{ExactProof, ExactProofState};
use evenkeel_trust::{DigestComparison, TensorDigests};

/// The digests of an engine's tensors beside the published ones.
pub(super) fn tensor_digests(exact: &ExactProof) -> TensorDigests {
    let comparison = match exact.state() {
        ExactProofState::Equal => DigestComparison::Equal,
        ExactProofState::Different => {
            DigestComparison::Different { count: exact.different, names: exact.different_names.clone() }
        }
        ExactProofState::Incomplete | ExactProofState::Unspecified => {
            DigestComparison::Incomplete { unread: exact.unread, reasons: exact.unread_reasons.clone() }
        }
    };
    TensorDigests {
        tensors: exact.tensors,
        comparison,
        dtype: exact.dtype.clone(),
        took: Duration::from_micros(exact.took_us),
    }
}
