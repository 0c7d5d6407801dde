# What the pages speak of, in the folder where their commands are run: rows, models, a recipe, runs.
set -euo pipefail

python3 - <<'END'
import json

with open("rows.jsonl", "w") as file:
    for n in range(1, 41):
        gold = str(2 * n + 1)
        row = {"id": n, "prompt": f"{n}+{n + 1}=\n", "answer": gold, "gold": gold, "completion": f"\\boxed{{{gold}}}"}
        file.write(json.dumps(row) + "\n")
END

echo '{"id": "2024-I-3", "prompt": "1+2=\n", "answer": "3"}' > aime24.jsonl
"$EVENKEEL" train --out runs/NAME --steps 41 --set 'evaluation.benchmarks=[{name="aime2024", files=["aime24.jsonl"]}]' --set sampling.prompts_per_step=2 --set sampling.group_size=4 --set sampling.max_tokens=16 \
  --set warm_start.steps=2 --set evaluation.problems=4 --set evaluation.every=20 --set checkpoint.every=20
cp -r runs/NAME runs/arithmetic-0
"$EVENKEEL" export runs/NAME --to MODEL
"$EVENKEEL" init --data rows.jsonl --model MODEL --out mine.toml

# In place of a language model: with a chat template and its long context.
cp -r MODEL Qwen3-1.7B
sed -i 's/"max_position_embeddings": 256/"max_position_embeddings": 40960/' Qwen3-1.7B/config.json
cat > Qwen3-1.7B/chat_template.jinja <<'END'
{% for m in messages %}{{ m.role }}
{{ m.content }}<eos>
{% endfor %}{% if add_generation_prompt %}assistant
{% endif %}
END
mkdir models
cp -r Qwen3-1.7B models/Qwen3-1.7B
cp -r Qwen3-1.7B models/SmolLM2-135M
cp "$CLONE/crates/data/tests/golden/parquet/verl-row-groups.parquet" dapo-math-17k.parquet

# A clone, as far as commands name its files.
cp -r "$CLONE/examples" examples
ln -s "$CLONE/bench" "$CLONE/deploy" "$CLONE/proto" .
mkdir -p target/release
ln -s "$CLONE/cli/tests/pages/programs/evenkeel" target/release/evenkeel
