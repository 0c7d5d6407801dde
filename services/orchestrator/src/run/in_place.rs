//! Whatever a run waits for, it waits for in its directory.

use std::time::Duration;

use evenkeel_run::RunDirectory;

use crate::error::Halt;

/// How often the directory is looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// Carries out work for as long as the run's directory is the one that this process has locked: a service that cannot
/// write where it was would otherwise be waited for.
///
/// # Errors
/// That of the work; a directory that was moved or replaced, or whose lock was. The work is then dropped where it is.
pub(super) async fn in_place<T>(
    directory: &RunDirectory,
    work: impl Future<Output = Result<T, Halt>>,
) -> Result<T, Halt> {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => {
                // A service that could not write where the directory was says less than what happened.
                if matches!(done, Err(Halt::Error(_))) {
                    directory.check_place()?;
                }
                return done;
            }
            () = tokio::time::sleep(INTERVAL) => directory.check_place()?,
        }
    }
}
