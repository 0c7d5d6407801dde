"""The same as `evenkeel data check`, by datasets and transformers: rows of verl's columns read, merged, rendered and encoded.

    python3 peer.py FOLDER FILE.parquet

Prints a JSON object with counts, seconds and a digest of all token ids.
"""

import hashlib
import json
import struct
import sys
import tempfile
import time

from datasets import load_dataset
from transformers import AutoTokenizer


def main():
    folder, file = sys.argv[1:]
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as cache:
        rows = load_dataset("parquet", data_files=file, split="train", columns=["prompt", "reward_model"], cache_dir=cache)
        kept, golds, conflicts, duplicates = {}, {}, set(), 0
        for batch in rows.iter(batch_size=1000):
            for prompt, reward in zip(batch["prompt"], batch["reward_model"]):
                gold = reward["ground_truth"]
                key = json.dumps(prompt, sort_keys=True, ensure_ascii=False)
                if key not in golds:
                    kept[key], golds[key] = prompt, gold
                elif golds[key] == gold:
                    duplicates += 1
                else:
                    conflicts.add(key)
        prompts = [prompt for key, prompt in kept.items() if key not in conflicts]
    read = time.perf_counter()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    encoded = tokenizer.apply_chat_template(prompts, add_generation_prompt=True, tokenize=True, return_dict=False)
    done = time.perf_counter()
    digest = hashlib.sha256()
    for ids in encoded:
        digest.update(struct.pack(f"<{len(ids)}I", *ids))
    result = {"prompts": len(prompts), "duplicates": duplicates, "digest": digest.hexdigest()}
    print(json.dumps({**result, "read_s": read - began, "render_s": done - read, "total_s": time.perf_counter() - began}))


if __name__ == "__main__":
    main()
