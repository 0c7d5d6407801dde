//! The names and layouts of llama.cpp's tensors.

use std::collections::BTreeMap;

use candle_core::Tensor;

use crate::config::Config;
use crate::error::Result;
use crate::parameters::{LinearIds, ModelIds, ParameterId};

/// The name of each parameter in the file, in the order of parameters.
pub(super) fn of(ids: &ModelIds, count: usize) -> Vec<String> {
    let mut names = vec![String::new(); count];
    let mut put = |id: ParameterId, name: String| names[id.index()] = name;
    put(ids.embedding, "token_embd.weight".into());
    put(ids.norm, "output_norm.weight".into());
    if !ids.is_tied() {
        put(ids.head.weight, "output.weight".into());
    }
    for (number, layer) in ids.layers.iter().enumerate() {
        let linears = [
            (layer.query, "attn_q"),
            (layer.key, "attn_k"),
            (layer.value, "attn_v"),
            (layer.output, "attn_output"),
            (layer.gate, "ffn_gate"),
            (layer.up, "ffn_up"),
            (layer.down, "ffn_down"),
        ];
        for (LinearIds { weight, bias, .. }, name) in linears {
            put(weight, format!("blk.{number}.{name}.weight"));
            if let Some(bias) = bias {
                put(bias, format!("blk.{number}.{name}.bias"));
            }
        }
        let norms = [
            (Some(layer.input_norm), "attn_norm"),
            (Some(layer.post_norm), "ffn_norm"),
            (layer.query_norm, "attn_q_norm"),
            (layer.key_norm, "attn_k_norm"),
        ];
        for (id, name) in norms {
            if let Some(id) = id {
                put(id, format!("blk.{number}.{name}.weight"));
            }
        }
    }
    names
}

/// The parameters whose rows llama.cpp keeps in pairs, with the number of heads. Only `llama` has them among the
/// architectures known here: it rotates neighbouring values where Hugging Face rotates halves.
pub(super) fn permuted(ids: &ModelIds, config: &Config, architecture: &str) -> BTreeMap<usize, usize> {
    let mut heads = BTreeMap::new();
    if architecture == "llama" {
        for layer in &ids.layers {
            for (linear, count) in [(layer.query, config.num_heads), (layer.key, config.num_kv_heads)] {
                heads.insert(linear.weight.index(), count);
                heads.extend(linear.bias.map(|bias| (bias.index(), count)));
            }
        }
    }
    heads
}

/// The rows of each head from pairs to halves.
pub(super) fn as_halves(value: &Tensor, heads: usize) -> Result<Tensor> {
    let shape = value.dims().to_vec();
    let rows = value.dim(0)?;
    let others = value.elem_count() / rows.max(1);
    let pairs = value.reshape((heads, rows / heads / 2, 2, others))?;
    Ok(pairs.transpose(1, 2)?.contiguous()?.reshape(shape)?)
}
