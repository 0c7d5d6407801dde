//! Cutting sequences into micro-batches by a token budget.

use evenkeel_model::{Config, Packed};

use crate::error::Result;

/// Indices of sequences in micro-batches of at most `budget` tokens (or one sequence, where it alone is longer).
///
/// Longest first, so that a micro-batch holds sequences of like length and the lanes of the model can be loaded
/// evenly. Depends on the lengths alone; equals keep their order.
pub(crate) fn cut(lengths: &[usize], budget: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(lengths[index]));
    let (mut batches, mut batch, mut tokens) = (Vec::new(), Vec::new(), 0);
    for index in order {
        if !batch.is_empty() && tokens + lengths[index] > budget {
            batches.push(std::mem::take(&mut batch));
            tokens = 0;
        }
        batch.push(index);
        tokens += lengths[index];
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
    batches
}

/// Packs sequences, given as (ids, scored places), into micro-batches; with the indices that each one holds.
pub(crate) fn pack_all<S: AsRef<[usize]>>(
    config: &Config,
    sequences: &[(Vec<u32>, S)],
    budget: usize,
) -> Result<(Vec<Vec<usize>>, Vec<Packed>)> {
    let lengths: Vec<usize> = sequences.iter().map(|(ids, _)| ids.len()).collect();
    let cuts = cut(&lengths, budget);
    let mut packed = Vec::with_capacity(cuts.len());
    for batch in &cuts {
        let mut one = Packed::default();
        for &index in batch {
            let (ids, scored) = &sequences[index];
            one.push(config, ids, scored.as_ref().iter().copied())?;
        }
        packed.push(one);
    }
    Ok((cuts, packed))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::cut;

    proptest! {
        #[test]
        fn every_sequence_is_in_one_micro_batch_within_the_budget(
            lengths in prop::collection::vec(1usize..50, 0..60),
            budget in 1usize..120,
        ) {
            let batches = cut(&lengths, budget);
            let mut all: Vec<usize> = batches.concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..lengths.len()).collect::<Vec<_>>());
            for batch in batches {
                let tokens: usize = batch.iter().map(|&i| lengths[i]).sum();
                prop_assert!(tokens <= budget || batch.len() == 1);
            }
        }
    }
}
