"""Conversations, and what transformers makes of them: the goldens of this folder, or as many for any model folder.

    python make_renders.py                                    writes tokenizer.json and renders.jsonl here
    python make_renders.py --model FOLDER --count N --seed S  prints rows for another folder, to compare with
                                                              `evenkeel data render --model FOLDER --json ROWS`

Needs transformers==5.23.* and jinja2.
"""

import argparse
import copy
import json
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

os.environ["TRANSFORMERS_VERBOSITY"] = "error"

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer

HERE = Path(__file__).parent
SPECIAL = ["<|bos|>", "<|im_start|>", "<|im_end|>", "<|eot|>", "<think>", "</think>", "<tool_call>"]
WORDS = [
    "Let", "x", "be", "prime", "7", "1234567", "3.14", "\\boxed{7}", "$x^2$", "don't", "\"quoted\"", "<b>&amp;</b>", "naïve", "積分",
    "한국어", "עברית", "🙂", "👩‍👩‍👧", "e\u0301", "\ufb01", "\u200b", "\u00a0", "\u3000", "\x1c", "\x85", "\u2028", "\\n", "\\", "{{ x }}", "{% if %}",
    "{# c #}", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_response>", "</tool_response>", "\t", "\r\n", "a" * 20,
]
SPACE = ["", " ", "  ", "\n", "\n\n", " \n", "\t"]
# Of a committed row, in characters, with spaces between its values.
LONGEST_ROW = 2500
NAMES = ["run", "get_weather", "λ", "items", "keys", "name", "a b", "type"]


