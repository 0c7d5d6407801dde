//! What transformers' `apply_chat_template` gave: for committed templates and conversations, and for published ones
//! outside the repository.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use evenkeel_chat::{ChatTemplate, TemplateArguments, TemplateValue, end_tokens};
use evenkeel_model_folder::{ChatTemplates, ConfigFile, EosTokens, Folder, SpecialTokens, Tokenizer};
use evenkeel_testkit::{outside, run, test};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Errors that only have to be errors: neither the template's nor transformers' own words, but those of Python's
/// interpreter.
const INTERPRETER: &[&str] = &["TypeError", "ZeroDivisionError", "TemplateSyntaxError", "TemplateAssertionError"];

fn main() -> ExitCode {
    let published = ["data/chat/renders.jsonl", "data/chat/qwen3", "data/chat/qwen2.5", "data/chat/strict"];
    run(vec![
        test("conversations_and_expressions_render_as_transformers_renders_them", committed),
        outside("published_templates_render_as_transformers_renders_them", &published, renders),
        outside("a_base_model_ends_with_the_templates_end_of_turn_too", &published, ends),
    ])
}

#[derive(Deserialize)]
struct Row {
    id: serde_json::Value,
    /// The folder, or the template in `tests/golden/templates`.
    #[serde(alias = "model")]
    template: String,
    messages: Box<RawValue>,
    arguments: Box<RawValue>,
    text: Option<String>,
    token_ids: Option<Vec<u32>>,
    error: Option<String>,
    /// The class of the exception.
    #[serde(default)]
    kind: String,
}

fn rows(file: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn check(rows: Vec<Row>, folder: impl Fn(&str) -> (ChatTemplate, Tokenizer)) {
    let mut folders = BTreeMap::new();
    for row in rows {
        let (template, tokenizer) = folders.entry(row.template.clone()).or_insert_with(|| folder(&row.template));
        let messages = TemplateValue::of_raw(&row.messages).unwrap();
        let arguments = TemplateArguments::new(&TemplateValue::of_raw(&row.arguments).unwrap());
        let found = arguments.and_then(|arguments| template.render(&messages, &arguments));
        let which = format!("{} of {}", row.id, row.template);
        match (found, row.error) {
            (Ok(text), None) => {
                assert_eq!(Some(&text), row.text.as_ref(), "{which}");
                if let Some(ids) = row.token_ids {
                    assert_eq!(tokenizer.encode(&text, false).unwrap(), ids, "{which}");
                }
            }
            (Err(_), Some(_)) if INTERPRETER.contains(&row.kind.as_str()) => {}
            (Err(error), Some(expected)) => assert_eq!(error.to_string(), expected, "{which}"),
            (Ok(text), Some(error)) => panic!("{which} renders {text:?}, transformers raises {error:?}"),
            (Err(error), None) => panic!("{which} fails: {error}"),
        }
    }
}

fn committed() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let folder = Folder::new(&golden);
    check(rows(&golden.join("renders.jsonl")), |name| {
        let text = std::fs::read_to_string(golden.join(format!("templates/{name}.jinja"))).unwrap();
        let templates = ChatTemplates { default: Some(text), named: BTreeMap::new() };
        let template = ChatTemplate::new(templates, SpecialTokens::read(&folder).unwrap()).unwrap();
        (template, Tokenizer::require(&folder).unwrap())
    });
}

fn renders(data: &Path) {
    let chat = data.join("data/chat");
    let rows = rows(&chat.join("renders.jsonl"));
    assert_eq!(rows.len(), 300);
    check(rows, |name| {
        let folder = Folder::new(chat.join(name));
        (ChatTemplate::read(&folder).unwrap().unwrap(), Tokenizer::require(&folder).unwrap())
    });
}

fn ends(data: &Path) {
    let ends_of = |name: &str, eos: &str, id: u32| {
        let dir = tempfile::tempdir().unwrap();
        let source = data.join("data/chat").join(name);
        std::fs::copy(source.join("tokenizer.json"), dir.path().join("tokenizer.json")).unwrap();
        let config = std::fs::read_to_string(source.join("tokenizer_config.json")).unwrap();
        let mut config: serde_json::Value = serde_json::from_str(&config).unwrap();
        config["eos_token"] = eos.into();
        std::fs::write(dir.path().join("tokenizer_config.json"), config.to_string()).unwrap();
        let json = serde_json::json!({"vocab_size": 151_936, "eos_token_id": id});
        std::fs::write(dir.path().join("config.json"), json.to_string()).unwrap();
        let folder = Folder::new(dir.path());
        let tokenizer = Tokenizer::require(&folder).unwrap();
        end_tokens(&folder, &ConfigFile::read(&folder).unwrap(), Some(&tokenizer)).unwrap()
    };
    let text = 151_643;
    let turn = 151_645;
    for name in ["qwen2.5", "qwen3"] {
        let base = ends_of(name, "<|endoftext|>", text);
        assert_eq!(base, EosTokens { tokenizer: Some(text), model: vec![text], template: Some(turn) });
        assert_eq!((base.first(), base.others(), base.template_alone()), (Some(text), vec![turn], Some(turn)));
        let instructed = ends_of(name, "<|im_end|>", turn);
        assert_eq!((instructed.template, instructed.template_alone()), (Some(turn), None));
    }
    assert_eq!(ends_of("strict", "<|im_end|>", turn).template, None, "its turns end in plain text");
}
