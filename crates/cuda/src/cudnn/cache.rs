//! Plans in files: a folder for each version of the library and device, a file for each shape and pass.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use evenkeel_kernels::{FusedPass, FusedShape};

/// Names the folder of plans; empty for none.
pub const CACHE: &str = "EVENKEEL_CUDA_CACHE";

/// The first bytes of a file.
const MAGIC: &str = "evenkeel cudnn plan 1";
/// Larger files are not plans.
const LARGEST: u64 = 64 << 20;

/// Plans of one device and version.
pub(super) struct PlanCache {
    folder: PathBuf,
    /// What a file must say that it is of.
    owner: String,
}

impl PlanCache {
    /// Under the folder that the environment names, or none.
    pub(super) fn of_this_process(version: &str, device: &str) -> Option<Self> {
        folder(|name| std::env::var_os(name)).map(|root| Self::new(&root, version, device))
    }

    pub(super) fn new(root: &Path, version: &str, device: &str) -> Self {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
        let name: String = device.chars().map(plain).collect();
        Self { folder: root.join(format!("cudnn-{version}")).join(name), owner: format!("cudnn {version} on {device}") }
    }

    fn path(&self, shape: FusedShape, pass: FusedPass) -> PathBuf {
        self.folder.join(format!("{pass}-{shape}.plan"))
    }

    fn header(&self, shape: FusedShape, pass: FusedPass, plan: &[u8]) -> String {
        format!("{MAGIC}\n{}\n{pass} {shape}\n{} {:016x}\n", self.owner, plan.len(), checksum(plan))
    }

    /// A plan, or `None` where there is no file, or one that is damaged or of something else.
    pub(super) fn read(&self, shape: FusedShape, pass: FusedPass) -> Option<Vec<u8>> {
        let path = self.path(shape, pass);
        let about = fs::metadata(&path).ok()?;
        if !about.is_file() || about.len() > LARGEST {
            return None;
        }
        let bytes = fs::read(&path).ok()?;
        // Four lines and the plan.
        let begin = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(3)?.0 + 1;
        let (header, plan) = bytes.split_at(begin);
        (header == self.header(shape, pass, plan).as_bytes()).then(|| plan.to_vec())
    }

    /// Keeps a plan. A reader sees the whole file or none.
    pub(super) fn write(&self, shape: FusedShape, pass: FusedPass, plan: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let path = self.path(shape, pass);
        let unfinished = path.with_extension(format!("{}.tmp", std::process::id()));
        let written = fs::File::create(&unfinished).and_then(|mut file| {
            file.write_all(self.header(shape, pass, plan).as_bytes())?;
            file.write_all(plan)
        });
        let kept = written.and_then(|()| fs::rename(&unfinished, &path));
        if kept.is_err() {
            // A partial file is useless.
            let _ = fs::remove_file(&unfinished);
        }
        kept
    }
}

/// The folder that is named, or the user's cache.
fn folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    match variable(CACHE) {
        Some(named) => (!named.is_empty()).then(|| named.into()),
        None => {
            path("XDG_CACHE_HOME").or_else(|| path("HOME").map(|home| home.join(".cache"))).map(|c| c.join("evenkeel"))
        }
    }
}

/// FNV-1a: finds what a disk or a stopped writer damaged.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: FusedShape = FusedShape { sequences: 8, longest: 4096, heads: 16, kv_heads: 8, dim: 128 };
    const PLAN: &[u8] = b"{\"plan\":\n\n\n\n\n\"with lines\"}";

    #[test]
    fn a_plan_is_read_as_it_was_written_and_under_its_own_shape_pass_version_and_device_alone() {
        let root = tempfile::tempdir().unwrap();
        let cache = PlanCache::new(root.path(), "9.19.0", "NVIDIA H200 9.0");
        assert_eq!(cache.read(SHAPE, FusedPass::Forward), None);
        cache.write(SHAPE, FusedPass::Forward, PLAN).unwrap();
        assert_eq!(cache.read(SHAPE, FusedPass::Forward).as_deref(), Some(PLAN));
        assert_eq!(cache.read(SHAPE, FusedPass::Backward), None);
        assert_eq!(cache.read(FusedShape { sequences: 4, ..SHAPE }, FusedPass::Forward), None);
        for (version, device) in [("9.20.0", "NVIDIA H200 9.0"), ("9.19.0", "NVIDIA B200 10.0")] {
            assert_eq!(PlanCache::new(root.path(), version, device).read(SHAPE, FusedPass::Forward), None);
        }
        // Nothing but the plan is left in the folder.
        assert_eq!(fs::read_dir(&cache.folder).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_is_damaged_or_of_something_else_is_not_a_plan() {
        let root = tempfile::tempdir().unwrap();
        let cache = PlanCache::new(root.path(), "9.19.0", "NVIDIA H200 9.0");
        cache.write(SHAPE, FusedPass::Forward, PLAN).unwrap();
        let path = cache.path(SHAPE, FusedPass::Forward);
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, &damaged).unwrap();
            assert_eq!(cache.read(SHAPE, FusedPass::Forward), None, "byte {at}");
            fs::write(&path, &whole[..at]).unwrap();
            assert_eq!(cache.read(SHAPE, FusedPass::Forward), None, "cut at {at}");
        }
        // Another's file under this name.
        let other = PlanCache::new(root.path(), "9.19.0", "NVIDIA H100 9.0");
        other.write(SHAPE, FusedPass::Forward, PLAN).unwrap();
        fs::copy(other.path(SHAPE, FusedPass::Forward), &path).unwrap();
        assert_eq!(cache.read(SHAPE, FusedPass::Forward), None);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_an_error_and_has_no_plan() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        let cache = PlanCache::new(&file, "9.19.0", "NVIDIA H200 9.0");
        assert!(cache.write(SHAPE, FusedPass::Forward, PLAN).is_err());
        assert_eq!(cache.read(SHAPE, FusedPass::Forward), None);
    }

    #[test]
    fn plans_are_kept_in_the_folder_that_is_named_or_in_the_users_cache() {
        let folder_with = |set: &'static [(&str, &str)]| {
            folder(|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
        };
        assert_eq!(folder_with(&[(CACHE, "/plans"), ("HOME", "/home/a")]), Some("/plans".into()));
        assert_eq!(folder_with(&[(CACHE, ""), ("HOME", "/home/a")]), None);
        assert_eq!(folder_with(&[("XDG_CACHE_HOME", "/cache"), ("HOME", "/home/a")]), Some("/cache/evenkeel".into()));
        assert_eq!(
            folder_with(&[("XDG_CACHE_HOME", "relative"), ("HOME", "/home/a")]),
            Some("/home/a/.cache/evenkeel".into())
        );
        assert_eq!(folder_with(&[]), None);
    }
}
