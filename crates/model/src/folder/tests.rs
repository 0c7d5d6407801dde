use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use evenkeel_model_folder::{EMBEDDING, Folder, HEAD, tensor_shapes, with_head_written_out};

use super::save::save_on;
use super::{SaveOptions, load_parameters, save_config, save_parameters};
use crate::config::{Architecture, Biases, Config, Rope};
use crate::parameters::Parameters;

fn config() -> Config {
    Config {
        architecture: Architecture::QWEN3,
        query_key_norm: true,
        vocab_size: 16,
        hidden_size: 8,
        intermediate_size: 12,
        num_layers: 2,
        num_heads: 2,
        num_kv_heads: 1,
        head_dim: 4,
        max_position_embeddings: 32,
        rms_norm_eps: 1e-6,
        rope: Rope::plain(1e4),
        layers_without_rope: Vec::new(),
        biases: Biases::NONE,
        tie_word_embeddings: false,
        eos_token_ids: vec![1],
    }
}

fn written(folder: &Path, max_shard_bytes: usize) -> Parameters {
    let parameters = Parameters::random(&config(), 3, 0.1, &Device::Cpu).unwrap();
    let options = SaveOptions { max_shard_bytes, ..SaveOptions::default() };
    save_parameters(folder, &parameters, options).unwrap();
    save_config(folder, &config().to_json().unwrap(), DType::F32).unwrap();
    parameters
}

fn bits(parameters: &Parameters) -> Vec<u32> {
    let flat = |t: &Tensor| t.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    parameters.values().iter().flat_map(flat).map(f32::to_bits).collect()
}

#[test]
fn a_folder_holds_what_was_written_to_the_bit_whole_and_in_shards() {
    for max_shard_bytes in [usize::MAX, 700, 1] {
        let folder = tempfile::tempdir().unwrap();
        let parameters = written(folder.path(), max_shard_bytes);
        let (config, _) = Config::load(folder.path()).unwrap();
        let read = load_parameters(folder.path(), &config, &Device::Cpu).unwrap();
        assert_eq!(bits(&read), bits(&parameters), "shards of {max_shard_bytes} bytes");
    }
}

#[test]
fn shards_have_the_same_names_bytes_and_digests_however_many_are_written_at_a_time() {
    let parameters = Parameters::random(&config(), 3, 0.1, &Device::Cpu).unwrap();
    let options = SaveOptions { max_shard_bytes: 700, synced: false, ..SaveOptions::default() };
    let written_on = |threads| {
        let folder = tempfile::tempdir().unwrap();
        let files = save_on(threads, folder.path(), &parameters, options).unwrap();
        assert!(files.len() > 8, "{files:?}");
        let entries = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let contents: BTreeMap<_, _> =
            entries.map(|path| (path.file_name().unwrap().to_owned(), std::fs::read(&path).unwrap())).collect();
        assert_eq!(contents.len(), files.len() + 1, "the shards and their index");
        (files, contents)
    };
    let one = written_on(1);
    for threads in [2, 3, 8, 100] {
        assert!(written_on(threads) == one, "{threads} threads");
    }
}

#[test]
fn a_truncated_file_is_named_at_every_length() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), usize::MAX);
    let path = folder.path().join("model.safetensors");
    let whole = std::fs::read(&path).unwrap();
    for length in [0, 4, 8, 100, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..length]).unwrap();
        let error = load_parameters(folder.path(), &config(), &Device::Cpu).unwrap_err().to_string();
        assert!(error.contains("model.safetensors"), "{length} bytes: {error}");
    }
}

#[test]
fn a_missing_shard_is_named() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), 700);
    let mut names =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let shard = names.find(|name| name.starts_with("model-00002-of-")).unwrap();
    std::fs::remove_file(folder.path().join(&shard)).unwrap();
    let error = load_parameters(folder.path(), &config(), &Device::Cpu).unwrap_err().to_string();
    assert!(error.contains(&shard), "{error}");
}

#[test]
fn a_tensor_of_another_shape_or_name_or_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), usize::MAX);
    let cases = [
        (Config { intermediate_size: 13, ..config() }, "mlp.gate_proj.weight"),
        (Config { num_layers: 1, ..config() }, "model.layers.1."),
        (Config { num_layers: 3, ..config() }, "model.layers.2.input_layernorm.weight"),
        (Config { biases: Biases::QKV, ..config() }, "q_proj.bias"),
    ];
    for (config, name) in cases {
        let error = load_parameters(folder.path(), &config, &Device::Cpu).unwrap_err().to_string();
        assert!(error.contains(name), "{name}: {error}");
    }
}

#[test]
fn a_tensor_of_integers_is_refused_with_its_type() {
    let folder = tempfile::tempdir().unwrap();
    let parameters = written(folder.path(), usize::MAX);
    let tensors = parameters.specs().iter().zip(parameters.values()).map(|(spec, value)| {
        let value = if spec.name == "model.norm.weight" { value.to_dtype(DType::U32).unwrap() } else { value.clone() };
        (spec.name.clone(), value)
    });
    safetensors::serialize_to_file(tensors.collect::<Vec<_>>(), None, &folder.path().join("model.safetensors"))
        .unwrap();
    let error = load_parameters(folder.path(), &config(), &Device::Cpu).unwrap_err().to_string();
    assert!(error.contains("model.norm.weight") && error.contains("U32"), "{error}");
}

