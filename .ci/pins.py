#!/usr/bin/env python3
"""Whatever installs packages of Python here installs exact ones, by the hashes that .ci/requirements has. CI assembles the libraries of the image for
GPUs from the same lists, in one folder as the image does (.ci/cuda_libraries.sh), and both have the same compiler.

    .ci/pins.py        prints what is not so
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
LISTS = ROOT / ".ci" / "requirements"
# A wheel that was built here, and what is built from these sources by tools that are installed.
LOCAL = ("--no-index", "--no-build-isolation")
DOCKERFILE = "deploy/Dockerfile.cuda"
# crates/cuda/src/library.rs: the first cuDNN that computes attention.
LEAST_CUDNN = (9, 19)
# Which lists each of them installs.
LIBRARIES = ".ci/cuda_libraries.sh"
CUDA = {".ci/cuda_toolkit.sh": {"cuda-toolkit"}, LIBRARIES: {"cudnn", "cublas"}, DOCKERFILE: {"cudnn", "cublas"}}
# The files that come into the one folder.
LAYOUT = "/nvidia/*/lib/*.so*"


def scripts():
    """Path and text of all that may install something."""
    for pattern in (".ci/*.sh", ".ci/run", ".github/workflows/*.yml", "deploy/Dockerfile*", "deploy/*.sh"):
        for path in sorted(ROOT.glob(pattern)):
            yield str(path.relative_to(ROOT)), path.read_text()


def lists():
    """What is asked for and what it came to, by the name of each list."""
    return {path.stem: (path.read_text(), path.with_suffix(".txt").read_text()) for path in sorted(LISTS.glob("*.in"))}


def commands(text):
    """Lines of a script, those that are continued as one, without comments."""
    joined = re.sub(r"\\\n", " ", text)
    return [line for line in joined.splitlines() if not line.lstrip().startswith("#")]


def installed(text):
    """The calls of pip of a script that may fetch something."""
    return [line.strip() for line in commands(text) if re.search(r"\bpip[\"']? +(install|download|wheel)\b", line)]


def packages(text):
    """Name, version and hashes of each entry of a list."""
    found = []
    for entry in commands(text):
        if entry.strip():
            name = re.match(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?(?:==([^ ;]+))?", entry.strip())
            found.append((name[1].lower().replace("_", "-"), name[2], re.findall(r"--hash=sha256:[0-9a-f]{64}\b", entry)))
    return found


def list_faults(name, asked, written):
    exact = packages(written)
    for package, version, hashes in exact:
        if not version or "*" in version or not hashes:
            yield f".ci/requirements/{name}.txt: {package} has no exact version, or no hash"
    absent = {package for package, _, _ in packages(asked)} - {package for package, _, _ in exact}
    for package in sorted(absent):
        yield f".ci/requirements/{name}.txt lacks {package}: run .ci/requirements.sh {name}"


def install_faults(path, text, known):
    for call in installed(text):
        if any(option in call for option in LOCAL):
            continue
        if "--require-hashes" not in call:
            yield f"{path}: installs without --require-hashes: {call}"
        for name in re.findall(r"requirements/([a-z0-9-]+)\.txt", call):
            if name not in known:
                yield f"{path}: there is no .ci/requirements/{name}.in"


def cuda_faults(texts, known):
    for path, wanted in CUDA.items():
        found = {name for call in installed(texts[path]) for name in re.findall(r"requirements/([a-z0-9-]+)\.txt", call)}
        if found != wanted:
            yield f"{path} installs {', '.join(sorted(found)) or 'nothing'} of .ci/requirements, not {', '.join(sorted(wanted))}"
    for path in (LIBRARIES, DOCKERFILE):
        if not any("cp -" in line and LAYOUT in line.replace('"', "") for line in commands(texts[path])):
            yield f"{path}: does not copy {LAYOUT} into one folder"
    if ".ci/cuda_toolkit.sh" not in "\n".join(commands(texts[DOCKERFILE])):
        yield f"{DOCKERFILE}: its compiler is not that of .ci/cuda_toolkit.sh"
    if re.search(r"^FROM +nvidia/", texts[DOCKERFILE], re.M):
        yield f"{DOCKERFILE}: an image of NVIDIA's brings versions of its own"
    cudnn = next((version for name, version, _ in packages(known["cudnn"][1]) if name == "nvidia-cudnn-cu13"), "0.0")
    if tuple(int(part) for part in cudnn.split(".")[:2]) < LEAST_CUDNN:
        yield f".ci/requirements/cudnn.txt has cuDNN {cudnn}, allowed: {'.'.join(map(str, LEAST_CUDNN))} or later"


def faults(texts, known):
    for name, (asked, written) in known.items():
        yield from list_faults(name, asked, written)
    for path, text in texts.items():
        yield from install_faults(path, text, known)
    yield from cuda_faults(texts, known)


def main():
    known, texts = lists(), dict(scripts())
    found = list(faults(texts, known))
    calls = sum(len(installed(text)) for text in texts.values())
    print("\n".join(found) or f"pins     {calls} calls of pip, {sum(len(packages(written)) for _, written in known.values())} packages by their hashes")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
