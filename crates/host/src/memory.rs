//! Memory of the machine and of the control groups of this process.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes that this process can still get: what the machine has available, and what its control groups (version 1 or 2)
/// and their ancestors allow. `None` if the system does not tell, which is the case everywhere but on Linux.
pub fn available_memory() -> Option<u64> {
    let machine = meminfo_available(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let group = groups(&fs::read_to_string("/proc/self/cgroup").unwrap_or_default());
    Some(group.iter().filter_map(|group| group.available()).fold(machine, u64::min))
}

/// The value of `MemAvailable` in `/proc/meminfo`, in bytes.
fn meminfo_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The files of a control group: its limit, its usage, and how much of that can be reclaimed immediately.
#[derive(Debug, PartialEq, Eq)]
struct ControlGroup {
    folder: PathBuf,
    limit: &'static str,
    used: &'static str,
    inactive: &'static str,
}

impl ControlGroup {
    fn available(&self) -> Option<u64> {
        let read = |name: &str| fs::read_to_string(self.folder.join(name)).ok();
        // "max" means no limit.
        let limit: u64 = read(self.limit)?.trim().parse().ok()?;
        let used: u64 = read(self.used)?.trim().parse().ok()?;
        let inactive = read("memory.stat").and_then(|stat| value(&stat, self.inactive)).unwrap_or(0);
        Some(limit.saturating_sub(used.saturating_sub(inactive)))
    }
}

fn value(stat: &str, name: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// The groups that limit the memory of a process, from its `/proc/self/cgroup`: its own and their ancestors, of either
/// version.
fn groups(cgroup: &str) -> Vec<ControlGroup> {
    let mut groups = Vec::new();
    for line in cgroup.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, limit, used, inactive) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
            other if other.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            }
            _ => continue,
        };
        // Inside a container the path may be relative to the host's root, while the mounted root is the container's
        // own.
        for path in Path::new(path.trim_start_matches('/')).ancestors() {
            groups.push(ControlGroup { folder: Path::new(root).join(path), limit, used, inactive });
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read_in_kibibytes() {
        assert_eq!(meminfo_available("MemTotal: 9 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!(meminfo_available("MemTotal: 9 kB\n"), None);
    }

    #[test]
    fn all_ancestors_of_a_group_count() {
        let folders = |text: &str| -> Vec<_> {
            groups(text).iter().map(|group| group.folder.join(group.limit).to_string_lossy().into_owned()).collect()
        };
        assert_eq!(
            folders("0::/a/b\n"),
            ["/sys/fs/cgroup/a/b/memory.max", "/sys/fs/cgroup/a/memory.max", "/sys/fs/cgroup/memory.max"]
        );
        assert_eq!(
            folders("5:cpu,cpuacct:/x\n4:memory:/x\n"),
            ["/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        );
    }

    #[test]
    fn reclaimable_memory_of_a_group_is_available() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let group = ControlGroup {
            folder: folder.path().to_owned(),
            limit: "memory.max",
            used: "memory.current",
            inactive: "inactive_file",
        };
        assert_eq!(group.available(), None);
        write("memory.max", "1000\n");
        write("memory.current", "700\n");
        write("memory.stat", "anon 1\ninactive_file 50\n");
        assert_eq!(group.available(), Some(350));
        write("memory.max", "max\n");
        assert_eq!(group.available(), None);
    }
}
