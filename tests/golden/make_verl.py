"""Golden steps as verl takes them: the tiny Qwen3 through three batches of rollouts with two updates each.

    python make_verl.py        writes verl.json and verl_after.safetensors to qwen3/, whose checkpoint it reads

Advantages are divided by the sample deviation, the policy loss is the dual-clipped one, averaged over the tokens of a mini-batch, old
log-probabilities are those before the first update on a batch, and the learning rate rises from 0 once a batch. The formulas are written down
here from verl's documentation and those of its papers, in tensors of a whole mini-batch as verl has them; nothing is shared with
make_objective.py.
"""

import json
import random
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import Qwen3ForCausalLM

FOLDER = Path(__file__).resolve().parent / "qwen3"
BATCHES, GROUPS, MINI_BATCH, GROUP_SIZE, VOCABULARY = 3, 4, 2, 4, 44
SETTINGS = {
    "clip_ratio_low": 0.2,
    "clip_ratio_high": 0.28,
    # Small, so that it acts in so few updates.
    "clip_ratio_c": 1.05,
    "lr": 8e-3,
    "lr_warmup_steps": 2,
    "weight_decay": 0.1,
    "betas": [0.9, 0.999],
    "eps": 1e-8,
    "grad_clip": 1.0,
    "temperature": 0.8,
    "ppo_mini_batch_size": MINI_BATCH,
}


def rollouts(rng):
    """Random answers with rewards of 1 and -1, of which each group has both."""
    batch = []
    for _ in range(GROUPS):
        prompt = [rng.randrange(2, VOCABULARY) for _ in range(rng.randint(2, 6))]
        group = []
        for number in range(GROUP_SIZE):
            response = [rng.randrange(2, VOCABULARY) for _ in range(rng.randint(1, 14))]
            reward = [1.0, -1.0][number] if number < 2 else rng.choice([1.0, -1.0])
            group.append({"prompt": prompt, "response": response, "reward": reward})
        batch.append(group)
    return batch


def log_prob(model, rows):
    """(rows, longest) log-probabilities of the responses' tokens, padded with 0, and their mask."""
    longest = max(len(row["response"]) for row in rows)
    found, mask = [], torch.zeros(len(rows), longest)
    for index, row in enumerate(rows):
        ids = torch.tensor([row["prompt"] + row["response"]])
        logits = model(input_ids=ids, use_cache=False).logits[0, len(row["prompt"]) - 1 : -1]
        logp = torch.log_softmax(logits / SETTINGS["temperature"], dim=-1)
        logp = logp.gather(1, ids[0, len(row["prompt"]) :, None])[:, 0]
        found.append(torch.nn.functional.pad(logp, (0, longest - len(logp))))
        mask[index, : len(logp)] = 1
    return torch.stack(found), mask


def advantage(group):
    rewards = torch.tensor([row["reward"] for row in group])
    return (rewards - rewards.mean()) / (rewards.std() + 1e-6)


def policy_loss(new, old, advantages, mask):
    a = advantages[:, None]
    ratio = torch.exp(torch.clamp(new - old, -20, 20))
    inside = torch.clamp(ratio, 1 - SETTINGS["clip_ratio_low"], 1 + SETTINGS["clip_ratio_high"])
    clipped = torch.maximum(-a * ratio, -a * inside)
    bounded = torch.minimum(clipped, -a * SETTINGS["clip_ratio_c"])
    capped = ((clipped > -a * SETTINGS["clip_ratio_c"]) & (a < 0) & (mask > 0)).sum().item()
    return (torch.where(a < 0, bounded, clipped) * mask).sum() / mask.sum(), capped


def main():
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    rng = random.Random(51)
    model = Qwen3ForCausalLM.from_pretrained(FOLDER, dtype=torch.float32, attn_implementation="eager").eval()
    matrices = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.ndim == 1]
    optimizer = torch.optim.AdamW(
        # verl's decays norms as well; the learner does not.
        [{"params": matrices, "weight_decay": SETTINGS["weight_decay"]}, {"params": vectors, "weight_decay": 0.0}],
        lr=SETTINGS["lr"],
        betas=tuple(SETTINGS["betas"]),
        eps=SETTINGS["eps"],
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / SETTINGS["lr_warmup_steps"]))
    batches = []
    for _ in range(BATCHES):
        groups, updates = rollouts(rng), []
        with torch.no_grad():
            before = [log_prob(model, group)[0] for group in groups]
        for start in range(0, GROUPS, MINI_BATCH):
            members = range(start, start + MINI_BATCH)
            new, mask = log_prob(model, [row for g in members for row in groups[g]])
            old = torch.cat([torch.nn.functional.pad(before[g], (0, new.shape[1] - before[g].shape[1])) for g in members])
            loss, capped = policy_loss(new, old, torch.cat([advantage(groups[g]) for g in members]), mask)
            optimizer.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), SETTINGS["grad_clip"])
            optimizer.step()
            rate = schedule.get_last_lr()[0]
            updates.append({"loss": loss.item(), "grad_norm": norm.item(), "lr": rate, "clipped_lower": capped})
            print(updates[-1])
        schedule.step()
        batches.append({"groups": groups, "updates": updates})
    (FOLDER / "verl.json").write_text(json.dumps({"settings": SETTINGS, "batches": batches}, separators=(",", ":")) + "\n")
    save_file({name: value.detach().clone() for name, value in model.named_parameters()}, FOLDER / "verl_after.safetensors")


if __name__ == "__main__":
    main()
