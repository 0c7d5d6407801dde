//! The capital of bets that may have begun in any round.

/// Beyond this a capital grows no further: far above every threshold, and far from overflow.
const MOST: f64 = 1e280;

/// A mixture of bets, each of them placed again in every round from a capital set aside for it: 1/2 in the first round,
/// 1/(n (n + 1)) in the n-th. What is wrong only from the middle of a run on is found by the bets that begin there; the
/// price is a factor of n (n + 1).
///
/// The mean over bets is an e-process if every factor has a mean of at most 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Wealth {
    /// For each bet, what it has made of the capital of all rounds so far.
    placed: Vec<f64>,
    rounds: u64,
}

impl Wealth {
    /// The wealth of that many bets, none of them placed yet.
    pub fn new(bets: usize) -> Self {
        Self { placed: vec![0.0; bets.max(1)], rounds: 0 }
    }

    /// A round begins: every bet is also placed from here on.
    pub fn begin_round(&mut self) {
        self.rounds += 1;
        let share = 1.0 / (self.rounds as f64 * (self.rounds as f64 + 1.0));
        self.placed.iter_mut().for_each(|placed| *placed += share);
    }

    /// Multiplies the capital of each bet by its factor. A factor below 0 counts as 0, one that is no number as 1.
    pub fn multiply(&mut self, factors: impl IntoIterator<Item = f64>) {
        for (placed, factor) in self.placed.iter_mut().zip(factors) {
            if !factor.is_nan() {
                *placed = (*placed * factor.max(0.0)).min(MOST);
            }
        }
    }

    /// The evidence so far: the mean capital, with what is still set aside for later rounds.
    pub fn evidence(&self) -> f64 {
        self.placed.iter().sum::<f64>() / self.placed.len() as f64 + 1.0 / (self.rounds as f64 + 1.0)
    }

    /// The bet that has made most.
    pub fn best(&self) -> usize {
        let ranked = self.placed.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        ranked.map_or(0, |(bet, _)| bet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bets_that_win_nothing_leave_exactly_what_they_began_with() {
        let mut wealth = Wealth::new(3);
        for _ in 0..500 {
            wealth.begin_round();
            wealth.multiply([1.0; 3]);
            assert!((wealth.evidence() - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn a_lost_bet_costs_what_was_placed_and_no_more() {
        let mut wealth = Wealth::new(1);
        wealth.begin_round();
        wealth.multiply([0.0]);
        assert_eq!(wealth.evidence(), 0.5);
        wealth.begin_round();
        wealth.multiply([12.0]);
        assert_eq!(wealth.evidence(), 12.0 / 6.0 + 1.0 / 3.0);
    }

    #[test]
    fn what_begins_late_is_found_in_spite_of_all_that_was_lost_before() {
        let mut wealth = Wealth::new(2);
        for _ in 0..400 {
            wealth.begin_round();
            wealth.multiply([0.5, 1.0]);
        }
        let late = (0..40).find(|_| {
            wealth.begin_round();
            wealth.multiply([2.0, 1.0]);
            wealth.evidence() > 1e4
        });
        assert!(
            late.is_some_and(|rounds| rounds < 33),
            "{late:?}: 2^33 is 1e4 times 2 bets times 401 times 402, and a little"
        );
        assert_eq!(wealth.best(), 0);
    }

    #[test]
    fn capital_neither_overflows_nor_becomes_no_number() {
        let mut wealth = Wealth::new(1);
        wealth.begin_round();
        for factor in [f64::NAN, f64::INFINITY, 1e300, -5.0, 2.0] {
            wealth.multiply([factor]);
            assert!(wealth.evidence().is_finite());
        }
    }
}
