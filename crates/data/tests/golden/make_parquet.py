"""Small parquet files of every kind that pyarrow, polars and DuckDB write, and what their rows mean.

    pip install pyarrow polars duckdb
    python3 crates/data/tests/golden/make_parquet.py

Writes parquet/*.parquet and parquet.jsonl: of each file its prompts (texts, or lists of messages) and its gold answers; and
parquet-refused/*.parquet: encrypted as a whole, encrypted but for the footer, without rows. whole.parquet has columns of
many types for a reward function. The rows are made up.
"""

import base64
import datetime
import decimal
import json
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as encryption

HERE = Path(__file__).resolve().parent
OUT = HERE / "parquet"
EXPECTED = []

TEXTS = ["What is 1+1?", "Name an even prime – \u201c\u00fcber\u201d 10.\n", "Is 91 prime?"]
MESSAGES = [[{"role": "user", "content": text}] for text in TEXTS]
SYSTEM = [[{"role": "system", "content": "Be brief."}, *messages] for messages in MESSAGES]
GOLDS = ["2", "2", "False"]


def expect(name, prompts, golds):
    EXPECTED.append({"file": f"{name}.parquet", "prompts": prompts, "golds": golds})


def arrow(name, columns, prompts, golds, **options):
    pq.write_table(pa.table(columns), OUT / f"{name}.parquet", **options)
    expect(name, prompts, golds)


def text_types():
    """Texts and answers in every type that holds them."""
    for compression in ["none", "snappy", "gzip", "zstd", "lz4"]:
        arrow(f"compressed-{compression}", {"problem": TEXTS, "answer": GOLDS}, TEXTS, GOLDS, compression=compression)
    types = {
        "large": pa.large_string(),
        "dictionary": pa.dictionary(pa.int8(), pa.string()),
        "binary": pa.binary(),
        "view": pa.string_view(),
    }
    for name, kind in types.items():
        values = [pa.array([t.encode() for t in c] if name == "binary" else c).cast(kind) for c in (TEXTS, GOLDS)]
        arrow(f"text-{name}", {"problem": values[0], "answer": values[1]}, TEXTS, GOLDS)
    numbers = {
        "int8": (pa.array([1, -2, 3], pa.int8()), ["1", "-2", "3"]),
        "int64": (pa.array([2**62, -2, 3], pa.int64()), [str(2**62), "-2", "3"]),
        "uint64": (pa.array([2**64 - 1, 0, 3], pa.uint64()), [str(2**64 - 1), "0", "3"]),
        "float32": (pa.array([0.1, 2.5, -3.0], pa.float32()), ["0.1", "2.5", "-3.0"]),
        "float64": (pa.array([0.1, 27.0, 1.25], pa.float64()), ["0.1", "27.0", "1.25"]),
        "bool": (pa.array([True, False, True]), ["true", "false", "true"]),
        "decimal128": (pa.array([decimal.Decimal(x) for x in ("12.50", "-0.05", "3.00")], pa.decimal128(10, 2)), ["12.50", "-0.05", "3.00"]),
        "decimal256": (pa.array([decimal.Decimal(10) ** 50, 1, 2], pa.decimal256(60, 0)), [str(10**50), "1", "2"]),
    }
    for name, (golds, texts) in numbers.items():
        arrow(f"gold-{name}", {"question": TEXTS, "answer": golds}, TEXTS, texts)
    lists = [["1/2", "0.5"], ["3"], ["", None, "4"]]
    arrow("gold-list", {"question": TEXTS, "final_answer": lists}, TEXTS, [["1/2", "0.5"], "3", "4"])
    arrow("gold-list-large", {"question": TEXTS, "final_answer": pa.array(lists, pa.large_list(pa.string()))}, TEXTS, [["1/2", "0.5"], "3", "4"])
    arrow("gold-list-numbers", {"question": TEXTS, "final_answer": [[1, 2], [3], [4]]}, TEXTS, [["1", "2"], "3", "4"])


