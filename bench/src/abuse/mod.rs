//! What `run.py` starts: honest clients that measure, and hostile ones that count. Each prints one line of JSON at its
//! end.
//!
//! ```text
//! evenkeel-bench abuse honest REWARD_URL SECONDS           mathematics and programs: verdicts and latencies
//! evenkeel-bench abuse probe  SECONDS NAME=ADDRESS...      a new connection and a health check again and again
//! evenkeel-bench abuse attack SECONDS TARGETS.json         every kind of abuse at once
//! evenkeel-bench abuse train  ADDRESS RECIPE KEY=VALUE STEPS [resume]   a run, from its start to its end
//! ```

mod attack;
mod honest;
mod load;
mod mathematics;
mod probe;
mod programs;
mod train;
mod wire;

use std::time::Duration;

#[tokio::main]
pub(crate) async fn run(arguments: &[String]) -> Result<(), wire::Failed> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let seconds = |text: &str| text.parse().map(Duration::from_secs_f64);
    let line =
        match words.as_slice() {
            ["honest", url, time] => honest::run(url, seconds(time)?).await?,
            ["probe", time, servers @ ..] => probe::run(servers, seconds(time)?).await?,
            ["attack", time, targets] => {
                attack::run(serde_json::from_str(&std::fs::read_to_string(targets)?)?, seconds(time)?).await
            }
            ["train", address, recipe, setting, steps] => {
                train::run(address, recipe, setting, steps.parse()?, false).await?
            }
            ["train", address, recipe, setting, steps, "resume"] => {
                train::run(address, recipe, setting, steps.parse()?, true).await?
            }
            _ => return Err(
                "usage: honest URL SECONDS, probe SECONDS NAME=ADDRESS..., attack SECONDS TARGETS.json, or train ..."
                    .into(),
            ),
        };
    println!("{line}");
    Ok(())
}
