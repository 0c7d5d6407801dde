//! What the scripts of `bench/` measure in Rust: `evenkeel-bench WHAT ...`, where WHAT is one of the modules below.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command whose output is its result")]

mod abuse;
mod cluster;
mod code;
mod generation;
mod learner;
mod math;
mod objective;
mod recorded;
mod scale;
mod sides;
mod turns;

use std::error::Error;
use std::process::ExitCode;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (what, rest) = arguments.split_first().map_or(("", &[][..]), |(what, rest)| (what.as_str(), rest));
    match what {
        "abuse" => abuse::run(rest).map_err(|failed| failed as Box<dyn Error>)?,
        "cluster" => cluster::run(rest)?,
        "code" => code::run(rest)?,
        "generation" => generation::run(rest)?,
        "learner" => learner::run(rest)?,
        "math" => math::run(rest)?,
        "objective" => return objective::run(),
        "recorded" => recorded::run(rest)?,
        "scale" => return Ok(scale::run(rest)?),
        "sides" => sides::run(rest)?,
        "turns" => turns::run(rest)?,
        _ => {
            return Err(
                "usage: evenkeel-bench abuse|cluster|code|generation|learner|math|objective|recorded|scale|sides|\
                 turns ..."
                    .into(),
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}
