"""Golden models: a tiny Qwen2 and a tiny Qwen3 of random weights with what transformers and PyTorch compute from them in float32 on a CPU.

    python make_models.py        writes qwen2/ and qwen3/ beside this file

Each folder is a checkpoint as Hugging Face lays it out (config.json, model.safetensors) and holds

    forward.safetensors   `tokens` of one sequence, their `logits`, `logp` of each next token and `logp_t06` at temperature 0.6;
                          `grad.NAME`: the gradient of sum(weight * logp)
    steps.json            three steps of torch.optim.AdamW on random groups: inputs, settings, loss and gradient norm of each
    after.safetensors     every parameter after the three steps
"""

import json
import random
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

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


def train(model, rng):
    matrices = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.ndim == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": SETTINGS["weight_decay"]}, {"params": vectors, "weight_decay": 0.0}],
        lr=SETTINGS["learning_rate"],
        betas=tuple(SETTINGS["betas"]),
        eps=SETTINGS["eps"],
    )
    steps = []
    for _ in range(3):
        groups = [random_group(model, rng) for _ in range(2)]
        optimizer.zero_grad()
        loss = loss_of(model, groups)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), SETTINGS["max_grad_norm"])
        optimizer.step()
        steps.append({"groups": groups, "loss": loss.item(), "grad_norm": norm.item()})
    return {"settings": SETTINGS, "steps": steps}


def make(name, build, seed):
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(seed)
    rng = random.Random(seed)
    model = build().float().eval()
    randomize(model)
    folder = HERE / name
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    save_file(forward(model, rng), folder / "forward.safetensors")
    steps = train(model, rng)
    (folder / "steps.json").write_text(json.dumps(steps, separators=(",", ":")) + "\n")
    save_file({name: value.detach().clone() for name, value in model.named_parameters()}, folder / "after.safetensors")
    for step in steps["steps"]:
        print(f"{name}: loss {step['loss']:.6f}, gradient norm {step['grad_norm']:.4f}")


if __name__ == "__main__":
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    make("qwen2", qwen2, 2_024)
    make("qwen3", qwen3, 2_025)
