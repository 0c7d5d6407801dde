//! What a file's metadata says of rotary positions and of the tokenizer: files without parameters.

use std::f64::consts::TAU;

use candle_core::quantized::gguf_file::{self, Value as Metadata};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use evenkeel_model_folder::{Folder, Tokenizer, name};
use serde_json::Value;
use tempfile::TempDir;

use super::file::{GgufFile, ROPE_FACTORS};
use super::{config, tokenizer};
use crate::error::Result;

const CONTEXT: u32 = 131_072;
const HEAD_DIM: usize = 64;
const THETA: f32 = 500_000.0;

/// A file of a llama with an embedding, these keys, and these factors of rotary frequencies.
fn file(keys: &[(&str, Metadata)], factors: Option<&[f32]>) -> (TempDir, GgufFile) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    let sizes = [
        ("llama.embedding_length", 128),
        ("llama.attention.head_count", 2),
        ("llama.context_length", CONTEXT),
        ("llama.feed_forward_length", 256),
        ("llama.block_count", 1),
    ];
    let mut all: Vec<(&str, Metadata)> = sizes.map(|(key, size)| (key, Metadata::U32(size))).to_vec();
    all.push(("general.architecture", Metadata::String("llama".into())));
    all.push(("llama.rope.freq_base", Metadata::F32(THETA)));
    all.push(("llama.attention.layer_norm_rms_epsilon", Metadata::F32(1e-5)));
    all.extend(keys.iter().cloned());
    let all: Vec<(&str, &Metadata)> = all.iter().map(|(key, value)| (*key, value)).collect();
    let tensor = |values: &[f32], shape: &[usize]| {
        QTensor::quantize(&Tensor::from_slice(values, shape, &Device::Cpu).unwrap(), GgmlDType::F32).unwrap()
    };
    let embedding = tensor(&[0.0; 128], &[1, 128]);
    let factors = factors.map(|factors| tensor(factors, &[factors.len()]));
    let mut tensors = vec![("token_embd.weight", &embedding)];
    tensors.extend(factors.iter().map(|factors| (ROPE_FACTORS, factors)));
    gguf_file::write(&mut std::fs::File::create(&path).unwrap(), &all, &tensors).unwrap();
    let file = GgufFile::open(&path).unwrap();
    (dir, file)
}

fn rope(keys: &[(&str, Metadata)], factors: Option<&[f32]>) -> Result<Value> {
    let (_dir, file) = file(keys, factors);
    config::of(&file).map(|json| json["rope_parameters"].clone())
}

/// The factors as llama.cpp's converter computes them from Llama 3's scaling.
fn llama3_factors(factor: f64) -> Vec<f32> {
    let scale = |pair: usize| {
        let frequency = f64::from(THETA).powf(-2.0 * pair as f64 / HEAD_DIM as f64);
        let turns = 8192.0 * frequency / TAU;
        match turns {
            turns if turns > 4.0 => 1.0,
            turns if turns < 1.0 => factor,
            turns => {
                let smooth = (turns - 1.0) / 3.0;
                1.0 / ((1.0 - smooth) / factor + smooth)
            }
        }
    };
    (0..HEAD_DIM / 2).map(|pair| scale(pair) as f32).collect()
}

#[test]
fn rotary_factors_are_recognised_as_those_of_llama_3() {
    for factor in [8.0, 32.0] {
        let found = rope(&[], Some(&llama3_factors(factor))).unwrap();
        assert_eq!((&found["rope_type"], &found["factor"]), (&"llama3".into(), &factor.into()));
        assert_eq!(found["original_max_position_embeddings"].as_f64(), Some(8192.0));
    }
    let error = rope(&[], Some(&llama3_factors(16.0))).unwrap_err().to_string();
    assert!(error.contains("rope_freqs.weight") && error.contains("the factors of Llama 3.1"), "{error}");
    let error = rope(&[], Some(&[1.0; 7])).unwrap_err().to_string();
    assert!(error.contains("7 factors"), "{error}");
}

