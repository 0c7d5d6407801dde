//! `evenkeel config`: the resolved settings, each with what it is.
#![expect(clippy::print_stdout, reason = "the result of the command")]

use std::process::ExitCode;

use anyhow::Result;

use crate::arguments::ConfigOptions;
use crate::recipe;

pub(crate) fn print(options: &ConfigOptions) -> Result<ExitCode> {
    let loaded = recipe::load(&options.recipe, &options.set)?;
    let text = loaded.to_toml()?;
    let documentation = evenkeel_orchestrator::Recipe::<toml::Table, toml::Table, toml::Table, toml::Table>::documentation();
    let mut section = String::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            name.clone_into(&mut section);
        } else if let Some((key, _)) = line.split_once(" = ") {
            let full = format!("{section}.{key}");
            if let Some(found) = documentation.iter().find(|doc| doc.key == full) {
                for sentence in found.text.lines() {
                    println!("# {}", sentence.trim());
                }
            }
        }
        println!("{line}");
    }
    Ok(ExitCode::SUCCESS)
}
