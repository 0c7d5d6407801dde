//! The programs that `run.py` starts: two clients, which print one line of JSON, and an engine.
//!
//! ```text
//! evenkeel-bench generation direct  URL SAMPLES TOKENS IN_FLIGHT DELAY_MS   requests samples from an engine
//! evenkeel-bench generation through URL SAMPLES TOKENS IN_FLIGHT DELAY_MS   requests samples from the generation service
//! evenkeel-bench generation instant PORT DELAY_MS                           an engine that responds from memory, after a delay
//! ```
mod direct;
mod instant;
mod load;
mod through;

use std::error::Error;

use load::Load;

#[tokio::main]
pub(crate) async fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["instant", port, delay_ms] => instant::serve(port.parse()?, delay_ms.parse()?).await,
        [way @ ("direct" | "through"), url, samples, tokens, in_flight, delay_ms] => {
            let load = Load {
                samples: samples.parse()?,
                tokens: tokens.parse()?,
                in_flight: in_flight.parse()?,
                delay_ms: delay_ms.parse()?,
            };
            let measured =
                if *way == "direct" { direct::run(url, load).await? } else { through::run(url, load).await? };
            println!("{measured}");
            Ok(())
        }
        _ => Err("usage: direct|through URL SAMPLES TOKENS IN_FLIGHT DELAY_MS, or instant PORT DELAY_MS".into()),
    }
}
