//! Folders in which nobody else can plant or replace anything.

use std::fs::{self, DirBuilder, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

const ROOT: u32 = 0;
/// Whom a user namespace shows in place of an owner that it does not know, such as the root of the host.
const UNKNOWN: u32 = 65534;
/// May write: members of the group, everybody.
const GROUP: u32 = 0o020;
const OTHERS: u32 = 0o002;
/// Entries of a folder may be renamed and removed by their owners alone.
const STICKY: u32 = 0o1000;

/// Makes a folder that its user alone may enter, or accepts one that is there and that nobody else may write to: a real
/// folder of this user, in a folder where not everybody may exchange it. Missing folders above it are made as usual.
///
/// Group members may write where the group has the number of the user. Such groups are the user's own: those that
/// systems make with each user, and the `fsGroup` of a pod. On a file system that keeps no owners and modes, such as
/// CIFS, whoever mounts it decides who may write, and every folder is accepted.
///
/// # Errors
/// The operating system's, and [`PermissionDenied`](io::ErrorKind::PermissionDenied) for a folder that is not private,
/// with what is allowed.
pub fn private_folder(path: &Path) -> io::Result<()> {
    // Without a slash at its end, which would lead through a link.
    let path: PathBuf = std::path::absolute(path)?.components().collect();
    let parent = path.parent().unwrap_or(&path);
    fs::create_dir_all(parent)?;
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(&path)?;
    if !found.is_dir() {
        let what = if found.is_symlink() { "a link" } else { "no folder" };
        return Err(refused(format!("it is {what}; name a folder, or a path that does not exist")));
    }
    let exchanged = may_exchange(Owned::of(&fs::metadata(parent)?), user()).then(|| {
        format!(
            "everybody may replace folders in {}; use one below a folder of user {} or of root, such as /dev/shm",
            parent.display(),
            user()
        )
    });
    match exchanged.or_else(|| check(Owned::of(&found), user()).err()) {
        Some(reason) if keeps_owners(&path) => Err(refused(reason)),
        _ => Ok(()),
    }
}

/// Whether a new file in this folder belongs to its user alone. If none can be made, that is assumed.
fn keeps_owners(folder: &Path) -> bool {
    let probe = folder.join(format!(".owner-{}", std::process::id()));
    let Ok(file) = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&probe) else { return true };
    // That of the open file: somebody else may exchange its name.
    let keeps = file.metadata().map_or(true, |found| found.uid() == user() && found.mode() & 0o077 == 0);
    let _ = fs::remove_file(probe);
    keeps
}

fn user() -> u32 {
    geteuid().as_raw()
}

fn refused(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, reason)
}

/// Whether somebody else than root may exchange what is in this folder.
fn may_exchange(parent: Owned, user: u32) -> bool {
    let by_user = parent.user == user && parent.mode & STICKY != 0;
    parent.mode & OTHERS != 0 && !matches!(parent.user, ROOT | UNKNOWN) && !by_user
}

/// Whose something is, and who may do what with it.
#[derive(Clone, Copy)]
struct Owned {
    user: u32,
    group: u32,
    mode: u32,
}

impl Owned {
    fn of(found: &Metadata) -> Self {
        Self { user: found.uid(), group: found.gid(), mode: found.mode() }
    }
}

/// Why a folder is not private to a user.
fn check(found: Owned, user: u32) -> Result<(), String> {
    if found.user != user {
        return Err(format!("it belongs to user {}; name a folder of user {user}", found.user));
    }
    let writers = if found.group == user { OTHERS } else { GROUP | OTHERS };
    let mode = found.mode & 0o777;
    if mode & writers != 0 {
        return Err(format!("others may write to it (mode {mode:o}); use chmod go-w, or name another folder"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn refusal(path: &Path) -> String {
        let error = private_folder(path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
        error.to_string()
    }

    #[test]
    fn a_folder_that_is_made_is_entered_by_its_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("above/weights");
        private_folder(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        private_folder(&path).unwrap();
    }

    #[test]
    fn one_that_others_may_read_is_accepted_and_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        mode(dir.path(), 0o755);
        private_folder(dir.path()).unwrap();
        assert_eq!(fs::metadata(dir.path()).unwrap().mode() & 0o777, 0o755);
    }

    #[test]
    fn one_that_others_may_write_to_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        mode(dir.path(), 0o777);
        let said = refusal(dir.path());
        assert!(said.contains("others may write to it (mode 777)") && said.contains("chmod go-w"), "{said}");
        assert!(keeps_owners(dir.path()) && fs::read_dir(dir.path()).unwrap().next().is_none(), "nothing is left");
    }

    #[test]
    fn a_group_may_write_only_where_it_is_the_users_own() {
        let of_group = |group| check(Owned { user: 7, group, mode: 0o770 }, 7);
        assert!(of_group(7).is_ok() && of_group(8).is_err());
        assert!(check(Owned { user: 7, group: 7, mode: 0o772 }, 7).is_err());
    }

    #[test]
    fn one_of_somebody_else_is_refused_by_its_owner() {
        let said = check(Owned { user: 7, group: 7, mode: 0o700 }, 8).unwrap_err();
        assert!(said.contains("belongs to user 7"), "{said}");
    }

    #[test]
    fn a_link_is_refused_also_with_a_slash_at_its_end_and_so_is_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real");
        fs::create_dir(&real).unwrap();
        let link = dir.path().join("link");
        symlink(&real, &link).unwrap();
        for path in [link.clone(), link.join("")] {
            assert!(refusal(&path).contains("it is a link"));
        }
        let dangling = dir.path().join("dangling");
        symlink("nowhere", &dangling).unwrap();
        assert!(refusal(&dangling).contains("it is a link"));
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(refusal(&file).contains("it is no folder"));
    }

    #[test]
    fn one_that_everybody_may_exchange_is_refused() {
        let parent = |user, mode| Owned { user, group: user, mode };
        assert!(!may_exchange(parent(7, 0o755), 8));
        assert!(may_exchange(parent(7, 0o777), 7) && !may_exchange(parent(7, 0o1777), 7));
        assert!(may_exchange(parent(7, 0o1777), 8), "its owner may rename what is in it");
        // Root's are /tmp, /dev/shm and the volumes of a pod.
        assert!(!may_exchange(parent(ROOT, 0o777), 7) && !may_exchange(parent(ROOT, 0o1777), 7));
    }
}
