//! What an episode may use. Whatever is used up ends it, and it counts as cut off, with the reason.

/// Limits of an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Turns, at least 1.
    pub turns: u32,
    /// Sampled tokens of one turn, at least 1.
    pub turn_tokens: u32,
    /// Tokens of the whole response: what is sampled, and what is added between the turns. Prompt and response fit the
    /// context with it.
    pub tokens: u32,
}

/// What was used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsedUp {
    Turns,
    /// The tokens of a turn: it was cut off.
    TurnTokens,
    /// The tokens of the whole response, by what was sampled.
    Tokens,
    /// The tokens of the whole response, by what the environment says: it leaves no room for another turn.
    Context,
}

impl UsedUp {
    pub const ALL: [Self; 4] = [Self::Turns, Self::TurnTokens, Self::Tokens, Self::Context];

    /// Name of the budget in lines and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Turns => "turns",
            Self::TurnTokens => "turn_tokens",
            Self::Tokens => "tokens",
            Self::Context => "context",
        }
    }
}

impl Budget {
    /// The most tokens that the next turn may sample, after a response of `used` tokens. `None` where there is no room.
    pub fn next_turn(&self, used: u32) -> Option<u32> {
        let left = self.tokens.saturating_sub(used);
        (left > 0).then(|| left.min(self.turn_tokens))
    }

    /// Whether `turns` are all.
    pub fn has_no_turn_after(&self, turns: u32) -> bool {
        turns >= self.turns
    }

    /// What a turn has used up that was cut off, in a response of `used` tokens up to its end.
    pub fn cut_off(&self, used: u32) -> UsedUp {
        if used >= self.tokens { UsedUp::Tokens } else { UsedUp::TurnTokens }
    }

    /// Whether `added` tokens leave room for a turn, after a response of `used` tokens.
    pub fn fits(&self, used: u32, added: u32) -> bool {
        used.checked_add(added).is_some_and(|all| all < self.tokens)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_response_is_longer_than_its_budget_and_every_turn_samples_something(
            turns in 1..9_u32, turn_tokens in 1..50_u32, tokens in 1..200_u32,
            steps in proptest::collection::vec((1..60_u32, 0..60_u32), 1..20),
        ) {
            let budget = Budget { turns, turn_tokens, tokens };
            let mut used = 0;
            let mut done = 0;
            for (wanted, added) in steps {
                let Some(most) = budget.next_turn(used) else { break };
                prop_assert!((1..=turn_tokens).contains(&most));
                used += wanted.min(most);
                done += 1;
                prop_assert!(used <= tokens && done <= turns);
                if budget.has_no_turn_after(done) || !budget.fits(used, added) {
                    break;
                }
                used += added;
                prop_assert!(budget.next_turn(used).is_some(), "what fits leaves room");
            }
        }
    }

    #[test]
    fn a_turn_is_cut_off_by_its_own_limit_or_by_that_of_the_whole() {
        let budget = Budget { turns: 3, turn_tokens: 10, tokens: 25 };
        assert_eq!((budget.cut_off(10), budget.cut_off(25)), (UsedUp::TurnTokens, UsedUp::Tokens));
        assert_eq!((budget.next_turn(0), budget.next_turn(20), budget.next_turn(25)), (Some(10), Some(5), None));
        assert!(budget.fits(10, 14) && !budget.fits(10, 15) && !budget.fits(10, u32::MAX));
    }
}
