//! What a process costs the machine, under the names that Prometheus' own clients use, and which program it is.

use std::fmt::Write;
use std::fs;
use std::sync::OnceLock;

use super::series::Series;

/// The series of every process.
pub const SERIES: &[Series] = &[
    Series::gauge("evenkeel_build_info", "1; the labels say which service of which version the process is").by(&[
        (
            "service",
            super::Values::Of(&["engine", "environment", "gateway", "generation", "learner", "orchestrator", "reward"]),
        ),
        ("version", super::Values::Few("versions of the program")),
    ]),
    Series::counter("process_cpu_seconds_total", "CPU time of the process, user and system"),
    Series::gauge("process_resident_memory_bytes", "memory that the process occupies"),
    Series::gauge("process_virtual_memory_bytes", "address space of the process"),
    Series::gauge("process_open_fds", "open file descriptors"),
    Series::gauge("process_max_fds", "largest number of file descriptors"),
    Series::gauge("process_threads", "threads of the process"),
    Series::gauge("process_start_time_seconds", "when the process was started, Unix time"),
];

/// The kernel counts CPU time for programs in hundredths of a second on every architecture (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

static SERVICE: OnceLock<&'static str> = OnceLock::new();

/// Says which service this process is. The first call counts.
pub fn name_process(service: &'static str) {
    SERVICE.get_or_init(|| service);
}

/// The series of this process in Prometheus' text format. What the system does not tell is left out.
pub fn process_metrics() -> String {
    let mut text = String::new();
    if let Some(service) = SERVICE.get() {
        let version = env!("CARGO_PKG_VERSION");
        push(&mut text, "evenkeel_build_info", &format!("{{service=\"{service}\",version=\"{version}\"}}"), 1.0);
    }
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    if let Some(cpu) = cpu_seconds(&stat) {
        push(&mut text, "process_cpu_seconds_total", "", cpu);
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    for (name, field, unit) in [
        ("process_resident_memory_bytes", "VmRSS:", 1024.0),
        ("process_virtual_memory_bytes", "VmSize:", 1024.0),
        ("process_threads", "Threads:", 1.0),
    ] {
        if let Some(value) = number_after(&status, field) {
            push(&mut text, name, "", value * unit);
        }
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // Without the one that reads the folder.
        push(&mut text, "process_open_fds", "", open.count().saturating_sub(1) as f64);
    }
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    if let Some(most) = number_after(&limits, "Max open files") {
        push(&mut text, "process_max_fds", "", most);
    }
    let boot = fs::read_to_string("/proc/stat").ok().and_then(|stat| number_after(&stat, "btime"));
    if let (Some(boot), Some(started)) = (boot, field(&stat, 22)) {
        push(&mut text, "process_start_time_seconds", "", boot + started / TICKS_PER_SECOND);
    }
    text
}

fn push(text: &mut String, name: &str, labels: &str, value: f64) {
    let Some(series) = SERIES.iter().find(|series| series.name == name) else { return };
    let help = series.help;
    let kind = series.kind.label();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name}{labels} {value}");
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    Some((field(stat, 14)? + field(stat, 15)?) / TICKS_PER_SECOND)
}

/// A field of `/proc/PID/stat`, counted from 1. The second one, the program's name, may contain blanks and parentheses.
fn field(stat: &str, number: usize) -> Option<f64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

/// The first number of the line that begins with `name`.
fn number_after(text: &str, name: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_after_a_name_with_blanks_and_parentheses() {
        let stat = "7 (a) b)) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 9 0 12345 1000 20";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(field(stat, 22), Some(12345.0));
        assert_eq!(cpu_seconds("7 (a) S"), None);
    }

    #[test]
    fn values_are_read_from_the_line_of_their_name() {
        assert_eq!(number_after("Name:\tx\nVmRSS:\t  2048 kB\n", "VmRSS:"), Some(2048.0));
        assert_eq!(number_after("Max open files            1024                 4096", "Max open files"), Some(1024.0));
        assert_eq!(number_after("Max open files            unlimited", "Max open files"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_on_linux_knows_all_of_them() {
        name_process("engine");
        let text = process_metrics();
        for series in SERIES {
            let line = text.lines().find(|line| line.starts_with(series.name)).unwrap_or_else(|| panic!("{text}"));
            let value: f64 = line.rsplit_once(' ').unwrap().1.parse().unwrap();
            assert!(value > 0.0 || series.name == "process_cpu_seconds_total", "{line}");
        }
    }
}
