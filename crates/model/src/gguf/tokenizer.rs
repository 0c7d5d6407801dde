//! `tokenizer.json` from the metadata of a GGUF file, as transformers builds it.

use serde_json::{Map, Value, json};

use super::file::GgufFile;
use super::merges::implied;
use crate::error::Result;

/// Longest token, in bytes: [`implied`] looks at every cut of it.
const MAX_TOKEN: usize = 4096;
/// Kinds of tokens in `tokenizer.ggml.token_type`.
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;

/// How a text is split before its parts become tokens.
#[derive(Clone, Copy)]
enum Split {
    /// As GPT-2 splits texts.
    Gpt2,
    /// Each digit apart, and the rest as GPT-2 does.
    DigitsApart,
    /// Into what this matches.
    By(&'static str),
}

const LLAMA3: Split = Split::By(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const QWEN2: Split = Split::By(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
/// How to split, by `tokenizer.ggml.pre`. Absent: as GPT-2 does.
const SPLITS: [(&str, Split); 9] = [
    ("default", Split::Gpt2),
    ("gpt-2", Split::Gpt2),
    // As the published tokenizer and llama.cpp. transformers reads it as GPT-2's, which differs where several spaces
    // precede a digit.
    ("smollm", Split::DigitsApart),
    ("llama3", LLAMA3),
    ("llama-v3", LLAMA3),
    ("llama-bpe", LLAMA3),
    ("smaug-bpe", LLAMA3),
    ("qwen2", QWEN2),
    ("deepseek-r1-qwen", QWEN2),
];

/// Contents of a tokenizer's files.
pub(super) struct Files {
    /// Becomes `tokenizer.json` of the folder.
    pub(super) file: Value,
    /// Becomes `tokenizer_config.json` of the folder.
    pub(super) config: Value,
    pub(super) chat_template: Option<String>,
}

/// Reads the vocabulary and what belongs to it.
///
/// # Errors
/// A kind of tokenizer that is not known here, or one whose lists do not fit each other.
pub(super) fn of(file: &GgufFile) -> Result<Files> {
    let required = "tokenizer.ggml.tokens";
    let tokens = file.texts(required)?.ok_or_else(|| file.refused(required, "absent", "a list of texts"))?;
    if let Some(long) = tokens.iter().map(|token| token.len()).find(|&length| length > MAX_TOKEN) {
        return Err(file.refused(required, format_args!("a token of {long} bytes"), format!("at most {MAX_TOKEN}")));
    }
    let kinds = file.kinds("tokenizer.ggml.token_type")?.unwrap_or_default();
    let model = file.text("tokenizer.ggml.model")?.unwrap_or_default();
    let is_llama = model == "llama";
    let mut json = match model {
        "gpt2" => byte_level(file, &tokens)?,
        "llama" => sentence_piece(file, &tokens)?,
        other => return Err(file.refused("tokenizer.ggml.model", format_args!("{other:?}"), "gpt2 or llama")),
    };
    json["added_tokens"] = added(&tokens, &kinds, is_llama);
    let special = |name: &str| -> Result<Option<&str>> {
        let key = format!("tokenizer.ggml.{name}_token_id");
        let Some(id) = file.size(&key)? else { return Ok(None) };
        let token = usize::try_from(id).ok().and_then(|id| tokens.get(id));
        token.copied().map(Some).ok_or_else(|| file.refused(&key, id, format!("below {} tokens", tokens.len())))
    };
    let bos = special("bos")?;
    // Without a word on it, llama.cpp adds one to a SentencePiece vocabulary.
    let adds_bos = file.flag("tokenizer.ggml.add_bos_token")?.unwrap_or(is_llama);
    let adds_eos = file.flag("tokenizer.ggml.add_eos_token")?.unwrap_or(false);
    let eos = special("eos")?;
    json["post_processor"] = template(file, bos.filter(|_| adds_bos), eos.filter(|_| adds_eos))?;
    let config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": bos,
        "eos_token": eos,
        "unk_token": special("unknown")?,
        "pad_token": special("padding")?,
        "model_max_length": file.size(&file.key("context_length"))?,
        "clean_up_tokenization_spaces": false,
    });
    let chat_template = file.text("tokenizer.chat_template")?.map(str::to_owned);
    Ok(Files { file: json, config, chat_template })
}

/// A tokenizer with BPE over bytes.
fn byte_level(file: &GgufFile, tokens: &[&str]) -> Result<Value> {
    let key = "tokenizer.ggml.merges";
    let merges = file.texts(key)?.ok_or_else(|| file.refused(key, "absent", "a list of texts"))?;
    let pre = file.text("tokenizer.ggml.pre")?.unwrap_or("default");
    let Some((_, split)) = SPLITS.iter().find(|(name, _)| *name == pre) else {
        let allowed = SPLITS.map(|(name, _)| name).join(", ");
        return Err(file.refused("tokenizer.ggml.pre", format_args!("{pre:?}"), allowed));
    };
    let bytes = |use_regex: bool, add_prefix_space: bool| json!({"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": true, "use_regex": use_regex});
    let pre_tokenizer = match split {
        Split::Gpt2 => bytes(true, false),
        Split::DigitsApart => json!({"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": true},
            bytes(true, false),
        ]}),
        Split::By(regex) => json!({"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false},
            bytes(false, false),
        ]}),
    };
    let spelling = Spelling::new();
    let spelled = tokens.iter().map(|token| spelling.of(token));
    Ok(json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [],
        "normalizer": null,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": null,
        "decoder": bytes(true, true),
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": false,
            "byte_fallback": false,
            "ignore_merges": false,
            "vocab": vocabulary(file, spelled)?,
            "merges": merges.iter().map(|merge| merge.split(' ').collect::<Vec<_>>()).collect::<Vec<_>>(),
        },
    }))
}

