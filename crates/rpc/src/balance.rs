//! The balancing rule of all pools: the member with the least outstanding work gets the next item.

/// A member of a pool with capacity for another item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate<K> {
    pub key: K,
    /// Unfinished work, in the same unit for all.
    pub outstanding: u64,
    /// Number of the candidate's last assignment: equally loaded candidates take turns.
    pub last_assigned: u64,
    /// Whether the candidate failed this item before; then it is chosen only if there is no other.
    pub avoid: bool,
}

/// The candidate with the least outstanding work. `None` if there is no candidate.
pub fn least_outstanding<K>(candidates: impl IntoIterator<Item = Candidate<K>>) -> Option<K> {
    let rank = |candidate: &Candidate<K>| (candidate.avoid, candidate.outstanding, candidate.last_assigned);
    candidates.into_iter().min_by_key(rank).map(|candidate| candidate.key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen<const N: usize>(candidates: [(char, u64, u64, bool); N]) -> Option<char> {
        let candidate = |(key, outstanding, last_assigned, avoid)| Candidate { key, outstanding, last_assigned, avoid };
        least_outstanding(candidates.map(candidate))
    }

    #[test]
    fn the_least_outstanding_is_chosen_and_equals_take_turns() {
        assert_eq!(chosen([('a', 3, 1, false), ('b', 2, 9, false), ('c', 4, 0, false)]), Some('b'));
        assert_eq!(chosen([('a', 2, 5, false), ('b', 2, 4, false)]), Some('b'));
        assert_eq!(chosen([]), None);
    }

    #[test]
    fn a_candidate_that_failed_before_comes_last() {
        assert_eq!(chosen([('a', 0, 0, true), ('b', 100, 9, false)]), Some('b'));
        assert_eq!(chosen([('a', 7, 3, true)]), Some('a'));
    }
}
