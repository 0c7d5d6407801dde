//! A child that has ended and is not collected. Until it is, its number is its own and that of its group.

use tokio::process::Child;

/// Whether a child has ended and is not collected.
#[cfg(target_os = "linux")]
pub(crate) fn has_ended(child: &Child) -> bool {
    look(child) == Some(true)
}

/// Waits until a child has ended, without collecting it.
#[cfg(target_os = "linux")]
pub(crate) async fn ended(child: &Child) {
    use tokio::signal::unix::{SignalKind, signal};

    // Before the first look, so that no end is missed.
    let Ok(mut ends) = signal(SignalKind::child()) else { return };
    while look(child) == Some(false) && ends.recv().await.is_some() {}
}

/// Whether a child has ended; `None` for one that is collected.
#[cfg(target_os = "linux")]
fn look(child: &Child) -> Option<bool> {
    use rustix::process::{WaitId, WaitIdOptions, waitid};

    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(number(child)?), options).ok().map(|ended| ended.is_some())
}

/// Without this the number is free before the group is killed.
#[cfg(not(target_os = "linux"))]
pub(crate) fn has_ended(_: &Child) -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
pub(crate) async fn ended(_: &Child) {}

/// Kills a child's group. False for a child that was collected, whose number may be another's.
pub(crate) fn kill_group(child: &Child) -> bool {
    let Some(number) = number(child) else { return false };
    // That it has no process any more is no failure.
    let _ = rustix::process::kill_process_group(number, rustix::process::Signal::KILL);
    true
}

fn number(child: &Child) -> Option<rustix::process::Pid> {
    child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use tokio::process::Command;

    use super::*;

    #[tokio::test]
    async fn the_end_of_a_child_is_seen_before_it_is_collected() {
        let mut child = Command::new("sh").args(["-c", "read -r _; exit 3"]).stdin(Stdio::piped()).spawn().unwrap();
        assert!(!has_ended(&child));
        drop(child.stdin.take());
        ended(&child).await;
        assert!(has_ended(&child) && has_ended(&child), "looking does not collect it");
        assert_eq!(child.wait().await.unwrap().code(), Some(3));
        assert!(!has_ended(&child) && !kill_group(&child), "its number may be another's");
    }
}
