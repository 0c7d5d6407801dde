//! Weights of balanced aggregation for the rows of a batch, in any order.

use evenkeel_objective::{Aggregation, Constants, Error, MiniBatchCounts, group_weights};
use pyo3::prelude::*;

use crate::errors::{Exception, guarded};
use crate::released::released;

/// The group's part of each row's weight, and the number of groups with a trainable token.
///
/// `groups` has the index of each row's group, from 0 on; `tokens` is 0 for an invalid row.
#[pyfunction]
#[pyo3(name = "_balanced_weights")]
pub(crate) fn balanced_weights(
    py: Python<'_>,
    advantages: Vec<f64>,
    tokens: Vec<usize>,
    groups: Vec<usize>,
) -> PyResult<(Vec<f64>, usize)> {
    guarded(py, || {
        let weighed = released(py, || weigh(&advantages, &tokens, &groups));
        weighed.map_err(|error| Exception::ArgumentValue.with(py, error.to_string()))
    })
}

fn weigh(advantages: &[f64], tokens: &[usize], groups: &[usize]) -> Result<(Vec<f64>, usize), Error> {
    evenkeel_objective::validate_length("lengths", tokens.len(), "advantages", advantages.len())?;
    evenkeel_objective::validate_length("groups", groups.len(), "advantages", advantages.len())?;
    // Sorted by group, and stably: the order of rows decides nothing but the order of sums.
    let mut rows: Vec<usize> = (0..groups.len()).collect();
    rows.sort_by_key(|&row| groups[row]);
    let constants = Constants { max_tokens: 0, vl_norm_alpha: 0.0, sides: None };
    let mut weights = vec![0.0; rows.len()];
    let mut counts = MiniBatchCounts::default();
    let mut part = Vec::new();
    let mut of_group = Vec::new();
    let mut lengths = Vec::new();
    for rows in rows.chunk_by(|&a, &b| groups[a] == groups[b]) {
        of_group.clear();
        lengths.clear();
        of_group.extend(rows.iter().map(|&row| advantages[row]));
        lengths.extend(rows.iter().map(|&row| tokens[row]));
        part.clear();
        part.resize(rows.len(), 0.0);
        let counted = group_weights(Aggregation::Balanced, &of_group, &lengths, constants, &mut part);
        counts.add(counted.map_err(|error| error.at(groups[rows[0]], None))?);
        for (&row, &weight) in rows.iter().zip(&part) {
            weights[row] = weight;
        }
    }
    Ok((weights, counts.groups))
}
