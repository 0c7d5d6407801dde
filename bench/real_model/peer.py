"""GRPO of TRL on a pretrained model on a CPU with two threads: prints a JSON line for each step. 16 prompts × 8 samples of at most 60 tokens.

    peer.py MODEL ROWS.jsonl STEPS       (a Python with trl, torch and datasets)
    peer.py --sgemm                      prints the rate of sgemm in flop/s (torch alone)
"""
import json
import re
import sys
import tempfile
import time
import warnings

import torch

torch.set_num_threads(2)
warnings.filterwarnings("ignore")


def sgemm(size=1536, seconds=3.0):
    """The best rate over a few seconds."""
    a, b = torch.rand(size, size), torch.rand(size, size)
    best, end = 0.0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        torch.mm(a, b)
        best = max(best, 2 * size**3 / (time.perf_counter() - began))
    return best


def train(folder, rows, steps):
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    words = AutoTokenizer.from_pretrained(folder)
    words.pad_token = words.pad_token or words.eos_token
    with open(rows, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    data = [{"prompt": [{"role": "user", "content": row["question"]}], "answer": row["answer"].split("####")[-1].strip()} for row in rows]

    def reward(completions, answer, **_):
        last = [(re.findall(r"-?\d+(?:\.\d+)?", completion[0]["content"]) or [None])[-1] for completion in completions]
        return [float(found == wanted) for found, wanted in zip(last, answer)]

    class Clock(TrainerCallback):
        def on_step_begin(self, *_, **__):
            self.began = time.perf_counter()

        def on_step_end(self, *_, **__):
            self.seconds = time.perf_counter() - self.began

        def on_log(self, args, state, control, logs=None, **_):
            if "reward" in (logs or {}):
                silent = logs.get("frac_reward_zero_std", 0.0)
                print(json.dumps({"seconds": self.seconds, "signal": round(16 * (1 - silent)), "length": logs["completions/mean_length"]}), flush=True)

    config = GRPOConfig(
        output_dir=tempfile.mkdtemp(), use_cpu=True, bf16=False, per_device_train_batch_size=16, gradient_accumulation_steps=8, num_generations=8,
        max_completion_length=60, max_steps=steps, learning_rate=1e-5, temperature=1.0, beta=0.0, logging_steps=1, report_to=[], save_strategy="no",
        gradient_checkpointing=False, loss_type="dapo", lr_scheduler_type="constant", warmup_steps=0, disable_tqdm=True,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    GRPOTrainer(model=model, processing_class=words, reward_funcs=reward, args=config, train_dataset=Dataset.from_list(data), callbacks=[Clock()]).train()


if __name__ == "__main__":
    if sys.argv[1] == "--sgemm":
        print(json.dumps({"flops": sgemm()}))
    else:
        train(sys.argv[1], sys.argv[2], int(sys.argv[3]))
