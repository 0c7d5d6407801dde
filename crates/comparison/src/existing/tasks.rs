//! Which runs have one task: the same model and the same data, by what their files have.

use std::collections::{BTreeMap, BTreeSet};

use crate::run::{Arm, Setting};
use crate::stored_run::{MODEL_PARTS, StoredRun, TRAINED_ON};

/// The parts of a run's identity that make its task.
const PARTS: [&str; 4] = ["model.", MODEL_PARTS, "data.", TRAINED_ON];
/// The parts of a run's identity that name its model.
const MODEL: [&str; 2] = ["model.", MODEL_PARTS];

/// The name of each run's task.
pub(super) struct Tasks {
    pub(super) names: Vec<String>,
    /// Which tasks have names of their own only because they are counted.
    pub(super) remarks: Vec<String>,
}

type Parts = BTreeMap<String, String>;

/// What a run's task is made of, and the folder that it lies in.
struct Read {
    setting: Setting,
    parts: Parts,
    folder: Option<String>,
}

impl Tasks {
    pub(super) fn of(read: &[StoredRun]) -> Self {
        let of_run = |run: &StoredRun| {
            let identity = run.identity(&Arm(BTreeMap::new()));
            let is_part = |(name, _): &(String, String)| PARTS.iter().any(|part| name.starts_with(part));
            let folder = run.record.path.parent().and_then(|folder| folder.file_name());
            Read {
                setting: run.setting(),
                parts: identity.into_iter().filter(is_part).collect(),
                folder: folder.map(|folder| folder.to_string_lossy().into_owned()),
            }
        };
        named(&read.iter().map(of_run).collect::<Vec<_>>())
    }
}

/// Called after the data, and after the model where there are several. Tasks that would have one name are called after
/// the folders of their runs, as a comparison keeps them, or counted.
fn named(runs: &[Read]) -> Tasks {
    // By what they have: one model may lie in folders of several names.
    let is_model = |name: &str| MODEL.iter().any(|part| name.starts_with(part));
    let model = |run: &'_ Read| -> Vec<(String, String)> {
        let parts = run.parts.iter().filter(|(name, _)| is_model(name));
        parts.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let models: BTreeSet<Vec<(String, String)>> = runs.iter().map(model).collect();
    let plain = |Read { setting: Setting { model, data }, .. }: &Read| {
        if models.len() > 1 { format!("{model} on {data}") } else { data.clone() }
    };
    // The first run of each task, by plain name.
    let mut alike: BTreeMap<String, Vec<&Read>> = BTreeMap::new();
    let mut first: Vec<(&Read, String)> = Vec::new();
    for run in runs {
        let known = first.iter().find(|(other, _)| other.parts == run.parts);
        let name = known.map_or_else(|| plain(run), |(_, name)| name.clone());
        if known.is_none() {
            alike.entry(name.clone()).or_default().push(run);
            first.push((run, name));
        }
    }
    let folders = |task: &Read| -> BTreeSet<Option<&str>> {
        runs.iter().filter(|run| run.parts == task.parts).map(|run| run.folder.as_deref()).collect()
    };
    let mut names: Vec<(&Parts, String)> = Vec::new();
    let mut remarks = Vec::new();
    for (plain, tasks) in &alike {
        let own: Vec<Option<&str>> = tasks
            .iter()
            .map(|task| folders(task).into_iter().next().flatten().filter(|_| folders(task).len() == 1))
            .collect();
        let is_each_other = own.iter().flatten().collect::<BTreeSet<_>>().len() == tasks.len();
        for (index, task) in tasks.iter().enumerate() {
            let name = match (tasks.len(), own[index]) {
                (1, _) => plain.clone(),
                (_, Some(folder)) if is_each_other => folder.to_owned(),
                _ if index == 0 => plain.clone(),
                _ => format!("{plain} ({})", index + 1),
            };
            if index > 0 {
                let other = &names[names.len() - index].1;
                let difference = difference(&tasks[0].parts, &task.parts);
                remarks.push(format!("{name} is another task than {other}: they differ in {difference}"));
            }
            names.push((&task.parts, name));
        }
    }
    let name = |run: &Read| names.iter().find(|(parts, _)| **parts == run.parts).map(|(_, name)| name.clone());
    Tasks { names: runs.iter().filter_map(name).collect(), remarks }
}

/// The names of the parts that differ.
fn difference(one: &Parts, other: &Parts) -> String {
    let all: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let differ: Vec<&str> =
        all.into_iter().filter(|part| one.get(*part) != other.get(*part)).map(String::as_str).collect();
    differ.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(model: &str, data: &str, folder: &str, parts: &[(&str, &str)]) -> Read {
        let parts = parts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let setting = Setting { model: model.to_owned(), data: data.to_owned() };
        Read { setting, parts, folder: Some(folder.to_owned()) }
    }

    #[test]
    fn another_model_or_other_data_is_another_task() {
        let here = || run("Qwen3-1.7B", "dapo", "runs", &[("model.x", "1"), ("data.x", "1")]);
        // Equal files in a folder of another name.
        let there = run("copy", "dapo", "runs", &[("model.x", "1"), ("data.x", "1")]);
        let other = || run("Qwen3-1.7B", "polaris", "runs", &[("model.x", "1"), ("data.x", "2")]);
        let found = named(&[here(), there, other()]);
        assert_eq!(found.names, ["dapo", "dapo", "polaris"], "one model needs no name");
        assert!(found.remarks.is_empty());
        let large = run("Qwen2.5-Math-7B", "dapo", "runs", &[("model.x", "2"), ("data.x", "1")]);
        let found = named(&[here(), other(), large]);
        assert_eq!(found.names, ["Qwen3-1.7B on dapo", "Qwen3-1.7B on polaris", "Qwen2.5-Math-7B on dapo"]);
    }

    #[test]
    fn tasks_of_one_name_are_called_after_their_folders_or_counted_and_told_apart() {
        let one = |folder: &str| run("m", "sums", folder, &[("model", "1"), ("data.suffix", "a"), ("data.x", "1")]);
        let two = |folder: &str| run("m", "sums", folder, &[("model", "1"), ("data.suffix", "b"), ("data.x", "1")]);
        let found = named(&[one("runs"), two("runs"), one("runs")]);
        assert_eq!(found.names, ["sums", "sums (2)", "sums"]);
        assert_eq!(found.remarks, ["sums (2) is another task than sums: they differ in data.suffix"]);
        let found = named(&[one("short"), two("long"), one("short")]);
        assert_eq!(found.names, ["short", "long", "short"]);
        assert_eq!(found.remarks, ["long is another task than short: they differ in data.suffix"]);
        assert_eq!(named(&[one("short"), two("long"), one("long")]).names, ["sums", "sums (2)", "sums"]);
    }
}
