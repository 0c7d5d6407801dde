"""A run of TRL's trainer whose gradient is compared with direct balanced aggregation before every optimizer step.

Also started in several processes by test_trl.py, with the variables of torch.distributed: rank 0 prints the errors as JSON.
"""

import json
import os
import sys
import tempfile

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from datasets import Dataset
from transformers import TrainerCallback
from trl import GRPOConfig

from direct import group_advantages
from evenkeel_rlvr.trl import BalancedGRPOTrainer
from tiny import model, tokenizer

GENERATIONS = 4


def reward(prompts, completions, **_):
    """By the text, with groups of equal rewards, real-valued ones, and rows without a reward."""
    rewards = []
    for prompt, completion in zip(prompts, completions):
        kind, code = int(prompt[0]) % 4, sum(map(ord, completion))
        value = {0: 0.3, 1: float(code % 2), 2: (code % 7) / 7, 3: float(code % 3 == 0)}[kind]
        rewards.append(None if kind == 3 and code % 4 == 1 else value)
    return rewards


def terms_of(trainer, loss, logp, old, advantages):
    """What the loss maximises at each token, by its own formula."""
    ratio, a = (logp - old).exp(), advantages[:, None]
    if loss == "cispo":
        return ratio.clamp(max=trainer.epsilon_high).detach() * a * logp
    if loss == "sapo":
        temperature = torch.where(a > 0, trainer.args.sapo_temperature_pos, trainer.args.sapo_temperature_neg).double()
        return torch.sigmoid(temperature * (ratio - 1)) * 4 / temperature * a
    return torch.minimum(ratio * a, ratio.clamp(1 - trainer.epsilon_low, 1 + trainer.epsilon_high) * a)


def run(loss, **settings):
    """Errors of the gradient at each optimizer step, and the share of rows without a reward."""
    errors, invalid = [], []

    class Recording(BalancedGRPOTrainer):
        def _generate_and_score_completions(self, inputs):
            self.batch = super()._generate_and_score_completions(inputs)
            invalid.append(float(torch.isnan(self._rewards).all(dim=1).double().mean()))
            return self.batch

    class Compare(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, **_):
            got = {name: p.grad.clone() for name, p in trainer.model.named_parameters()}
            trainer.model.zero_grad()
            self.add_direct_gradient()
            worst = largest = 0.0
            for name, p in trainer.model.named_parameters():
                want = p.grad
                if torch.distributed.is_initialized():
                    # DDP has made got the mean over processes of their rows' sums; want is the sum of shares.
                    torch.distributed.all_reduce(want)
                worst = max(worst, float((got[name] - want).abs().max()))
                largest = max(largest, float(want.abs().max()))
                p.grad = got[name]
            errors.append(worst / largest)

        def add_direct_gradient(self):
            batch, gather = trainer.batch, trainer.accelerator.gather
            rewards = trainer._rewards[:, 0].double()
            valid = ~torch.isnan(rewards)
            advantages = torch.zeros_like(rewards)
            for start in range(0, len(rewards), GENERATIONS):
                rows = [i for i in range(start, start + GENERATIONS) if valid[i]]
                if len(rows) > 1:
                    advantages[rows] = group_advantages(rewards[rows], epsilon=1e-4)
            mask = batch["completion_mask"]
            lengths = gather(mask.sum(1))
            own = slice(trainer.accelerator.process_index * len(mask), (trainer.accelerator.process_index + 1) * len(mask))
            groups = [i // GENERATIONS for i in range(len(rewards))]
            weights = direct_weights(advantages, lengths, groups, valid)[own]
            ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
            attention = torch.cat([batch["prompt_mask"], mask], 1)
            bare = trainer.accelerator.unwrap_model(trainer.model)
            logp = trainer._get_per_token_logps_and_entropies(bare, ids, attention, mask.size(1))[0]
            old = batch.get("old_per_token_logps")
            terms = terms_of(trainer, loss, logp, logp.detach() if old is None else old, advantages[own])
            (-(terms * mask).sum(1) * weights).sum().backward()

    with tempfile.TemporaryDirectory() as output:
        config = GRPOConfig(
            output_dir=output,
            per_device_train_batch_size=3,
            gradient_accumulation_steps=4,
            num_generations=GENERATIONS,
            max_completion_length=24,
            loss_type=loss,
            beta=0.0,
            max_steps=4,
            num_iterations=2,
            learning_rate=1e-2,
            max_grad_norm=0.0,
            report_to=[],
            use_cpu=True,
            bf16=False,
            save_strategy="no",
            logging_steps=100,
            temperature=1.3,
            seed=7,
            gradient_checkpointing=False,
            disable_dropout=True,
            optim="sgd",
            ddp_backend="gloo" if "WORLD_SIZE" in os.environ else None,
            disable_tqdm=True,
            **settings,
        )
        rows = [{"prompt": f"{a}+{b}="} for a in range(8) for b in range(4)]
        trainer = Recording(
            model=model().double(),
            processing_class=tokenizer(),
            reward_funcs=reward,
            args=config,
            train_dataset=Dataset.from_list(rows),
            callbacks=[Compare()],
        )
        trainer.train()
    return errors, sum(invalid) / len(invalid)


def direct_weights(advantages, lengths, groups, valid):
    """The weight of each row over P, with plain loops. (`direct_loss` needs all rows, and each process has some.)"""
    weights, counted = torch.zeros_like(advantages), 0
    for group in sorted(set(groups)):
        own = [i for i in range(len(groups)) if groups[i] == group and valid[i] and lengths[i] > 0]
        counted += bool(own)
        for sign in (1, -1):
            side = [i for i in own if advantages[i] * sign > 0]
            for i in side:
                m = sum(abs(advantages[k]) for k in side)
                weights[i] = m / (len(own) * sum(abs(advantages[k]) * lengths[k] for k in side))
    return weights / counted


if __name__ == "__main__":
    found = run(sys.argv[1])
    if os.environ.get("RANK", "0") == "0":
        print(json.dumps(found))
