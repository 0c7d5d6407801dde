"""Published weights with a lie in them: folders in which some tensors, or a share of every change, are those of another version."""

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
}


def read(path):
    """The header and the bytes of each tensor of a safetensors file."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    body = data[8 + length :]
    return data[: 8 + length], {name: (info, body[slice(*info["data_offsets"])]) for name, info in header.items() if name != "__metadata__"}


def mixed(info, old, new, share):
    """`share` of the way from one f32 tensor to another."""
    if info["dtype"] != "F32":
        raise SystemExit(f"shares of changes need F32, not {info['dtype']}")
    found = array("f")
    before, after = array("f"), array("f")
    before.frombytes(old)
    after.frombytes(new)
    found.extend(a + share * (b - a) for a, b in zip(before, after))
    return found.tobytes()


def rewrite(folder, old, out, replaced=None, share=None):
    """Writes `folder` to `out`, with the tensors of a group as in `old`, or with a share of every change since `old`."""
    shutil.copytree(folder, out, dirs_exist_ok=True)
    changed = 0
    for path in sorted(Path(folder).glob("*.safetensors")):
        head, tensors = read(path)
        _, before = read(Path(old) / path.name)
        parts = []
        for name, (info, new) in sorted(tensors.items(), key=lambda item: item[1][0]["data_offsets"]):
            stale = before[name][1]
            if share is not None:
                new = mixed(info, stale, new, share)
            elif GROUPS[replaced](name):
                changed += 1
                new = stale
            parts.append(new)
        (Path(out) / path.name).write_bytes(head + b"".join(parts))
    if share is None and not changed:
        raise SystemExit(f"the model has no tensor of the group {replaced}")
    return str(out)
