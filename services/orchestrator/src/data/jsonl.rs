//! Files with a JSON object on each line: a prompt and a gold answer, by the names of their fields.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use evenkeel_files::open;
use serde_json::Value;

use crate::data::{Dataset, Problem, hold_out};
use crate::error::RunError;
use crate::load::Loading;
use crate::settings::{DataSettings, Task};

/// The problems of the files that the settings name.
pub(super) fn dataset(
    settings: &DataSettings,
    seed: u64,
    held_out: u32,
    loading: &Loading,
) -> Result<Dataset, RunError> {
    let path = settings.path.as_deref().unwrap_or(Path::new(""));
    let all = read(path, settings, loading)?;
    let (train, held_out) = match &settings.held_out_path {
        None => hold_out(all, held_out, seed, |problem| problem.prompt.clone()),
        Some(held_path) => {
            let mut held = read(held_path, settings, loading)?;
            let asked: HashSet<&str> = held.iter().map(|problem| problem.prompt.as_str()).collect();
            let before = all.len();
            let train: Vec<Problem> =
                all.into_iter().filter(|problem| !asked.contains(problem.prompt.as_str())).collect();
            if train.len() < before {
                let (left_out, held_path) = (before - train.len(), held_path.display());
                tracing::warn!(left_out, %held_path, "problems of data.path are held out and not trained on");
            }
            held.truncate(held_out as usize);
            (train, held)
        }
    };
    let source = path.file_stem().map_or_else(|| "jsonl".to_owned(), |stem| stem.to_string_lossy().into_owned());
    Ok(Dataset { source, task: Task::Jsonl, train, held_out })
}

/// Line by line, so that what is not kept is never in memory as a whole.
fn read(path: &Path, settings: &DataSettings, loading: &Loading) -> Result<Vec<Problem>, RunError> {
    let limits = &loading.limits;
    let file = open(path, limits.max_data_bytes).map_err(|error| RunError::data(path, error.to_string()))?;
    // One more than may be: a file that grows while it is read is found out.
    let mut file = BufReader::new(file.take(limits.max_data_bytes.saturating_add(1)));
    let (mut problems, mut line, mut bytes) = (Vec::new(), Vec::new(), 0);
    for number in 1.. {
        loading.cancel.check()?;
        let refused = |message: String| RunError::data(path, format!("line {number}: {message}"));
        line.clear();
        let most = limits.max_row_bytes;
        let read = file.by_ref().take(most.saturating_add(1)).read_until(b'\n', &mut line);
        let read = read.map_err(|error| refused(format!("cannot be read: {error}")))? as u64;
        bytes += read;
        if read == 0 {
            break;
        }
        if read > most {
            return Err(refused(format!("has more than {most} bytes, allowed: at most {most} (limits.max_row_bytes)")));
        }
        if bytes > limits.max_data_bytes {
            let most = limits.max_data_bytes;
            return Err(RunError::data(path, format!("has more than {most} bytes (limits.max_data_bytes)")));
        }
        let text = std::str::from_utf8(&line).map_err(|error| refused(format!("is not UTF-8: {error}")))?;
        if text.trim().is_empty() {
            continue;
        }
        if problems.len() >= limits.max_problems {
            return Err(refused(format!("is one more than {} problems (limits.max_problems)", limits.max_problems)));
        }
        problems.push(problem(text, number, settings).map_err(refused)?);
    }
    Ok(problems)
}

