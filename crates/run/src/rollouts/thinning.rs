//! Which steps' samples go when there is no room for all.

/// The step to remove, of those that are kept in ascending order, so that what stays is denser the newer it is: the one
/// whose neighbours are nearest to each other for its age. Applied again and again this leaves an even trace of the
/// whole run. Never the newest, nor one that `is_protected`; `None` where no other is left.
pub(super) fn next_to_remove(steps: &[u64], is_protected: impl Fn(u64) -> bool) -> Option<u64> {
    let (&newest, older) = steps.split_last()?;
    let candidate = |(at, &step): (usize, &u64)| {
        if is_protected(step) {
            return None;
        }
        let before = at.checked_sub(1).map_or(0, |before| steps[before]);
        let gap = steps[at + 1] - before;
        Some((gap as f64 / (newest - step) as f64, step))
    };
    let smallest = |one: (f64, u64), other: (f64, u64)| if other.0 < one.0 { other } else { one };
    older.iter().enumerate().filter_map(candidate).reduce(smallest).map(|(_, step)| step)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps that are kept where there is room for `room` of them.
    fn left_of(steps: u64, room: usize, is_protected: impl Fn(u64) -> bool + Copy) -> Vec<u64> {
        let mut kept = Vec::new();
        for step in 1..=steps {
            kept.push(step);
            while kept.len() > room {
                let Some(removed) = next_to_remove(&kept, is_protected) else { break };
                kept.retain(|step| *step != removed);
            }
        }
        kept
    }

    #[test]
    fn the_oldest_are_thinned_out_and_the_newest_stay_whole() {
        let kept = left_of(1000, 40, |_| false);
        assert_eq!(kept.len(), 40);
        assert_eq!(kept.last(), Some(&1000));
        let of_last = |count: u64| kept.iter().filter(|step| **step > 1000 - count).count();
        assert!(of_last(5) == 5, "{kept:?}");
        assert!((1..20).contains(&kept.iter().filter(|step| **step <= 500).count()), "a trace is left: {kept:?}");
        let gaps: Vec<u64> = kept.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps[..5].iter().min() > gaps[35..].iter().max(), "older gaps are wider: {gaps:?}");
    }

    #[test]
    fn protected_steps_stay_even_where_there_is_no_room() {
        let kept = left_of(100, 5, |step| step % 10 == 0);
        assert!((1..=10).all(|tens| kept.contains(&(tens * 10))), "{kept:?}");
        assert_eq!(next_to_remove(&[10, 20, 21], |step| step % 10 == 0), None);
        assert_eq!(next_to_remove(&[7], |_| false), None);
        assert_eq!(next_to_remove(&[], |_| false), None);
    }
}
