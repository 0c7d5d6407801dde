//! Judges pairs of gold answers and answers, from a file of JSON lines, and prints what it found and how long it took.
//!
//! `evenkeel-bench math FILE SECONDS` reads rows `{set, kind, gold, answer, form, profile, expected}` and prints one
//! JSON object a line: first one for each row with its outcome, then one for each set and kind with its rate.
mod pairs;
mod timing;

use anyhow::{Context, Result, bail};

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let [file, seconds] = arguments else { bail!("usage: evenkeel-bench math FILE SECONDS") };
    let seconds: f64 = seconds.parse().context("SECONDS is not a number")?;
    let pairs = pairs::read(file)?;
    for pair in &pairs {
        let verdict = pair.check();
        println!(
            "{}",
            serde_json::json!({
                "outcome": verdict.outcome().name(),
                "reason": verdict.reason.code(),
                "extracted": verdict.extracted,
                "canonical": verdict.canonical(),
            })
        );
    }
    println!("{}", serde_json::to_string(&timing::groups(&pairs, seconds))?);
    Ok(())
}