fn problem(line: &str, number: usize, settings: &DataSettings) -> Result<Problem, String> {
    let row: Value = serde_json::from_str(line).map_err(|error| format!("is not JSON: {error}"))?;
    let row = row.as_object().ok_or("is not a JSON object")?;
    let has = || row.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    let required = |field: &str| {
        let value = row.get(field).filter(|value| !value.is_null());
        value.ok_or_else(|| format!("has no field `{field}`, it has: {}", has()))
    };
    let text = |field: &str, value: &Value| match value {
        Value::String(text) if text.is_empty() => Err(format!("field `{field}` is empty, allowed: a text")),
        Value::String(text) => Ok(text.clone()),
        Value::Array(_) if field == settings.prompt_field => {
            Err(format!("field `{field}` is a list of messages, allowed: a text (chat templates are not there yet)"))
        }
        other => Err(format!("field `{field}` is {}, allowed: a text", kind(other))),
    };
    let prompt = text(&settings.prompt_field, required(&settings.prompt_field)?)?;
    let gold = match required(&settings.answer_field)? {
        Value::Number(number) => number.to_string(),
        other => text(&settings.answer_field, other)?,
    };
    let demonstration = match row.get(&settings.demonstration_field) {
        None | Some(Value::Null) => None,
        Some(value) => Some(text(&settings.demonstration_field, value)?),
    };
    let id = match row.get(&settings.id_field) {
        Some(Value::String(id)) if !id.is_empty() => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        _ => format!("line {number}"),
    };
    Ok(Problem { id, prompt, gold, demonstration })
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Cancel, LoadLimits};

    fn load(text: &str, change: impl FnOnce(&mut DataSettings)) -> Result<Dataset, String> {
        load_within(text, change, &Loading::default())
    }

    fn load_within(text: &str, change: impl FnOnce(&mut DataSettings), loading: &Loading) -> Result<Dataset, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        std::fs::write(&path, text).unwrap();
        let mut settings = DataSettings { task: Task::Jsonl, path: Some(path), ..DataSettings::default() };
        change(&mut settings);
        let strip = |error: RunError| error.to_string().replace(&dir.path().display().to_string(), "");
        dataset(&settings, 0, 1, loading).map_err(strip)
    }

    #[test]
    fn rows_become_problems_and_one_is_held_out() {
        let rows = (0..5).map(|i| format!("{{\"q\": \"what is {i}?\", \"answer\": {i}}}\n\n")).collect::<String>();
        let data = load(&rows, |settings| settings.prompt_field = "q".into()).unwrap();
        assert_eq!((data.source.as_str(), data.train.len(), data.held_out.len()), ("rows", 4, 1));
        assert!(!data.train.contains(&data.held_out[0]));
        assert!(data.train.iter().all(|problem| problem.prompt.contains(&problem.gold)));
    }

    #[test]
    fn files_beyond_the_limits_are_refused_by_the_limit() {
        let row = "{\"prompt\": \"a\", \"answer\": \"1\"}\n";
        let refused = |change: &dyn Fn(&mut LoadLimits)| {
            let mut limits = LoadLimits::default();
            change(&mut limits);
            load_within(&row.repeat(3), |_| {}, &Loading { limits, cancel: Cancel::default() }).unwrap_err()
        };
        let size = row.len() as u64;
        let error = refused(&|limits| limits.max_data_bytes = 3 * size - 1);
        assert!(
            error.ends_with(&format!("has {} bytes or more, allowed: at most {}", 3 * size, 3 * size - 1)),
            "{error}"
        );
        let error = refused(&|limits| limits.max_row_bytes = size - 1);
        assert!(error.contains("line 1: has more than"), "{error}");
        let error = refused(&|limits| limits.max_problems = 2);
        assert!(error.contains("line 3: is one more than 2 problems"), "{error}");
    }

    #[test]
    fn a_held_out_prompt_is_never_trained_on() {
        let dir = tempfile::tempdir().unwrap();
        let held = dir.path().join("held.jsonl");
        std::fs::write(&held, "{\"prompt\": \"a\", \"answer\": \"1\"}\n").unwrap();
        let rows = "{\"prompt\": \"a\", \"answer\": \"1\"}\n{\"prompt\": \"b\", \"answer\": \"2\"}\n";
        let data = load(rows, |settings| settings.held_out_path = Some(held)).unwrap();
        assert_eq!((data.train.len(), data.train[0].prompt.as_str()), (1, "b"));
    }

    #[test]
    fn rows_that_are_no_problems_are_named() {
        let good = "{\"prompt\": \"a\", \"answer\": \"1\"}\n";
        let cases = [
            ("{", "/rows.jsonl: line 2: is not JSON"),
            ("[1]", "/rows.jsonl: line 2: is not a JSON object"),
            ("{\"prompt\": \"a\"}", "/rows.jsonl: line 2: has no field `answer`, it has: prompt"),
            ("{\"prompt\": \"\", \"answer\": \"1\"}", "/rows.jsonl: line 2: field `prompt` is empty, allowed: a text"),
            ("{\"prompt\": [], \"answer\": \"1\"}", "/rows.jsonl: line 2: field `prompt` is a list of messages"),
            (
                "{\"prompt\": \"a\", \"answer\": {}}",
                "/rows.jsonl: line 2: field `answer` is an object, allowed: a text",
            ),
        ];
        for (row, words) in cases {
            let error = load(&format!("{good}{row}\n"), |_| {}).unwrap_err();
            assert!(error.starts_with(words), "{row}: {error}");
        }
    }
}
