#!/usr/bin/env python3
"""What deny.py makes of versions, licences, sources and advisories."""

import tempfile
import unittest
from pathlib import Path

import deny


def package(name="a", version="1.0.0", license="MIT", source="registry+https://registry.example", dependencies=()):
    return {"name": name, "version": version, "license": license, "source": source, "dependencies": list(dependencies)}


class Rules(unittest.TestCase):
    def test_versions_meet_requirements_as_cargo_reads_them(self):
        for version, requirement, holds in [
            ("1.2.3", "^1.2", True), ("2.0.0", "^1.2", False), ("0.3.1", "^0.2.5", False), ("0.2.9", "^0.2.5", True),
            ("1.2.9", "~1.2", True), ("1.3.0", "~1.2", False), ("1.9.0", "~1", True), ("0.0.4", "^0.0.3", False),
            ("1.0.0-rc.1", ">= 1.0.0", False), ("1.0.0", ">= 1.0.0-rc.1", True), ("1.0.0", "< 1.0.1, >= 0.9", True),
        ]:
            self.assertEqual(deny.satisfies(version, requirement), holds, (version, requirement))

    def test_an_expression_of_licences_is_met_as_a_whole(self):
        for expression, holds in [
            ("MIT OR GPL-3.0", True), ("MIT AND GPL-3.0", False), ("(MIT OR X) AND ISC", True), ("MIT/X", True),
            ("X OR MIT AND Y", False), ("Apache-2.0 WITH LLVM-exception", False),
        ]:
            self.assertEqual(deny.allows(expression, {"MIT", "ISC", "Apache-2.0"}), holds, expression)

    def test_violations_are_named(self):
        rules = {"allow": ["MIT"], "exceptions": [{"crate": "b", "allow": ["X"]}]}
        found = list(deny.check_licences(rules, [package(), package("b", license="X"), package("c", license="X"), package("d", license=None)]))
        self.assertEqual([line.split()[1] for line in found], ["c", "d"])
        rules = {"deny": [{"crate": "b"}], "wildcards": "deny"}
        own = package("own", source=None, dependencies=[{"name": "x", "req": "*"}, {"name": "y", "req": "*", "path": "/y"}])
        found = list(deny.check_bans(rules, [package("b"), own]))
        self.assertEqual(found, ["bans: b 1.0.0 is banned", "bans: own takes any version of x"])
        rules = {"allow-registry": ["https://registry.example"]}
        found = list(deny.check_sources(rules, [package(), package("b", source="git+https://x.example/b"), package("c", source=None)]))
        self.assertEqual(found, ["sources: b 1.0.0 comes from git+https://x.example/b"])

    def test_an_advisory_counts_unless_the_version_is_safe_or_it_is_ignored(self):
        text = '```toml\n[advisory]\nid = "RUSTSEC-2099-0001"\npackage = "a"\n[versions]\npatched = [">= 1.1"]\nunaffected = ["< 1.0"]\n```\n'
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "crates" / "a"
            path.mkdir(parents=True)
            (path / "RUSTSEC-2099-0001.md").write_text(text)
            crates = [package(version=version) for version in ("0.9.0", "1.0.5", "1.1.0")]
            found = list(deny.check_advisories({}, crates, Path(folder)))
            self.assertEqual(found, ["advisories: a 1.0.5 has RUSTSEC-2099-0001"])
            self.assertEqual(list(deny.check_advisories({"ignore": ["RUSTSEC-2099-0001"]}, crates, Path(folder))), [])


if __name__ == "__main__":
    unittest.main()
