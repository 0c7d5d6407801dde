"""The sandbox's interpreter: compiled once by the first of many processes, read where it may not be written, made anew where it is damaged."""

import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from evenkeel_rlvr import _interpreter, errors
from evenkeel_rlvr.__main__ import main
from evenkeel_rlvr.code import Pool, prepare

SUM = "```python\nprint(sum(map(int, input().split())))\n```"
TESTS = {"inputs": ["1 2"], "outputs": ["3"]}


@pytest.fixture
def ready(tmp_path):
    """A folder of its own with the compiled interpreter, copied from where it is ready."""
    folder = tmp_path / "ready"
    shutil.copytree(prepare(), folder, ignore=lambda _, names: [name for name in names if not name.startswith("guest-") or "counted" in name])
    return folder


def compiled(folder):
    return next(path for path in folder.iterdir() if path.suffix == ".cwasm" and "counted" not in path.name)


def judges(folder):
    with Pool(1, folder=folder) as pool:
        return pool.verify(SUM, TESTS).correct


def test_preparing_again_writes_nothing(ready):
    before = {path.name: path.stat().st_mtime_ns for path in ready.iterdir()}
    said = []
    assert prepare(ready, progress=said.append) == ready and said == []
    assert {path.name: path.stat().st_mtime_ns for path in ready.iterdir()} == before


def without_source(folder, monkeypatch):
    """A program that can only use what is compiled: the interpreter beside it is damaged."""
    program = Path(_interpreter.program())
    packed = next(program.parent.glob("guest-*.wasm.zst"))
    folder.mkdir()
    for path in (program, packed):
        shutil.copy(path, folder)
    with (folder / packed.name).open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"damaged")
    monkeypatch.setenv("EVENKEEL_GUEST_BUILDER", str(folder / program.name))
    return packed.name


