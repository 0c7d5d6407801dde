//! Reward functions of Python files: each file judges the custom tasks of the verifier that it is declared for.
//!
//! | | |
//! |---|---|
//! | `pool` | processes of a file, and what waits for them |
//! | `process` | one process, started again after it has ended |
//! | `verdict` | from what functions gave to a verdict |

mod pool;
mod process;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_proto::v1::{InvalidReason, Verdict, VerifyItem, verify_item};

pub(crate) use pool::FunctionPool;

use crate::error::RewardError;
use crate::settings::{FunctionSettings, FunctionTables};

/// The files of a worker, by the name of the verifier that each is.
pub(crate) struct Functions {
    pools: BTreeMap<String, FunctionPool>,
}

impl Functions {
    /// Starts a process of each file, which says what functions it has. `tables` is where the settings are from.
    ///
    /// # Errors
    /// A file that cannot be loaded, by the name of its verifier.
    pub(crate) async fn start(
        settings: &BTreeMap<String, FunctionSettings>,
        tables: FunctionTables,
    ) -> Result<Self, RewardError> {
        let mut pools = BTreeMap::new();
        for (name, settings) in settings {
            let table = tables.table(name);
            settings.require_file().map_err(|error| RewardError::FunctionSetting(error.within(&table)))?;
            let pool = FunctionPool::start(table.clone(), name, settings).await;
            let failed = |message: String| {
                let by_python = message.starts_with(&format!("{}: ", settings.python.display()));
                let field = if by_python { "python" } else { "path" };
                let message = if by_python { message } else { format!("{}: {message}", settings.path.display()) };
                RewardError::Functions { field: format!("{table}.{field}"), message }
            };
            pools.insert(name.clone(), pool.map_err(failed)?);
        }
        Ok(Self { pools })
    }

    /// Whether there are any.
    pub(crate) fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    /// The names of components that verdicts may have.
    pub(crate) fn components(&self) -> Vec<String> {
        let components: BTreeSet<_> = self.pools.values().flat_map(FunctionPool::components).cloned().collect();
        components.into_iter().collect()
    }

    /// Whether a file judges the item.
    pub(crate) fn judge_item(&self, item: &VerifyItem) -> bool {
        verifier_of(item).is_some_and(|name| self.pools.contains_key(name))
    }

    /// The verdict on an item of one of the files.
    pub(crate) async fn verdict(&self, item: VerifyItem) -> Verdict {
        match verifier_of(&item).and_then(|name| self.pools.get(name)) {
            Some(pool) => pool.verdict(item).await,
            None => Verdict::invalid(item.id, InvalidReason::Unimplemented, "no file of reward functions judges it"),
        }
    }
}

fn verifier_of(item: &VerifyItem) -> Option<&str> {
    match &item.task {
        Some(verify_item::Task::Custom(task)) => Some(&task.verifier),
        _ => None,
    }
}