def verl_rows():
    """verl's columns: messages, nested gold answers, structures that nobody reads."""
    rewards = [{"ground_truth": gold, "style": "rule-lighteval/MATH_v2"} for gold in GOLDS]
    extra = [{"index": f"{n}", "split": "train", "deep": {"list": [{"a": n}], "blob": b"\xff\xfe"}} for n in range(3)]
    columns = {"data_source": ["s"] * 3, "prompt": MESSAGES, "ability": ["MATH"] * 3, "reward_model": rewards, "extra_info": extra}
    arrow("verl", columns, MESSAGES, GOLDS)
    arrow("verl-row-groups", columns, MESSAGES, GOLDS, row_group_size=1, use_dictionary=False, data_page_version="2.0")
    arrow("verl-v1", columns, MESSAGES, GOLDS, version="1.0", use_compliant_nested_type=False)
    message = pa.struct([("role", pa.large_string()), ("content", pa.dictionary(pa.int32(), pa.string()))])
    arrow("messages-large-list", {"prompt": pa.array(SYSTEM, pa.large_list(message)), "reward_model": rewards}, SYSTEM, GOLDS)
    arrow("messages-fixed-size-list", {"prompt": pa.array(SYSTEM, pa.list_(message, 2)), "reward_model": rewards}, SYSTEM, GOLDS)
    named = [[{"role": "user", "content": text, "name": None, "tool_calls": None}] for text in TEXTS]
    arrow("messages-null-keys", {"prompt": named, "label": [1, 2, 3]}, MESSAGES, ["1", "2", "3"])
    nulls = [{"ground_truth": "2"}, None, {"ground_truth": None}]
    kind = pa.struct([("ground_truth", pa.string())])
    arrow("null-structs", {"prompt": MESSAGES, "reward_model": pa.array(nulls, kind)}, MESSAGES[:1], GOLDS[:1])
    pairs = [[("role", "user"), ("content", text)] for text in TEXTS]
    maps = pa.array([[pair] for pair in pairs], pa.list_(pa.map_(pa.string(), pa.string())))
    arrow("messages-maps", {"prompt": maps, "label": GOLDS}, MESSAGES, GOLDS)

    schema = pa.schema([("prompt", pa.string()), ("label", pa.string())])
    empty = schema.empty_table()
    with pq.ParquetWriter(OUT / "empty-row-groups.parquet", schema) as writer:
        writer.write_table(empty)
        writer.write_table(pa.table({"prompt": TEXTS, "label": GOLDS}, schema=schema))
        writer.write_table(empty)
    expect("empty-row-groups", TEXTS, GOLDS)


def other_writers():
    """The same rows by polars and DuckDB."""
    rows = [
        {"data_source": "s", "prompt": messages, "reward_model": {"ground_truth": gold, "style": "rule"}, "n": n}
        for n, (messages, gold) in enumerate(zip(SYSTEM, GOLDS))
    ]
    frame = polars.DataFrame(rows)
    frame.write_parquet(OUT / "polars-verl.parquet", compression="zstd")
    expect("polars-verl", SYSTEM, GOLDS)
    pairs = polars.DataFrame({"problem": TEXTS, "answer": GOLDS, "level": ["1/8", "2/8", "3/8"]})
    pairs = pairs.with_columns(polars.col("answer").cast(polars.Categorical), polars.col("level").cast(polars.Enum(["1/8", "2/8", "3/8"])))
    pairs.write_parquet(OUT / "polars-categorical.parquet", compression="lz4")
    expect("polars-categorical", TEXTS, GOLDS)
    array = polars.DataFrame({"question": TEXTS, "answer": [["1", "2"]] * 3}, schema={"question": polars.String, "answer": polars.Array(polars.String, 2)})
    array.write_parquet(OUT / "polars-array.parquet")
    expect("polars-array", TEXTS, [["1", "2"]] * 3)

    database = duckdb.connect()
    database.register("rows", frame.to_arrow())
    database.execute(f"COPY (SELECT * FROM rows ORDER BY n) TO '{OUT / 'duckdb-verl.parquet'}' (FORMAT parquet, COMPRESSION snappy)")
    expect("duckdb-verl", SYSTEM, GOLDS)
    database.execute(
        f"COPY (SELECT * FROM (VALUES ('a', 1.50::DECIMAL(10,2), 1), ('b', 2.25, 2)) t(question, answer, n) ORDER BY n) "
        f"TO '{OUT / 'duckdb-decimal.parquet'}' (FORMAT parquet, COMPRESSION gzip)"
    )
    expect("duckdb-decimal", ["a", "b"], ["1.50", "2.25"])
    database.execute(
        f"COPY (SELECT 'a' AS prompt, ['1', '2'] AS label, MAP {{'k': 1}} AS extra_info, uuid() AS u) "
        f"TO '{OUT / 'duckdb-list.parquet'}' (FORMAT parquet, COMPRESSION zstd)"
    )
    expect("duckdb-list", ["a"], [["1", "2"]])


