//! Finds the CUDA libraries in the folders of the system, of Python packages and of the settings.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::library::Library;
use crate::load::{LoadFailure, load};

/// Names folders that are searched before all others, separated by colons.
pub const FOLDERS: &str = "EVENKEEL_CUDA_LIBRARIES";

/// A library in this process. It stays open until the process ends.
#[derive(Clone, Copy, Debug)]
pub struct LoadedLibrary {
    pub library: Library,
    handle: &'static libloading::Library,
    path: &'static Path,
}

impl LoadedLibrary {
    pub fn path(&self) -> &'static Path {
        self.path
    }

    /// The address of a function of its C interface, or `None` if this version has no such function.
    pub(crate) fn address(&self, name: &str) -> Option<*const ()> {
        // SAFETY: the address is only taken; who calls it knows its type.
        let symbol = unsafe { self.handle.get::<unsafe extern "C" fn()>(name) };
        symbol.ok().map(|symbol| *symbol as *const ())
    }
}

/// A library that was not found, or found and not loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Missing {
    pub library: Library,
    /// The places that were searched, in order.
    pub searched: Vec<String>,
    /// Files of its name that could not be loaded, with the loader's reason.
    pub broken: Vec<String>,
    /// Files of another version of it in the places that were searched, by what their names end with.
    pub other_versions: Vec<String>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let library = self.library;
        write!(f, "{} ({}) ", library.file(), library.purpose())?;
        if self.broken.is_empty() {
            write!(f, "was not found: searched {}", self.searched.join(", "))?;
            if !self.other_versions.is_empty() {
                write!(f, "; found of another version: {}", self.other_versions.join(", "))?;
            }
        } else {
            write!(f, "cannot be loaded: {}", self.broken.join("; "))?;
        }
        write!(f, "; {}; {FOLDERS} names further folders", library.source())
    }
}

/// Opens a library: from the folders of [`FOLDERS`], by the rules of the dynamic loader (`LD_LIBRARY_PATH`, its cache),
/// from the usual places of a toolkit, and from the Python packages of an active environment.
///
/// # Errors
/// It was found nowhere, or cannot be loaded.
pub fn open(library: Library) -> Result<LoadedLibrary, Missing> {
    static OPEN: Mutex<BTreeMap<Library, LoadedLibrary>> = Mutex::new(BTreeMap::new());
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(opened) = open.get(&library) {
        return Ok(*opened);
    }
    let opened = find(library, &SearchPaths::of_this_process())?;
    open.insert(library, opened);
    Ok(opened)
}

#[derive(Debug, Default)]
struct SearchPaths {
    first: Vec<PathBuf>,
    /// Whether the dynamic loader is asked by bare file name.
    loader: bool,
    last: Vec<PathBuf>,
}

impl SearchPaths {
    fn of_this_process() -> Self {
        Self { first: listed(std::env::var_os(FOLDERS)), loader: true, last: usual(|name| std::env::var_os(name)) }
    }
}

fn find(library: Library, places: &SearchPaths) -> Result<LoadedLibrary, Missing> {
    let mut missing = Missing { library, searched: Vec::new(), broken: Vec::new(), other_versions: Vec::new() };
    for folder in &places.first {
        if let Some(opened) = load_from(folder, &mut missing) {
            return Ok(opened);
        }
    }
    if places.loader {
        missing.searched.push("the dynamic loader's path (LD_LIBRARY_PATH and its cache)".into());
        match load(Path::new(library.file())) {
            Ok(handle) => {
                let path = loaded_file(library.file()).unwrap_or_else(|| library.file().into());
                if !is_too_old(library, &path) {
                    return Ok(keep(library, handle, path));
                }
                // Nothing of it was called: closed, it leaves its name to the next file.
                drop(handle);
                missing.other_versions.push(path.display().to_string());
            }
            Err(LoadFailure::NotFound) => {
                for folder in listed(std::env::var_os("LD_LIBRARY_PATH")) {
                    missing.other_versions.extend(other_versions(&folder, library));
                }
            }
            Err(LoadFailure::Broken(reason)) => missing.broken.push(reason),
        }
    }
    for folder in &places.last {
        if let Some(opened) = load_from(folder, &mut missing) {
            return Ok(opened);
        }
    }
    Err(missing)
}

fn load_from(folder: &Path, missing: &mut Missing) -> Option<LoadedLibrary> {
    missing.searched.push(folder.display().to_string());
    let path = folder.join(missing.library.file());
    if !path.exists() {
        missing.other_versions.extend(other_versions(folder, missing.library));
        return None;
    }
    if let Some(older) = path.canonicalize().ok().filter(|file| is_too_old(missing.library, file)) {
        missing.other_versions.push(older.display().to_string());
        return None;
    }
    if missing.library == Library::Nvrtc {
        load_builtins(folder);
    }
    match load(&path) {
        Ok(handle) => Some(keep(missing.library, handle, path)),
        Err(LoadFailure::Broken(reason)) => {
            missing.broken.push(reason);
            None
        }
        // The file was removed since.
        Err(LoadFailure::NotFound) => None,
    }
}

