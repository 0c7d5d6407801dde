//! Connections within the limit of open files, so that clients cannot take every descriptor of the process.

/// File descriptors reserved for the rest of the process.
const OTHERS: usize = 128;

/// `connections` of a setting or constant, lowered to half of what the process may open: one has two such ports at
/// most that take many.
pub(super) fn within_descriptors(connections: usize) -> usize {
    let most = open_files().map_or(usize::MAX, most_of);
    if most < connections {
        tracing::warn!(connections, most, "connections are lowered to half the limit of open files (`ulimit -n`)");
    }
    connections.min(most)
}

fn most_of(limit: usize) -> usize {
    (limit.saturating_sub(OTHERS) / 2).max(1)
}

/// The limit of open file descriptors. `None` if the system does not report it, or there is none.
fn open_files() -> Option<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ports_leave_descriptors_to_the_rest_of_the_process() {
        assert_eq!(most_of(1024), 448);
        assert_eq!(most_of(64), 1, "something is served in any case");
    }

    #[test]
    fn a_port_with_fewer_connections_keeps_its_own_limit() {
        assert_eq!(within_descriptors(1), 1);
        assert!(within_descriptors(usize::MAX) < usize::MAX || open_files().is_none());
    }
}
