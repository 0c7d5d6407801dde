"""Golden models: a tiny model of random weights of each architecture with what transformers and PyTorch compute from them in float32 on a
CPU.

    python make_models.py [NAME ...]        writes a folder for each beside this file: all, or those named

Each folder is a checkpoint as Hugging Face lays it out (config.json, model.safetensors) and holds

    forward.safetensors   `tokens` of one sequence, their `logits`, `logp` of each next token and `logp_t06` at temperature 0.6;
                          `grad.NAME`: the gradient of sum(weight * logp)
    steps.json            steps of torch.optim.AdamW on random groups: inputs, settings, loss and gradient norm of each
    after.safetensors     every parameter after the steps

Checkpoints come in the types and layouts in which people have them (`Layout`); what is computed is computed in float32 from the values in
the file.
"""

import json
import random
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    SmolLM3Config,
    SmolLM3ForCausalLM,
)

import make_objective as objective

HERE = Path(__file__).resolve().parent
VOCABULARY = 44
SHARED = {
    "vocab_size": VOCABULARY,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 96,
    "initializer_range": 0.2,
    "bos_token_id": None,
    "eos_token_id": 1,
    "pad_token_id": 0,
    "attn_implementation": "eager",
}
SETTINGS = {
    "advantage": "grpo",
    "aggregation": "balanced",
    "policy": "ppo",
    "clip_low": 0.2,
    "clip_high": 0.28,
    "learning_rate": 2e-3,
    "betas": [0.9, 0.99],
    "eps": 1e-8,
    "weight_decay": 0.05,
    "max_grad_norm": 0.5,
}


def qwen2():
    """Biases of the attention's inputs, an output matrix of its own, heads that fill the hidden size."""
    shape = {"hidden_size": 32, "intermediate_size": 52, "num_attention_heads": 4}
    return Qwen2ForCausalLM(Qwen2Config(**SHARED, **shape, rope_theta=1e4, tie_word_embeddings=False))


def qwen3():
    """Norms of queries and keys, tied embeddings, heads wider than their part of the hidden size."""
    shape = {"hidden_size": 24, "intermediate_size": 56, "num_attention_heads": 4, "head_dim": 10}
    return Qwen3ForCausalLM(Qwen3Config(**SHARED, **shape, rope_theta=1e6, tie_word_embeddings=True))


SMALL = {"hidden_size": 16, "intermediate_size": 28, "num_attention_heads": 4}


def llama():
    """Llama 3.1's scaled rotary positions, all biases, heads wider than their part of the hidden size.

    The base is small: biases of keys that hardly turn have no gradient but rounding, of which the first step of AdamW makes whole ones.
    """
    rope = {
        "rope_type": "llama3",
        "rope_theta": 200.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    }
    shape = SMALL | {"head_dim": 12, "attention_bias": True, "mlp_bias": True}
    return LlamaForCausalLM(LlamaConfig(**SHARED, **shape, rope_parameters=rope, tie_word_embeddings=False))


def smollm2():
    """What SmolLM2 has of Llama: nothing but tied embeddings."""
    return LlamaForCausalLM(LlamaConfig(**SHARED, **SMALL, rope_theta=1e5, rms_norm_eps=1e-5, tie_word_embeddings=True))


def mistral():
    """Without a window, heads wider than their part of the hidden size."""
    config = MistralConfig(**SHARED, **SMALL, head_dim=6, sliding_window=None, rope_theta=1e6, tie_word_embeddings=False)
    return MistralForCausalLM(config)


def smollm3():
    """Every second layer without rotary positions."""
    shared = SHARED | {"num_hidden_layers": 3}
    return SmolLM3ForCausalLM(SmolLM3Config(**shared, **SMALL, no_rope_layer_interval=2, rope_theta=5e4))


def scaled(build, config, **rope):
    config = config(**SHARED, **SMALL, head_dim=16, rope_parameters={"rope_theta": 1e4, **rope}, tie_word_embeddings=True)
    return build(config)


def qwen2_yarn():
    """As people write it into Qwen2.5's configuration."""
    return scaled(
        Qwen2ForCausalLM, Qwen2Config, rope_type="yarn", factor=4.0, beta_fast=4.0, original_max_position_embeddings=24
    )


def qwen3_yarn():
    """With everything that YaRN can be told."""
    rope = {"beta_fast": 3.0, "beta_slow": 0.5, "mscale": 1.3, "mscale_all_dim": 0.7, "truncate": False}
    return scaled(
        Qwen3ForCausalLM, Qwen3Config, rope_type="yarn", factor=3.0, original_max_position_embeddings=32, **rope
    )


def qwen3_linear():
    return scaled(Qwen3ForCausalLM, Qwen3Config, rope_type="linear", factor=2.5)


def qwen2_dynamic():
    """Within the context nothing is scaled."""
    return scaled(Qwen2ForCausalLM, Qwen2Config, rope_type="dynamic", factor=2.0)


@dataclass
class Layout:
    """How a checkpoint is written."""

    dtype: torch.dtype = torch.float32
    max_shard_size: str = "5GB"
    # The configuration as transformers 4 spells it.
    is_old: bool = False


def as_of_old(config):
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    kind = rope.pop("rope_type")
    config["rope_scaling"] = None if kind == "default" else {"type": kind, **rope}
    config["torch_dtype"] = config.pop("dtype")
    return config | {"transformers_version": "4.46.0"}


