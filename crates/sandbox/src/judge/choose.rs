//! Chooses the program of a completion with several blocks that may be it. The blocks are parsed by the interpreter, in
//! an instance of its own that runs none of them.

use std::time::Duration;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::executor::Executor;
use crate::extract::Candidate;
use crate::run::{Budget, ExitStatus, ProgramSource, Run};

/// Runs in the guest, which reads the blocks as JSON.
const SCRIPT: &str = include_str!("choose.py");
/// Time limit, whatever the limits of the program are.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Limit on the output, which is a list of indices.
const OUTPUT_BYTES: u64 = 1 << 10;

#[derive(Serialize)]
struct Given<'a> {
    function: &'a str,
    blocks: Vec<CandidateBlock<'a>>,
}

#[derive(Serialize)]
struct CandidateBlock<'a> {
    text: &'a str,
    is_python: bool,
}

/// The indices of the blocks that form the program, which are joined in this order; the blocks are given the last one
/// first. Usually that is one; before it come blocks with definitions that it uses and lacks. `function` is empty if the
/// program reads standard input. If no block is a whole program, or the interpreter cannot tell, it is the last one.
///
/// # Errors
///
/// The run, if it ended through no fault of the blocks.
pub(crate) fn choose(
    executor: &mut dyn Executor,
    blocks: &[Candidate],
    function: &str,
    budget: &Budget,
    cancel: &CancellationToken,
) -> Result<Vec<usize>, Box<Run>> {
    let blocks_given =
        blocks.iter().map(|block| CandidateBlock { text: &block.text, is_python: block.is_python }).collect();
    let Ok(given) = serde_json::to_vec(&Given { function, blocks: blocks_given }) else { return Ok(vec![0]) };
    let budget = Budget { time: TIMEOUT, output: OUTPUT_BYTES, ..*budget };
    let script = ProgramSource { text: SCRIPT.as_bytes(), code: &[], many_tests: false };
    let run = executor.process(script, &given, &budget, cancel);
    match run.status {
        ExitStatus::Returned(_) => {
            let text = std::str::from_utf8(&run.stdout).unwrap_or_default();
            let indices: Option<Vec<usize>> = text.split_whitespace().map(|index| index.parse().ok()).collect();
            let are_blocks = |found: &Vec<usize>| !found.is_empty() && found.iter().all(|index| *index < blocks.len());
            Ok(indices.filter(are_blocks).unwrap_or_else(|| vec![0]))
        }
        ExitStatus::Starved | ExitStatus::NeedsMemory | ExitStatus::Cancelled | ExitStatus::Internal(_) => {
            Err(Box::new(run))
        }
        _ => Ok(vec![0]),
    }
}
