"""Steps of DAPO in PyTorch: four updates for each batch, with the model, task and functions of the peer that PEER names.

Old log-probabilities of the later mini-batches come from a pass without gradients over the whole batch before the first update; those of
the first mini-batch are its own. Rewards are +1 and -1 with the overlong penalty over the last 16 of 80 tokens. Prints one JSON line with
the seconds of the warm start, and a last one with the totals, as the peer does.
"""
import argparse
import json
import os
import random
import time
from pathlib import Path

import torch

PROMPTS, GROUP, UPDATES, LONGEST, BUFFER = 16, 16, 4, 80, 16

# The peer without its last line, which runs it.
source = Path(os.environ["PEER"]).read_text()
peer = {"__name__": "peer"}
exec(compile(source.rstrip().removesuffix("main()"), os.environ["PEER"], "exec"), peer)  # noqa: S102
EOS = peer["EOS"]


def log_probabilities(model, prompts, tokens):
    logits = model(input_ids=torch.cat([prompts, tokens], 1)).logits[:, prompts.shape[1] - 1:-1].float()
    return torch.log_softmax(logits, -1).gather(2, tokens[:, :, None])[:, :, 0]


def shaped(rewards, lengths):
    over = (lengths - (LONGEST - BUFFER)).clamp(0, BUFFER) / BUFFER
    return 2 * rewards - 1 - over


def train(model, optimizer, prompts, tokens, mask, advantages, weights):
    """One batch: `advantages` and `weights` have a value for each sample, and groups are never split."""
    rows = len(prompts) // UPDATES
    parts = [slice(start, start + rows) for start in range(0, len(prompts), rows)]
    with torch.no_grad():
        old = [None] + [log_probabilities(model, prompts[part], tokens[part]) for part in parts[1:]]
    for part, before in zip(parts, old):
        logp = log_probabilities(model, prompts[part], tokens[part])
        ratio = torch.exp((logp - (logp.detach() if before is None else before)) * mask[part])
        a = advantages[part][:, None]
        phi = torch.minimum(ratio * a, ratio.clamp(0.8, 1.28) * a)
        # Weights are of the whole batch: a mini-batch has a quarter of its groups.
        loss = -(phi * mask[part] * weights[part][:, None]).sum() * UPDATES
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--warm-start-steps", type=int, required=True)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(2)
    rng = random.Random(0)
    model = peer["Qwen3ForCausalLM"](peer["Qwen3Config"](
        vocab_size=128, hidden_size=96, intermediate_size=256, num_hidden_layers=3, num_attention_heads=3, num_key_value_heads=1,
        head_dim=32, max_position_embeddings=256, tie_word_embeddings=True, attn_implementation="sdpa"))
    began = time.time()
    peer["warm_start"](model, rng, args.warm_start_steps)
    print(json.dumps({"warm_start_s": round(time.time() - began, 2)}), flush=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.5e-4, weight_decay=0.0, betas=(0.9, 0.95))
    totals = {"generation_s": 0.0, "training_s": 0.0, "tokens": 0, "reward": 0.0}
    for _ in range(args.steps):
        problems = [peer["problem"](rng) for _ in range(PROMPTS)]
        prompts = [peer["encode"](f"{a}+{b}=\n") for a, b in problems for _ in range(GROUP)]
        clock = time.time()
        tokens, _ = peer["generate"](model, prompts, LONGEST)
        totals["generation_s"] += time.time() - clock
        rows = tokens.tolist()
        lengths = torch.tensor([row.index(EOS) + 1 if EOS in row else len(row) for row in rows])
        right = torch.tensor([peer["reward"](peer["decode"](row), *problems[i // GROUP]) for i, row in enumerate(rows)])
        rewards = shaped(right, lengths.float()).view(PROMPTS, GROUP)
        deviation = torch.sqrt(rewards.var(1, unbiased=False, keepdim=True) + 1e-6)
        advantages = (rewards - rewards.mean(1, keepdim=True)) / deviation
        mask = (torch.arange(tokens.shape[1])[None] < lengths[:, None]).float()
        weights = peer["weights"](advantages, lengths.view(PROMPTS, GROUP).float(), "token")
        clock = time.time()
        train(model, optimizer, torch.tensor(prompts), tokens, mask, advantages.reshape(-1), weights.reshape(-1))
        totals["training_s"] += time.time() - clock
        totals["tokens"] += int(lengths.sum())
        totals["reward"] += right.mean().item() / args.steps
    print(json.dumps({name: round(value, 3) for name, value in totals.items()}))


main()
