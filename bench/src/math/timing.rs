//! How long checks take.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::pairs::Pair;

/// Checks of one group.
#[derive(Debug, Serialize)]
pub(crate) struct TimedGroup {
    checks: usize,
    rounds: usize,
    per_second: f64,
    median_us: f64,
    p99_us: f64,
    slowest_us: f64,
}

/// Each group, for about `seconds` each.
pub(crate) fn groups(pairs: &[Pair], seconds: f64) -> BTreeMap<&str, TimedGroup> {
    let mut groups: BTreeMap<&str, Vec<&Pair>> = BTreeMap::new();
    for pair in pairs {
        groups.entry(&pair.group).or_default().push(pair);
    }
    groups.into_iter().map(|(name, pairs)| (name, group(&pairs, seconds))).collect()
}

fn group(pairs: &[&Pair], seconds: f64) -> TimedGroup {
    // The shortest of several rounds for each pair: what it takes when nobody else is in the way.
    let mut shortest = vec![Duration::MAX; pairs.len()];
    let begun = Instant::now();
    let mut rounds = 0;
    while rounds < 3 || begun.elapsed().as_secs_f64() < seconds {
        for (pair, shortest) in pairs.iter().zip(&mut shortest) {
            let begun = Instant::now();
            black_box(black_box(pair).check());
            *shortest = begun.elapsed().min(*shortest);
        }
        rounds += 1;
    }
    let begun_again = Instant::now();
    let mut checks = 0_usize;
    while begun_again.elapsed().as_secs_f64() < seconds {
        for pair in pairs {
            black_box(black_box(pair).check());
        }
        checks += pairs.len();
    }
    let per_second = checks as f64 / begun_again.elapsed().as_secs_f64();
    shortest.sort();
    let quantile_us = |share: f64| shortest[((pairs.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    TimedGroup {
        checks: pairs.len(),
        rounds,
        per_second,
        median_us: quantile_us(0.5),
        p99_us: quantile_us(0.99),
        slowest_us: quantile_us(1.0),
    }
}
