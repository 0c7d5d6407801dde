"""Digests of the weights that a vLLM worker computes with, for Evenkeel's exact proof of weights.

    PYTHONPATH=FOLDER vllm serve MODEL --worker-extension-cls evenkeel_worker.WeightDigests

where FOLDER has this file. Evenkeel's generation service calls it by vLLM's route /collective_rpc (VLLM_SERVER_DEV_MODE=1) and compares
the answer with the published folder. It changes nothing in the engine.

Each worker answers for the part of every tensor that it has, under the checkpoint's name: fused matrices (qkv_proj, gate_up_proj) are
split back, and a part of a sharded tensor says where it begins. A digest is the SHA-256 of the values, row by row, little-endian, in the
type that the engine computes with; a zero counts without its sign. Matrices that a CPU engine has packed for its matrix products are
read by the product with the identity matrix, which is exact: what is digested is what the engine multiplies with.
"""

import hashlib

import torch

# The form of the answer.
PROTOCOL = 1
# Rows of the identity matrix that are multiplied at once.
IDENTITY_ROWS = 1024


class WeightDigests:
    """Mixed into vLLM's worker class, whose `model_runner` it uses."""

    def evenkeel_weights(self, digests: bool = True) -> dict:
        """What this worker's weights are. Without `digests` only what it can say at once."""
        model = self.model_runner.get_model()
        answer = {"protocol": PROTOCOL, "dtype": _name(self.model_config.dtype), "tied_head": _tied_head(model)}
        if digests:
            with torch.no_grad():
                answer["tensors"], answer["unread"] = _tensors(model, self.model_config.dtype)
        return answer


def _tied_head(model) -> str:
    """`shared`: the head multiplies with the very memory of the embedding. `packed`: with a copy of it, made when it was loaded. `own`:
    there is no head that is tied."""
    head, embedding = getattr(model, "lm_head", None), getattr(getattr(model, "model", None), "embed_tokens", None)
    weight = getattr(head, "weight", None)
    if weight is None or weight is not getattr(embedding, "weight", None):
        return "own"
    return "packed" if _packed(head) else "shared"


def _tensors(model, dtype) -> tuple[list, list]:
    packing = getattr(model, "packed_modules_mapping", {})
    found, unread = [], []
    for prefix, module in model.named_modules():
        for parameter, value in module.named_parameters(recurse=False):
            name = f"{prefix}.{parameter}" if prefix else parameter
            try:
                for part, start, values in _parts(name, module, parameter, value, packing):
                    found.append(_described(part, start, values, dtype))
            except _Unreadable as reason:
                unread.append({"name": name, "why": str(reason)})
    return found, unread


class _Unreadable(Exception):
    """Why the values of a tensor cannot be read."""


def _parts(name, module, parameter, value, packing):
    """The tensors of the checkpoint that a parameter holds a part of: name, where the part begins in rows and columns, values."""
    kinds = {kind.__name__ for kind in type(module).__mro__}
    quantized = type(getattr(module, "quant_method", None)).__name__
    if getattr(module, "quant_method", None) is not None and not quantized.startswith("Unquantized"):
        raise _Unreadable(f"it is quantized ({quantized})")
    if not value.is_floating_point() or value.element_size() == 1:
        raise _Unreadable(f"its type is {_name(value.dtype)}")
    if "VocabParallelEmbedding" in kinds:
        indices = module.shard_indices
        rows = indices.org_vocab_end_index - indices.org_vocab_start_index
        # An embedding is looked up in its own memory; a head is multiplied with, maybe in packed form.
        values = _matrix(module) if parameter == "weight" and "ParallelLMHead" in kinds else value
        return [(name, (indices.org_vocab_start_index, 0), values[:rows])]
    if "LinearBase" not in kinds:
        return [(name, (0, 0), value)]
    values = _matrix(module) if parameter == "weight" else value
    rank = getattr(module, "tp_rank", 0)
    if "QKVParallelLinear" in kinds:
        kv_rank = rank // module.num_kv_head_replicas
        query, key = module.num_heads * module.head_size, module.num_kv_heads * module.head_size
        value_rows = module.num_kv_heads * getattr(module, "v_head_size", module.head_size)
        return _split(name, values, packing, [(query, rank * query), (key, kv_rank * key), (value_rows, kv_rank * value_rows)])
    if "MergedColumnParallelLinear" in kinds:
        sizes = [size // module.tp_size for size in module.output_sizes]
        return _split(name, values, packing, [(size, rank * size) for size in sizes])
    if "ColumnParallelLinear" in kinds:
        return [(name, (rank * values.shape[0], 0), values)]
    if "RowParallelLinear" in kinds and values.ndim == 2:
        return [(name, (0, rank * values.shape[1]), values)]
    return [(name, (0, 0), values)]


def _split(name, values, packing, pieces):
    module_name, parameter = name.rsplit(".", 1)
    prefix, fused = module_name.rsplit(".", 1)
    names = packing.get(fused)
    if names is None or len(names) != len(pieces):
        raise _Unreadable(f"the model does not say which tensors {fused} has")
    if sum(rows for rows, _ in pieces) != values.shape[0]:
        raise _Unreadable(f"{fused} has {values.shape[0]} rows")
    parts, at = [], 0
    for part, (rows, start) in zip(names, pieces):
        parts.append((f"{prefix}.{part}.{parameter}", (start, 0), values[at : at + rows]))
        at += rows
    return parts


def _packed(module) -> bool:
    """Whether a CPU engine multiplies with something else than the weight itself."""
    linear = getattr(module, "cpu_linear", None)
    return linear is not None and linear is not torch.nn.functional.linear


def _matrix(module):
    """The matrix that a layer multiplies with, (out, in)."""
    weight = module.weight
    if not _packed(module):
        if weight.ndim != 2:
            raise _Unreadable(f"its shape is {tuple(weight.shape)}")
        return weight
    if weight.ndim == 2:
        rows, columns = weight.shape
    else:
        # Packing took the weight away.
        rows, columns = module.output_size_per_partition, module.input_size_per_partition
    matrix = torch.empty(rows, columns, dtype=weight.dtype)
    for first in range(0, columns, IDENTITY_ROWS):
        count = min(IDENTITY_ROWS, columns - first)
        identity = torch.zeros(count, columns, dtype=weight.dtype)
        identity[torch.arange(count), first + torch.arange(count)] = 1
        matrix[:, first : first + count] = module.cpu_linear(identity, weight, None).t()
    return matrix


def _described(name, start, values, dtype) -> dict:
    # A layer may keep a bias in a wider type than it was loaded in.
    narrow = values.to(dtype)
    if torch.equal(narrow.to(values.dtype), values):
        values = narrow
    values = (values.detach() + 0).contiguous().cpu()
    digest = hashlib.sha256(values.view(torch.uint8).numpy().reshape(-1))
    start = list(start)[: values.ndim]
    return {"name": name, "dtype": _name(values.dtype), "shape": list(values.shape), "start": start, "sha256": digest.hexdigest()}


def _name(dtype) -> str:
    return str(dtype).removeprefix("torch.")
