//! `evenkeel data render`: conversations as `apply_chat_template` of transformers renders them.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use evenkeel_chat::{ChatTemplate, TemplateArguments, TemplateValue};
use evenkeel_data::read::{Line, Lines, printable};
use evenkeel_model_folder::{Folder, Tokenizer};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::arguments::DataRenderOptions;

/// Rows that are rendered together: enough to keep every core busy, few enough to hold.
const BATCH: usize = 4096;
/// Text of such rows, in bytes.
const BATCH_BYTES: usize = 256 << 20;

/// A row of the file; other keys are ignored.
#[derive(Deserialize)]
struct ConversationRow<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    messages: &'a RawValue,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    /// The name of the folder that the row is for; absent for any.
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
}

/// What is printed for a row.
#[derive(Serialize)]
struct Rendered<'a> {
    id: Option<&'a RawValue>,
    #[serde(flatten)]
    outcome: Rendering,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Rendering {
    Text { text: String, token_ids: Vec<u32> },
    Error { error: String },
}

/// Prints a line for each row of this folder, in their order. A line that is no row is named on stderr and makes the
/// command fail in the end; a conversation that cannot be rendered does not.
pub(super) fn render(options: &DataRenderOptions) -> Result<ExitCode> {
    let renderer = Renderer::read(&crate::hub::folder("--model", &options.model)?)?;
    let path = &options.json;
    let file = File::open(path).with_context(|| format!("--json {}", path.display()))?;
    let mut lines = Lines::new(BufReader::new(file));
    let mut output = BufWriter::new(std::io::stdout().lock());
    let mut unreadable = false;
    let mut is_done = false;
    while !is_done {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while batch.len() < BATCH && bytes < BATCH_BYTES {
            let Some(line) = lines.next_line().with_context(|| path.display().to_string())? else {
                is_done = true;
                break;
            };
            bytes += line.text.as_ref().map_or(0, String::len);
            batch.push(line);
        }
        let printed: Vec<_> = batch.par_iter().map(|line| renderer.line(line)).collect();
        for (line, printed) in batch.iter().zip(printed) {
            match printed {
                Ok(Some(text)) => writeln!(output, "{text}")?,
                Ok(None) => {}
                Err(error) => {
                    unreadable = true;
                    print_err!("{} line {}: {}", path.display(), line.number, printable(format_args!("{error:#}")));
                }
            }
        }
    }
    output.flush()?;
    Ok(if unreadable { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

struct Renderer {
    model: String,
    template: ChatTemplate,
    tokenizer: Tokenizer,
}

impl Renderer {
    fn read(path: &Path) -> Result<Self> {
        let folder = Folder::new(path);
        let template = ChatTemplate::read(&folder)?.unwrap_or_default();
        let tokenizer = Tokenizer::require(&folder)?;
        let path = path.canonicalize().with_context(|| format!("--model {}", path.display()))?;
        let model = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Self { model, template, tokenizer })
    }

    /// What is printed for a line; nothing for a row of another model.
    fn line(&self, line: &Line) -> Result<Option<String>> {
        let text = line.text.as_deref().map_err(Clone::clone)?;
        let row: ConversationRow = serde_json::from_str(text)?;
        if row.model.as_ref().is_some_and(|model| *model != self.model) {
            return Ok(None);
        }
        let outcome = match self.row(&row) {
            Ok((text, token_ids)) => Rendering::Text { text, token_ids },
            Err(error) => Rendering::Error { error: error.to_string() },
        };
        Ok(Some(serde_json::to_string(&Rendered { id: row.id, outcome })?))
    }

    fn row(&self, row: &ConversationRow) -> Result<(String, Vec<u32>)> {
        let messages = TemplateValue::of_raw(row.messages)?;
        let arguments = match row.arguments {
            Some(arguments) => TemplateArguments::new(&TemplateValue::of_raw(arguments)?)?,
            None => TemplateArguments::default(),
        };
        let text = self.template.render(&messages, &arguments)?;
        let token_ids = self.tokenizer.encode(&text, false)?;
        Ok((text, token_ids))
    }
}