@pytest.mark.parametrize("damage", ["none", "half", "one byte", "no digest", "other digest"])
def test_a_damaged_file_is_not_used(ready, tmp_path, monkeypatch, damage):
    path = compiled(ready)
    digest = path.with_name(path.name + ".sha256")
    if damage == "half":
        os.truncate(path, path.stat().st_size // 2)
    elif damage == "one byte":
        with path.open("r+b") as file:
            file.seek(1_000_000)
            byte = file.read(1)[0]
            file.seek(1_000_000)
            file.write(bytes([byte ^ 1]))
    elif damage == "no digest":
        digest.unlink()
    elif damage == "other digest":
        digest.write_text("0" * 64)
    packed = without_source(tmp_path / "program", monkeypatch)
    if damage == "none":
        assert prepare(ready) == ready and judges(ready)
    else:
        # It would be made anew.
        with pytest.raises(errors.InterpreterMissing, match=packed):
            prepare(ready)


def test_of_many_processes_one_compiles_over_what_a_killed_one_left(tmp_path):
    folder = tmp_path / "cache"
    command = [sys.executable, "-m", "evenkeel_rlvr", "prepare", "--to", str(folder)]
    killed = subprocess.Popen([str(_interpreter.program()), "--dir", str(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert "compiling" in killed.stderr.readline()
    killed.kill()
    killed.communicate()
    ready = compiled(prepare())
    (folder / ready.name).write_bytes(ready.read_bytes()[:10_000_000])
    (folder / f"{ready.name}.1").write_bytes(b"half")
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    said = [process.communicate(timeout=600) for process in started]
    assert [process.returncode for process in started] == [0] * 4, said
    assert [out for out, _ in said] == [f"{folder}\n"] * 4
    assert sum("compiling" in line for _, line in said) == 1
    # Nothing under another name is left.
    assert sorted(path.suffix for path in folder.iterdir()) == ["", ".cwasm", ".sha256"]
    assert judges(folder)


def test_interrupting_the_preparation_ends_the_compilation(tmp_path):
    command = [sys.executable, "-m", "evenkeel_rlvr", "prepare", "--to", str(tmp_path / "cache")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "compiling" in process.stderr.readline()
    (child,) = open(f"/proc/{process.pid}/task/{process.pid}/children").read().split()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode != 0 and not os.path.exists(f"/proc/{child}")


@pytest.fixture
def as_another_user():
    """How a program is run by a user who may not write everywhere."""
    if os.getuid() != 0:
        return {}
    return {"user": 65534, "group": 65534, "extra_groups": []}


def read_only(folder):
    for path in (folder, *folder.iterdir()):
        path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) | stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0))


def test_a_prepared_folder_may_be_read_only(ready, as_another_user):
    read_only(ready)
    for parent in ready.parents:
        if parent.is_relative_to("/tmp") and parent != Path("/tmp"):
            parent.chmod(parent.stat().st_mode | 0o055)
    program = [str(_interpreter.program()), "--dir", str(ready)]
    try:
        done = subprocess.run(program, capture_output=True, text=True, timeout=120, **as_another_user)
    except PermissionError:
        pytest.skip("the program is in a folder that no other user may read")
    assert (done.returncode, done.stdout) == (0, f"{ready}\n"), done.stderr
    assert judges(ready)


def test_a_folder_that_cannot_be_written_to_is_a_named_exception(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(errors.InterpreterMissing, match="EVENKEEL_GUEST_DIR to a folder that can be written to, or run `python -m evenkeel_rlvr prepare --to DIR`"):
        prepare(file / "below")
    with pytest.raises(errors.InterpreterMissing):
        Pool(1, folder=file / "below")


def test_no_folder_at_all_is_a_named_exception(monkeypatch):
    for name in ("EVENKEEL_GUEST_DIR", "EVENKEEL_GUEST_IMAGE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(errors.InterpreterMissing, match="no folder for the guest interpreter: set EVENKEEL_GUEST_DIR, XDG_CACHE_HOME or HOME"):
        prepare()


def test_an_image_that_has_it_is_used_and_one_that_has_not_is_passed_over(ready, tmp_path, monkeypatch):
    monkeypatch.setenv("EVENKEEL_GUEST_DIR", str(tmp_path / "unused"))
    monkeypatch.setenv("EVENKEEL_GUEST_IMAGE", str(ready))
    assert prepare() == ready
    with Pool(1) as pool:
        assert pool.verify(SUM, TESTS).correct
    assert not (tmp_path / "unused").exists()
    monkeypatch.setenv("EVENKEEL_GUEST_DIR", str(ready))
    monkeypatch.setenv("EVENKEEL_GUEST_IMAGE", str(tmp_path))
    assert prepare() == ready


def test_a_missing_program_or_interpreter_offline_is_a_named_exception(tmp_path, monkeypatch):
    monkeypatch.setenv("EVENKEEL_GUEST_BUILDER", str(tmp_path / "none"))
    with pytest.raises(errors.InterpreterMissing, match="is not there: install a wheel"):
        Pool(1)
    # The program alone: it would have to build the interpreter, for which there is no package index.
    alone = tmp_path / "evenkeel-guest"
    monkeypatch.delenv("EVENKEEL_GUEST_BUILDER")
    shutil.copy(_interpreter.program(), alone)
    monkeypatch.setenv("EVENKEEL_GUEST_BUILDER", str(alone))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path / "pip"))
    with pytest.raises(errors.InterpreterMissing, match="cannot be prepared"):
        prepare(tmp_path / "cache")
    alone.chmod(0o644)
    with pytest.raises(errors.InterpreterMissing, match="is not executable"):
        prepare(tmp_path / "cache")
    alone.chmod(0o755)
    alone.write_bytes(b"\x7fELF damaged")
    with pytest.raises(errors.InterpreterMissing, match="cannot be run"):
        prepare(tmp_path / "cache")


def test_the_command_prints_the_folder_and_says_what_is_missing(ready, tmp_path, capsys):
    assert main(["prepare", "--to", str(ready)]) == 0
    assert capsys.readouterr().out == f"{ready}\n"
    file = tmp_path / "file"
    file.write_text("")
    assert main(["prepare", "--to", str(file)]) == 2
    assert "EVENKEEL_GUEST_DIR" in capsys.readouterr().err
