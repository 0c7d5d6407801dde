//! Keys of earlier versions, so that an old file is refused with what its keys are now.

/// Units that names carried before values did.
const UNITS: [&str; 3] = ["_ms", "_s", "_bytes"];

/// Keys that earlier versions had. Paths are relative to the settings that have this list.
#[derive(Debug, Clone, Copy)]
pub struct Renamed {
    /// Old and new path.
    pub keys: &'static [(&'static str, &'static str)],
    /// Old path, and in words what has taken its place, where that is not among these settings.
    pub elsewhere: &'static [(&'static str, &'static str)],
    /// Sections with a list of their own. A section without a name is part of these settings themselves.
    pub sections: &'static [(&'static str, Renamed)],
}

impl Renamed {
    pub const NONE: Self = Self { keys: &[], elsewhere: &[], sections: &[] };

    /// Keys with another path.
    pub const fn keys(keys: &'static [(&'static str, &'static str)]) -> Self {
        Self { keys, ..Self::NONE }
    }

    /// What became of a key, in words.
    pub(crate) fn hint(&self, path: &str) -> Option<String> {
        self.hint_within("", path)
    }

    /// `section` is empty, or a path that ends with a dot.
    fn hint_within(&self, section: &str, path: &str) -> Option<String> {
        let of = |list: &[(&str, &'static str)]| list.iter().find(|(old, _)| *old == path).map(|(_, new)| *new);
        let here = of(self.keys).map(|new| now_called(format_args!("{section}{new}")));
        let here = here.or_else(|| of(self.elsewhere).map(|words| format!("replaced by {words}")));
        here.or_else(|| {
            self.sections.iter().find_map(|(name, renamed)| {
                if name.is_empty() {
                    return renamed.hint_within(section, path);
                }
                let rest = path.strip_prefix(name)?.strip_prefix('.')?;
                renamed.hint_within(&format!("{section}{name}."), rest)
            })
        })
    }
}

/// The hint for a key of this name now.
pub(crate) fn now_called(path: impl std::fmt::Display) -> String {
    format!("now called `{path}`")
}

/// The key among `allowed` that is `name` without a unit.
pub(crate) fn without_unit<'a>(name: &str, allowed: &'a [String]) -> Option<&'a str> {
    let mut candidates = UNITS.iter().filter_map(|unit| name.strip_suffix(unit));
    candidates.find_map(|new| allowed.iter().map(String::as_str).find(|key| *key == new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_with_its_unit_is_answered_with_the_one_without() {
        let allowed = ["drain".to_owned(), "max_message".to_owned()];
        assert_eq!(without_unit("drain_ms", &allowed), Some("drain"));
        assert_eq!(without_unit("max_message_bytes", &allowed), Some("max_message"));
        assert_eq!(without_unit("params", &allowed), None);
        assert_eq!(without_unit("drain", &allowed), None);
    }

    #[test]
    fn sections_bring_their_own_keys() {
        const INNER: Renamed = Renamed { elsewhere: &[("gone", "`b` of the run")], ..Renamed::keys(&[("old", "new")]) };
        const MIDDLE: Renamed = Renamed { sections: &[("inner", INNER)], ..Renamed::NONE };
        const OUTER: Renamed =
            Renamed { sections: &[("", INNER), ("middle", MIDDLE)], ..Renamed::keys(&[("middle.keep", "keep.all")]) };
        for (old, new) in [
            ("middle.keep", Some("now called `keep.all`")),
            ("old", Some("now called `new`")),
            ("middle.inner.old", Some("now called `middle.inner.new`")),
            ("middle.inner.gone", Some("replaced by `b` of the run")),
            ("middle.old", None),
            ("middleinner.old", None),
            ("keep", None),
        ] {
            assert_eq!(OUTER.hint(old).as_deref(), new, "{old}");
        }
    }
}
