#!/usr/bin/env python3
"""GRPO with TRL on a tiny model that this file makes, with rewards for mathematics and programs and with balanced aggregation.

    pip install 'evenkeel-rlvr[numpy]' 'trl==1.16.*' datasets
    python trl_balanced.py                       # a minute on one core, no download

The model has some thousand random weights and reads single characters. A warm start on random answers teaches it how an answer and a program
look, and not which is right; 20 steps of reinforcement learning teach it that. The run prints the mean reward of each step and fails unless it rises
by `RISE` from the first five steps to the last five.

Programs are judged in the package's own sandbox, or by the reward service of `--address` or EVENKEEL_REWARD (needs `evenkeel-rlvr[grpc]`).
`--without-programs` leaves them out.
"""

import argparse
import json
import random
import sys
import tempfile

CHARACTERS = "0123456789+*=?()\\{}`\n abcdefghijklmnopqrstuvwxyz"
GROUP = 16
#: Of a run that learns nothing the rise has a mean of 0 and a standard deviation of 0.022 (of five steps with 160 answers, each right with a
#: probability of at most one in four): it passes by chance about once in seven thousand runs. Of runs that learn, the seeds 0 to 4 rose by 0.227, 0.125,
#: 0.134, 0.221 and 0.190.
RISE = 0.08


def tasks(with_programs=True):
    """Rows with a prompt and either `answer` or `tests`. Each reward function has no verdict on rows of the other: None, which TRL leaves out."""
    rows = [
        {"prompt": f"{a}+{b}=?", "answer": str(a + b), "tests": None}
        for a in range(1, 4)
        for b in range(1, 3)
    ]  # fmt: skip
    if with_programs:
        rows += [
            {"prompt": f"print x{sign}{n}", "answer": None, "tests": json.dumps(program_tests(sign, n))}
            for sign in "+*"
            for n in range(2, 4)
        ]  # fmt: skip
    return rows


def program_tests(sign, n):
    """What a program has to print for what it reads."""
    return {"inputs": ["3", "7"], "outputs": [str(x + n if sign == "+" else x * n) for x in (3, 7)]}


def answer_to(row, numbers):
    """An answer of the right form, with random contents."""
    if row["tests"] is None:
        return f"\\boxed{{{numbers.randint(2, 5)}}}"
    return f"```\nx=int(input())\nprint(x{numbers.choice('+*')}{numbers.randint(2, 3)})\n```"


def tokenizer():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: i for i, token in enumerate(["<pad>", "<eos>", *CHARACTERS])}
    characters = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))
    characters.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    characters.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=characters, pad_token="<pad>", eos_token="<eos>", padding_side="left")


def model(seed):
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(CHARACTERS) + 2,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        # That of its width: a step of the optimizer is small beside it.
        initializer_range=0.14,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    return Qwen3ForCausalLM(config)


def warm_start(policy, words, rows, seed, steps=150):
    """Supervised steps on answers of the right form and random contents."""
    import torch

    numbers = random.Random(seed)
    policy.train()
    optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3)
    for _ in range(steps):
        batch = [numbers.choice(rows) for _ in range(32)]
        encoded = [(words(row["prompt"])["input_ids"], words(answer_to(row, numbers))["input_ids"] + [1]) for row in batch]
        width = max(len(prompt) + len(answer) for prompt, answer in encoded)
        ids = torch.tensor([prompt + answer + [0] * (width - len(prompt) - len(answer)) for prompt, answer in encoded])
        labels = torch.tensor([[-100] * len(p) + a + [-100] * (width - len(p) - len(a)) for p, a in encoded])
        loss = policy(input_ids=ids, attention_mask=(ids != 0).long(), labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def train(seed, steps, learning_rate, address, with_programs=True):
    """The mean reward of each step."""
    from datasets import Dataset
    from transformers import PrinterCallback
    from trl import GRPOConfig

    from evenkeel_rlvr.trl import BalancedGRPOTrainer, code_reward, math_reward

    rows, words, policy = tasks(with_programs), tokenizer(), model(seed)
    warm_start(policy, words, rows, seed)
    rewards = [math_reward("answer")]
    if with_programs:
        rewards.append(code_reward("tests", address=address))
    with tempfile.TemporaryDirectory() as output:
        trainer = BalancedGRPOTrainer(
            model=policy,
            processing_class=words,
            reward_funcs=rewards,
            train_dataset=Dataset.from_list(rows),
            args=GRPOConfig(
                output_dir=output,
                loss_type="dr_grpo",
                beta=0.0,
                num_generations=GROUP,
                per_device_train_batch_size=len(rows) * GROUP,
                max_completion_length=40,
                max_steps=steps,
                learning_rate=learning_rate,
                lr_scheduler_type="constant",
                temperature=1.0,
                seed=seed,
                logging_steps=1,
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
                use_cpu=True,
                bf16=False,
            ),
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]


def rise(curve):
    """From the mean of the first five steps to that of the last five."""
    return sum(curve[-5:]) / 5 - sum(curve[:5]) / 5


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--learning-rate", type=float, default=3e-3)
    options.add_argument("--address", help="of a reward service, HOST:PORT")
    options.add_argument("--without-programs", action="store_true")
    chosen = options.parse_args()
    if chosen.steps < 10:
        options.error("--steps: at least 10")
    curve = train(chosen.seed, chosen.steps, chosen.learning_rate, chosen.address, not chosen.without_programs)
    for step, reward in enumerate(curve, 1):
        print(f"{step:4}  {reward:.3f}  {'#' * round(reward * 50)}")
    print(f"rise {rise(curve):.3f}, at least {RISE}")
    return 0 if rise(curve) >= RISE else 1


if __name__ == "__main__":
    sys.exit(main())
