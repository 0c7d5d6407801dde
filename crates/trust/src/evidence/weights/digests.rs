//! What the digests of an engine's tensors decide.

use std::time::Duration;

use crate::fault::WeightsFault;

/// An engine's tensors beside the published ones, compared by digests.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorDigests {
    /// How many tensors the model has.
    pub tensors: u32,
    /// Result of the comparison.
    pub comparison: DigestComparison,
    /// The type that the engine computes in.
    pub dtype: String,
    /// How long comparing took.
    pub took: Duration,
}

/// How an engine's tensors compare with the published ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DigestComparison {
    /// All are the same.
    Equal,
    /// Some digests differ.
    Different {
        /// Number of tensors that differ.
        count: u32,
        /// The first of their names.
        names: Vec<String>,
    },
    /// Some could not be compared, so that nothing follows.
    Incomplete {
        /// Number of tensors that could not be compared.
        unread: u32,
        /// Why, for the first of them.
        reasons: Vec<String>,
    },
}

impl TensorDigests {
    /// What the digests prove, in one sentence.
    ///
    /// # Errors
    /// Tensors that are not those of the published weights. They are named: no statistics are needed to stop.
    pub fn verdict(&self, engine: &str, version: u64) -> Result<String, WeightsFault> {
        let Self { tensors, comparison, dtype, took } = self;
        match comparison {
            DigestComparison::Different { count, names } => {
                let message = format!(
                    "{count} of {tensors} tensors as it computes with them (in {dtype}) are not those that were \
                     published: {}; its log says what it did not load",
                    listed(names, *count)
                );
                Err(WeightsFault::Unproven { engine: engine.to_owned(), version, message })
            }
            DigestComparison::Equal => Ok(format!(
                "engine {engine} computes with exactly the weights of version {version}: all {tensors} tensors are \
                 equal in {dtype} (checked in {:.1} s)",
                took.as_secs_f64()
            )),
            DigestComparison::Incomplete { unread, reasons } => Ok(format!(
                "engine {engine} is not verified by digests: {unread} of {tensors} tensors could not be compared: {}",
                listed(reasons, *unread)
            )),
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

    fn digests(comparison: DigestComparison) -> TensorDigests {
        TensorDigests { tensors: 363, comparison, dtype: "float32".into(), took: Duration::from_millis(2700) }
    }

    #[test]
    fn a_tensor_that_differs_ends_the_run_by_name() {
        let different = DigestComparison::Different { count: 2, names: vec!["lm_head.weight".into()] };
        let error = digests(different).verdict("a:1", 7).unwrap_err().to_string();
        assert!(error.starts_with("engine a:1 does not have version 7 of the weights: 2 of 363 tensors"), "{error}");
        assert!(error.contains("lm_head.weight and 1 more"), "{error}");
    }

    #[test]
    fn equal_tensors_and_a_proof_that_is_none_are_said() {
        let text = digests(DigestComparison::Equal).verdict("a:1", 7).unwrap();
        assert!(text.ends_with("all 363 tensors are equal in float32 (checked in 2.7 s)"), "{text}");
        let incomplete = DigestComparison::Incomplete { unread: 1, reasons: vec!["x: it is quantized".into()] };
        let text = digests(incomplete).verdict("a:1", 7).unwrap();
        assert!(
            text.contains("is not verified by digests: 1 of 363 tensors could not be compared: x: it is quantized"),
            "{text}"
        );
    }
}