def randomize(model):
    """Moves norms and biases away from 1 and 0, where mistakes would not show."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.15 * torch.randn_like(parameter))


def scores(model, tokens, temperature=1.0):
    """Logits at every position, and the log-probability of each token after the first."""
    ids = torch.tensor([tokens])
    logits = model(input_ids=ids, use_cache=False).logits[0]
    logp = torch.log_softmax(logits[:-1] / temperature, dim=-1)
    return logits, logp.gather(1, ids[0, 1:, None])[:, 0]


def random_tokens(rng, least, most):
    return [rng.randrange(2, VOCABULARY) for _ in range(rng.randint(least, most))]


def forward(model, rng):
    tokens = random_tokens(rng, 36, 36)
    weight = torch.randn(len(tokens) - 1)
    logits, logp = scores(model, tokens)
    model.zero_grad()
    (weight * logp).sum().backward()
    found = {
        "tokens": torch.tensor(tokens),
        "weight": weight,
        "logits": logits.detach(),
        "logp": logp.detach(),
        "logp_t06": scores(model, tokens, 0.6)[1].detach(),
    }
    return found | {f"grad.{name}": parameter.grad.clone() for name, parameter in model.named_parameters()}


def random_group(model, rng):
    """Four responses to a prompt; the sampler's log-probabilities are near the model's, and one token is not trained."""
    prompt = random_tokens(rng, 2, 6)
    group = []
    for number in range(4):
        response = random_tokens(rng, 1, 12)
        with torch.no_grad():
            logp = scores(model, prompt + response)[1][len(prompt) - 1 :]
        old = torch.clamp(logp + 0.25 * torch.randn(len(response)), max=-1e-3).tolist()
        mask = [1] * len(response)
        if number == 2 and len(response) > 1:
            mask[rng.randrange(len(response))] = 0
        reward = float(number == 0) if number < 2 else float(rng.random() < 0.5)
        item = {"prompt": prompt, "response": response, "reward": reward, "valid": True}
        group.append(item | {"mask": mask, "old_logp": old})
    return group


def loss_of(model, step):
    a = [objective.advantages(group, SETTINGS["advantage"]) for group in step]
    w = objective.weights(step, a, SETTINGS["aggregation"], SETTINGS)
    loss = torch.zeros((), dtype=torch.float64)
    for g, group in enumerate(step):
        for i, item in enumerate(group):
            kept = torch.tensor(item["mask"], dtype=torch.bool)
            logp = scores(model, item["prompt"] + item["response"])[1][len(item["prompt"]) - 1 :][kept].double()
            old = torch.tensor(item["old_logp"], dtype=torch.float64)[kept]
            loss = loss - w[g][i] * objective.term(SETTINGS["policy"], logp, old, a[g][i], SETTINGS).sum()
    return loss


def train(model, rng, count):
    matrices = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.ndim == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": SETTINGS["weight_decay"]}, {"params": vectors, "weight_decay": 0.0}],
        lr=SETTINGS["learning_rate"],
        betas=tuple(SETTINGS["betas"]),
        eps=SETTINGS["eps"],
    )
    steps = []
    for _ in range(count):
        groups = [random_group(model, rng) for _ in range(2)]
        optimizer.zero_grad()
        loss = loss_of(model, groups)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), SETTINGS["max_grad_norm"])
        optimizer.step()
        steps.append({"groups": groups, "loss": loss.item(), "grad_norm": norm.item()})
    return {"settings": SETTINGS, "steps": steps}


def make(name, build, seed, steps=1, layout=None):
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(seed)
    rng = random.Random(seed)
    model = build().float().eval()
    randomize(model)
    folder = HERE / name
    if layout:
        model.to(layout.dtype).save_pretrained(folder, max_shard_size=layout.max_shard_size)
        if layout.is_old:
            file = folder / "config.json"
            file.write_text(json.dumps(as_of_old(json.loads(file.read_text())), indent=2) + "\n")
        # What the file says, and nothing that only the model in memory has.
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    else:
        model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    save_file(forward(model, rng), folder / "forward.safetensors")
    steps = train(model, rng, steps)
    (folder / "steps.json").write_text(json.dumps(steps, separators=(",", ":")) + "\n")
    save_file({name: value.detach().clone() for name, value in model.named_parameters()}, folder / "after.safetensors")
    for step in steps["steps"]:
        print(f"{name}: loss {step['loss']:.6f}, gradient norm {step['grad_norm']:.4f}")


MODELS = {
    "qwen2": (qwen2, 2_024, 3),
    "qwen3": (qwen3, 2_025, 3),
    "llama": (llama, 2_026),
    "smollm2": (smollm2, 2_027, 1, Layout(dtype=torch.bfloat16, max_shard_size="6KB", is_old=True)),
    "mistral": (mistral, 2_028, 1, Layout(dtype=torch.float16)),
    "smollm3": (smollm3, 2_029, 1, Layout()),
    "qwen2_yarn": (qwen2_yarn, 2_030, 1, Layout(is_old=True)),
    "qwen3_yarn": (qwen3_yarn, 2_031, 1, Layout()),
    "qwen3_linear": (qwen3_linear, 2_032, 1, Layout(is_old=True)),
    "qwen2_dynamic": (qwen2_dynamic, 2_033, 1, Layout()),
}


if __name__ == "__main__":
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    for name in sys.argv[1:] or MODELS:
        make(name, *MODELS[name])
