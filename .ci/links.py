#!/usr/bin/env python3
"""Finds links of the documentation that lead nowhere: to a file that does not exist, or to a heading that its page does not have; and pages of
docs/ that the book's table of contents (docs/SUMMARY.md) leaves out.

    .ci/links.py [ROOT]
"""
import pathlib
import re
import sys
import tempfile

LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^\s*(`{3,}|~{3,})")


def prose(text):
    """The lines of a page outside of fenced blocks."""
    open_fence = None
    for line in text.splitlines():
        fence = FENCE.match(line)
        if open_fence is None and fence:
            open_fence = fence[1]
        elif open_fence is not None:
            if fence and fence[1].startswith(open_fence) and line.strip() == fence[1]:
                open_fence = None
        else:
            yield line


def anchor(heading):
    """The anchor of a heading, as GitHub and mdBook make it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.lstrip("#").strip()).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(page):
    found, counts = set(), {}
    for line in prose(page.read_text()):
        if re.match(r"#{1,6} ", line):
            name = anchor(line)
            number = counts.get(name, 0)
            counts[name] = number + 1
            found.add(f"{name}-{number}" if number else name)
    return found


def faults(root):
    pages = [page for page in root.glob("*.md")] + sorted((root / "docs").rglob("*.md")) + sorted((root / "tests").rglob("*.md"))
    for page in pages:
        for line in prose(page.read_text()):
            # Inline code is no link.
            for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, heading = target.partition("#")
                to = (page.parent / path) if path else page
                where = page.relative_to(root)
                if not to.exists():
                    yield f"{where}: {target}: there is no such file"
                elif heading and to.suffix == ".md" and heading not in anchors(to):
                    yield f"{where}: {target}: the page has no such heading"
    summary = root / "docs" / "SUMMARY.md"
    listed = {(summary.parent / target.partition("#")[0]).resolve() for target in LINK.findall(summary.read_text())}
    for page in sorted((root / "docs").rglob("*.md")):
        if page != summary and page.resolve() not in listed:
            yield f"{page.relative_to(root)} is not in docs/SUMMARY.md"


def check_itself():
    """Plants each fault, and one page without any."""
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        (root / "docs").mkdir()
        (root / "docs" / "SUMMARY.md").write_text("- [A](a.md)\n")
        (root / "docs" / "a.md").write_text("# A `b` c\n[x](#a-b-c) [y](https://example.org) `[z](nothing.md)`\n```\n[q](nothing.md)\n# No heading\n```\n")
        (root / "README.md").write_text("[a](docs/a.md#a-b-c)\n")
        assert list(faults(root)) == [], list(faults(root))
        (root / "README.md").write_text("[a](docs/a.md#no-heading) [b](docs/b.md)\n")
        (root / "docs" / "c.md").write_text("")
        assert len(list(faults(root))) == 3, list(faults(root))


if __name__ == "__main__":
    check_itself()
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1]
    found = list(faults(root.resolve()))
    print("\n".join(found) or "links  all lead somewhere, and every page is in the book")
    sys.exit(1 if found else 0)
