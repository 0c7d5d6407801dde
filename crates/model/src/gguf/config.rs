//! `config.json` from the metadata and tensors of a GGUF file.

use serde_json::{Value, json};

use super::file::{GgufFile, ROPE_FACTORS};
use crate::config::{Rope, RopeScaling};
use crate::error::Result;

/// The configuration as transformers makes it, and with the scaling of rotary positions, which it leaves out.
pub(super) fn of(file: &GgufFile) -> Result<Value> {
    let class = match file.architecture() {
        "qwen2" => "Qwen2ForCausalLM",
        "qwen3" => "Qwen3ForCausalLM",
        _ => "LlamaForCausalLM",
    };
    let optional = |name: &str| file.size(&file.key(name));
    let required = |name: &str| {
        let key = file.key(name);
        file.size(&key)?.ok_or_else(|| file.refused(&key, "absent", "a whole number"))
    };
    for (name, allowed) in [("expert_count", "no experts"), ("attention.sliding_window", "no window")] {
        if let Some(found) = optional(name)?.filter(|&found| found > 0) {
            return Err(file.refused(&file.key(name), found, allowed));
        }
    }
    let hidden = required("embedding_length")?;
    let heads = required("attention.head_count")?;
    let divided = hidden.checked_div(heads).unwrap_or(0);
    let rotated = optional("rope.dimension_count")?;
    let head_dim = optional("attention.key_length")?.or(rotated).unwrap_or(divided);
    if let Some(rotated) = rotated.filter(|&rotated| rotated != head_dim) {
        return Err(file.refused(
            &file.key("rope.dimension_count"),
            rotated,
            format!("the width of a head, {head_dim}"),
        ));
    }
    let vocabulary = file.shape("token_embd.weight").and_then(|shape| shape.first().copied());
    let vocabulary = vocabulary.ok_or_else(|| file.refused("token_embd.weight", "absent", "the embedding"))?;
    let context = required("context_length")?;
    let theta = file.number(&file.key("rope.freq_base"))?.unwrap_or(10_000.0);
    let epsilon = file.key("attention.layer_norm_rms_epsilon");
    let id = |name: &str| file.size(&format!("tokenizer.ggml.{name}_token_id"));
    let mut json = json!({
        "architectures": [class],
        "model_type": file.architecture(),
        "vocab_size": vocabulary,
        "hidden_size": hidden,
        "intermediate_size": required("feed_forward_length")?,
        "num_hidden_layers": required("block_count")?,
        "num_attention_heads": heads,
        "num_key_value_heads": optional("attention.head_count_kv")?.unwrap_or(heads),
        "head_dim": head_dim,
        "max_position_embeddings": context,
        "rms_norm_eps": file.number(&epsilon)?.ok_or_else(|| file.refused(&epsilon, "absent", "a number"))?,
        "hidden_act": "silu",
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "use_cache": true,
        // llama.cpp writes the head only where it is not the embedding.
        "tie_word_embeddings": !file.has("output.weight"),
        "bos_token_id": id("bos")?,
        "eos_token_id": id("eos")?,
        "pad_token_id": id("padding")?,
        "dtype": "float32",
    });
    if class != "Qwen2ForCausalLM" {
        json["attention_bias"] = json!(file.has("blk.0.attn_q.bias"));
    }
    if class == "LlamaForCausalLM" {
        json["mlp_bias"] = json!(file.has("blk.0.ffn_gate.bias"));
    } else {
        json["use_sliding_window"] = json!(false);
        json["sliding_window"] = Value::Null;
    }
    Rope { theta, scaling: scaling(file, theta, head_dim, context)? }.write(&mut json);
    Ok(json)
}

fn scaling(file: &GgufFile, theta: f64, head_dim: u64, context: u64) -> Result<RopeScaling> {
    if let Some(&[count]) = file.shape(ROPE_FACTORS) {
        return llama3(file, theta, head_dim, count);
    }
    let key = |name: &str| file.key(&format!("rope.scaling.{name}"));
    let number = |name: &str| -> Result<Option<f64>> {
        match file.number(&key(name)) {
            Ok(found) => Ok(found),
            Err(_) => Ok(file.size(&key(name))?.map(|size| size as f64)),
        }
    };
    let required = |name: &str| number(name)?.ok_or_else(|| file.refused(&key(name), "absent", "a number"));
    match file.text(&key("type"))? {
        None | Some("none") => Ok(RopeScaling::None),
        Some("linear") => Ok(RopeScaling::Linear { factor: required("factor")? }),
        Some("yarn") => {
            for other in ["attn_factor", "yarn_attn_factor", "yarn_ext_factor", "yarn_log_multiplier"] {
                if let Some(found) = number(other)? {
                    return Err(file.refused(&key(other), found, "absent"));
                }
            }
            let yarn = json!({
                "rope_type": "yarn",
                "factor": required("factor")?,
                "original_max_position_embeddings": number("original_context_length")?,
                "beta_fast": number("yarn_beta_fast")?,
                "beta_slow": number("yarn_beta_slow")?,
            });
            RopeScaling::from_json("rope.scaling", &yarn, &Value::Null, usize::try_from(context).unwrap_or(0))
        }
        Some(other) => Err(file.refused(&key("type"), format_args!("{other:?}"), "none, linear or yarn")),
    }
}

/// Llama 3's scaling, which llama.cpp keeps as the factor of each frequency: those of the published models are
/// recognised.
fn llama3(file: &GgufFile, theta: f64, head_dim: u64, count: usize) -> Result<RopeScaling> {
    let found = file.factors(count)?;
    let head_dim = usize::try_from(head_dim).unwrap_or(0);
    let plain = Rope::plain(theta).frequencies(head_dim);
    for factor in [8.0, 32.0] {
        let scaling = RopeScaling::Llama3 {
            factor,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_max_position_embeddings: 8192.0,
        };
        let scaled = Rope { theta, scaling }.frequencies(head_dim);
        let of = plain.iter().zip(&scaled).map(|(plain, scaled)| plain / scaled);
        if scaled.len() == found.len() && of.zip(&found).all(|(wanted, found)| (wanted / found - 1.0).abs() < 1e-3) {
            return Ok(scaling);
        }
    }
    let largest = found.iter().copied().fold(0.0, f32::max);
    let allowed = "the factors of Llama 3.1, 3.2 or 3.3 (8 or 32, of a context of 8,192)";
    Err(file.refused(ROPE_FACTORS, format_args!("{count} factors up to {largest}"), allowed))
}
