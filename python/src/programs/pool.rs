//! A pool of worker processes that run programs.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_sandbox::{Pool, PoolSettings, WorkerProcessCommand};
use pyo3::prelude::*;

use super::batch::Batch;
use super::own_process::OwnProcess;
use crate::errors::{Exception, guarded};
use crate::released::released;

/// A pool, whose arguments the module `code` has checked.
#[pyclass(frozen, name = "_Pool", module = "evenkeel_rlvr._native")]
pub(crate) struct CodePool {
    pool: OwnProcess<Mutex<Option<Arc<Pool>>>>,
}

#[pymethods]
impl CodePool {
    #[new]
    fn new(
        py: Python<'_>,
        program: PathBuf,
        folder: PathBuf,
        workers: usize,
        queue: usize,
        memory_bytes: Option<u64>,
    ) -> PyResult<Self> {
        guarded(py, || {
            let command = WorkerProcessCommand { program, arguments: vec!["worker".into(), folder.into()] };
            let settings = PoolSettings { workers, queue, memory_bytes };
            let pool =
                released(py, || Pool::with_worker_processes(&command, settings)).map_err(|error| failed(py, &error))?;
            Ok(Self { pool: OwnProcess::new(Mutex::new(Some(Arc::new(pool)))) })
        })
    }

    /// Programs that are submitted and waited for together. With `readable` its file descriptor is readable when one
    /// has a verdict.
    fn batch(&self, py: Python<'_>, readable: bool) -> PyResult<Batch> {
        let pool = self.pool.get(py)?.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let pool = pool.ok_or_else(|| Exception::PoolClosed.with(py, "the pool is closed".to_owned()))?;
        Batch::new(pool, readable).map_err(|error| failed(py, &error))
    }

    /// Ends all programs and worker processes, and waits for that.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let pool = self.pool.get(py)?.lock().unwrap_or_else(PoisonError::into_inner).take();
        guarded(py, || {
            released(py, || {
                if let Some(pool) = pool {
                    pool.close();
                }
            });
            Ok(())
        })
    }

    /// Programs without a verdict; worker processes now, started so far, and lost among them.
    fn usage(&self, py: Python<'_>) -> PyResult<(usize, u64, u64, u64)> {
        let pool = self.pool.get(py)?.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let usage = pool.map(|pool| pool.usage());
        Ok(usage.map_or((0, 0, 0, 0), |usage| {
            (usage.programs, usage.processes, usage.processes_started, usage.processes_lost)
        }))
    }
}

/// The exception for what the system has not.
fn failed(py: Python<'_>, error: &std::io::Error) -> PyErr {
    Exception::PoolFailed.with(py, format!("the system refuses what a pool needs: {error}"))
}
