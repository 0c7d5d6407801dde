//! Keys that settings know by another name, so that they are refused with that name.

/// Keys that are refused with what they are called here. Paths are relative to the settings that have this list.
#[derive(Debug, Clone, Copy)]
pub struct Renamed {
    /// The other path and the path here.
    pub keys: &'static [(&'static str, &'static str)],
    /// The other path, and in words what takes its place, where that is not among these settings.
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
        let of = |list: &[(&str, &'static str)]| list.iter().find(|(other, _)| *other == path).map(|(_, here)| *here);
        let here = of(self.keys).map(|key| format!("now called `{section}{key}`"));
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

#[cfg(test)]
mod tests {
    use super::*;

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
