#!/usr/bin/env python3
"""Finds prose that is hard to read: on the pages that people write (PAGES), in the messages of the program, and in the item docs of
Rust files (`///`, `//!`) and of the protocol (`//`). Prints how many words people have written on pages.

    .ci/prose.py [ROOT]

None may have any finding, a page at most MAX_PAGE words, and README.md at most MAX_README.
"""
import collections
import pathlib
import re
import sys

MAX_SENTENCE = 35
MAX_PAGE = 2500
MAX_README = 900

OPENING = re.compile(r"(Of|Its|It|The same|Those|Both)\b")
SENTENCE_OPENING = re.compile(r"(Of|Its|The same|So does)\b")

PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "python/README.md", "docs/*.md", "docs/study/**/*.md")
# What `evenkeel compare` writes: lists of pairs may be long.
COMPARISONS = "docs/study/"
CODE = ("bench", "cli", "crates", "proto", "python", "services")
# What the program can say, a line each in blocks of text.
MESSAGES = "docs/reference/messages.md"
# The one page of measurements.
MEASUREMENTS = "docs/performance.md"
MONTH = "(?:January|February|March|April|May|June|July|August|September|October|November|December)"


def patterns(table):
    return [(re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE), instead) for pattern, instead in table]


# Each with what to write instead.
PHRASES = patterns([
    (r"(?:is|are|be|was|were) gone on with", "continue"),
    (r"says? nothing of", "say what it is, or delete it"),
    (r"having (?:others|other weights)", "name the failure"),
    (r"so many (?:GPUs|cards|ranks|engines|processes)", "give the number"),
    (r"as often as there are", "once per"),
    (r"(?:a|the) heads? of its own", "a separate head, untied"),
    (r"whatever becomes of", "regardless of the outcome"),
    (r"which (?:\w+ )?(?:is|are) said|is said by", "say who says it"),
    (r"(?:it|that) is waited for", "say who waits"),
    (r"of which the same holds", "repeat the noun"),
    (r"what it makes of", "its result"),
    (r"could add nothing but", "need only"),
    (r"where there is nothing to say", "or nothing"),
    (r"share what happens to", "say what happens"),
    (r"whoever asks", "name who asks"),
])
# Not of the page of measurements.
DIARY = patterns([
    (r"last seen", "a result, without a diary"),
    (rf"(?:seen|tried|measured) (?:in (?:late )?|on )\d* ?{MONTH}", "a row of docs/performance.md"),
    (r"the day (?:before|after)", "nothing, or a row of docs/performance.md"),
    (r"did much else", "nothing, or a row of docs/performance.md"),
])

HEADINGS_OF_A_DIARY = {"measured", "measurements", "tried", "what was tried", "last seen", "seen"}

FENCE = re.compile(r"\s*(`{3,}|~{3,})")
HEADING = re.compile(r"#{1,6} +(.*)")
ITEM = re.compile(r"\s*(?:[-*+]|\d+\.) +")
DOC = re.compile(r"\s*//[/!](?!/) ?(.*)")
PROTO_DOC = re.compile(r"\s*// ?(.*)")
# A sentence may begin with a name in lower case.
BOUNDARY = re.compile(r"[.?!][)\"”]*\s+(?=[\"(“]?(?:[A-Z0-9]|vLLM|verl\b|cu[A-Z]|candle\b|tiktoken|torchrun|transformers|verifiers|grpcurl|wasmtime))")
ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|vs|cf|etc|al|Fig|Eq|No))\.\s*$")

Finding = collections.namedtuple("Finding", "file line kind text")


def words(text):
    """Words as `wc -w` counts them."""
    return len(text.split())


def plain(text):
    """Text without code, link targets, emphasis and quotes; line ends stay."""
    text = re.sub(r"`+[^`]*`+", lambda code: "Code" + "\n" * code[0].count("\n"), text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\[([^\]]*)\](?:\[[^\]]*\])?", r"\1", text)
    return re.sub(r"\*+|<[^>\n]+>", "", text)


def sentences(lines):
    """The sentences of a paragraph of (number, text): (number of the first line, text)."""
    text = plain("\n".join(line for _, line in lines))
    start = 0
    for boundary in [*BOUNDARY.finditer(text), None]:
        end = len(text) if boundary is None else boundary.end()
        if boundary is not None and ABBREVIATION.search(text[start:end]):
            continue
        sentence = text[start:end]
        blank = len(sentence) - len(sentence.lstrip())
        if sentence.strip():
            yield lines[text.count("\n", 0, start + blank)][0], " ".join(sentence.split()).lstrip("(\"“")
        start = end


