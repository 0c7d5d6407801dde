"""Golden LoRA adapters: what PEFT and PyTorch compute with an adapter beside a golden model, in float32 on a CPU.

    python make_lora.py                      writes lora/NAME beside this file for each of CASES
    python make_lora.py only NAME            writes that of one case
    python make_lora.py check ADAPTER MODEL  loads an adapter's folder, which must be one of PEFT's, beside a model, and prints its logits' sum
    python make_lora.py same ADAPTER MODEL MERGED
                                             compares an adapter beside a model with the same adapter merged into a copy of it, both exported

Each folder is an adapter as PEFT writes it (B is not zero) and holds

    forward.safetensors   `tokens` of one sequence, their `logits`, `logp` of each next token; `grad.NAME`: the gradient of sum(weight * logp)
    steps.json            three steps of torch.optim.AdamW on random groups, without decay: inputs, settings, loss and gradient norm of each
    after.safetensors     every A and B after the steps

Names of tensors are those of the adapter's file.
"""

import json
import random
import sys
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import make_models as models

HERE = Path(__file__).resolve().parent
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
# The golden model, rank, alpha and targets: a scale that is a power of two, one that is not, one of a few layers, a base that is stored in
# bf16, whose values PEFT computes with in float32 as the others', and one of the head, beside which PEFT writes out the base's.
CASES = {
    "qwen2": ("qwen2", 4, 8, ALL),
    "qwen3": ("qwen3", 3, 5, ALL),
    "llama": ("llama", 2, 2, ["q_proj", "v_proj", "down_proj"]),
    "smollm2": ("smollm2", 3, 6, ALL),
    "head": ("llama", 3, 6, ["q_proj", "up_proj", "lm_head"]),
}


def base(name):
    folder = HERE / name
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def named(model):
    """What is trained, by its names in the file of an adapter."""
    return {name.replace(".default", ""): value for name, value in model.named_parameters() if value.requires_grad}


def forward(model, rng):
    tokens = models.random_tokens(rng, 36, 36)
    weight = torch.randn(len(tokens) - 1)
    logits, logp = models.scores(model, tokens)
    model.zero_grad()
    (weight * logp).sum().backward()
    found = {"tokens": torch.tensor(tokens), "weight": weight, "logits": logits.detach(), "logp": logp.detach()}
    return found | {f"grad.{name}": value.grad.clone() for name, value in named(model).items()}


def train(model, rng):
    settings = models.SETTINGS
    trained = list(named(model).values())
    optimizer = torch.optim.AdamW(
        trained, lr=settings["learning_rate"], betas=tuple(settings["betas"]), eps=settings["eps"], weight_decay=0.0
    )
    steps = []
    for _ in range(3):
        groups = [models.random_group(model, rng) for _ in range(2)]
        optimizer.zero_grad()
        loss = models.loss_of(model, groups)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(trained, settings["max_grad_norm"])
        optimizer.step()
        steps.append({"groups": groups, "loss": loss.item(), "grad_norm": norm.item()})
    return {"settings": settings, "steps": steps}


def make(name, model_name, rank, alpha, targets):
    seed = 3_000 + len(name) + rank
    torch.manual_seed(seed)
    rng = random.Random(seed)
    config = LoraConfig(r=rank, lora_alpha=alpha, target_modules=targets, lora_dropout=0.0, task_type="CAUSAL_LM")
    model = get_peft_model(base(model_name), config).eval()
    with torch.no_grad():
        for parameter_name, parameter in named(model).items():
            if "lora_B" in parameter_name:
                parameter.copy_(0.1 * torch.randn_like(parameter))
    folder = HERE / "lora" / name
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    file = folder / "adapter_config.json"
    text = json.loads(file.read_text()) | {"base_model_name_or_path": model_name, "target_modules": targets}
    file.write_text(json.dumps(text, indent=2, sort_keys=True) + "\n")
    save_file(forward(model, rng), folder / "forward.safetensors")
    steps = train(model, rng)
    (folder / "steps.json").write_text(json.dumps(steps, separators=(",", ":")) + "\n")
    save_file({key: value.detach().clone() for key, value in named(model).items()}, folder / "after.safetensors")
    for step in steps["steps"]:
        print(f"{name}: loss {step['loss']:.6f}, gradient norm {step['grad_norm']:.4f}")


def beside(adapter, model):
    """PEFT's model of an exported adapter, all of whose tensors it takes."""
    model = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, attn_implementation="eager").eval()
    loaded = PeftModel.from_pretrained(model, adapter).eval()
    stored = {name: value.float() for name, value in load_file(Path(adapter) / "adapter_model.safetensors").items()}
    found = {name.replace(".default", ""): value for name, value in loaded.named_parameters() if "lora_" in name}
    assert stored.keys() == found.keys(), stored.keys() ^ found.keys()
    assert all(torch.equal(stored[name], found[name]) for name in stored)
    return loaded


def logits(model):
    with torch.no_grad():
        return models.scores(model, list(range(2, 28)))[0]


def check(adapter, model):
    print(f"{logits(beside(adapter, model)).double().sum().item():.9f}")


def same(adapter, model, merged):
    one = logits(beside(adapter, model))
    merged = AutoModelForCausalLM.from_pretrained(merged, dtype=torch.float32, attn_implementation="eager").eval()
    base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, attn_implementation="eager").eval()
    gap, change = (one - logits(merged)).abs().max().item(), (one - logits(base)).abs().max().item()
    print(f"merged and beside differ by {gap:.2e}, from the base by {change:.2e}")
    assert gap < 1e-4 * max(change, 1.0) and change > 0


if __name__ == "__main__":
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    commands = {"check": check, "same": same, "only": lambda name: make(name, *CASES[name])}
    if sys.argv[1:]:
        commands[sys.argv[1]](*sys.argv[2:])
    else:
        for case, arguments in CASES.items():
            make(case, *arguments)
