"""Golden GGUF files: tiny models of random weights as llama.cpp's converter writes them, with what transformers and the gguf package read.

    python make_gguf.py        writes gguf/ beside this file
    python make_gguf.py special     prints what transformers puts around a text, by the flags of a file (crates/model/src/gguf/metadata_tests.rs)

    quantised.gguf             a tensor of 256 values in each type
    quantised.safetensors      their values
    llama.gguf, qwen2.gguf, sentencepiece.gguf     models with tokenizers
    NAME.safetensors           every parameter under its name in transformers, `tokens` and their `logits`
    NAME.json                  texts with their token ids, and the chat template
"""

import itertools
import json
import random
import sys
import tempfile
from pathlib import Path

import gguf
import numpy
import torch
from gguf import GGMLQuantizationType as Type
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

FOLDER = Path(__file__).resolve().parent / "gguf"
RNG = numpy.random.default_rng(7)
TEXTS = ["Hello  world", "What is 58 + 84?\n", "naïve café — 学校", "<|im_start|>user\nhi<|im_end|>", "ab abc  a"]
TEMPLATE = "{% for message in messages %}<|im_start|>{{ message['content'] }}<|im_end|>\n{% endfor %}"
SHAPE = {"hidden": 32, "inner": 64, "layers": 2, "heads": 4, "kv": 2, "context": 64}


