//! `tests/golden/gguf`: what transformers and the gguf package read of the same files.

use std::path::{Path, PathBuf};

use candle_core::quantized::gguf_file::Value as Metadata;
use candle_core::quantized::{GgmlDType, QTensor, gguf_file};
use candle_core::{DType, Device, Tensor};
use evenkeel_model_folder::{Folder, Tokenizer};
use serde_json::Value;

use super::file::GgufFile;
use super::import_gguf;
use crate::Decoder;
use crate::config::Config;
use crate::decode::DecodeStep;
use crate::folder::load_parameters;
use crate::kernels::cpu::Cpu;

const MODELS: [&str; 3] = ["llama", "qwen2", "sentencepiece"];

fn golden(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/gguf")).join(name)
}

fn host(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

fn imported(name: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("model");
    import_gguf(&golden(&format!("{name}.gguf")), &folder).unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    (dir, folder)
}

#[test]
fn values_of_every_type_are_those_of_the_gguf_package() {
    let mut file = GgufFile::open(&golden("quantised.gguf")).unwrap();
    let wanted = candle_core::safetensors::load(golden("quantised.safetensors"), &Device::Cpu).unwrap();
    assert_eq!(wanted.len(), 13);
    for (name, wanted) in wanted {
        let found = host(&file.tensor(&name, &[1, 256]).unwrap());
        for (found, wanted) in found.iter().zip(host(&wanted)) {
            assert!((found - wanted).abs() <= 1e-6 * wanted.abs(), "{name}: {found} for {wanted}");
        }
    }
}

#[test]
fn a_file_becomes_the_model_that_transformers_reads() {
    for name in MODELS {
        let (_dir, folder) = imported(name);
        let wanted = candle_core::safetensors::load(golden(&format!("{name}.safetensors")), &Device::Cpu).unwrap();
        let (config, _) = Config::load(&folder).unwrap();
        let parameters = load_parameters(&folder, &config, &Device::Cpu).unwrap();
        assert_eq!(parameters.specs().len() + 2, wanted.len(), "{name}: beside tokens and logits");
        for (spec, found) in parameters.specs().iter().zip(parameters.values()) {
            assert_eq!(host(found), host(&wanted[&spec.name]), "{name}: {}", spec.name);
        }
        let tokens: Vec<u32> = wanted["tokens"].to_dtype(DType::U32).unwrap().to_vec1().unwrap();
        let decoder = Decoder::new(config, &parameters, Cpu::new().unwrap(), 1).unwrap();
        let mut cache = decoder.sequence().unwrap();
        let found = decoder.step(&mut [DecodeStep::new(&mut cache, &tokens)]).unwrap();
        let last = host(&wanted["logits"].get(tokens.len() - 1).unwrap());
        let error = found.iter().zip(last).map(|(found, wanted)| (found - wanted).abs()).fold(0.0, f32::max);
        assert!(error < 1e-5, "{name}: logits differ by {error}");
    }
}

#[test]
fn texts_have_the_tokens_that_transformers_gives_them() {
    for name in MODELS {
        let (_dir, folder) = imported(name);
        let golden: Value = serde_json::from_slice(&std::fs::read(golden(&format!("{name}.json"))).unwrap()).unwrap();
        let tokenizer = Tokenizer::require(&Folder::new(&folder)).unwrap();
        for case in golden["texts"].as_array().unwrap() {
            let ids: Vec<u64> = case[1].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
            let text = case[0].as_str().unwrap();
            let found: Vec<u64> = tokenizer.encode(text, true).unwrap().into_iter().map(u64::from).collect();
            assert_eq!(found, ids, "{name}: {text:?}");
        }
        let template = std::fs::read_to_string(folder.join("chat_template.jinja")).ok();
        assert_eq!(template.as_deref(), golden["chat_template"].as_str(), "{name}");
    }
}

fn refusal(file: &Path) -> String {
    let dir = tempfile::tempdir().unwrap();
    let error = import_gguf(file, &dir.path().join("model")).unwrap_err().to_string();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left of it: {error}");
    error
}

#[test]
fn a_file_that_was_cut_is_refused_at_every_length_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let whole = std::fs::read(golden("llama.gguf")).unwrap();
    let path = dir.path().join("cut.gguf");
    for length in (0..whole.len()).step_by(997).chain([whole.len() - 33]) {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(refusal(&path).contains("cut.gguf"), "{length} bytes");
    }
}

/// The llama of the goldens with other bytes.
fn changed(from: &[u8], to: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = std::fs::read(golden("llama.gguf")).unwrap();
    let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
    bytes[at..at + to.len()].copy_from_slice(to);
    let path = dir.path().join("changed.gguf");
    std::fs::write(&path, bytes).unwrap();
    refusal(&path)
}

#[test]
fn what_is_not_known_is_refused_by_name_with_what_is_allowed() {
    let error = changed(b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0gemma");
    assert!(
        error.contains("general.architecture") && error.contains("\"gemma\", allowed: llama, qwen2, qwen3"),
        "{error}"
    );
    let error = changed(b"llama-bpe", b"jais-v2.5");
    assert!(error.contains("tokenizer.ggml.pre") && error.contains("allowed: default, gpt-2"), "{error}");
    let error = changed(b"blk.1.ffn_up", b"blk.1.ffn_xx");
    assert!(error.contains("blk.1.ffn_xx.weight") && error.contains("is not a parameter"), "{error}");
    let error = changed(b"llama.feed_forward_length\x04\0\0\0\x40", b"llama.feed_forward_length\x04\0\0\0\x41");
    assert!(error.contains("has shape [64, 32], the metadata requires [65, 32]"), "{error}");
    let error = changed(b"gpt2\x12", b"bert\x12");
    assert!(error.contains("tokenizer.ggml.model") && error.contains("allowed: gpt2 or llama"), "{error}");
}

#[test]
fn a_part_of_a_split_model_is_called_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m-00002-of-00003.gguf");
    let tensor = QTensor::quantize(&Tensor::zeros(32, DType::F32, &Device::Cpu).unwrap(), GgmlDType::F32).unwrap();
    let mut out = std::fs::File::create(&path).unwrap();
    let keys = [("split.no", &Metadata::U16(1)), ("split.count", &Metadata::U16(3))];
    gguf_file::write(&mut out, &keys, &[("x", &tensor)]).unwrap();
    let error = refusal(&path);
    assert!(error.contains("is 3 (the file is part 2), allowed: a whole model in one file"), "{error}");
}

#[test]
fn an_alignment_of_nothing_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("zero.gguf");
    let tensor = QTensor::quantize(&Tensor::zeros(32, DType::F32, &Device::Cpu).unwrap(), GgmlDType::F32).unwrap();
    let mut out = std::fs::File::create(&path).unwrap();
    gguf_file::write(&mut out, &[("general.alignment", &Metadata::U32(0))], &[("x", &tensor)]).unwrap();
    assert!(refusal(&path).contains("its alignment is 0"));
}

#[test]
fn a_folder_with_something_in_it_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("thesis.tex"), "").unwrap();
    let error = import_gguf(&golden("llama.gguf"), dir.path()).unwrap_err().to_string();
    assert!(error.contains("holds something else, allowed: an empty folder or none"), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}
