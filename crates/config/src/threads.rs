//! Settings that are a number of threads.

/// The number of threads that a setting means: 0 stands for one on each core that is available to the process.
pub fn resolved_threads(setting: usize) -> usize {
    match setting {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    }
}