def quantised():
    """Random bits with small scales: python has no writer of most types."""
    types = [Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1]
    types += [Type.Q2_K, Type.Q3_K, Type.Q4_K, Type.Q5_K, Type.Q6_K]
    # Where the f16 scales of a block are.
    scales = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q2_K": [80, 82], "Q3_K": [108]}
    scales |= {"Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
    writer = gguf.GGUFWriter(FOLDER / "quantised.gguf", "llama")
    values = {}
    for kind in types:
        count, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = 256 // count
        if kind == Type.F32:
            raw = RNG.standard_normal(256).astype(numpy.float32)
        elif kind == Type.F16:
            raw = RNG.standard_normal(256).astype(numpy.float16)
        elif kind == Type.BF16:
            raw = gguf.quantize(RNG.standard_normal((1, 256)).astype(numpy.float32), kind)
        else:
            raw = RNG.integers(0, 256, (blocks, size), dtype=numpy.uint8)
            for at in scales[kind.name]:
                half = RNG.uniform(0.001, 0.02, blocks).astype(numpy.float16)
                raw[:, at : at + 2] = half.view(numpy.uint8).reshape(blocks, 2)
            raw = raw.reshape(1, -1)
        name = kind.name.lower()
        raw = raw.reshape(1, -1)
        writer.add_tensor(name, raw, raw_dtype=kind)
        values[name] = torch.from_numpy(gguf.dequantize(raw, kind).astype(numpy.float32).reshape(1, 256).copy())
    finish(writer)
    save_file(values, FOLDER / "quantised.safetensors")


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def byte_letters():
    """GPT-2's letters for bytes."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters, other = {byte: chr(byte) for byte in plain}, 0x100
    for byte in range(256):
        if byte not in letters:
            letters[byte], other = chr(other), other + 1
    return letters


def byte_level(writer, pre, flags=True):
    letters = byte_letters()
    merges = [("H", "e"), ("l", "l"), ("He", "ll"), ("Ġ", "w"), ("a", "b"), ("Ġ", "a"), ("ab", "c")]
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *letters.values(), *("".join(merge) for merge in merges)]
    tokens.append("<think>")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3] + [1] * (len(tokens) - 4) + [4])
    writer.add_token_merges([" ".join(merge) for merge in merges])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_unk_token_id(0)
    if flags:
        writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
    return len(tokens)


def sentencepiece(writer):
    words = ["▁", "a", "b", "c", "e", "h", "i", "l", "o", "H", "▁a", "ab", "abc", "ll", "▁▁", "He", "ell", "Hell"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *words]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * 259 + [-float(number % 7) for number in range(len(words))])
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * len(words))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    return len(tokens)


def model(name, architecture, tokenizer, tied, biases, kinds):
    writer = gguf.GGUFWriter(FOLDER / f"{name}.gguf", architecture)
    hidden, heads, kv = SHAPE["hidden"], SHAPE["heads"], SHAPE["kv"]
    width = hidden // heads
    writer.add_context_length(SHAPE["context"])
    writer.add_block_count(SHAPE["layers"])
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(SHAPE["inner"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width)
    vocabulary = tokenizer(writer)
    shapes = {"token_embd": (vocabulary, hidden)} | ({} if tied else {"output": (vocabulary, hidden)})
    for layer in range(SHAPE["layers"]):
        block = {"attn_q": (hidden, hidden), "attn_k": (kv * width, hidden), "attn_v": (kv * width, hidden)}
        block |= {"attn_output": (hidden, hidden), "ffn_gate": (SHAPE["inner"], hidden), "ffn_up": (SHAPE["inner"], hidden)}
        block |= {"ffn_down": (hidden, SHAPE["inner"])}
        shapes |= {f"blk.{layer}.{part}": shape for part, shape in block.items()}
    norms = ["output_norm", *(f"blk.{layer}.{part}" for layer in range(SHAPE["layers"]) for part in ["attn_norm", "ffn_norm"])]
    for number, (part, shape) in enumerate(shapes.items()):
        kind = kinds[number % len(kinds)]
        values = (0.2 * RNG.standard_normal(shape)).astype(numpy.float32)
        writer.add_tensor(f"{part}.weight", gguf.quantize(values, kind), raw_dtype=kind)
        if biases and part.split(".")[-1] in ("attn_q", "attn_k", "attn_v"):
            writer.add_tensor(f"{part}.bias", (0.1 * RNG.standard_normal(shape[0])).astype(numpy.float32))
    for part in norms:
        writer.add_tensor(f"{part}.weight", (1 + 0.1 * RNG.standard_normal(hidden)).astype(numpy.float32))
    finish(writer)

    file = f"{name}.gguf"
    read = AutoModelForCausalLM.from_pretrained(FOLDER, gguf_file=file, dtype=torch.float32, attn_implementation="eager").eval()
    tokens = random.Random(3).sample(range(vocabulary), 24)
    with torch.no_grad():
        logits = read(torch.tensor([tokens])).logits[0]
    state = {key: value.clone() for key, value in read.state_dict().items() if not (tied and key == "lm_head.weight")}
    save_file(state | {"tokens": torch.tensor(tokens), "logits": logits}, FOLDER / f"{name}.safetensors")
    read = AutoTokenizer.from_pretrained(FOLDER, gguf_file=file)
    found = {"texts": [[text, read(text)["input_ids"]] for text in TEXTS], "chat_template": read.chat_template}
    (FOLDER / f"{name}.json").write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n")


def special():
    kinds = [("gpt2", "llama-bpe", "llama"), ("gpt2", "smollm", "llama"), ("gpt2", "qwen2", "qwen2"), ("llama", "default", "llama")]
    for (kind, pre, architecture), bos, eos in itertools.product(kinds, (None, False, True), (None, False, True)):
        with tempfile.TemporaryDirectory() as folder:
            writer = gguf.GGUFWriter(Path(folder) / "m.gguf", architecture)
            writer.add_block_count(1)
            vocabulary = sentencepiece(writer) if kind == "llama" else byte_level(writer, pre, flags=False)
            if bos is not None:
                writer.add_add_bos_token(bos)
            if eos is not None:
                writer.add_add_eos_token(eos)
            writer.add_tensor("token_embd.weight", numpy.zeros((vocabulary, 32), numpy.float32))
            finish(writer)
            ids = AutoTokenizer.from_pretrained(folder, gguf_file="m.gguf")("abc")["input_ids"]
        print(kind, pre, "add_bos_token", bos, "add_eos_token", eos, "->", "bos" if ids[0] == 1 else "-", "eos" if ids[-1] == 2 else "-")


if __name__ == "__main__":
    if sys.argv[1:] == ["special"]:
        special()
        sys.exit()
    FOLDER.mkdir(exist_ok=True)
    quantised()
    model("llama", "llama", lambda writer: byte_level(writer, "llama-bpe"), True, False, [Type.Q4_1, Type.Q8_0, Type.F16])
    model("qwen2", "qwen2", lambda writer: byte_level(writer, "qwen2"), False, True, [Type.Q5_0, Type.Q4_0, Type.BF16])
    model("sentencepiece", "llama", sentencepiece, False, False, [Type.Q5_1, Type.F32])