/// Whether a file's name says that its version is below the first that is of use: `libcudnn.so.9.14.0`. A system's
/// older one must not hide the one that comes with PyTorch.
fn is_too_old(library: Library, file: &Path) -> bool {
    let Some(least) = library.least() else { return false };
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let version = name.split_once(".so.").map_or("", |(_, version)| version);
    let mut numbers = version.split('.').map_while(|part| part.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => [major, minor] < least,
        _ => false,
    }
}

/// Files of a folder that are the library in another version: `libcublas.so.12` where `libcublas.so.13` is needed. Not
/// the name without a version that compilers link with.
fn other_versions(folder: &Path, library: Library) -> impl Iterator<Item = String> {
    let stem = library.file().trim_end_matches(|c: char| c.is_ascii_digit());
    let is_version = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    let has_version = move |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // Keeps libcublas.so.12 and drops libcublas.so.12.9.1.
        name.strip_prefix(stem).is_some_and(is_version)
    };
    children(folder).filter(has_version).map(|path| path.display().to_string())
}

/// NVRTC opens a second file at its first compilation, by name alone: outside the loader's path it finds only what is
/// loaded already.
fn load_builtins(folder: &Path) {
    for path in children(folder).filter(|path| name_begins(path, "libnvrtc-builtins.so")) {
        // One that cannot be loaded is one that NVRTC will name.
        if let Ok(handle) = load(&path) {
            std::mem::forget(handle);
        }
    }
}

/// Leaks the handle: these libraries register handlers that must outlive whatever used them.
fn keep(library: Library, handle: libloading::Library, path: PathBuf) -> LoadedLibrary {
    LoadedLibrary { library, handle: Box::leak(Box::new(handle)), path: Box::leak(path.into_boxed_path()) }
}

/// The file that is mapped into this process under that name.
fn loaded_file(name: &str) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    // A link's target carries the full version: libcuda.so.1 is libcuda.so.580.65.06.
    let stem = name.split_inclusive(".so").next()?;
    let file = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    file.map(Path::new)
        .find(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(stem)))
        .map(Into::into)
}

fn listed(paths: Option<OsString>) -> Vec<PathBuf> {
    paths.map_or_else(Vec::new, |paths| {
        std::env::split_paths(&paths).filter(|path| !path.as_os_str().is_empty()).collect()
    })
}

/// The usual places, given the environment.
fn usual(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let toolkits = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(&variable).map(PathBuf::from);
    let mut folders: Vec<PathBuf> = toolkits.chain(["/usr/local/cuda".into()]).map(|root| root.join("lib64")).collect();
    folders.extend(["/usr/local/nvidia/lib64", "/usr/lib/wsl/lib"].map(PathBuf::from));
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(&variable).map(PathBuf::from);
    // The Python that a shell would start: images bring PyTorch, and with it these libraries, in a Python of their own.
    let interpreters = listed(variable("PATH")).into_iter().filter_map(|folder| python_root(&folder));
    for root in
        environments.chain(interpreters).chain(["/usr/local", "/usr", "/opt/conda", "/opt/venv"].map(PathBuf::from))
    {
        for python in children(&root.join("lib")).filter(|path| name_begins(path, "python3")) {
            for packages in ["site-packages", "dist-packages"] {
                let of_nvidia = children(&python.join(packages).join("nvidia"));
                folders.extend(of_nvidia.map(|package| package.join("lib")).filter(|lib| lib.is_dir()));
            }
        }
    }
    let mut seen = BTreeSet::new();
    folders.retain(|folder| seen.insert(folder.clone()));
    folders
}

/// The root of the Python whose program is in a folder of PATH: the parent of `bin`, of the program itself where that
/// is a link.
fn python_root(folder: &Path) -> Option<PathBuf> {
    let program = folder.join("python3");
    let is_environment = folder.parent().is_some_and(|root| root.join("pyvenv.cfg").is_file());
    let program = if is_environment { program } else { program.canonicalize().ok()? };
    program.exists().then(|| program.parent()?.parent().map(Path::to_owned)).flatten()
}

/// What a folder holds, in order of names; nothing if it cannot be read.
fn children(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths.into_iter()
}

