"""What `evenkeel export` writes, read by the hub's own library and held against the configuration that PEFT declares. No network: the base is
a model of a cache."""

import ast
import importlib.util
import json
import os
import pathlib
import subprocess

import pytest

hub = pytest.importorskip("huggingface_hub")
yaml = pytest.importorskip("yaml")

BASE = "tiny-models/sums"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
FEW = (
    "run.steps=1 warm_start.steps=0 evaluation.problems=0 data.kind=arithmetic sampling.prompts_per_step=2 sampling.group_size=4 "
    "sampling.max_tokens=16"
).split()
# Of https://huggingface.co/docs/hub/model-cards: what the hub shows a library's code for.
LIBRARIES = {"model": "transformers", "adapter": "peft"}


def peft_declares():
    """The keys of LoRA's configuration in PEFT, by its source: the package asks for torch when it is imported."""
    spec = importlib.util.find_spec("peft")
    if spec is None or spec.origin is None:
        pytest.skip("peft is not installed")
    folder = pathlib.Path(spec.origin).parent
    classes = {"PeftConfigMixin": "config.py", "PeftConfig": "config.py", "LoraConfig": "tuners/lora/config.py"}
    keys = set()
    for name, file in classes.items():
        tree = ast.parse((folder / file).read_text())
        declared = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name]
        assert len(declared) == 1, f"PEFT has no class {name} in {file}"
        keys |= {node.target.id for node in declared[0].body if isinstance(node, ast.AnnAssign)}
    return keys


def card_faults(text, kind):
    """What the hub would refuse, or not understand, in the metadata of a card."""
    try:
        data = hub.ModelCard(text).data
    except (ValueError, TypeError, yaml.YAMLError) as error:
        return [str(error)]
    faults = []
    if data.library_name != LIBRARIES[kind]:
        faults.append(f"library_name is {data.library_name!r}")
    if data.pipeline_tag != "text-generation":
        faults.append(f"pipeline_tag is {data.pipeline_tag!r}")
    if not data.tags or not all(isinstance(tag, str) for tag in data.tags):
        faults.append(f"tags are {data.tags!r}")
    return faults + (name_faults("base_model", data.base_model) if data.base_model is not None else [])


def name_faults(field, name):
    try:
        hub.utils.validate_repo_id(name)
    except hub.errors.HFValidationError as error:
        return [f"{field}: {error}"]
    return [] if name.count("/") == 1 else [f"{field} is {name!r}, which has no owner"]


def adapter_faults(config, keys):
    """What PEFT does not know in an adapter's configuration, and a base that no other machine has."""
    faults = [f"PEFT knows no `{key}`" for key in sorted(set(config) - keys)]
    faults += [f"PEFT needs `{key}`" for key in ("peft_type", "r", "target_modules") if not config.get(key)]
    base = config.get("base_model_name_or_path")
    return faults + (name_faults("base_model_name_or_path", base) if base is not None else [])


@pytest.fixture(scope="module")
def evenkeel(tmp_path_factory):
    """Runs the program, with the hub out of reach and one model in its cache; returns what it wrote to stderr."""
    program = os.environ.get("EVENKEEL_PROGRAM")
    if not program:
        pytest.skip("EVENKEEL_PROGRAM is not set")
    folder = tmp_path_factory.mktemp("exports")
    cache = folder / "hub" / f"models--{BASE.replace('/', '--')}"
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(folder / "hub")}

    def run(*words):
        done = subprocess.run([program, *map(str, words)], cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stderr

    (cache / "refs").mkdir(parents=True)
    (cache / "refs/main").write_text(COMMIT)
    snapshot = cache / "snapshots" / COMMIT
    snapshot.parent.mkdir()
    run("model", "--recipe", "arithmetic", "--out", snapshot)
    # Every repository has one: with it the cache is known to have all files.
    (snapshot / ".gitattributes").touch()
    run.folder = folder
    return run


def exported(evenkeel, kind, base):
    """The folder of a model or an adapter that was trained for a step."""
    run, to = (evenkeel.folder / f"{kind}-{name}-{'hub' if base.startswith('hf:') else 'local'}" for name in ("run", "export"))
    settings = [*FEW, f"model.path={base}", *(["learner.lora.rank=4"] if kind == "adapter" else [])]
    evenkeel("train", "arithmetic", "--out", run, *(word for setting in settings for word in ("--set", setting)))
    evenkeel("export", run, "--to", to)
    return to


@pytest.mark.parametrize("kind", LIBRARIES)
def test_the_hub_reads_the_card_of_an_export_and_finds_its_base(evenkeel, kind):
    folder = exported(evenkeel, kind, f"hf:{BASE}")
    text = (folder / "README.md").read_text()
    assert card_faults(text, kind) == []
    assert hub.ModelCard.load(folder / "README.md").data.base_model == BASE
    assert str(evenkeel.folder) not in text
    if kind == "adapter":
        config = json.loads((folder / "adapter_config.json").read_text())
        assert adapter_faults(config, peft_declares()) == []
        assert (config["base_model_name_or_path"], config["revision"]) == (BASE, COMMIT)


@pytest.mark.parametrize("kind", LIBRARIES)
def test_an_export_over_a_folder_names_no_path_of_this_machine(evenkeel, kind):
    model = evenkeel.folder / "local-model"
    if not model.exists():
        evenkeel("model", "--recipe", "arithmetic", "--out", model)
    folder = exported(evenkeel, kind, str(model))
    text = (folder / "README.md").read_text()
    assert card_faults(text, kind) == []
    assert hub.ModelCard(text).data.base_model is None
    files = [text]
    if kind == "adapter":
        files.append((folder / "adapter_config.json").read_text())
        assert adapter_faults(json.loads(files[1]), peft_declares()) == []
    assert [file for file in files if str(evenkeel.folder) in file] == []


def test_cards_and_configurations_with_a_fault_are_refused():
    card = "---\nlibrary_name: peft\npipeline_tag: text-generation\nbase_model: a/b\ntags:\n- lora\n---\n\n# x\n"
    assert card_faults(card, "adapter") == []
    for right, wrong in [
        ("a/b", "/home/someone/models/b"),
        ("a/b", "b"),
        ("a/b", f"a/b@{COMMIT}"),
        ("peft", "transformers"),
        ("tags:\n- lora", "tags: 3"),
        ("base_model: a/b", "base_model: [a"),
        ("text-generation", "text"),
    ]:
        assert card_faults(card.replace(right, wrong), "adapter"), wrong
    keys = {"peft_type", "r", "target_modules", "base_model_name_or_path"}
    config = {"peft_type": "LORA", "r": 4, "target_modules": ["q_proj"], "base_model_name_or_path": "a/b"}
    assert adapter_faults(config, keys) == []
    for change in [{"rank": 4}, {"r": None}, {"base_model_name_or_path": "/models/b"}, {"base_model_name_or_path": ""}]:
        assert adapter_faults({**config, **change}, keys), change