# Templates of one expression each: what may stand in a template of any model.
EXPRESSIONS = r"""
{{ 1e22 }} {{ 0.1 + 0.2 }} {{ 1 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 1.0 }} {{ 10 / 2 }}
{{ true }} {{ none }} {{ [1, 'a', none, true, 1.5] }} {{ (1,) }} {{ {'a': [1], 'b': "it's"} }} {{ undefined }} {{ () }}
{{ 'a' 'b' }} {{ 'a' ~ 1 ~ none ~ true ~ 1.5 }} {{ 'ab' * 3 }} {{ [1] * 2 }} {{ [1] + [2] }} {{ 'x' in 'xy' }} {{ 1 in [1] }} {{ 'a' in {'a': 1} }}
{{ '\n\t\\ \x41 \u00e9 \'' }} {{ "a\"b" }} {{ 'tab	tab' }}
{{ 'abcdef'[::-1] }} {{ 'abcdef'[1:4] }} {{ 'abcdef'[-3:] }} {{ 'abcdef'[::2] }} {{ 'abcdef'[4:1:-1] }} {{ 'abcdef'[10:] }}| {{ 'äöü'[1] }} {{ 'abc'[-1] }}
{{ [1, 2, 3][::-1] }} {{ [1, 2, 3][1:] }} {{ [1, 2, 3][:-1] }} {{ [1, 2, 3][-1] }} {{ [1, 2, 3][5] }}| {{ (1, 2, 3)[1:] }} {{ [3, 1, 2] | sort }} {{ [1, 2, 3] | reverse | list }}
{{ '  x '.strip() }}| {{ 'xxaxx'.strip('x') }} {{ 'a,b,c'.split(',') }} {{ 'a b  c'.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ 'a b c'.split(maxsplit=1) }}
{{ 'a\nb\r\nc'.splitlines() }} {{ 'a\nb'.splitlines(true) }} {{ 'abc'.startswith('a') }} {{ 'abc'.startswith(('x', 'a')) }} {{ 'abc'.endswith('c') }} {{ 'abc'.startswith('b', 1) }}
{{ 'abcabc'.find('c') }} {{ 'abcabc'.rfind('c') }} {{ 'abc'.find('x') }} {{ 'abcabc'.count('c') }} {{ 'abc'.index('b') }} {{ 'abc'.replace('b', 'x') }} {{ 'aaa'.replace('a', 'b', 2) }} {{ 'abc'.replace('', '-') }}
{{ 'hello world'.title() }} {{ "they're bill's".title() }} {{ 'hELLO'.capitalize() }} {{ 'ß'.upper() }} {{ 'ΑΣ'.lower() }} {{ 'abc'.upper() }} {{ 'ﬁx'.title() }}
{{ 'a-b'.partition('-') }} {{ 'a-b-c'.rpartition('-') }} {{ 'ab'.partition('-') }} {{ 'ab'.removeprefix('a') }} {{ 'ab'.removesuffix('b') }}
{{ '12'.isdigit() }} {{ ''.isdigit() }} {{ 'a1'.isalnum() }} {{ 'ab'.isalpha() }} {{ ' '.isspace() }} {{ 'ab'.islower() }} {{ 'AB'.isupper() }} {{ '１'.isdigit() }} {{ 'a'.isascii() }}
{{ ', '.join(['a', 'b']) }} {{ ['a', 1, none] | join('-') }} {{ 'abc' | join(',') }} {{ messages | join('/', attribute='role') }} {{ '{} {}'.format('a', 1) }} {{ '%s-%d' | format('a', 3) }}
{{ {'b': 1, 'a': 2}.items() | list }} {{ {'b': 1}.keys() | list }} {{ {'b': 1}.values() | list }} {{ {'b': 1}.get('x') }} {{ {'b': 1}.get('x', 3) }} {{ {'b': 1, 'a': 2} | dictsort }} {{ {'b': 1, 'a': 2} | items | list }} {{ {'a': 1} | length }}
{{ 'abc' | length }} {{ [] | length }} {{ undefined | length }} {{ 'abc' | first }} {{ [1, 2] | last }} {{ [] | first }}| {{ [1, 2, 3] | sum }} {{ [1, 2] | max }} {{ ['b', 'A'] | sort }} {{ [1, 1, 2] | unique | list }} {{ 'a' | list }}
{{ '  x ' | trim }}| {{ none | trim }} {{ 3 | trim }} {{ 'Hello' | upper }} {{ none | upper }} {{ 'hello wORLD-foo' | title }} {{ 'hELLO x' | capitalize }} {{ 'abab' | replace('a', 'x', 1) }} {{ 12 | replace('1', 'x') }} {{ 'xax' | trim('x') }}
{{ '3' | int }} {{ 'x' | int(7) }} {{ 3.7 | int }} {{ '3.5' | float }} {{ 3 | float }} {{ 3.14159 | round(2) }} {{ 2.5 | round }} {{ -3 | abs }} {{ 5 | string }} {{ 1e16 | string }} {{ [1] | string }} {{ none | string }}
{{ x | default('d') }} {{ '' | default('d', true) }} {{ none | default('d') }} {{ '' | d('e', boolean=true) }} {{ [1, 2, 3, 4] | batch(2) | list }} {{ [1, 2, 3] | map('string') | list }} {{ ['a'] | map('upper') | join }} {{ [0, 1, 2] | select | list }} {{ [1, 2, 3] | reject('odd') | list }}
{{ [1, 2, 3] | select('gt', 1) | list }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages | map(attribute='content') | first }} {{ messages | rejectattr('role', 'in', ['user']) | list | length }}
{{ [{'a': 1, 'b': 2}] | tojson }} {{ {'b': '<é>', 'a': none} | tojson(indent=2) }} {{ 'é' | tojson(ensure_ascii=true) }} {{ {'b': 1, 'a': 1e22} | tojson(sort_keys=true) }} {{ [1, 2] | tojson(separators=(',', ':')) }} {{ (1, true) | tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }} {{ [] | tojson(indent=1) }} {{ [1] | tojson(indent=0) }} {{ [1] | tojson(indent='--') }}
{{ 'a\nb' | indent }}| {{ 'a\nb' | indent(2, true) }} {{ 'a\n\nb' | indent(2, blank=true) }} {{ 'a b' | wordcount }} {{ '<b>' | escape }}
{{ 1 is odd }} {{ 2 is even }} {{ 4 is divisibleby 2 }} {{ 'a' is string }} {{ 1 is number }} {{ true is number }} {{ true is integer }} {{ 1 is integer }} {{ 1.0 is float }} {{ none is none }} {{ x is defined }} {{ x is undefined }} {{ [] is sequence }} {{ 'a' is sequence }} {{ {} is sequence }} {{ {} is mapping }} {{ 'a' is iterable }} {{ none is iterable }} {{ 1 is iterable }} {{ x is iterable }} {{ true is boolean }} {{ true is true }} {{ 1 is true }} {{ 0 is false }} {{ 'a' is lower }} {{ 1 is eq 1 }} {{ 1 is in [1] }} {{ 'a' is sameas 'a' }} {{ raise_exception is callable }} {{ 'tojson' is filter }} {{ 'odd' is test }}
{{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ 1 < 2 < 3 }} {{ [1] == [1] }} {{ {'a': 1} == {'a': 1} }} {{ none == false }} {{ x == none }} {{ not x }} {{ x or 'y' }} {{ 'a' and 'b' }} {{ 'a' if x else 'b' }} {{ 'a' if x }}| {{ 1 != 2 and not false }} {{ [1, 2] < [1, 3] }} {{ (1, 2) == (1, 2) }} {{ (1,) == [1] }} {{ 2 is gt 1 }} {{ 1 not in [2] }} {{ 'b' > 'a' }}
{% for i in range(3) %}{{ i }}{{ ',' if not loop.last }}{% endfor %} {% for i in range(5, 0, -2) %}{{ i }}{% endfor %} {% for i in [] %}x{% else %}empty{% endfor %} {% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %} {% for i in [1, 2, 3] if i != 2 %}{{ loop.index }}{{ i }}{% endfor %}
{% for i in range(9) %}{% if i == 1 %}{% continue %}{% elif i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %} {% for i in [1, 1, 2] %}{{ loop.changed(i) }}{% endfor %} {% for i in [1, 2, 3] %}{{ loop.previtem }}{{ loop.nextitem }}|{% endfor %} {% for i in [[1, [2]], [3]] recursive %}{{ loop.depth }}{% if i is iterable %}{{ loop(i) }}{% else %}{{ i }}{% endif %}{% endfor %}
{% set ns = namespace(a=1, b=[]) %}{% for i in range(3) %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }} {% set a, b = 1, 2 %}{{ a }}{{ b }} {% set x %}captured {{ 1 }}{% endset %}{{ x }} {% set y | upper %}abc{% endset %}{{ y }} {% with z = 3 %}{{ z }}{% endwith %}{{ z }}| {% filter upper %}abc{% endfilter %} {% if true %}{% set w = 1 %}{% endif %}{{ w }} {% for i in [1] %}{% set v = 1 %}{% endfor %}{{ v }}|
{% macro m(a, b='x', c=none) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, c=2) }}{{ m(1, 2, 3) }} {% macro n() %}{{ caller('q') }}{% endmacro %}{% call(a) n() %}<{{ a }}>{% endcall %} {{ m.name }} {{ m('a') | upper }} {% macro r(n) %}{{ n }}{% if n %}{{ r(n - 1) }}{% endif %}{% endmacro %}{{ r(3) }}
{% raw %}{{ not }}{% endraw %} {# comment #}x {#- y -#} z {%- if true -%} a {%- endif %} b{{- ' c' -}} d {%+ if true %} e {% endif %}
{{ messages[0].role }} {{ messages[0]['role'] }} {{ messages[-1].content }} {{ messages | length }} {{ messages[0].keys() | list }} {{ messages[0].get('name', 'none') }} {{ messages[0].items is defined }} {{ messages[0].nothing is defined }} {{ messages[1:] | length }} {{ messages[::-1][0].role }} {{ (messages | first).role }} {{ messages[0] == messages[0] }}
{{ dict(a=1, b=2) }} {{ dict({'a': 1}, b=2).b }} {% set j = joiner(', ') %}{{ j() }}a{{ j() }}b {% set c = cycler('x', 'y') %}{{ c.next() }}{{ c.next() }}{{ c.next() }} {{ range(3) | list }}
{{ 'a' + 1 }}
{{ 1 + 'a' }}
{{ none + 'a' }}
{{ 'a' + none }}
{{ 'a' + x }}
{{ x + 'a' }}
{{ x.y }}
{{ x.y.z }}
{{ messages[9].role }}
{{ messages[0].a.b }}
{{ messages.append(1) }}
{{ x() }}
{{ 'a'.foo() }}
{{ 'a'.foo }}|
{{ none.foo }}|
{{ none | length }}
{{ x | tojson }}
{{ 'a' | nothing }}
{{ 'a' is nothing }}
{{ raise_exception('a ' ~ 1) }}
{{ raise_exception(none) }}
{% for i in 3 %}{% endfor %}
{{ 'x' in none }}
{{ 1 / 0 }}
{{ 'a' | int + 'b' }}
{% if
{{ unclosed
{% nothing %}
{% endfor %}
{{ [1, 2] | join(x) }}
{{ 'abc'.split('') }}
{{ ','.join([1]) }}
{{ 'abc'.index('x') }}
{{ strftime_now('%%') }}
{{ add_generation_prompt }} {{ tools }} {{ documents }} {{ bos_token }} {{ eos_token }} {{ pad_token }}| {{ image_token }} {{ continue_final_message }}|
"""


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def some(self, probability):
        return self.random.random() < probability

    def text(self, most=12):
        words = [self.random.choice(WORDS) for _ in range(self.random.randint(0, most))]
        return self.random.choice(SPACE) + self.random.choice(SPACE).join(words) + self.random.choice(SPACE)

    def answer(self):
        kind = self.random.random()
        if kind < 0.3:
            return f"<think>\n{self.text()}\n</think>\n\n{self.text()}"
        if kind < 0.35:
            return f"{self.text(3)}</think>{self.text(3)}</think>{self.text(3)}"
        return self.text()

    def number(self):
        return self.random.choice([0, 1, -3, 2**31, 2**63, 2**70, -(2**63), 0.0, -0.0, 0.1, 1.5, 1e22, 1e16, 1e-5, 123456.789, 5e-324, 1e300, 3.0])

    def value(self, depth=2):
        kinds = ["text", "number", "true", "false", "null"] + (["list", "object"] if depth else [])
        kind = self.random.choice(kinds)
        if kind == "text":
            return self.text(4)
        if kind == "number":
            return self.number()
        if kind == "list":
            return [self.value(depth - 1) for _ in range(self.random.randint(0, 3))]
        if kind == "object":
            return self.object(depth - 1)
        return {"true": True, "false": False, "null": None}[kind]

    def object(self, depth=2):
        names = self.random.sample(NAMES, self.random.randint(0, 4))
        return {name: self.value(depth) for name in names}

    def tool(self):
        function = {"name": self.random.choice(NAMES)}
        if self.some(0.8):
            function["description"] = self.text(6)
        if self.some(0.8):
            types = ["string", "integer", "number", "boolean", "array", ["string", "null"]]
            properties = {name: {"type": self.random.choice(types)} for name in self.random.sample(NAMES, self.random.randint(0, 3))}
            for schema in properties.values():
                if self.some(0.3):
                    schema["enum"] = [self.value(0) for _ in range(2)]
                if self.some(0.3):
                    schema["items"] = {"type": "string"}
            function["parameters"] = {"type": "object", "properties": properties, "required": list(properties)[:1]}
        if self.some(0.2):
            function |= self.object()
        return {"type": "function", "function": function} if self.some(0.85) else function

    def call(self):
        arguments = self.object()
        function = {"name": self.random.choice(NAMES), "arguments": json.dumps(arguments) if self.some(0.3) else arguments}
        if self.some(0.15):
            return function
        return {"type": "function", "function": function} | ({"id": "call_" + str(self.random.randint(0, 9))} if self.some(0.3) else {})

    def parts(self, text):
        return [{"type": "text", "text": text}] + ([{"type": "image"}] if self.some(0.3) else []) + ([{"type": "text", "text": self.text(3)}] if self.some(0.3) else [])

    def messages(self, parts):
        messages = []
        if self.some(0.4):
            messages.append({"role": "system", "content": self.text()})
        for turn in range(self.random.randint(1, 4)):
            messages.append({"role": "user", "content": self.text()})
            if self.some(0.1):
                messages.append({"role": self.random.choice(["user", "developer", "system", "critic"]), "content": self.text()})
            if self.some(0.3):
                calls = {"role": "assistant", "tool_calls": [self.call() for _ in range(self.random.randint(1, 3))]}
                if self.some(0.8):
                    calls["content"] = self.random.choice([self.answer(), "", None])
                messages.append(calls)
                for _ in calls["tool_calls"]:
                    content = self.text() if self.some(0.9) else json.dumps(self.object())
                    messages.append({"role": "tool", "content": content} | ({"name": "run"} if self.some(0.3) else {}))
            if self.some(0.6):
                answer = {"role": "assistant", "content": self.answer()}
                if self.some(0.2):
                    answer[self.random.choice(["reasoning_content", "thinking", "reasoning"])] = self.random.choice([self.text(), "", None])
                if self.some(0.05):
                    answer["tool_calls"] = self.random.choice([[], None])
                messages.append(answer)
        if self.some(parts):
            for message in messages:
                if isinstance(message.get("content"), str) and self.some(0.7):
                    message["content"] = self.parts(message["content"])
        if self.some(0.03):
            self.random.choice(messages).pop("content", None)
        return messages

    def arguments(self, messages):
        arguments = {}
        last = messages[-1]
        if last["role"] == "assistant" and self.some(0.7):
            arguments = {"add_generation_prompt": self.some(0.03), "continue_final_message": True}
            if self.some(0.1):
                arguments["continue_final_message"] = self.random.choice(["content", "reasoning_content", "thinking"])
        elif self.some(0.95):
            arguments["add_generation_prompt"] = self.some(0.85)
        if self.some(0.3):
            arguments["enable_thinking"] = self.some(0.5)
        if self.some(0.3):
            arguments["tools"] = [self.tool() for _ in range(self.random.randint(0, 3))]
        if self.some(0.05):
            arguments["documents"] = [{"title": self.text(2), "text": self.text(4)}]
        if self.some(0.1):
            arguments |= {self.random.choice(["date_string", "eos_token", "extra"]): self.value(1)}
        return arguments

    def row(self, index, parts):
        messages = self.messages(parts)
        return {"id": index, "messages": messages, "arguments": self.arguments(messages)}


