//! CPU time of this process.

use anyhow::{Context, Result};

/// The kernel counts in hundredths of a second for programs.
const TICKS_PER_SECOND: f64 = 100.0;

/// User and system time of all threads so far.
pub(crate) fn seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name before the parenthesis may hold anything; user and system time are the 12th and 13th field behind it.
    let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11);
    let mut ticks = || fields.next().and_then(|field| field.parse::<f64>().ok()).context("/proc/self/stat");
    Ok((ticks()? + ticks()?) / TICKS_PER_SECOND)
}
