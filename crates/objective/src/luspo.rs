//! LUSPO, arXiv 2602.05261: GSPO with each response's term multiplied by its length, since a mean over a response makes
//! the tokens of long ones count for less. Over the tokens of a response GSPO's term is one value, so that its length
//! times the mean is the sum, and the name is that of a weight: 1 / (P G), whatever the length.

use crate::{Aggregation, Error, PolicyTerm};

/// Refuses the name with another term than that of its paper, whose ratio is the response's.
///
/// # Errors
/// The policy term, and what it may be.
pub(crate) fn validate(aggregation: Aggregation, policy: PolicyTerm) -> Result<(), Error> {
    if aggregation != Aggregation::Luspo || policy == PolicyTerm::Gspo {
        return Ok(());
    }
    let allowed = "gspo with aggregation = luspo (the same weights with any term: sequence-sum with max_tokens = 1)";
    Err(Error::refused("policy", format_args!("'{policy}'"), allowed))
}
