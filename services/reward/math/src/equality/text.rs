//! Texts in canonical spelling.

use crate::{Policy, Reason, Text, TextCase};

pub(super) fn compare(gold: &Text, answer: &Text, policy: &Policy) -> Reason {
    let (gold, answer) = (gold.as_str(), answer.as_str());
    let equal = gold == answer || (policy.text_case == TextCase::Fold && folded(gold).eq(folded(answer)));
    if equal { Reason::EqualText } else { Reason::DifferentText }
}

fn folded(text: &str) -> impl Iterator<Item = char> {
    text.chars().flat_map(char::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_matters_where_the_policy_says_so() {
        let (gold, answer) = (Text("Évelyn".into()), Text("évelyn".into()));
        let exact = Policy { text_case: TextCase::Exact, ..Policy::default() };
        assert_eq!(compare(&gold, &answer, &Policy::default()), Reason::EqualText);
        assert_eq!(compare(&gold, &answer, &exact), Reason::DifferentText);
    }
}
