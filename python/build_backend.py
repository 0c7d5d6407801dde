"""maturin's build backend, and before it what the wheel has besides the extension: the sandbox's program, and its interpreter as compressed
WebAssembly.

The program is compiled here, with the features of the whole workspace, so that its build is used where there is one; EVENKEEL_GUEST_PROGRAM names one
that was built before. It packs the interpreter, which it builds in EVENKEEL_GUEST_DIR or the user's cache folder if that does not have it (by
componentize-py, which needs the Python package index once).

    python build_backend.py        only that, for `maturin build` and `maturin develop`
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PACKAGE = HERE / "evenkeel_rlvr"


def stage() -> None:
    """Puts the program and the interpreter where the wheel takes them from."""
    folder = PACKAGE / "_sandbox"
    folder.mkdir(exist_ok=True)
    named = os.environ.get("EVENKEEL_GUEST_PROGRAM")
    program = Path(named) if named else _compiled()
    staged = folder / "evenkeel-guest"
    # Under another name first: the other one may be running.
    temporary = staged.with_suffix(".new")
    shutil.copyfile(program, temporary)
    temporary.chmod(0o755)
    if shutil.which("strip"):
        subprocess.run(["strip", temporary], check=True)
    packed = subprocess.run([program, "--pack", folder], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    temporary.replace(staged)
    _write_bill(HERE / "evenkeel-guest.cyclonedx.json")
    # Those of other sources.
    for other in folder.glob("guest-*.wasm.zst"):
        if other != Path(packed):
            other.unlink()


def _write_bill(path: Path) -> None:
    """The bill of materials of the program and the interpreter; maturin writes that of the extension."""
    tree = ["cargo", "tree", "-p", "evenkeel-guest", "-e", "normal", "--prefix", "none", "--format", "{p}|{l}", "--manifest-path", str(_manifest())]
    lines = subprocess.run(tree, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    crates = sorted({line.removesuffix(" (*)") for line in lines if "(proc-macro)" not in line})
    components: list[dict[str, Any]] = []
    for crate in crates:
        what, _, licence = crate.partition("|")
        name, version = what.split()[:2]
        version = version.removeprefix("v")
        expression = licence.removesuffix(" (*)").replace("/", " OR ")
        component: dict[str, Any] = {"type": "library", "name": name, "version": version, "licenses": [{"expression": expression}]}
        if not name.startswith("evenkeel-"):
            component["purl"] = f"pkg:cargo/{name}@{version}"
        components.append(component)
    sources = (_manifest().parent / "crates/sandbox/src/guest/sources.rs").read_text()
    python, componentizer = "3.14", sources.partition("componentize-py==")[2].partition('"')[0]
    components += [
        {"type": "platform", "name": "CPython", "version": python, "licenses": [{"expression": "PSF-2.0"}], "purl": f"pkg:github/python/cpython@{python}"},
        {
            "type": "library",
            "name": "componentize-py",
            "version": componentizer,
            "licenses": [{"expression": "Apache-2.0 WITH LLVM-exception"}],
            "purl": f"pkg:pypi/componentize-py@{componentizer}",
        },
    ]
    about = {"component": {"type": "application", "name": "evenkeel-guest"}}
    bill = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": about, "components": components}
    path.write_text(json.dumps(bill, indent=1) + "\n")


def _manifest() -> Path:
    """That of the workspace: the folder above in a clone, this one in a source distribution."""
    return next(path for path in (HERE / "Cargo.toml", HERE.parent / "Cargo.toml") if path.exists() and "[workspace]" in path.read_text())


def _compiled() -> Path:
    locked = ["--locked"] if "--locked" in os.environ.get("MATURIN_PEP517_ARGS", "") else []
    command = ["cargo", "build", "--release", "--workspace", "--bin", "evenkeel-guest", *locked, "--manifest-path", str(_manifest())]
    built = subprocess.run([*command, "--message-format", "json-render-diagnostics"], check=True, stdout=subprocess.PIPE, text=True)
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == "evenkeel-guest":
            return Path(message["executable"])
    raise RuntimeError("cargo has built no evenkeel-guest")


def build_wheel(*arguments: Any, **keywords: Any) -> str:
    import maturin

    stage()
    return maturin.build_wheel(*arguments, **keywords)


def build_editable(*arguments: Any, **keywords: Any) -> str:
    import maturin

    stage()
    return maturin.build_editable(*arguments, **keywords)


def __getattr__(name: str) -> Any:
    """Everything else is maturin's."""
    if name.startswith("_"):
        raise AttributeError(name)
    import maturin

    return getattr(maturin, name)


if __name__ == "__main__":
    stage()
    print(PACKAGE / "_sandbox", file=sys.stderr)
