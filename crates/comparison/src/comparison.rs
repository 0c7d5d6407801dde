//! A comparison of finished runs: per task, across tasks, and what follows from both.

use std::collections::BTreeMap;

use evenkeel_errors::FieldError;
use serde::{Deserialize, Serialize};

use crate::across::{AcrossTasks, across_tasks};
use crate::conclusions::{Conclusion, conclusions};
use crate::criterion::{OrderedTasks, TaskInPlane, between_tasks};
use crate::existing::Existing;
use crate::options::Options;
use crate::run::Run;
use crate::table_one::TableOne;
use crate::task::TaskComparison;
use crate::validate::validate;

/// Heading of what holds for all tasks.
const ALL_TASKS: &str = "All tasks";

/// Version of the form of `compare.json`.
const FORMAT: u32 = 3;

/// Arms of runs, compared seed by seed: what `compare.json` has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Version of this form.
    pub format: u32,
    pub options: Options,
    /// Comparison of each task, by name.
    pub tasks: Vec<TaskComparison>,
    /// Over tasks, by measure; empty where there is one task alone.
    pub across_tasks: Vec<AcrossTasks>,
    /// The paper's Table 1 and its figure of peak against last accuracy; absent for a single task that is none of the
    /// paper's.
    pub table_one: Option<TableOne>,
    /// What the paper's criterion expects of tasks that are ordered in its plane.
    pub criterion: Vec<OrderedTasks>,
    /// What can and what cannot be concluded.
    pub conclusions: Vec<Conclusion>,
    /// What was left out of runs that exist and why, and which tasks have the same name: a sentence each.
    pub remarks: Vec<String>,
}

impl Comparison {
    /// Compares runs, in any order. More may follow: a comparison of some of them is the same as if the others had
    /// never been planned.
    ///
    /// # Errors
    /// Options out of range, a run with impossible values, two runs of one task, arm and seed, runs that vary different
    /// settings, and runs of one task that cannot be compared, with the part of their identity or of their evaluations
    /// that differs.
    pub fn of(runs: &[Run], options: &Options) -> Result<Self, FieldError> {
        let resampling = options.validate()?;
        let mut runs: Vec<&Run> = runs.iter().collect();
        runs.sort_by(|a, b| (&a.task, &a.arm, a.seed, &a.name).cmp(&(&b.task, &b.arm, b.seed, &b.name)));
        validate(&runs)?;
        let mut by_task: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
        for run in &runs {
            by_task.entry(&run.task).or_default().push(run);
        }
        let tasks = by_task.into_iter().map(|(task, runs)| TaskComparison::of(task, &runs, options, resampling));
        let tasks: Vec<TaskComparison> = tasks.collect::<Result<_, _>>()?;
        let across_tasks = across_tasks(&tasks, resampling)?;
        let criterion = criterion(&tasks, options)?;
        let conclusions = conclusions(&tasks, &across_tasks, &criterion);
        Ok(Self {
            format: FORMAT,
            options: options.clone(),
            table_one: TableOne::of(&tasks),
            tasks,
            across_tasks,
            criterion,
            conclusions,
            remarks: Vec::new(),
        })
    }

    /// Compares runs that exist, and says what was left out of them.
    ///
    /// # Errors
    /// As for [`Comparison::of`].
    pub fn of_existing(existing: &Existing, options: &Options) -> Result<Self, FieldError> {
        let Existing { runs, remarks, .. } = existing;
        Ok(Self { remarks: remarks.clone(), ..Self::of(runs, options)? })
    }

    /// The conclusions under their headings: those of each task under its name, then those of all tasks. Where there is
    /// one task, all of them without a heading.
    pub fn conclusions_by_task(&self) -> Vec<(Option<&str>, &[Conclusion])> {
        if self.tasks.len() < 2 {
            return vec![(None, &self.conclusions)];
        }
        let groups = self.conclusions.chunk_by(|one, other| one.task == other.task);
        groups.map(|group| (Some(group[0].task.as_deref().unwrap_or(ALL_TASKS)), group)).collect()
    }
}

/// In the measure that all tasks with a place are about.
fn criterion(tasks: &[TaskComparison], options: &Options) -> Result<Vec<OrderedTasks>, FieldError> {
    let in_plane = |task: &'_ TaskComparison| task.criterion.as_ref().map(|criterion| criterion.start);
    let known: Vec<&TaskComparison> = tasks.iter().filter(|task| in_plane(task).is_some()).collect();
    let Some(measure) = known.first().and_then(|task| task.primary) else { return Ok(Vec::new()) };
    if known.iter().any(|task| task.primary != Some(measure)) {
        return Ok(Vec::new());
    }
    let known = known
        .into_iter()
        .filter_map(|task| Some(TaskInPlane { task: &task.task, start: in_plane(task)?, arms: &task.arms }));
    between_tasks(&known.collect::<Vec<_>>(), measure, options.seed)
}
