//! Groups of a model's trained tensors by what they are for, so that one group can be told from the others when only it
//! is wrong.

use crate::parameters::{AdapterIds, LayerIds, LinearIds, ModelIds, ParameterId, ParameterKind, Parameters};

/// Largest number of blocks of layers.
const BLOCKS: usize = 4;

/// A group of tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorGroup {
    /// Name of the group, such as `mlp` or `layers 0-7`.
    pub name: String,
    /// Indices of the group's tensors among the trained ones: at least one, ascending.
    pub parameters: Vec<usize>,
}

/// The groups of what is trained: `head` (none if it is tied), `embeddings` (with a tied head), `norms`, `biases` (if
/// there are any), `attention` and `mlp`, which are disjoint and together all tensors; and up to four blocks of
/// consecutive layers, each with all tensors of its layers. Adapters belong to the group of the matrix beside which
/// they are; groups without any are absent.
pub fn tensor_groups(parameters: &Parameters) -> Vec<TensorGroup> {
    let ids = parameters.ids();
    let of_kind = |kind| {
        let all = parameters.specs().iter().enumerate().filter(move |(_, spec)| spec.kind == kind);
        all.map(|(at, _)| ParameterId::at(at)).collect::<Vec<_>>()
    };
    let matrices = |linears: Vec<LinearIds>| linears.into_iter().flat_map(matrices).collect::<Vec<_>>();
    let attention = ids.layers.iter().flat_map(attention_of);
    let mlp = ids.layers.iter().flat_map(mlp_of);
    let head = if ids.is_tied() { Vec::new() } else { matrices(vec![ids.head]) };
    let groups = [
        ("head", head),
        ("embeddings", vec![ids.embedding]),
        ("norms", of_kind(ParameterKind::Norm)),
        ("biases", of_kind(ParameterKind::Bias)),
        ("attention", matrices(attention.collect())),
        ("mlp", matrices(mlp.collect())),
    ];
    let groups = groups.into_iter().map(|(name, ids)| (name.to_owned(), ids));
    let trained = parameters.trained();
    let groups = groups.chain(blocks(ids)).map(|(name, ids)| {
        let ids = ids.into_iter().map(ParameterId::index).filter(|at| trained.contains(at));
        TensorGroup { name, parameters: ids.map(|at| at - trained.start).collect() }
    });
    groups.filter(|group| !group.parameters.is_empty()).collect()
}

/// The layer that first reads each tensor that is trained: the number of layers for those of the last norm and the head.
pub(crate) fn first_layers(parameters: &Parameters) -> Vec<usize> {
    let ids = parameters.ids();
    let mut first = vec![0; parameters.specs().len()];
    let mut note = |layer: usize, read: &[LinearIds], norms: &[Option<ParameterId>]| {
        let of_linear = |linear: LinearIds| matrices(linear).chain(linear.bias);
        let all = read.iter().copied().flat_map(of_linear).chain(norms.iter().copied().flatten());
        all.for_each(|id| first[id.index()] = layer);
    };
    note(ids.layers.len(), &[ids.head], &[Some(ids.norm)]);
    for (number, layer) in ids.layers.iter().enumerate() {
        let norms = [Some(layer.input_norm), Some(layer.post_norm), layer.query_norm, layer.key_norm];
        note(number, &attention_of(layer), &norms);
        note(number, &mlp_of(layer), &[]);
    }
    // A head that is tied to it is read before.
    first[ids.embedding.index()] = 0;
    first[parameters.trained()].to_vec()
}

fn attention_of(layer: &LayerIds) -> [LinearIds; 4] {
    [layer.query, layer.key, layer.value, layer.output]
}

fn mlp_of(layer: &LayerIds) -> [LinearIds; 3] {
    [layer.gate, layer.up, layer.down]
}

/// A linear layer's weight, and A and B of its adapter.
fn matrices(linear: LinearIds) -> impl Iterator<Item = ParameterId> {
    std::iter::once(linear.weight).chain(adapter(linear))
}

fn adapter(linear: LinearIds) -> impl Iterator<Item = ParameterId> {
    linear.adapter.into_iter().flat_map(|AdapterIds { a, b }| [a, b])
}

