//! CPU time of a verification of a plain answer: judged in place, over a stream of items, call by call, and over both
//! with TLS; beside a unary call of tonic with messages of the same size that judges nothing. Client and server are in
//! this process, so that its CPU time is that of both. What gRPC costs is the difference to judging in place. The ways
//! take turns, and each counts with its median.
//!
//! ```text
//! evenkeel-bench scale [ITEMS [ROUNDS]]
//! ```
//!
//! The exit status is 1 if a limit is exceeded.
mod answers;
mod certificates;
mod cpu;
mod echo;
mod ways;
mod worker;

use std::process::ExitCode;

use anyhow::{Context, Result};
use evenkeel_telemetry::install_metrics;

use answers::answers;
use certificates::Certificates;
use ways::{Way, Ways};

/// What gRPC may cost of a verification, relative to a unary echo.
const MAX_TO_ECHO: f64 = 2.0;
/// What it may cost with TLS, relative to without.
const MAX_WITH_TLS: f64 = 1.3;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[tokio::main]
pub(crate) async fn run(arguments: &[String]) -> Result<ExitCode> {
    let mut arguments = arguments.iter();
    let mut number = |name: &str, default: usize| match arguments.next() {
        Some(text) => {
            text.parse().ok().filter(|n| *n > 0).with_context(|| format!("{name} is `{text}`, allowed: 1 and more"))
        }
        None => Ok(default),
    };
    let items = number("ITEMS", 40_000)?;
    let rounds = number("ROUNDS", 7)?;
    // As in a service whose metrics are scraped.
    drop(install_metrics());
    let certificates = Certificates::new()?;
    let ways = Ways::start(&certificates).await?;
    let items = answers(items);
    let mut found: Vec<Vec<f64>> = vec![Vec::new(); Way::ALL.len()];
    for way in Way::ALL {
        ways.take(way, answers(256)).await?;
    }
    for _ in 0..rounds {
        for (way, found) in Way::ALL.into_iter().zip(&mut found) {
            let batch = items.clone();
            let before = cpu::seconds()?;
            ways.take(way, batch).await?;
            found.push(1e6 * (cpu::seconds()? - before) / items.len() as f64);
        }
    }
    let medians: Vec<f64> = found.into_iter().map(median).collect();
    Ok(if report(&medians) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints what was found, in microseconds by way; whether every limit is kept.
fn report(medians: &[f64]) -> bool {
    println!("{:>44}{:>10}{:>10}", "CPU microseconds for each answer", "all", "of gRPC");
    let median = |way: Way| medians[way as usize];
    let judging = median(Way::InPlace);
    // An echo judges nothing.
    let of_grpc = |way: Way| if way == Way::Echo { median(way) } else { median(way) - judging };
    for way in Way::ALL {
        println!("{:>44}{:>10.1}{:>10.1}", way.name(), median(way), of_grpc(way));
    }
    let ratios = [
        ("stream to echo", of_grpc(Way::Stream) / of_grpc(Way::Echo), MAX_TO_ECHO),
        ("unary to echo", of_grpc(Way::Unary) / of_grpc(Way::Echo), MAX_TO_ECHO),
        ("stream with TLS to without", of_grpc(Way::StreamTls) / of_grpc(Way::Stream), MAX_WITH_TLS),
        ("unary with TLS to without", of_grpc(Way::UnaryTls) / of_grpc(Way::Unary), MAX_WITH_TLS),
    ];
    let mut kept = true;
    for (what, ratio, limit) in ratios {
        kept &= ratio <= limit;
        println!("{what:>44}{ratio:>10.2}   {} {limit}", if ratio <= limit { "limit" } else { "ABOVE the limit of" });
    }
    kept
}
