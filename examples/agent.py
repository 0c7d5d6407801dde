"""An agent for Evenkeel: it asks the model at a base URL, as it would ask OpenAI's API, and carries out what the model calls.

    [data]
    files = ["sums.jsonl"]                 # {"prompt": "What is 12 + 30?", "answer": "42"}
    environment = "agent:agent.py"

It needs no package; with `openai` installed, `OpenAI()` finds the same variables. It gives no reward: the verifier of the row judges what the
model says last. An agent that judges by itself prints {"reward": 0.5} as its last line.
"""

import json
import os
import sys
import urllib.request

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Adds two numbers.",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
                "required": ["a", "b"],
            },
        },
    }
]


def ask(messages):
    """The model's next message."""
    body = json.dumps({"model": "policy", "messages": messages, "tools": TOOLS}).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)
    with urllib.request.urlopen(request) as response:
        return json.load(response)["choices"][0]["message"]


def carry_out(call):
    """What the model reads of a call."""
    try:
        arguments = json.loads(call["function"]["arguments"])
        return str(arguments["a"] + arguments["b"])
    except (ValueError, KeyError, TypeError) as error:
        return f"error: {error!r}"


def main():
    task = json.loads(sys.stdin.readline())  # the columns of the row
    messages = [{"role": "user", "content": task["prompt"]}]
    while True:
        message = ask(messages)
        messages.append(message)
        if not message.get("tool_calls"):
            return
        for call in message["tool_calls"]:
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": carry_out(call)})


main()
