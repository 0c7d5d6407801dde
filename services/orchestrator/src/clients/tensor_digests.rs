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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_is_not_said_proves_nothing_and_a_difference_has_its_names() {
        let judged = |state: ExactProofState| {
            let names = vec!["lm_head.weight".to_owned()];
            let reasons = vec!["it is quantized".to_owned()];
            let counts = ExactProof { tensors: 9, different: 2, unread: 3, ..ExactProof::default() };
            let exact = ExactProof { state: state.into(), different_names: names, unread_reasons: reasons, ..counts };
            tensor_digests(&exact).verdict("a", 7)
        };
        assert!(judged(ExactProofState::Equal).is_ok_and(|text| text.contains("all 9 tensors are equal")));
        for state in [ExactProofState::Incomplete, ExactProofState::Unspecified] {
            let text = judged(state).unwrap();
            assert!(text.contains("3 of 9 tensors could not be compared: it is quantized and 2 more"), "{text}");
        }
        let error = judged(ExactProofState::Different).unwrap_err().to_string();
        assert!(error.contains("2 of 9 tensors") && error.contains("lm_head.weight and 1 more"), "{error}");
    }
}
