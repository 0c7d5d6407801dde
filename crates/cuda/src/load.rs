//! Loading a library by its path or name.

use std::error::Error;
use std::path::Path;

/// Why the dynamic loader did not load a library.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LoadFailure {
    /// No such file exists.
    NotFound,
    /// The file exists but cannot be loaded, with the loader's reason: it may lack a library that it needs.
    Broken(String),
}

impl LoadFailure {
    /// `dlopen` reports errors as text alone. For a file that does not exist it names the file that was requested, in
    /// glibc ("NAME: cannot open shared object file: No such file or directory") and in musl ("Error loading shared
    /// library NAME: No such file or directory"); for a missing dependency it names the dependency.
    fn of(path: &Path, reason: String) -> Self {
        let name = path.display();
        let glibc = reason.starts_with(&format!("{name}: cannot open shared object file: No such file"));
        let musl = reason.starts_with(&format!("Error loading shared library {name}: No such file"));
        if glibc || musl { Self::NotFound } else { Self::Broken(reason) }
    }
}

pub(crate) fn load(path: &Path) -> Result<libloading::Library, LoadFailure> {
    // SAFETY: NVIDIA's libraries may be initialised at any time and on any thread; that a file of this name is one of
    // them is the responsibility of the person who installed it, as with every program that the dynamic loader links.
    let loaded = unsafe { libloading::Library::new(path) };
    loaded.map_err(|error| LoadFailure::of(path, error.source().map_or_else(|| error.to_string(), ToString::to_string)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_told_from_a_broken_one_by_the_loaders_message() {
        let path = Path::new("libcublas.so.13");
        let failure = |reason: &str| LoadFailure::of(path, reason.to_owned());
        for nowhere in [
            "libcublas.so.13: cannot open shared object file: No such file or directory",
            "Error loading shared library libcublas.so.13: No such file or directory",
        ] {
            assert_eq!(failure(nowhere), LoadFailure::NotFound);
        }
        for broken in [
            "libcublasLt.so.13: cannot open shared object file: No such file or directory",
            "libcublas.so.13: cannot open shared object file: Permission denied",
            "libcublas.so.13: invalid ELF header",
        ] {
            assert_eq!(failure(broken), LoadFailure::Broken(broken.to_owned()));
        }
        // What this machine's own loader says.
        let nowhere = Path::new("libevenkeel-of-which-there-is-none.so.1");
        assert!(matches!(load(nowhere), Err(LoadFailure::NotFound)), "{:?}", load(nowhere).err());
    }
}
