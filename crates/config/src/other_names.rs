//! Keys of other programs that people write out of habit, each with what it is here.

/// The keys of one other program.
#[derive(Debug, Clone, Copy)]
pub struct OtherNames {
    /// Owner of the names: `TRL's`.
    pub whose: &'static str,
    /// Paths there, and the settings that they are here.
    pub settings: &'static [(&'static str, &'static str)],
    /// Paths there, and in words what takes their place, where that is no single setting.
    pub words: &'static [(&'static str, &'static str)],
}

impl OtherNames {
    /// What a key is here; `matches` compares it with one of theirs.
    fn here(&self, matches: impl Fn(&str) -> bool) -> Option<String> {
        let whose = self.whose;
        let setting = self.settings.iter().find(|(theirs, _)| matches(theirs));
        let setting = setting.map(|(theirs, here)| format!("`{theirs}` is {whose} name; here it is `{here}`"));
        let words = || self.words.iter().find(|(theirs, _)| matches(theirs));
        setting.or_else(|| words().map(|(theirs, words)| format!("`{theirs}` is {whose} name; here: {words}")))
    }
}

/// What a key is here that is written as another program has it, with its first sections or without them.
pub(crate) fn recognised(names: &[OtherNames], path: &str) -> Option<String> {
    let is_meant = |theirs: &str| theirs == path || path.contains('.') && ends_with_part(theirs, path);
    names.iter().find_map(|names| names.here(is_meant))
}

/// What a key of another program is here, when it stands in a section of this one.
pub(crate) fn recognised_within(names: &[OtherNames], path: &str) -> Option<String> {
    names.iter().find_map(|names| names.here(|theirs| ends_with_part(path, theirs)))
}

fn ends_with_part(path: &str, end: &str) -> bool {
    path.strip_suffix(end).is_some_and(|rest| rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [OtherNames; 2] = [
        OtherNames { whose: "one's", settings: &[("rate", "optimizer.rate")], words: &[("epochs", "count steps")] },
        OtherNames { whose: "two's", settings: &[("actor.optim.lr", "optimizer.rate")], words: &[] },
    ];

    #[test]
    fn a_key_is_recognised_whole_without_its_first_sections_and_in_a_section_of_ours() {
        for path in ["actor.optim.lr", "optim.lr"] {
            assert_eq!(
                recognised(&NAMES, path).unwrap(),
                "`actor.optim.lr` is two's name; here it is `optimizer.rate`"
            );
        }
        assert_eq!(recognised(&NAMES, "epochs").unwrap(), "`epochs` is one's name; here: count steps");
        for path in ["lr", "tim.lr", "learner.rate", "rates"] {
            assert_eq!(recognised(&NAMES, path), None, "{path}");
        }
        assert!(recognised_within(&NAMES, "learner.rate").unwrap().starts_with("`rate` is one's name"));
        assert_eq!(recognised_within(&NAMES, "learner.karate"), None);
    }
}
