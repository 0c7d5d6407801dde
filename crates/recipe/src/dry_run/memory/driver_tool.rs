//! The memory of a GPU as its driver's tool says. The tool hangs where the card does.

use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long the tool may take; it answers within a second or two.
const LIMIT: Duration = Duration::from_secs(10);
/// How often it is looked whether it has ended.
const PERIOD: Duration = Duration::from_millis(10);

/// The memory of a GPU in bytes; `None` where there is no such tool, or no such device.
///
/// # Errors
/// What to say of a tool that gives no answer.
pub(super) fn gpu_memory(device: &str) -> Result<Option<u64>, String> {
    let number = device.split_once(':').map_or("0", |(_, number)| number);
    let mut tool = Command::new("nvidia-smi");
    tool.args(["--query-gpu=memory.total", "--format=csv,noheader,nounits", "-i", number]);
    memory_by(tool, LIMIT)
}

fn memory_by(tool: Command, limit: Duration) -> Result<Option<u64>, String> {
    let name = tool.get_program().display().to_string();
    let Ok(answer) = first_words(tool, limit) else { return Ok(None) };
    let answer = answer.ok_or_else(|| {
        format!("{name} gave no answer within {} s, so that the GPU counts as absent: it may hang", limit.as_secs())
    })?;
    Ok(answer.trim().parse::<u64>().ok().map(|mib| mib << 20))
}

/// What a program writes, which must fit a pipe; `None` where it has not ended in time.
fn first_words(mut program: Command, limit: Duration) -> io::Result<Option<String>> {
    let began = Instant::now();
    let mut child = program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    while child.try_wait()?.is_none() {
        if began.elapsed() >= limit {
            // Nothing ends a process that waits within a driver, so that its end is not waited for.
            let _ = child.kill();
            return Ok(None);
        }
        thread::sleep(PERIOD);
    }
    let mut words = String::new();
    if let Some(output) = &mut child.stdout {
        output.read_to_string(&mut words)?;
    }
    Ok(Some(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(program: &str, argument: &str, limit: Duration) -> Result<Option<u64>, String> {
        let mut tool = Command::new(program);
        tool.arg(argument);
        memory_by(tool, limit)
    }

    #[test]
    fn a_tool_that_answers_gives_the_memory_and_one_that_is_absent_or_fails_gives_none() {
        assert_eq!(memory("echo", "143771", LIMIT), Ok(Some(143_771 << 20)));
        assert_eq!(memory("echo", "No devices were found", LIMIT), Ok(None));
        assert_eq!(memory("/nowhere/nvidia-smi", "", LIMIT), Ok(None));
    }

    #[test]
    fn a_tool_that_hangs_is_left_behind_and_said() {
        let began = Instant::now();
        let said = memory("sleep", "60", Duration::from_secs(1)).unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        assert_eq!(said, "sleep gave no answer within 1 s, so that the GPU counts as absent: it may hang");
    }
}
