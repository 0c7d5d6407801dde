//! Which columns of a file are read.

/// The columns that a reader needs. Formats that store columns apart read no others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Columns {
    /// Every column of the file.
    All,
    /// The columns at these paths, with dots into structures.
    Of(Vec<String>),
}

impl Columns {
    /// The columns of these paths.
    pub fn new<T: Into<String>>(paths: impl IntoIterator<Item = T>) -> Self {
        Self::Of(paths.into_iter().map(Into::into).collect())
    }

    #[must_use]
    pub(crate) fn with<'a>(mut self, paths: impl IntoIterator<Item = &'a str>) -> Self {
        if let Self::Of(own) = &mut self {
            own.extend(paths.into_iter().map(str::to_owned));
        }
        self
    }

    /// Whether a leaf is read, by the names on the way to it: it lies at or below a path that is asked for.
    pub(crate) fn take(&self, leaf: &[String]) -> bool {
        let Self::Of(paths) = self else { return true };
        paths.iter().any(|path| {
            // A column may have a dot in its name.
            leaf.first() == Some(path) || {
                let mut names = leaf.iter();
                path.split('.').all(|wanted| names.next().is_some_and(|name| name == wanted))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_is_read_where_its_path_or_one_above_it_is_asked_for() {
        let columns = Columns::new(["prompt", "reward_model.ground_truth", "a.b"]);
        let take = |path: &[&str]| columns.take(&path.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert!(take(&["prompt"]) && take(&["prompt", "list", "element", "content"]));
        assert!(take(&["reward_model", "ground_truth"]) && take(&["reward_model", "ground_truth", "list", "item"]));
        assert!(take(&["a.b"]) && take(&["a", "b"]));
        assert!(!take(&["reward_model", "style"]) && !take(&["reward_model"]) && !take(&["a"]) && !take(&["prompts"]));
        assert!(Columns::All.take(&["reward_model".to_owned(), "style".to_owned()]));
    }
}
