"""Published weights with a lie in them: folders in which some tensors, or a share of every change, are those of another version; or in which
a row is scaled, or all values have few bits."""

import json
import shutil
import struct
from array import array
from pathlib import Path

GROUPS = {
    "mlp": lambda name: ".mlp." in name,
    "attention": lambda name: ".self_attn." in name and "norm" not in name,
    "norms": lambda name: "norm" in name,
    "embeddings": lambda name: "embed_tokens" in name,
    "head": lambda name: "lm_head" in name,
    "layer": lambda name: ".layers.0." in name,
    "projection": lambda name: ".layers.0.self_attn.q_proj" in name,
}


def read(path):
    """The header and the bytes of each tensor of a safetensors file."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    body = data[8 + length :]
    return data[: 8 + length], {name: (info, body[slice(*info["data_offsets"])]) for name, info in header.items() if name != "__metadata__"}


def values(info, data):
    """The values of an f32 tensor."""
    if info["dtype"] != "F32":
        raise SystemExit(f"the values of weights are changed in F32, not {info['dtype']}")
    found = array("f")
    found.frombytes(data)
    return found


def mixed(info, old, new, share):
    """`share` of the way from one f32 tensor to another."""
    changed = zip(values(info, old), values(info, new))
    return array("f", (a + share * (b - a) for a, b in changed)).tobytes()


def with_row(folder, out, row, by):
    """Writes `folder` to `out`, with one row of the head, or of embeddings that are also the head, times `by`."""

    def scaled(name, info, data, names):
        if name != ("lm_head.weight" if "lm_head.weight" in names else "model.embed_tokens.weight"):
            return data
        found, width = values(info, data), info["shape"][1]
        for at in range(row * width, (row + 1) * width):
            found[at] *= by
        return found.tobytes()

    return each_tensor(folder, out, scaled)


def with_bits(folder, out, bits):
    """Writes `folder` to `out`, with each row of each matrix rounded to so many bits."""

    def rounded(_, info, data, names):
        if len(info["shape"]) != 2:
            return data
        found, width, most = values(info, data), info["shape"][1], 2 ** (bits - 1) - 1
        for start in range(0, len(found), width):
            row = found[start : start + width]
            step = max(map(abs, row)) / most or 1.0
            found[start : start + width] = array("f", (step * round(value / step) for value in row))
        return found.tobytes()

    return each_tensor(folder, out, rounded)


def each_tensor(folder, out, change):
    """Writes `folder` to `out`, with what `change` makes of the bytes of each tensor."""
    shutil.copytree(folder, out, dirs_exist_ok=True)
    for path in sorted(Path(folder).glob("*.safetensors")):
        head, tensors = read(path)
        in_order = sorted(tensors.items(), key=lambda item: item[1][0]["data_offsets"])
        (Path(out) / path.name).write_bytes(head + b"".join(change(name, info, data, tensors) for name, (info, data) in in_order))
    return str(out)


def rewrite(folder, old, out, replaced=None, share=None):
    """Writes `folder` to `out`, with the tensors of a group as in `old`, or with a share of every change since `old`."""
    before = {name: data for path in Path(old).glob("*.safetensors") for name, (_, data) in read(path)[1].items()}
    if share is None and not any(GROUPS[replaced](name) for name in before):
        raise SystemExit(f"the model has no tensor of the group {replaced}")

    def stale(name, info, data, _):
        if share is not None:
            return mixed(info, before[name], data, share)
        return before[name] if GROUPS[replaced](name) else data

    return each_tensor(folder, out, stale)