/// SentencePiece as BPE with bytes for what it does not have.
fn sentence_piece(file: &GgufFile, tokens: &[&str]) -> Result<Value> {
    let merges: Vec<Vec<&str>> = match file.texts("tokenizer.ggml.merges")? {
        Some(merges) => merges.iter().map(|merge| merge.split(' ').collect()).collect(),
        None => {
            let key = "tokenizer.ggml.scores";
            let scores = file.numbers(key)?.filter(|scores| scores.len() == tokens.len());
            let scores =
                scores.ok_or_else(|| file.refused(key, "absent or of another length", "a number for each token"))?;
            implied(tokens, &scores).into_iter().map(Vec::from).collect()
        }
    };
    Ok(json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [],
        "normalizer": null,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false},
        "post_processor": null,
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ]},
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": true,
            "byte_fallback": true,
            "ignore_merges": false,
            "vocab": vocabulary(file, tokens.iter().map(|token| (*token).to_owned()))?,
            "merges": merges,
        },
    }))
}

fn vocabulary(file: &GgufFile, tokens: impl Iterator<Item = String>) -> Result<Map<String, Value>> {
    let mut vocabulary = Map::new();
    for (id, token) in tokens.enumerate() {
        if let Some(first) = vocabulary.get(&token) {
            let value = format!("{token:?} as {first} and {id}");
            return Err(file.refused("tokenizer.ggml.tokens", value, "every token once"));
        }
        vocabulary.insert(token, json!(id));
    }
    Ok(vocabulary)
}

/// Tokens that are found in a text as they are: special ones, and those of the vocabulary's makers.
fn added(tokens: &[&str], kinds: &[i64], is_llama: bool) -> Value {
    let spelling = Spelling::new();
    let added_token = |(id, (token, &kind)): (usize, (&&str, &i64))| {
        let is_spelled = is_llama || spelling.of(token) == **token;
        let is_special = kind == CONTROL;
        ((is_special || kind == USER_DEFINED) && is_spelled).then(|| {
            json!({"id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
                   "special": is_special})
        })
    };
    tokens.iter().zip(kinds).enumerate().filter_map(added_token).collect()
}

/// What is put around every text.
fn template(file: &GgufFile, bos: Option<&str>, eos: Option<&str>) -> Result<Value> {
    let mut special = Map::new();
    let mut token = |token: Option<&str>, name: &str| -> Result<Vec<Value>> {
        let Some(text) = token else { return Ok(Vec::new()) };
        let id = file.size(&format!("tokenizer.ggml.{name}_token_id"))?;
        special.insert(text.to_owned(), json!({"id": text, "ids": [id], "tokens": [text]}));
        Ok(vec![json!({"SpecialToken": {"id": text, "type_id": 0}})])
    };
    let first = token(bos, "bos")?;
    let last = token(eos, "eos")?;
    let text = |name: &str, kind: u8| vec![json!({"Sequence": {"id": name, "type_id": kind}})];
    let single = [first.clone(), text("A", 0), last.clone()].concat();
    let pair = [first, text("A", 0), last.clone(), text("B", 1), last].concat();
    Ok(json!({"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special}))
}

/// The letters by which byte-level vocabularies spell bytes.
struct Spelling([char; 256]);

impl Spelling {
    fn new() -> Self {
        let mut letters = ['\0'; 256];
        let mut other = 0x100;
        for byte in 0..=u8::MAX {
            letters[usize::from(byte)] = match byte {
                b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF => char::from(byte),
                _ => {
                    other += 1;
                    char::from_u32(other - 1).unwrap_or_default()
                }
            };
        }
        Self(letters)
    }

    /// A token as it is, if it is spelled in these letters, and otherwise spelled in them.
    fn of(&self, token: &str) -> String {
        if token.chars().all(|letter| self.0.contains(&letter)) {
            token.to_owned()
        } else {
            token.bytes().map(|byte| self.0[usize::from(byte)]).collect()
        }
    }
}