/// A tied model whose head is written out, in files of at most that many bytes.
fn written_out(folder: &Path, max_shard_bytes: usize) -> Parameters {
    let tied = Config { tie_word_embeddings: true, ..config() };
    let parameters = Parameters::random(&tied, 3, 0.1, &Device::Cpu).unwrap();
    let options = SaveOptions { max_shard_bytes, write_out_head: true, ..SaveOptions::default() };
    save_parameters(folder, &parameters, options).unwrap();
    save_config(folder, &with_head_written_out(tied.to_json().unwrap()), DType::F32).unwrap();
    parameters
}

#[test]
fn a_head_that_is_written_out_is_read_as_the_embedding_and_nothing_else() {
    for max_shard_bytes in [usize::MAX, 700, 1] {
        let folder = tempfile::tempdir().unwrap();
        let parameters = written_out(folder.path(), max_shard_bytes);
        let shapes = tensor_shapes(&Folder::new(folder.path())).unwrap();
        assert_eq!(shapes[HEAD], shapes[EMBEDDING]);
        let (config, _) = Config::load(folder.path()).unwrap();
        assert!(config.tie_word_embeddings);
        let read = load_parameters(folder.path(), &config, &Device::Cpu).unwrap();
        assert!(read.ids().is_tied());
        assert_eq!(bits(&read), bits(&parameters), "shards of {max_shard_bytes} bytes");
    }
}

#[test]
fn a_tied_head_that_is_not_the_embedding_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    written_out(folder.path(), usize::MAX);
    let path = folder.path().join("model.safetensors");
    // Sorted by name, the head is the first tensor.
    let mut bytes = std::fs::read(&path).unwrap();
    let first = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    bytes[first] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let (config, _) = Config::load(folder.path()).unwrap();
    let error = load_parameters(folder.path(), &config, &Device::Cpu).unwrap_err().to_string();
    assert!(error.contains("lm_head.weight") && error.contains("is not model.embed_tokens.weight"), "{error}");
}

#[test]
fn a_value_that_is_not_finite_is_named_where_it_is_read_and_is_never_written() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), usize::MAX);
    let (config, _) = Config::load(folder.path()).unwrap();
    super::check_values(folder.path(), &config).unwrap();
    // The last tensor of the file, in the order of names.
    let path = folder.path().join("model.safetensors");
    let whole = std::fs::read(&path).unwrap();
    for poison in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut bytes = whole.clone();
        let at = bytes.len() - 4;
        bytes[at..].copy_from_slice(&poison.to_le_bytes());
        std::fs::write(&path, bytes).unwrap();
        let words = format!("tensor `model.norm.weight`: 1 values are not finite, the first is {poison} at [7]");
        for error in [
            load_parameters(folder.path(), &config, &Device::Cpu).err().unwrap(),
            super::check_values(folder.path(), &config).unwrap_err(),
        ] {
            assert!(error.to_string().contains(&words), "{error}");
        }
    }
    let mut parameters = Parameters::random(&config, 3, 0.1, &Device::Cpu).unwrap();
    let large = (parameters.values()[0].ones_like().unwrap() * 1e30).unwrap();
    parameters.trained_values_mut()[0] = large;
    for (dtype, is_written) in [(DType::F32, true), (DType::BF16, true), (DType::F16, false)] {
        let other = tempfile::tempdir().unwrap();
        let saved = save_parameters(
            other.path(),
            &parameters,
            SaveOptions { dtype, max_shard_bytes: 700, ..SaveOptions::default() },
        );
        assert_eq!(saved.is_ok(), is_written, "{dtype:?}: no half is as large as 1e30");
    }
}

#[test]
fn a_folder_of_pickled_weights_alone_is_refused_with_what_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), usize::MAX);
    std::fs::rename(folder.path().join("model.safetensors"), folder.path().join("pytorch_model.bin")).unwrap();
    let error = load_parameters(folder.path(), &config(), &Device::Cpu).unwrap_err().to_string();
    let words = "is pytorch_model.bin, allowed: model.safetensors, or shards with model.safetensors.index.json";
    assert!(error.contains("weights of ") && error.contains(words), "{error}");
}

#[test]
fn a_tied_head_that_is_stored_is_read_where_it_is_the_embedding() {
    let folder = tempfile::tempdir().unwrap();
    let parameters = written_out(folder.path(), usize::MAX);
    // As exporters write it that know nothing of the mark of a copy.
    let tied = Config { tie_word_embeddings: true, ..config() };
    save_config(folder.path(), &tied.to_json().unwrap(), DType::F32).unwrap();
    let (config, _) = Config::load(folder.path()).unwrap();
    assert_eq!(bits(&load_parameters(folder.path(), &config, &Device::Cpu).unwrap()), bits(&parameters));
}
