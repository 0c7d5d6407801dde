//! Settings that have another name than in earlier versions, so that an old file is refused with the new name.

/// Old and new name, without the section.
const RENAMED: &[(&str, &str)] = &[
    ("settle_ms", "settle_timeout"),
    ("idle_connection_ms", "idle_connection_timeout"),
    ("max_bytes", "max_memory"),
    ("wait_ms", "outage_timeout"),
    ("max_private_bytes", "max_private_tests"),
    ("max_tests_bytes", "tests_memory"),
    ("task", "kind"),
    ("path", "files"),
    ("held_out_path", "held_out_files"),
];

/// Units that names carried before values did.
const UNITS: [&str; 3] = ["_ms", "_s", "_bytes"];

/// The key among `allowed` that an earlier version called `name`.
pub(crate) fn renamed<'a>(name: &str, allowed: &'a [String]) -> Option<&'a str> {
    let listed = RENAMED.iter().filter(|(old, _)| *old == name).map(|(_, new)| *new);
    let mut candidates = listed.chain(UNITS.iter().filter_map(|unit| name.strip_suffix(unit)));
    candidates.find_map(|new| allowed.iter().map(String::as_str).find(|key| *key == new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_with_its_unit_is_answered_with_the_one_without() {
        let allowed = ["drain".to_owned(), "max_message".to_owned()];
        assert_eq!(renamed("drain_ms", &allowed), Some("drain"));
        assert_eq!(renamed("max_message_bytes", &allowed), Some("max_message"));
        assert_eq!(renamed("settle_ms", &["settle".to_owned()]), Some("settle"));
        assert_eq!(renamed("settle_ms", &["settle_timeout".to_owned()]), Some("settle_timeout"));
        assert_eq!(renamed("params", &allowed), None);
        assert_eq!(renamed("drain", &allowed), None);
    }
}
