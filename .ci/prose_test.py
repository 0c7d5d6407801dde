#!/usr/bin/env python3
"""Plants each fault that prose.py finds, and sees it named with its file and line."""

import tempfile
import unittest
from pathlib import Path

import prose

LONG = "One " + "word " * 35 + "more."


class Planted(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("README.md", "# Title\n\nA sentence.\n")
        self.write("crates/a/src/lib.rs", "//! What it is.\nfn main() {}\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def faults(self):
        return prose.check(self.root)[0]

    def test_a_page_without_faults_has_none(self):
        self.write("docs/a.md", "\n".join([
            "# Items of a list", "", "Text. Italy is no opening. See `Of x. Its y` there, e.g. its name.", "",
            "```text", "Of X, " + LONG, "```", "", "| of what | " + "word " * 40 + "|", "", "<!-- Of", "Its. -->",
            "- " + "word " * 20, "- " + "word " * 20, "", "## Measured beside planned", "",
        ]))
        self.assertEqual(self.faults(), [])

    def test_each_fault_of_a_page_is_named_with_its_line(self):
        for line, kind in [
            ("## Of weights", "opening"), ("## It", "opening"), ("## Its limits", "opening"), ("## The same bits", "opening"),
            ("## Those", "opening"), ("### Both `a` and b", "opening"), ("Of all runs one ended.", "sentence opening"),
            ("One ended. Its log says so.", "sentence opening"), ("- *The same* of a list.", "sentence opening"),
            ("One. (So does the other.)", "sentence opening"), ("| a | One. Of b. |", "sentence opening"), (LONG, "long sentence"),
            ("A model with a head of its own.", "phrase"), ("The last one is gone on with.", "phrase"), ("A peer says nothing of it.", "phrase"),
            ("Ways of having others are excluded.", "phrase"), ("Once as often as there are ranks.", "phrase"), ("| a | Last seen on a GPU. |", "phrase"),
            ("Seen on 3 May 2026.", "phrase"), ("## Measured", "heading"), ("### Last seen", "heading"), ("## What was tried", "heading"),
        ]:
            with self.subTest(line):
                self.write("docs/a.md", f"# A\n\nText.\n\n{line}\n")
                found = self.faults()
                self.assertTrue(any(fault.startswith(f"docs/a.md:5: {kind}: ") for fault in found), found)

    def test_a_sentence_is_found_on_its_own_line_of_a_paragraph(self):
        self.write("docs/a.md", "# A\n\nText with `code\nof two` lines. Its\nlog. More\ntext.\nOf b.\n")
        self.assertEqual([fault.split(": ")[0] for fault in self.faults()], ["docs/a.md:4", "docs/a.md:7"])

    def test_a_name_in_lower_case_begins_a_sentence(self):
        self.write("docs/a.md", "# A\n\n" + f"It is {'word ' * 20}here. vLLM is {'word ' * 20}there.\n")
        self.assertEqual(self.faults(), [])

    def test_a_long_page_is_found(self):
        self.write("docs/a.md", "# A\n\n" + "Word. " * prose.MAX_PAGE)
        self.write("README.md", "# A\n\n" + "Word. " * prose.MAX_README)
        self.assertEqual(self.faults(), [
            f"README.md:1: long page: {prose.MAX_README + 2} words, at most {prose.MAX_README}",
            f"docs/a.md:1: long page: {prose.MAX_PAGE + 2} words, at most {prose.MAX_PAGE}",
        ])

    def test_other_pages_are_read(self):
        for name in ("CONTRIBUTING.md", "SECURITY.md", "python/README.md", "docs/study/a.md", "docs/study/b/a.md"):
            with self.subTest(name):
                self.write(name, "# A\n\nIts log says so.\n")
                self.assertEqual([fault.split(": ")[:2] for fault in self.faults()], [[f"{name}:3", "sentence opening"]])
                self.write(name, "")

    def test_a_comparison_may_have_long_lists_and_its_words_do_not_count(self):
        total = prose.check(self.root)[1]
        self.write("docs/study/a.md", "# A\n\n" + LONG + " Word." * prose.MAX_PAGE)
        self.assertEqual(prose.check(self.root), ([], total))

    def test_each_fault_of_a_message_is_named_with_its_line(self):
        for message, kind in [
            ("Of {} answers one is right", "sentence opening"), ("one is right. Its reward is {}", "sentence opening"),
            ("the model has a head of its own", "phrase"),
        ]:
            with self.subTest(message):
                self.write(prose.MESSAGES, f"# Of pages\n\nIts text.\n\n```text\n{LONG}\n{message}\n```\n\nOf text.\n")
                self.assertEqual([fault.split(": ")[:2] for fault in self.faults()], [[f"{prose.MESSAGES}:7", kind]])

    def test_measurements_have_a_page(self):
        self.write(prose.MEASUREMENTS, "# A\n\n## Measured\n\nSeen on 3 May 2026.\n")
        self.assertEqual(self.faults(), [])

    def test_generated_pages_and_other_text_are_not_read(self):
        self.write("docs/reference/a.md", "# Of a\n")
        self.write("crates/a/notes.md", "# Of a\n")
        self.write("crates/a/target/b.rs", "/// Of a.\n")
        self.write("crates/a/src/b.rs", "// Of a comment.\n//// Of a rule.\nlet text = \"Of a\";\n")
        self.assertEqual(self.faults(), [])

    def test_each_fault_of_an_item_doc_is_named_with_its_line(self):
        for name in ("crates/a/src/b.rs", "services/a/tests/b.rs", "cli/src/b.rs", "bench/src/b.rs", "python/src/b.rs"):
            for doc, kind in [
                ("/// Of a row.", "opening"), ("//! It is.", "opening"), ("    /// Its rows.", "opening"), ("/// The same of columns.", "opening"),
                ("/// Those.", "opening"), ("/// Both of them.", "opening"), ("/// A row. Of them one.", "sentence opening"),
                ("/// A folder with a head of its own.", "phrase"),
            ]:
                with self.subTest(doc):
                    self.write(name, f"use a;\n\n{doc}\nfn b() {{}}\n")
                    found = self.faults()
                    self.assertTrue(found[0].startswith(f"{name}:3: {kind}: "), found)
                    self.write(name, "")

    def test_each_fault_of_the_protocol_is_named_with_its_line(self):
        self.write("proto/a/v1/b.proto", "message A {\n  // Its name. Of one row.\n  string name = 1;\n}\n")
        self.assertEqual([fault.split(": ")[:2] for fault in self.faults()], [["proto/a/v1/b.proto:2", "opening"], ["proto/a/v1/b.proto:2", "sentence opening"]])

    def test_code_and_headings_of_item_docs_are_not_prose(self):
        self.write("crates/a/src/b.rs", "/// A row.\n///\n/// # Errors\n/// None.\n/// ```\n/// // Of\n/// Its.\n/// ```\n/// - It opens an item.\nfn b() {}\n")
        self.assertEqual(self.faults(), [])

    def test_every_finding_of_item_docs_is_named(self):
        self.write("crates/a/src/b.rs", "/// Of a row.\nfn b() {}\n/// Its rows.\nfn c() {}\n")
        self.assertEqual([fault.split(": ")[0] for fault in self.faults()], ["crates/a/src/b.rs:1", "crates/a/src/b.rs:3"])

    def test_words_are_counted(self):
        self.write("docs/a.md", "# A page\n\nFour words are here.\n")
        self.assertEqual(prose.check(self.root)[1], "prose  11 hand-written words on 2 pages")


if __name__ == "__main__":
    unittest.main()
