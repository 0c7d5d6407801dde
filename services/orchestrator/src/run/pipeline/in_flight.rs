//! What the sampling side has begun and not ended: steps whose last samples are still out, and updates of the engines.

use evenkeel_rpc::BoxFuture;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::error::Halt;

type Work<'a> = BoxFuture<'a, Result<(), Halt>>;

/// Work that goes on while the sampling side waits for something else. Dropping it cancels all of it.
#[derive(Default)]
pub(super) struct InFlight<'a> {
    steps: FuturesUnordered<Work<'a>>,
    updates: FuturesUnordered<Work<'a>>,
}

impl<'a> InFlight<'a> {
    /// Begins to sample a step.
    pub(super) fn add_step(&mut self, work: impl Future<Output = Result<(), Halt>> + Send + 'a) {
        self.steps.push(Box::pin(work));
    }

    /// Begins to update the engines.
    pub(super) fn add_update(&mut self, work: impl Future<Output = Result<(), Halt>> + Send + 'a) {
        self.updates.push(Box::pin(work));
    }

    /// Waits for something else meanwhile.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Halt> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                // Updates first: the engines are asked for weights before samples of these are.
                Some(updated) = self.updates.next() => updated?,
                Some(sampled) = self.steps.next() => sampled?,
                value = &mut work => return Ok(value),
            }
        }
    }

    /// Waits until the engines are updated.
    pub(super) async fn until_updated(&mut self) -> Result<(), Halt> {
        while !self.updates.is_empty() {
            self.next().await?;
        }
        Ok(())
    }

    /// Waits until at most `most` steps have samples out.
    pub(super) async fn until_steps(&mut self, most: usize) -> Result<(), Halt> {
        while self.steps.len() > most {
            self.next().await?;
        }
        Ok(())
    }

    /// Waits until everything has ended.
    pub(super) async fn until_ended(&mut self) -> Result<(), Halt> {
        self.until_updated().await?;
        self.until_steps(0).await
    }

    async fn next(&mut self) -> Result<(), Halt> {
        tokio::select! {
            biased;
            Some(updated) = self.updates.next() => updated,
            Some(sampled) = self.steps.next() => sampled,
            else => Ok(()),
        }
    }
}