#[test]
fn scaling_of_rotary_positions_keeps_its_numbers() {
    let text = |text: &str| Metadata::String(text.into());
    let kind = "llama.rope.scaling.type";
    let factor = "llama.rope.scaling.factor";
    let original = ("llama.rope.scaling.original_context_length", Metadata::U32(32_768));
    assert_eq!(rope(&[], None).unwrap()["rope_type"], "default");
    assert_eq!(rope(&[(kind, text("none"))], None).unwrap()["rope_type"], "default");
    let linear = rope(&[(kind, text("linear")), (factor, Metadata::F32(4.0))], None).unwrap();
    assert_eq!((&linear["rope_type"], &linear["factor"]), (&"linear".into(), &4.0.into()));
    let yarn = [(kind, text("yarn")), (factor, Metadata::F32(4.0)), original];
    let found = rope(&yarn, None).unwrap();
    assert_eq!((&found["rope_type"], &found["factor"]), (&"yarn".into(), &4.0.into()));
    assert_eq!(found["original_max_position_embeddings"].as_f64(), Some(32_768.0));
    let other = ("llama.rope.scaling.yarn_ext_factor", Metadata::F32(0.5));
    let error = rope(&[yarn.to_vec(), vec![other]].concat(), None).unwrap_err().to_string();
    assert!(error.contains("yarn_ext_factor") && error.contains("allowed: absent"), "{error}");
    let error = rope(&[(kind, text("longrope"))], None).unwrap_err().to_string();
    assert!(error.contains("\"longrope\", allowed: none, linear or yarn"), "{error}");
    let error = rope(&[(kind, text("linear"))], None).unwrap_err().to_string();
    assert!(error.contains("llama.rope.scaling.factor") && error.contains("required: a number"), "{error}");
}

#[test]
fn smollm_takes_every_digit_apart_and_spaces_before_it_together() {
    let texts = |texts: &[&str]| Metadata::Array(texts.iter().map(|&text| Metadata::String(text.into())).collect());
    let keys = |pre: &str| {
        [
            ("tokenizer.ggml.model", Metadata::String("gpt2".into())),
            ("tokenizer.ggml.pre", Metadata::String(pre.into())),
            ("tokenizer.ggml.tokens", texts(&["a", "Ġ", "1", "2", "ĠĠ"])),
            ("tokenizer.ggml.merges", texts(&["Ġ Ġ"])),
        ]
    };
    let encoded = |pre: &str| {
        let dir = tempfile::tempdir().unwrap();
        let files = tokenizer::of(&file(&keys(pre), None).1).unwrap();
        std::fs::write(dir.path().join(name::TOKENIZER), files.file.to_string()).unwrap();
        Tokenizer::require(&Folder::new(dir.path())).unwrap().encode("a  12", false).unwrap()
    };
    assert_eq!(encoded("smollm"), [0, 4, 2, 3]);
    assert_eq!(encoded("gpt-2"), [0, 1, 1, 2, 3]);
}

/// What transformers 5.24 puts around a text, by `tests/golden/make_gguf.py special`: it follows the flags of the file,
/// and without one adds the first token to a SentencePiece vocabulary alone.
#[test]
fn first_and_last_tokens_are_those_that_transformers_adds() {
    let texts = |texts: &[&str]| Metadata::Array(texts.iter().map(|&text| Metadata::String(text.into())).collect());
    let tokens = ["<unk>", "<s>", "</s>", "a", "▁a"];
    let around = |model: &str, pre: &str, bos: Option<bool>, eos: Option<bool>| {
        let mut keys = vec![
            ("tokenizer.ggml.model", Metadata::String(model.into())),
            ("tokenizer.ggml.pre", Metadata::String(pre.into())),
            ("tokenizer.ggml.tokens", texts(&tokens)),
            ("tokenizer.ggml.merges", texts(&[])),
            ("tokenizer.ggml.bos_token_id", Metadata::U32(1)),
            ("tokenizer.ggml.eos_token_id", Metadata::U32(2)),
        ];
        keys.extend(bos.map(|adds| ("tokenizer.ggml.add_bos_token", Metadata::Bool(adds))));
        keys.extend(eos.map(|adds| ("tokenizer.ggml.add_eos_token", Metadata::Bool(adds))));
        let dir = tempfile::tempdir().unwrap();
        let files = tokenizer::of(&file(&keys, None).1).unwrap();
        std::fs::write(dir.path().join(name::TOKENIZER), files.file.to_string()).unwrap();
        let ids = Tokenizer::require(&Folder::new(dir.path())).unwrap().encode("a", true).unwrap();
        (ids.first() == Some(&1), ids.last() == Some(&2))
    };
    for (model, pre, unsaid) in
        [("gpt2", "llama-bpe", false), ("gpt2", "smollm", false), ("gpt2", "qwen2", false), ("llama", "default", true)]
    {
        for bos in [None, Some(false), Some(true)] {
            for eos in [None, Some(false), Some(true)] {
                let wanted = (bos.unwrap_or(unsaid), eos == Some(true));
                assert_eq!(around(model, pre, bos, eos), wanted, "{model} {pre} {bos:?} {eos:?}");
            }
        }
    }
}