class KeysInFile(encryption.KmsClient):
    """Keys are not wrapped at all: nobody is to read these files."""

    def __init__(self, _):
        super().__init__()

    def wrap_key(self, key, _):
        return base64.b64encode(key)

    def unwrap_key(self, key, _):
        return base64.b64decode(key)


def refused():
    """Files that no reader of ours takes."""
    folder = HERE / "parquet-refused"
    folder.mkdir(exist_ok=True)
    table = pa.table({"prompt": TEXTS, "label": GOLDS})
    for name, plain_footer in [("encrypted", False), ("encrypted-columns", True)]:
        factory = encryption.CryptoFactory(lambda _: KeysInFile(_))
        keys = encryption.EncryptionConfiguration(
            footer_key="footer", column_keys={"column": ["prompt", "label"]}, plaintext_footer=plain_footer
        )
        properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), keys)
        with pq.ParquetWriter(folder / f"{name}.parquet", table.schema, encryption_properties=properties) as writer:
            writer.write_table(table)
    pq.write_table(table.slice(0, 0), folder / "no-rows.parquet")
    pq.write_table(table, folder / "brotli.parquet", compression="brotli")


def whole():
    """A row with columns of many types, as a reward function gets it."""
    day = datetime.datetime(2026, 11, 28, 9, 5, 7, 250_000)
    call = {"type": "function", "function": {"name": "w", "arguments": {"city": "Paris", "ticker": None}}}
    other = {"type": "function", "function": {"name": "s", "arguments": {"city": None, "ticker": "A"}}}
    messages = [
        {"role": "user", "content": "a", "tool_calls": None},
        {"role": "assistant", "content": None, "tool_calls": [call, other]},
        {"role": "user", "content": "b", "tool_calls": None},
    ]
    columns = {
        "prompt": [messages],
        "answer": ["1"],
        "big": pa.array([2**53 + 1], pa.int64()),
        "unsigned": pa.array([2**64 - 1], pa.uint64()),
        "share": pa.array([0.1], pa.float32()),
        "items": [[1, 2, 3]],
        "meta": [{"unit": "m", "level": 4, "tags": ["x", "y"], "open": True}],
        "price": pa.array([decimal.Decimal("12.50")], pa.decimal128(10, 2)),
        "day": pa.array([day.date()], pa.date32()),
        "at": pa.array([day], pa.timestamp("ms", tz="UTC")),
        "none": pa.array([None], pa.string()),
    }
    pq.write_table(pa.table(columns), HERE / "whole.parquet")


def nulls():
    """Rows whose objects have different keys, and the same ones as JSON lines: a table has every key in every row."""
    rows = [
        {"prompt": "a", "answer": "1", "meta": {"unit": "m", "limits": {"low": 1}}, "steps": [{"x": 1}, {"y": None}], "seen": [1, None]},
        {"prompt": "b", "answer": "2", "meta": {"level": None, "limits": {"high": 2}}, "steps": [{"y": 2}], "seen": []},
        {"prompt": "c", "answer": "3", "meta": {"unit": None}, "note": None},
        {"prompt": "d", "answer": "4", "note": "x"},
    ]
    names = ["prompt", "answer", "meta", "steps", "seen", "note"]
    pq.write_table(pa.table({name: [row.get(name) for row in rows] for name in names}), HERE / "nulls.parquet")
    (HERE / "nulls.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


OUT.mkdir(exist_ok=True)
whole()
nulls()
text_types()
verl_rows()
other_writers()
refused()
(HERE / "parquet.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in EXPECTED))
