#!/usr/bin/env python3
"""Plants faults in what installs packages: pins.py has to find each, and nothing where there is none."""

import copy
import unittest

import pins

TEXTS, KNOWN = dict(pins.scripts()), pins.lists()
HASH = "--hash=sha256:" + "0" * 64


class Faults(unittest.TestCase):
    def found(self, plant=lambda texts, known: None):
        texts, known = dict(TEXTS), copy.deepcopy(KNOWN)
        plant(texts, known)
        return list(pins.faults(texts, known))

    def finds(self, plant, word):
        found = self.found(plant)
        self.assertTrue(any(word in fault for fault in found), (word, found))

    def replaces(self, path, old, new, word):
        self.assertIn(old, TEXTS[path])
        self.finds(lambda texts, known: texts.update({path: texts[path].replace(old, new)}), word)

    def written(self, name, text, word):
        self.finds(lambda texts, known: known.update({name: (known[name][0], text)}), word)

    def test_what_is_committed_has_none(self):
        self.assertEqual(self.found(), [])

    def test_a_call_without_hashes(self):
        self.replaces(".ci/python_release.sh", "--require-hashes ", "", ".ci/python_release.sh: installs without --require-hashes")
        more = "      - run: |\n          python3 -m pip install --quiet \\\n            twine\n"
        self.finds(lambda texts, known: texts.update({".github/workflows/ci.yml": more}), ".github/workflows/ci.yml: installs without")

    def test_a_list_that_does_not_exist(self):
        self.replaces(".ci/python_release.sh", "requirements/release.txt", "requirements/none.txt", "there is no .ci/requirements/none.in")

    def test_an_entry_without_a_hash_or_an_exact_version(self):
        self.written("cublas", f"nvidia-cublas==13.1.0.3\nnvidia-curand==10.4.0.35 {HASH}\n", "nvidia-cublas has no exact version, or no hash")
        self.written("cublas", f"nvidia-cublas==13.1.* {HASH}\nnvidia-curand==10.4.0.35 {HASH}\n", "nvidia-cublas has no exact version")
        self.written("cublas", f"nvidia-cublas {HASH}\nnvidia-curand==10.4.0.35 {HASH}\n", "nvidia-cublas has no exact version")

    def test_a_list_that_was_not_written_anew(self):
        self.written("release", f"twine==7.0.0 {HASH}\n", "release.txt lacks maturin: run .ci/requirements.sh release")

    def test_other_libraries_in_the_image_than_in_ci(self):
        self.replaces(pins.DOCKERFILE, "requirements/cudnn.txt", "requirements/manifests.txt", f"{pins.DOCKERFILE} installs cublas, manifests")
        self.replaces(pins.DOCKERFILE, ".ci/cuda_toolkit.sh", "nvcc.sh", "its compiler is not that of .ci/cuda_toolkit.sh")
        self.finds(lambda texts, known: texts.update({pins.DOCKERFILE: texts[pins.DOCKERFILE] + "\nFROM nvidia/cuda:13.0.1-runtime\n"}), "an image of NVIDIA's")

    def test_other_libraries_in_ci_than_in_the_image_or_in_another_layout(self):
        self.replaces(pins.LIBRARIES, " -r .ci/requirements/cublas.txt >&2", " >&2", f"{pins.LIBRARIES} installs cudnn of .ci/requirements, not cublas, cudnn")
        for path in (pins.LIBRARIES, pins.DOCKERFILE):
            self.replaces(path, "/*/lib/*.so*", "/cudnn/lib/*.so*", f"{path}: does not copy")

    def test_a_cudnn_that_computes_no_attention(self):
        text = KNOWN["cudnn"][1].replace("nvidia-cudnn-cu13==9.", "nvidia-cudnn-cu13==9.13.", 1)
        self.written("cudnn", text, "has cuDNN 9.13.")


if __name__ == "__main__":
    unittest.main()
