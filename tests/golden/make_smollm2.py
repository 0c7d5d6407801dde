"""What transformers computes of SmolLM2-135M-Instruct, a real model, in float64 on a CPU: its own rounding in float32 is seen.

    python make_smollm2.py FOLDER > smollm2_135m.json        FOLDER: the model in Llama's layout, such as from the hub or of its GGUF file

`tokens` of a conversation, `logp` of each next token, and the norm of each parameter's gradient of their sum.
"""

import json
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

QUESTION = "What is 58 + 84? Think step by step and put the answer in a box."
ANSWER = "58 + 84 = 142, since 50 + 80 = 130 and 8 + 4 = 12. The answer is 142."


def main(folder):
    torch.use_deterministic_algorithms(True)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    messages = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}]
    tokens = tokenizer(tokenizer.apply_chat_template(messages, tokenize=False))["input_ids"]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
    # PyTorch would leave out what the padding token, which ends every turn, gets as an input.
    model.get_input_embeddings().padding_idx = None
    ids = torch.tensor([tokens])
    logp = torch.log_softmax(model(ids).logits[0, :-1], dim=-1).gather(1, ids[0, 1:, None])[:, 0]
    logp.sum().backward()
    norms = {name: parameter.grad.norm().item() for name, parameter in model.named_parameters()}
    print(json.dumps({"tokens": tokens, "logp": logp.tolist(), "gradient_norms": norms}, indent=1))


if __name__ == "__main__":
    main(sys.argv[1])
