"""What PyTorch and transformers compute of a model with random weights, and how fast. The program of bench/gpu runs it; each command prints one
line of JSON.

    reference.py about DEVICE               versions, and the attention that transformers uses
    reference.py gradients DEVICE FOLDER    FOLDER has config.json and batch.json; writes model.safetensors, random weights that bf16 holds
                                            exactly, and golden.safetensors: `logp` of each next token and `grad.NAME` in float32
    reference.py speed DEVICE CASE          CASE is JSON: config, sequences, length, recompute

DEVICE is cuda or cpu.
"""

import json
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
import transformers
from torch.utils.checkpoint import checkpoint
from transformers import AutoConfig, AutoModelForCausalLM

# Tokens whose logits are in memory at once.
HEAD_ROWS = 4096
RUNS = 3


def attention(device):
    """FlashAttention where it is installed, else what PyTorch chooses."""
    if device == "cuda":
        try:
            import flash_attn  # noqa: F401

            return "flash_attention_2"
        except ImportError:
            pass
    return "sdpa"


def about(device):
    if device == "cuda" and not torch.cuda.is_available():
        sys.exit("PyTorch finds no GPU")
    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    return {"torch": torch.__version__, "transformers": transformers.__version__, "attention": attention(device), "device": name}


def build(config, device, implementation):
    """A model of parameters in float32."""
    config = AutoConfig.for_model(**config)
    with torch.device(device):
        # The type is that of the parameters later: FlashAttention refuses float32.
        return AutoModelForCausalLM.from_config(config, attn_implementation=implementation, dtype=torch.bfloat16).float()


def cast(model, dtype):
    """Parameters alone: the frequencies of the rotary embedding stay in float32, as where transformers loads a model in that type."""
    for parameter in model.parameters():
        parameter.grad = None
        parameter.data = parameter.data.to(dtype)


def passes(model, ids, weights):
    """Log-probabilities of the next tokens, and the gradient of sum(weights * logp) in the parameters."""
    logits = model(ids[:, :-1], use_cache=False).logits.float()
    logp = torch.log_softmax(logits, -1).gather(-1, ids[:, 1:, None])[..., 0]
    (weights * logp).sum().backward()
    return logp.detach()


def gradients(device, folder):
    from safetensors.torch import save_file

    folder = Path(folder)
    config, batch = (json.loads((folder / name).read_text()) for name in ("config.json", "batch.json"))
    ids = torch.tensor(batch["ids"], device=device)
    weights = torch.tensor(batch["weights"], device=device)
    torch.manual_seed(0)
    model = build(config, device, "sdpa")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(0.0, 0.02)
            if parameter.dim() == 1 and not name.endswith("bias"):
                parameter.add_(1.0)
            parameter.copy_(parameter.bfloat16())
    save_file({name: p.detach().bfloat16().cpu() for name, p in model.named_parameters()}, folder / "model.safetensors")

    logp = passes(model, ids, weights)
    wanted = {name: p.grad.cpu() for name, p in model.named_parameters()}
    golden = {f"grad.{name}": gradient for name, gradient in wanted.items()}
    save_file({**golden, "logp": logp.cpu().contiguous()}, folder / "golden.safetensors")

    cast(model, torch.bfloat16)
    gap = (passes(model, ids, weights) - logp).abs()
    error = size = 0.0
    for name, parameter in model.named_parameters():
        error += (parameter.grad.float().cpu() - wanted[name]).square().sum(dtype=torch.float64).item()
        size += wanted[name].square().sum(dtype=torch.float64).item()
    return {"bf16_gradient_error": (error / size) ** 0.5, "bf16_largest_gap": gap.max().item(), "bf16_mean_gap": gap.mean().item()}


def fastest(device, run):
    """Seconds of the fastest of some runs, after one that does not count."""
    best = float("inf")
    for number in range(RUNS + 1):
        if device == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        run()
        if device == "cuda":
            torch.cuda.synchronize()
        if number > 0:
            best = min(best, time.perf_counter() - began)
    return best


def head_loss(hidden, weight, targets):
    return F.cross_entropy(F.linear(hidden, weight).float(), targets, reduction="sum")


def train_pass(model, ids):
    """Forward and backward; logits in chunks, which are computed again in the backward pass."""
    model.zero_grad(set_to_none=True)
    hidden = model.model(ids[:, :-1], use_cache=False).last_hidden_state.flatten(0, 1)
    targets = ids[:, 1:].flatten()
    chunks = zip(hidden.split(HEAD_ROWS), targets.split(HEAD_ROWS))
    losses = [checkpoint(head_loss, h, model.lm_head.weight, t, use_reentrant=False) for h, t in chunks]
    (sum(losses) / targets.numel()).backward()


def speed(device, case):
    """A pass over a micro-batch, of fewer sequences if memory does not suffice, and an update of float32 weights if it does."""
    case = json.loads(case)
    model = build(case["config"], device, attention(device)).train()
    cast(model, torch.bfloat16)
    if case["recompute"]:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    sequences, length = case["sequences"], case["length"]
    while True:
        ids = torch.randint(case["config"]["vocab_size"], (sequences, length + 1), device=device)
        try:
            seconds = fastest(device, lambda: train_pass(model, ids))
            break
        except torch.OutOfMemoryError:
            model.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()
            if sequences == 1:
                sys.exit("one sequence takes more memory than there is")
            sequences //= 2
    shapes = [parameter.shape for parameter in model.parameters()]
    del model
    if device == "cuda":
        torch.cuda.empty_cache()
    try:
        update_seconds = update_of(shapes, device)
    except torch.OutOfMemoryError:
        update_seconds = None
    return {"sequences": sequences, "seconds": seconds, "update_seconds": update_seconds}


def update_of(shapes, device):
    """Seconds of an update of float32 weights: with gradients and moments 16 bytes for each."""
    weights = [torch.zeros(shape, device=device, requires_grad=True) for shape in shapes]
    for weight in weights:
        weight.grad = torch.full_like(weight, 1e-3)
    optimizer = torch.optim.AdamW(weights, lr=1e-6, fused=True)

    def update():
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()

    return fastest(device, update)


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    print(json.dumps({"about": about, "gradients": gradients, "speed": speed}[command](*arguments)))
