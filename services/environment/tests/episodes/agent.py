"""An agent that does what its task says, also what agents do at the worst time."""

import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

BASE = os.environ["OPENAI_BASE_URL"]
TASK = json.loads(sys.stdin.readline())
TOOL = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}}


def post(body, timeout=60):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(BASE + "/chat/completions", data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def ask(messages, **more):
    status, text = post({"model": "m", "messages": messages, **more})
    assert status == 200, text
    return json.loads(text)["choices"][0]


def user(text):
    return {"role": "user", "content": text}


def score(**parts):
    print("this line is no score")
    print(json.dumps(parts))


def talk():
    """Asks, carries out calls, and ends with the first text."""
    messages = [user(TASK["prompt"])]
    while True:
        choice = ask(messages, tools=[TOOL], max_tokens=TASK.get("max_tokens"))
        messages.append(choice["message"])
        calls = choice["message"].get("tool_calls") or []
        if not calls:
            return score(reward=1.0 if choice["message"]["content"] == "3" else 0.25, calls=float(len(messages) > 2))
        for call in calls:
            result = sum(json.loads(call["function"]["arguments"]).values())
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(result)})


def silent():
    ask([user("a")])
    print("3")


def rewrites():
    """Asks, and asks again with another history."""
    first = ask([user("a")])
    ask([{"role": "system", "content": "Be brief."}, user("a and b"), first["message"], user("c")])
    score(reward=1.0)


def at_once():
    """Asks twice at the same time."""
    answers = [None, None]

    def one(index):
        answers[index] = ask([user(f"question {index}")])["message"]["content"]

    threads = [threading.Thread(target=one, args=(index,)) for index in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    # Whichever was first: each has its own answer.
    score(reward=float(answers == [f"to question {index}" for index in range(2)]))


def badly():
    """Asks what is refused, and then what is not."""
    seen = [
        post(b"\xff{rubbish")[0],
        post({"messages": [user("x" * (10 << 20))]})[0],
        post({"messages": [user("a")], "n": 2})[0],
    ]
    status, text = post({"messages": [user("a")], "n": 2})
    assert json.loads(text)["error"]["param"] == "n", text
    ask([user("a")])
    score(reward=float(seen == [400, 413, 400]))


def impatient():
    """Gives up waiting, and asks the same again."""
    try:
        post({"messages": [user("a")]}, timeout=0.3)
        raise AssertionError("it was answered")
    except TimeoutError:
        pass
    time.sleep(1.0)
    score(reward=float(ask([user("a")])["message"]["content"] == "b"))


def streams():
    status, text = post({"messages": [user("a")], "stream": True, "stream_options": {"include_usage": True}})
    events = [line[6:] for line in text.split("\n\n") if line]
    delta = json.loads(events[0])["choices"][0]["delta"]
    usage = json.loads(events[1])["usage"]["total_tokens"]
    score(reward=float((delta["content"], usage, events[2]) == ("b", 12, "[DONE]")))


def tokens():
    """Asks for tokens and a text that ends the answer."""
    status, text = post({"messages": [user("a")], "stop": ".", "logprobs": True, "return_token_ids": True})
    answer = json.loads(text)
    choice = answer["choices"][0]
    said = [(token["token"], token["logprob"]) for token in choice["logprobs"]["content"]]
    seen = (choice["message"]["content"], answer["prompt_token_ids"], choice["token_ids"], said)
    score(reward=float(seen == ("b", [1, 2], [7], [("b", -0.5)])))


def cut_off():
    """Goes on until it is answered with nothing."""
    messages = [user("a")]
    while True:
        choice = ask(messages)
        if choice["finish_reason"] == "length" and not choice["message"]["content"]:
            return score(reward=0.5)
        messages += [choice["message"], user("go on")]


def forever():
    messages = [user("a")]
    while True:
        messages += [ask(messages)["message"], user("go on")]


def leaves():
    """Leaves a process behind, and says where it can be asked."""
    child = subprocess.Popen(["sleep", "1000"])
    session = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    with open(TASK["file"], "w") as file:
        json.dump({"base": BASE, "pids": [os.getpid(), child.pid, session.pid]}, file)
    ask([user("a")])
    if TASK.get("hang"):
        time.sleep(1000)
    score(reward=1.0)


def dies():
    ask([user("a")])
    print("out of memory", file=sys.stderr)
    sys.exit(5)


def greedy():
    """Takes more memory than it may."""
    bytearray(512 << 20)


def mute():
    pass


def hangs():
    time.sleep(1000)


def wrong():
    ask([user("a")])
    score(reward=7)


{name: value for name, value in globals().items() if callable(value)}[TASK["do"]]()
