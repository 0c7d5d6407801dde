//! Memory of the machine.

/// Bytes that programs can still get, of this machine or its control group; `None` where the system does not say.
pub fn host_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let free = 1024 * line.split_whitespace().next()?.parse::<u64>().ok()?;
    Some(free.min(control_group().unwrap_or(u64::MAX)))
}

/// What the control group of this process may still take; `None` without a limit.
fn control_group() -> Option<u64> {
    let number = |name: &str| {
        let text = std::fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    Some(number("memory.max")?.saturating_sub(number("memory.current")?))
}
