"""PyTorch's half of the bench: the same models and batches, with transformers and two threads.

  peer.py prepare CASE DIR       writes a random model and a batch to DIR
  peer.py measure CASE DIR REPS  times the case in DIR, prints one JSON line
"""
import json
import random
import statistics
import sys
import time
from pathlib import Path

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

CASES = json.loads((Path(__file__).parent / "cases.json").read_text())


def fresh_model(case):
    torch.manual_seed(0)
    return Qwen3ForCausalLM(Qwen3Config(
        **case["model"], tie_word_embeddings=True, attn_implementation="sdpa", eos_token_id=1, bos_token_id=None))


def load_model(folder):
    return Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")


def lengths(case, rng):
    """Response lengths: all alike, or as varied as the answers of the arithmetic task."""
    count, longest = case["groups"] * case["samples"], case["response"]
    if case.get("dense"):
        return [longest] * count
    drawn = [min(longest, max(3, round(rng.gauss(case["mean_response"], 0.4 * case["mean_response"])))) for _ in range(count)]
    drawn[0] = longest
    return drawn


def padded(groups):
    """Prompt and response ids, padded; response mask and old log-probabilities over the response columns."""
    rows = [(g["prompt"], r) for g in groups for r in g["responses"]]
    start, width = len(rows[0][0]), max(len(r["tokens"]) for _, r in rows)
    ids = torch.tensor([p + r["tokens"] + [0] * (width - len(r["tokens"])) for p, r in rows])
    mask = torch.tensor([[1.0] * len(r["tokens"]) + [0.0] * (width - len(r["tokens"])) for _, r in rows])
    old = torch.tensor([r["logp"] + [0.0] * (width - len(r["logp"])) for _, r in rows])
    return ids, mask, old, start


def response_logp(model, ids, start):
    logits = model(input_ids=ids).logits[:, start - 1:-1].float()
    return torch.log_softmax(logits, -1).gather(2, ids[:, start:, None])[:, :, 0]


def prepare(case, folder):
    rng = random.Random(0)
    model = fresh_model(case)
    model.save_pretrained(folder)
    vocabulary, prompt = case["model"]["vocab_size"], case["prompt"]
    drawn, groups = iter(lengths(case, rng)), []
    for _ in range(case["groups"]):
        responses = [{"tokens": [rng.randrange(2, vocabulary) for _ in range(next(drawn))],
                      "reward": float(i == 0 or (i > 1 and rng.random() < 0.4))} for i in range(case["samples"])]
        groups.append({"prompt": [rng.randrange(2, vocabulary) for _ in range(prompt)], "responses": responses})
    for group in groups:
        for response in group["responses"]:
            ids = torch.tensor([group["prompt"] + response["tokens"]])
            with torch.no_grad():
                logp = response_logp(model, ids, prompt)[0]
            response["logp"] = [min(0.0, x + rng.gauss(0, 0.1)) for x in logp.tolist()]
    (folder / "batch.json").write_text(json.dumps({"groups": groups, "mini_batch": case.get("mini_batch", 0)}))


def balanced_weights(advantages, tokens):
    """The weight of each response's tokens under balanced aggregation, (groups, samples)."""
    prompts, samples = advantages.shape
    out = torch.zeros_like(advantages)
    for sign in (1, -1):
        side = (advantages * sign > 0).float()
        mass = (advantages.abs() * side).sum(1, keepdim=True)
        pull = (advantages.abs() * tokens * side).sum(1, keepdim=True).clamp_min(1e-30)
        out += side * mass / (prompts * samples * pull)
    return out


def train(folder, reps):
    model = load_model(folder)
    batch = json.loads((folder / "batch.json").read_text())
    groups, size = batch["groups"], batch["mini_batch"] or len(batch["groups"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0, betas=(0.9, 0.95))
    ids, mask, old, start = padded(groups)
    rewards = torch.tensor([[r["reward"] for r in g["responses"]] for g in groups])
    advantages = (rewards - rewards.mean(1, keepdim=True)) / torch.sqrt(rewards.var(1, unbiased=False, keepdim=True) + 1e-6)
    tokens, samples = mask.sum(1).view(len(groups), -1), len(groups[0]["responses"])
    weights = torch.cat([balanced_weights(a, t) for a, t in zip(advantages.split(size), tokens.split(size))]).reshape(-1, 1)
    a, seconds, first = advantages.view(-1, 1), [], None
    for _ in range(reps + 1):
        began = time.perf_counter()
        if size < len(groups):
            # As verl: those of the whole batch, before its first update.
            with torch.no_grad():
                old = response_logp(model, ids, start)
        for begin in range(0, len(groups), size):
            rows = slice(begin * samples, (begin + size) * samples)
            ratio = torch.exp((response_logp(model, ids[rows], start) - old[rows]) * mask[rows])
            phi = torch.minimum(ratio * a[rows], ratio.clamp(0.8, 1.28) * a[rows])
            loss = -(phi * mask[rows] * weights[rows]).sum()
            optimizer.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            first = first or {"loss": loss.item(), "grad_norm": norm.item()}
        seconds.append(time.perf_counter() - began)
    return {"seconds": seconds[1:], **first}


@torch.no_grad()
def decode(folder, case, reps):
    model = load_model(folder).eval()
    groups = json.loads((folder / "batch.json").read_text())["groups"]
    prompts = torch.tensor([g["prompt"] for g in groups for _ in g["responses"]])
    seconds = []
    for _ in range(reps + 1):
        began = time.perf_counter()
        current, past = prompts, None
        for _ in range(case["response"]):
            result = model(input_ids=current, past_key_values=past, use_cache=True)
            past = result.past_key_values
            logp = torch.log_softmax(result.logits[:, -1].float(), -1)
            current = torch.multinomial(logp.exp(), 1)
            logp.gather(1, current)
        seconds.append(time.perf_counter() - began)
    return {"seconds": seconds[1:]}


def main():
    torch.set_num_threads(2)
    what, name, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    case = CASES[name]
    if what == "prepare":
        prepare(case, folder)
        return
    reps = int(sys.argv[4])
    result = decode(folder, case, reps) if case["kind"] == "decode" else train(folder, reps)
    print(json.dumps({"median": statistics.median(result["seconds"]), **result}))


main()