def rendered(tokenizer, row):
    """The row with what transformers makes of it."""
    row = copy.deepcopy(row)
    try:
        text = tokenizer.apply_chat_template(row["messages"], tokenize=False, **row["arguments"])
        return row | {"text": text, "token_ids": tokenizer(text, add_special_tokens=False)["input_ids"]}
    except Exception as error:
        return row | {"error": str(error), "kind": type(error).__name__}


def byte_tokenizer():
    """Every byte a token, so that the ids of a text are short to write down and nothing is published by others."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({character: index for index, character in enumerate(alphabet)}, []))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in SPECIAL])
    return tokenizer


def folder_of(path, template):
    """A folder with the tokenizer and one template."""
    shutil.copy(HERE / "tokenizer.json", path)
    shutil.copy(HERE / "tokenizer_config.json", path)
    (Path(path) / "chat_template.jinja").write_text(template.read_text())
    return AutoTokenizer.from_pretrained(path)


def expressions():
    messages = [{"role": "system", "content": "be\nshort"}, {"role": "user", "content": "hi"}]
    templates = EXPRESSIONS.strip().split("\n")
    return [{"id": f"expression-{index}", "messages": messages, "arguments": {"chat_template": text}} for index, text in enumerate(templates)]


def goldens(count):
    byte_tokenizer().save(str(HERE / "tokenizer.json"), pretty=False)
    lines = []
    with tempfile.TemporaryDirectory() as path:
        tokenizer = folder_of(path, HERE / "templates/turns.jinja")
        for row in expressions():
            row = rendered(tokenizer, {"template": "turns"} | row)
            lines.append(json.dumps(row, ensure_ascii=False, separators=(",", ":")))
    for template in sorted(HERE.glob("templates/*.jinja")):
        with tempfile.TemporaryDirectory() as path:
            tokenizer = folder_of(path, template)
            generator = Generator(template.stem)
            index = 0
            while index < count:
                row = {"template": template.stem} | generator.row(index, parts=0.3 if template.stem == "parts" else 0.02)
                row = rendered(tokenizer, row)
                if index % 8:
                    # With a token for every byte the ids are long.
                    row.pop("token_ids", None)
                if len(json.dumps(row, ensure_ascii=False)) < LONGEST_ROW:
                    lines.append(json.dumps(row, ensure_ascii=False, separators=(",", ":")))
                    index += 1
    (HERE / "renders.jsonl").write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="another model folder")
    parser.add_argument("--count", type=int, default=14)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--expressions", action="store_true", help="the expressions instead of conversations")
    options = parser.parse_args()
    if not options.model:
        return goldens(options.count)
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    generator = Generator(options.seed)
    rows = (generator.row(index, parts=0.05) for index in range(options.count))
    for row in expressions() if options.expressions else rows:
        sys.stdout.write(json.dumps(rendered(tokenizer, row), separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
