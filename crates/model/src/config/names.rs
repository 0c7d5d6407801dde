//! The names of a model's tensors in its files.

/// The names of an architecture. Those of a layer follow `layers` and the layer's number; those of projections are
/// without `.weight` and `.bias`.
pub(crate) struct TensorNames {
    pub(crate) embedding: &'static str,
    pub(crate) layers: &'static str,
    pub(crate) input_norm: &'static str,
    pub(crate) query: &'static str,
    pub(crate) key: &'static str,
    pub(crate) value: &'static str,
    pub(crate) query_norm: &'static str,
    pub(crate) key_norm: &'static str,
    pub(crate) output: &'static str,
    pub(crate) post_norm: &'static str,
    pub(crate) gate: &'static str,
    pub(crate) up: &'static str,
    pub(crate) down: &'static str,
    pub(crate) norm: &'static str,
    pub(crate) head: &'static str,
}

impl TensorNames {
    /// The names that most decoders of transformers use.
    pub(super) const COMMON: Self = Self {
        embedding: "model.embed_tokens.weight",
        layers: "model.layers",
        input_norm: "input_layernorm.weight",
        query: "self_attn.q_proj",
        key: "self_attn.k_proj",
        value: "self_attn.v_proj",
        query_norm: "self_attn.q_norm.weight",
        key_norm: "self_attn.k_norm.weight",
        output: "self_attn.o_proj",
        post_norm: "post_attention_layernorm.weight",
        gate: "mlp.gate_proj",
        up: "mlp.up_proj",
        down: "mlp.down_proj",
        norm: "model.norm.weight",
        head: "lm_head.weight",
    };
}