def parts(lines):
    """Headings, table rows and paragraphs of Markdown, outside of code and comments: (kind, [(number, text)])."""
    fence, in_comment, paragraph = None, False, []
    for number, line in [*lines, (0, "")]:
        mark = FENCE.match(line)
        special = None
        if fence:
            fence = None if mark and mark[1].startswith(fence) and line.strip() == mark[1] else fence
            continue
        if in_comment:
            in_comment = "-->" not in line
            continue
        if mark:
            fence = mark[1]
        elif line.lstrip().startswith("<!--"):
            in_comment = "-->" not in line
        elif HEADING.match(line):
            special = "heading", [(number, HEADING.match(line)[1])]
        elif line.lstrip().startswith("|"):
            special = "row", [(number, line)]
        elif line.strip():
            item = ITEM.match(line)
            if item and paragraph:
                yield "paragraph", paragraph
                paragraph = []
            paragraph.append((number, line[item.end():] if item else line.lstrip("> ")))
            continue
        if paragraph:
            yield "paragraph", paragraph
            paragraph = []
        if special:
            yield special


def phrases(file, number, text):
    for pattern, instead in PHRASES + (DIARY if file != MEASUREMENTS else []):
        found = pattern.search(text)
        if found:
            yield Finding(file, number, "phrase", f"{found[0]!r}, write instead: {instead}")


def openings(file, number, sentence):
    found = SENTENCE_OPENING.match(sentence)
    if found:
        yield Finding(file, number, "sentence opening", f"opens with {found[0]!r}: {sentence[:60]}")


def page(file, text):
    """Findings of a page."""
    has_length = not file.startswith(COMPARISONS)
    for kind, lines in parts(enumerate(text.splitlines(), 1)):
        number = lines[0][0]
        if kind == "heading":
            heading = plain(lines[0][1])
            found = OPENING.match(heading)
            if found:
                yield Finding(file, number, "opening", f"the heading opens with {found[0]!r}: {heading}")
            if heading.lower() in HEADINGS_OF_A_DIARY and file != MEASUREMENTS:
                yield Finding(file, number, "heading", f"a section called {heading!r} belongs to {MEASUREMENTS}")
            yield from phrases(file, number, heading)
            continue
        blocks = [[(number, cell)] for cell in plain(lines[0][1]).split("|")] if kind == "row" else [lines]
        for number, sentence in (one for block in blocks for one in sentences(block)):
            yield from openings(file, number, sentence)
            yield from phrases(file, number, sentence)
            length = sum(any(c.isalnum() for c in word) for word in sentence.split())
            if kind == "paragraph" and has_length and length > MAX_SENTENCE:
                yield Finding(file, number, "long sentence", f"{length} words, at most {MAX_SENTENCE}: {sentence[:60]}")
    most = MAX_README if file == "README.md" else MAX_PAGE
    if has_length and words(text) > most:
        yield Finding(file, 1, "long page", f"{words(text)} words, at most {most}")


def item_docs(text, pattern):
    """The docs of a file, whose lines match a pattern: each a list of (number, text)."""
    doc = []
    for number, line in [*enumerate(text.splitlines(), 1), (0, "")]:
        found = pattern.match(line)
        if found:
            doc.append((number, found[1]))
        elif doc:
            yield doc
            doc = []


def code(file, text):
    """Findings of the item docs of a file."""
    for doc in item_docs(text, PROTO_DOC if file.endswith(".proto") else DOC):
        is_first = True
        for kind, lines in parts(doc):
            if kind == "heading":
                continue
            for number, sentence in sentences(lines):
                found = OPENING.match(sentence) if is_first else None
                if found:
                    yield Finding(file, number, "opening", f"the item doc opens with {found[0]!r}: {sentence[:60]}")
                else:
                    yield from openings(file, number, sentence)
                yield from phrases(file, number, sentence)
                is_first = False


def messages(text):
    """Findings of the messages: openings and phrases, since a message is no paragraph."""
    is_message = False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            is_message = line.strip() == "```text"
        elif is_message:
            for _, sentence in sentences([(number, line)]):
                yield from openings(MESSAGES, number, sentence)
                yield from phrases(MESSAGES, number, sentence)


def pages(root):
    paths = [path for pattern in PAGES for path in sorted(root.glob(pattern))]
    return {str(path.relative_to(root)): path.read_text() for path in paths}


def code_files(root):
    paths = (path for folder in CODE for path in sorted((root / folder).rglob("*")) if path.suffix in (".rs", ".proto"))
    return (path for path in paths if not {"target", "generated"} & set(path.relative_to(root).parts))


def check(root):
    """What is wrong, and how many words there are."""
    texts = pages(root)
    found = [one for file, text in texts.items() for one in page(file, text)]
    found += [one for path in code_files(root) for one in code(str(path.relative_to(root)), path.read_text())]
    if (root / MESSAGES).exists():
        found += messages((root / MESSAGES).read_text())
    faults = [f"{one.file}:{one.line}: {one.kind}: {one.text}" for one in found]
    written = [words(text) for file, text in texts.items() if not file.startswith(COMPARISONS)]
    return faults, f"prose  {sum(written)} hand-written words on {len(written)} pages"


if __name__ == "__main__":
    arguments = sys.argv[1:]
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).parents[1]).resolve()
    faults, total = check(root)
    print("\n".join([*faults, total]))
    sys.exit(1 if faults else 0)