/// Consecutive layers, in blocks whose sizes differ by one at most.
fn blocks(ids: &ModelIds) -> impl Iterator<Item = (String, Vec<ParameterId>)> + '_ {
    let layers = ids.layers.len();
    let count = layers.min(BLOCKS);
    // The parameters of a layer are consecutive and begin with its first norm; the last layer is followed by the
    // model's norm.
    let begin = move |layer: usize| ids.layers.get(layer).map_or(ids.norm, |layer| layer.input_norm).index();
    (0..count).map(move |block| {
        let first = block * layers / count;
        let end = (block + 1) * layers / count;
        let name = match end - first {
            1 => format!("layer {first}"),
            _ => format!("layers {first}-{}", end - 1),
        };
        let beside =
            ids.layers[first..end].iter().flat_map(|layer| attention_of(layer).into_iter().chain(mlp_of(layer)));
        (name, (begin(first)..begin(end)).map(ParameterId::at).chain(beside.flat_map(adapter)).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Architecture, Biases, Config, Rope};
    use crate::parameters::lora::{LinearModule, LoraShape};
    use crate::parameters::parameter_specs;

    fn all_of(config: &Config) -> Vec<TensorGroup> {
        tensor_groups(&Parameters::described(config).unwrap())
    }

    fn config(num_layers: usize, tie_word_embeddings: bool, has_biases: bool) -> Config {
        Config {
            architecture: Architecture::QWEN3,
            query_key_norm: true,
            vocab_size: 29,
            hidden_size: 24,
            intermediate_size: 40,
            num_layers,
            num_heads: 3,
            num_kv_heads: 1,
            head_dim: 8,
            max_position_embeddings: 64,
            rms_norm_eps: 1e-6,
            rope: Rope::plain(1e4),
            layers_without_rope: Vec::new(),
            biases: if has_biases { Biases::QKV } else { Biases::NONE },
            tie_word_embeddings,
            eos_token_ids: vec![1],
        }
    }

    fn names(groups: &[TensorGroup]) -> Vec<&str> {
        groups.iter().map(|group| group.name.as_str()).collect()
    }

    #[test]
    fn a_model_has_the_groups_that_its_tensors_have() {
        let blocks = ["layers 0-6", "layers 7-14", "layers 15-21", "layers 22-29"];
        let tied = all_of(&config(30, true, false));
        assert_eq!(names(&tied), [&["embeddings", "norms", "attention", "mlp"][..], &blocks].concat());
        let untied = all_of(&config(2, false, true));
        let kinds = ["head", "embeddings", "norms", "biases", "attention", "mlp"];
        assert_eq!(names(&untied), [&kinds[..], &["layer 0", "layer 1"]].concat());
    }

    #[test]
    fn kinds_divide_all_tensors_and_blocks_those_of_the_layers() {
        for (layers, tied, bias) in [(1, true, false), (2, false, true), (5, true, true), (30, false, false)] {
            let config = config(layers, tied, bias);
            let specs = parameter_specs(&config).0;
            let groups = all_of(&config);
            let grouped = |is_block: bool| {
                let chosen = groups.iter().filter(|group| group.name.starts_with("layer") == is_block);
                let mut all: Vec<_> = chosen.flat_map(|group| group.parameters.clone()).collect();
                all.sort_unstable();
                all
            };
            assert_eq!(grouped(false), (0..specs.len()).collect::<Vec<_>>());
            let in_layers = specs.iter().enumerate().filter(|(_, spec)| spec.name.starts_with("model.layers."));
            assert_eq!(grouped(true), in_layers.map(|(at, _)| at).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_group_holds_what_its_name_says() {
        let config = config(8, false, true);
        let specs = parameter_specs(&config).0;
        for group in all_of(&config) {
            for &id in &group.parameters {
                let name = &specs[id].name;
                let belongs = match group.name.as_str() {
                    "head" => name == "lm_head.weight",
                    "embeddings" => name == "model.embed_tokens.weight",
                    "norms" => name.ends_with("norm.weight"),
                    "biases" => name.ends_with(".bias"),
                    "attention" => name.contains("self_attn.") && name.ends_with("_proj.weight"),
                    "mlp" => name.contains("mlp."),
                    "layers 2-3" => name.contains("layers.2.") || name.contains("layers.3."),
                    _ => continue,
                };
                assert!(belongs, "{name} in {}", group.name);
            }
        }
    }

    #[test]
    fn every_tensor_is_first_read_by_the_layer_in_its_name_or_before_or_after_all() {
        let lora = LoraShape { rank: 2, alpha: 4.0, targets: vec![LinearModule::Query, LinearModule::Down] };
        for (tied, bias, lora) in [(true, false, None), (false, true, None), (true, true, Some(&lora))] {
            let parameters = Parameters::described_with(&config(3, tied, bias), lora).unwrap();
            for (spec, layer) in parameters.trained_specs().iter().zip(first_layers(&parameters)) {
                let of_layer = spec.name.split_once(".layers.").and_then(|(_, rest)| rest.split('.').next());
                let wanted = match (of_layer, spec.name.as_str()) {
                    (Some(number), _) => number.parse().unwrap(),
                    (None, "model.embed_tokens.weight") => 0,
                    (None, name) => {
                        assert!(["model.norm.weight", "lm_head.weight"].contains(&name), "{name}");
                        3
                    }
                };
                assert_eq!(layer, wanted, "{}", spec.name);
            }
        }
    }

    #[test]
    fn adapters_are_in_the_groups_of_their_matrices_and_what_is_frozen_in_none() {
        let config = config(2, true, false);
        let lora = LoraShape { rank: 2, alpha: 4.0, targets: vec![LinearModule::Query, LinearModule::Down] };
        let groups_of =
            |config: &Config, lora: &LoraShape| tensor_groups(&Parameters::described_with(config, Some(lora)).unwrap());
        let groups = groups_of(&config, &lora);
        assert_eq!(names(&groups), ["attention", "mlp", "layer 0", "layer 1"]);
        let found: Vec<_> = groups.iter().map(|group| group.parameters.clone()).collect();
        assert_eq!(found, [[0, 1, 4, 5], [2, 3, 6, 7], [0, 1, 2, 3], [4, 5, 6, 7]]);

        let untied = Config { tie_word_embeddings: false, ..config };
        let with_head = LoraShape { targets: vec![LinearModule::Query, LinearModule::Head], ..lora };
        let groups = groups_of(&untied, &with_head);
        assert_eq!(names(&groups), ["head", "attention", "layer 0", "layer 1"]);
        assert_eq!(groups[0].parameters, [4, 5], "after those of the layers");
    }
}
