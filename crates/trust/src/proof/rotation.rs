//! Which suspicions are looked at in a proof.

use crate::evidence::weights::Suspicion;

/// Which suspicions are looked at in a proof: always those about the whole of the weights, and groups of tensors in
/// turn.
#[derive(Debug)]
pub(crate) struct SuspicionRotation {
    all: Vec<Suspicion>,
    /// How many groups are looked at.
    groups: usize,
    next: usize,
}

impl SuspicionRotation {
    pub(crate) fn new(all: Vec<Suspicion>, groups: usize) -> Self {
        Self { all, groups, next: 0 }
    }

    /// All suspicions, not only those whose turn it is.
    pub(crate) fn all(&self) -> &[Suspicion] {
        &self.all
    }

    /// Suspicions of a proof of engines in f32 once all are excluded: their gap shows any other, which is then looked
    /// at.
    pub(crate) fn short_turn(&mut self) -> Vec<Suspicion> {
        let Some((first, others)) = self.all.split_first() else { return Vec::new() };
        let at = self.next % others.len().max(1);
        self.next = at + 1;
        std::iter::once(first).chain(others.get(at)).cloned().collect()
    }

    /// Suspicions of the next proof.
    pub(crate) fn turn(&mut self) -> Vec<Suspicion> {
        let (groups, whole): (Vec<_>, Vec<_>) =
            self.all.iter().cloned().partition(|suspicion| matches!(suspicion, Suspicion::Group(_)));
        let count = self.groups.min(groups.len());
        let first = self.next % groups.len().max(1);
        self.next = first + count;
        let turn = (0..count).map(|offset| groups[(first + offset) % groups.len()].clone());
        // Right after the right weights, of which a stale group leaves most in the learner's memory.
        turn.chain(whole).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scorer::TensorGroup;

    fn named(group: &str) -> TensorGroup {
        TensorGroup::Named(group.to_owned())
    }

    #[test]
    fn the_whole_of_the_weights_is_always_looked_at_and_groups_go_round() {
        let mut rotation = SuspicionRotation::new(Suspicion::all(&["embeddings", "norms", "mlp"].map(named)), 2);
        let mut names = || rotation.turn().iter().map(Suspicion::name).collect::<Vec<_>>();
        assert_eq!(names(), ["embeddings", "norms", "unchanged", "behind"]);
        assert_eq!(names(), ["mlp", "embeddings", "unchanged", "behind"]);
        assert_eq!(rotation.short_turn().iter().map(Suspicion::name).collect::<Vec<_>>(), ["unchanged", "behind"]);
        let mut few = SuspicionRotation::new(Suspicion::all(&[]), 5);
        assert_eq!(few.turn(), [Suspicion::Unchanged, Suspicion::Behind]);
    }

    #[test]
    fn adapters_are_suspected_to_be_missing_in_every_proof() {
        let mut rotation = SuspicionRotation::new(Suspicion::all(&[named("mlp"), TensorGroup::Adapters]), 1);
        for _ in 0..3 {
            let turn = rotation.turn();
            // What is mirrored comes after it.
            let place = |suspicion| turn.iter().position(|other| *other == suspicion).unwrap();
            assert!(place(Suspicion::Base) < place(Suspicion::Excess));
        }
    }
}
