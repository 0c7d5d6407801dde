//! How long the kernels of a device take, by events around each launch.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use candle_core::cuda_backend::cudarc::driver::{CudaEvent, CudaStream, sys::CUevent_flags};

use super::failed;
use crate::error::Result;

/// What the launches of a kernel, or the products of one kind, took together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KernelTime {
    /// How often it was launched.
    pub launches: u64,
    /// Seconds from the end of the launch before to the end of this one, summed: what a kernel adds to the time of the
    /// stream.
    pub seconds: f64,
}

/// A launch: its kernel, and the events before and behind it.
type Span = (String, CudaEvent, CudaEvent);

/// The launches since the measurement began, while there is one.
#[derive(Default)]
pub(super) struct Times(Mutex<Option<Vec<Span>>>);

impl Times {
    pub(super) fn begin(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Vec::new());
    }

    /// Gives the stream some work, between events while there is a measurement.
    pub(super) fn around(
        &self,
        stream: &CudaStream,
        name: impl FnOnce() -> String,
        give: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let mut spans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(spans) = spans.as_mut() else {
            return give();
        };
        let event = || stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).map_err(failed);
        let before = event()?;
        give()?;
        spans.push((name(), before, event()?));
        Ok(())
    }

    /// Ends the measurement and waits for what was launched.
    pub(super) fn take(&self) -> Result<BTreeMap<String, KernelTime>> {
        let spans = self.0.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
        let mut times: BTreeMap<String, KernelTime> = BTreeMap::new();
        for (name, before, behind) in spans {
            let seconds = f64::from(before.elapsed_ms(&behind).map_err(failed)?) / 1e3;
            let time = times.entry(name).or_default();
            *time = KernelTime { launches: time.launches + 1, seconds: time.seconds + seconds };
        }
        Ok(times)
    }
}
