//! Words that may stand around an answer, from `words.txt`: a row for each word, its language and its role.

use std::collections::HashSet;
use std::sync::LazyLock;

/// What a word is; `words.txt` says what each role means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Role {
    Harmless,
    Denial,
    Lead,
    LeadOf,
    LeadTo,
    Short,
    Number,
    LeadCharacter,
    DenyingCharacter,
    FactorCharacter,
}

const ROLES: [(&str, Role); 10] = [
    ("harmless", Role::Harmless),
    ("denial", Role::Denial),
    ("lead", Role::Lead),
    ("lead-of", Role::LeadOf),
    ("lead-to", Role::LeadTo),
    ("short", Role::Short),
    ("number", Role::Number),
    ("lead-character", Role::LeadCharacter),
    ("denying-character", Role::DenyingCharacter),
    ("factor-character", Role::FactorCharacter),
];

static WORDS: LazyLock<HashSet<(Role, &str)>> = LazyLock::new(|| rows().collect());

fn rows() -> impl Iterator<Item = (Role, &'static str)> {
    let lines = include_str!("words.txt").lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| {
        let mut columns = line.split('\t');
        let role = columns.next()?;
        let (_, role) = ROLES.iter().find(|(name, _)| *name == role)?;
        Some((*role, columns.nth(1)?))
    })
}

/// Whether a word has a role, in whatever case its ASCII letters are.
pub(super) fn is(role: Role, word: &str) -> bool {
    if word.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return WORDS.contains(&(role, word.to_ascii_lowercase().as_str()));
    }
    WORDS.contains(&(role, word))
}

/// Whether a character has a role.
pub(super) fn is_character(role: Role, character: char) -> bool {
    is(role, character.encode_utf8(&mut [0; 4]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_file_has_a_known_role_a_language_and_a_word_in_lower_case() {
        let lines: Vec<_> = include_str!("words.txt").lines().filter(|line| !line.starts_with('#')).collect();
        for line in &lines {
            let columns: Vec<_> = line.split('\t').collect();
            let [role, language, word] = columns[..] else { panic!("{line}: not three columns") };
            assert!(ROLES.iter().any(|(name, _)| *name == role), "{line}: role");
            assert!(language.len() == 2 && language.bytes().all(|byte| byte.is_ascii_lowercase()), "{line}: language");
            assert!(!word.is_empty() && word == word.to_lowercase() && !word.contains(' '), "{line}: word");
        }
        assert_eq!(rows().count(), lines.len());
        assert_eq!(WORDS.len(), lines.len(), "a word stands twice in one role");
    }

    #[test]
    fn roles_are_looked_up_whatever_the_case() {
        assert!(is(Role::Denial, "NOT") && is(Role::Lead, "answer") && !is(Role::Lead, "divisors"));
        assert!(is_character(Role::FactorCharacter, '万') && !is_character(Role::FactorCharacter, 'a'));
    }
}