fn name_begins(path: &Path, prefix: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_names_every_place_that_was_searched_and_how_to_get_it() {
        let places = SearchPaths { first: vec!["/nowhere".into()], loader: false, last: vec!["/nor/here".into()] };
        let missing = find(Library::Cublas, &places).unwrap_err();
        assert_eq!(missing.searched, ["/nowhere", "/nor/here"]);
        let text = missing.to_string();
        for part in ["libcublas.so.13", "matrix products", "/nowhere, /nor/here", "nvidia-cublas", FOLDERS] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_library_of_another_version_is_named_where_the_right_one_was_searched() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["libcublas.so", "libcublas.so.12", "libcublas.so.12.9.1", "libcublasLt.so.12", "libnvrtc.so.12"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let places = SearchPaths { first: vec![folder.path().into()], ..SearchPaths::default() };
        let missing = find(Library::Cublas, &places).unwrap_err();
        assert_eq!(missing.other_versions, [folder.path().join("libcublas.so.12").display().to_string()]);
        let text = missing.to_string();
        for part in ["libcublas.so.13", "found of another version", "libcublas.so.12", "nvidia-cublas"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn another_major_version_of_cudnn_is_named_beside_the_one_that_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["libcudnn.so.8", "libcudnn.so.10", "libcudnn_graph.so.8"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let places = SearchPaths { first: vec![folder.path().into()], ..SearchPaths::default() };
        let mut missing = find(Library::Cudnn, &places).unwrap_err();
        missing.other_versions.sort();
        let named = ["libcudnn.so.10", "libcudnn.so.8"].map(|name| folder.path().join(name).display().to_string());
        assert_eq!(missing.other_versions, named);
        let text = missing.to_string();
        for part in ["libcudnn.so.9", "found of another version", "nvidia-cudnn-cu13"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_file_that_is_too_old_by_its_name_does_not_hide_a_later_one() {
        let root = tempfile::tempdir().unwrap();
        let [system, package] = ["system", "package"].map(|name| root.path().join(name));
        for folder in [&system, &package] {
            std::fs::create_dir(folder).unwrap();
        }
        std::fs::write(system.join("libcudnn.so.9.14.0"), "not a library").unwrap();
        std::os::unix::fs::symlink("libcudnn.so.9.14.0", system.join("libcudnn.so.9")).unwrap();
        std::fs::write(package.join("libcudnn.so.9"), "not a library either").unwrap();
        let places = SearchPaths { first: vec![system], loader: false, last: vec![package.clone()] };
        let missing = find(Library::Cudnn, &places).unwrap_err();
        assert!(missing.other_versions[0].ends_with("system/libcudnn.so.9.14.0"), "{missing:?}");
        assert_eq!(missing.broken.len(), 1, "{missing:?}");
        assert!(missing.broken[0].contains("package/libcudnn.so.9"), "{missing:?}");
        for (name, too_old) in [("9.18.1", true), ("9.19.0", false), ("10.0.0", false), ("9", false), ("9.x", false)] {
            assert_eq!(is_too_old(Library::Cudnn, Path::new(&format!("libcudnn.so.{name}"))), too_old, "{name}");
        }
        assert!(!is_too_old(Library::Cublas, Path::new("libcublas.so.13.0.0")));
    }

    #[test]
    fn a_file_that_is_not_a_library_is_reported_with_the_reason_of_the_loader() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("libnvrtc.so.13"), "not a library").unwrap();
        let places = SearchPaths { first: vec![folder.path().into()], ..SearchPaths::default() };
        let missing = find(Library::Nvrtc, &places).unwrap_err();
        assert_eq!(missing.broken.len(), 1, "{missing}");
        assert!(missing.to_string().contains("cannot be loaded"), "{missing}");
        assert!(missing.broken[0].contains("libnvrtc.so.13"), "{missing}");
    }

    #[test]
    fn packages_of_an_active_python_environment_are_searched() {
        let root = tempfile::tempdir().unwrap();
        let lib = root.path().join("lib/python3.12/site-packages/nvidia/cu13/lib");
        std::fs::create_dir_all(&lib).unwrap();
        let found = usual(|name| (name == "VIRTUAL_ENV").then(|| root.path().into()));
        assert!(found.contains(&lib), "{found:?}");
        assert!(!usual(|_| None).contains(&lib));
    }

    #[test]
    fn packages_of_the_python_on_the_path_are_searched_also_through_a_link() {
        let root = tempfile::tempdir().unwrap();
        let lib = root.path().join("opt/python/lib/python3.12/dist-packages/nvidia/cudnn/lib");
        let bin = root.path().join("opt/python/bin");
        let links = root.path().join("links");
        for folder in [&lib, &bin, &links] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(bin.join("python3"), "").unwrap();
        std::os::unix::fs::symlink(bin.join("python3"), links.join("python3")).unwrap();
        let folders = |path: PathBuf| usual(move |name| (name == "PATH").then(|| path.clone().into()));
        let lib = lib.canonicalize().unwrap();
        for path in [bin, links.clone()] {
            let found: Vec<PathBuf> = folders(path).iter().filter_map(|path| path.canonicalize().ok()).collect();
            assert!(found.contains(&lib), "{found:?}");
        }
        std::fs::remove_file(links.join("python3")).unwrap();
        assert!(!folders(links).iter().any(|path| path.ends_with("nvidia/cudnn/lib") && path.starts_with(root.path())));
    }

    #[test]
    fn folders_are_separated_by_colons() {
        assert_eq!(listed(Some("/a::/b".into())), [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!(listed(None), Vec::<PathBuf>::new());
    }
}
