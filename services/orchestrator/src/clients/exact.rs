//! What the digests of an engine's tensors decide.

use evenkeel_proto::v1::{ExactProof, ExactProofState};

use crate::error::RunError;

/// One sentence on a proof by digests.
///
/// # Errors
/// Tensors that are not those of the published weights. They are named: no statistics are needed to stop.
pub(super) fn verdict(engine: &str, version: u64, exact: &ExactProof) -> Result<String, RunError> {
    let ExactProof { tensors, different, unread, dtype, .. } = exact;
    let seconds = exact.took_us as f64 / 1e6;
    match exact.state() {
        ExactProofState::Different => {
            let names = listed(&exact.different_names, *different);
            let message = format!(
                "{different} of {tensors} tensors as it computes with them (in {dtype}) are not those that were \
                 published: {names}; its log says what it did not load"
            );
            Err(RunError::Unproven { engine: engine.to_owned(), version, message })
        }
        ExactProofState::Equal => Ok(format!(
            "engine {engine} computes with exactly the weights of version {version}: all {tensors} tensors are equal \
            in {dtype} (checked in {seconds:.1} s)"
        )),
        ExactProofState::Incomplete | ExactProofState::Unspecified => {
            let reasons = listed(&exact.unread_reasons, *unread);
            Ok(format!(
                "the digests of engine {engine} prove nothing, since {unread} of {tensors} tensors could not be \
                compared: {reasons}"
            ))
        }
    }
}

fn listed(first: &[String], count: u32) -> String {
    let text = first.join(", ");
    match (count as usize).saturating_sub(first.len()) {
        0 => text,
        others => format!("{text} and {others} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proof(state: ExactProofState) -> ExactProof {
        ExactProof {
            state: state.into(),
            tensors: 363,
            different: 2,
            different_names: vec!["lm_head.weight".into()],
            dtype: "float32".into(),
            took_us: 2_700_000,
            ..ExactProof::default()
        }
    }

    #[test]
    fn a_tensor_that_differs_ends_the_run_by_name() {
        let error = verdict("a:1", 7, &proof(ExactProofState::Different)).unwrap_err().to_string();
        assert!(error.starts_with("engine a:1 does not have version 7 of the weights: 2 of 363 tensors"), "{error}");
        assert!(error.contains("lm_head.weight and 1 more"), "{error}");
    }

    #[test]
    fn equal_tensors_and_a_proof_that_is_none_are_said() {
        let text = verdict("a:1", 7, &proof(ExactProofState::Equal)).unwrap();
        assert!(text.ends_with("all 363 tensors are equal in float32 (checked in 2.7 s)"), "{text}");
        let incomplete = ExactProof {
            unread: 1,
            unread_reasons: vec!["x: it is quantized".into()],
            ..proof(ExactProofState::Incomplete)
        };
        let text = verdict("a:1", 7, &incomplete).unwrap();
        assert!(
            text.contains("prove nothing, since 1 of 363 tensors could not be compared: x: it is quantized"),
            "{text}"
        );
    }
}
