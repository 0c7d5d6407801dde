"""What is in the image, and how large it is."""
import json, subprocess, tarfile, zlib

from stack import check, command

MOST_MB = 150
# Programs that an attacker would look for, and that a service never needs.
UNWANTED = ["sh", "bash", "busybox", "apt", "apt-get", "dpkg", "cc", "gcc", "g++", "ld", "cargo", "rustc", "python3", "perl", "curl", "wget", "su"]


def compressed_bytes(image):
    """Size of the image as a registry keeps it."""
    packer, total = zlib.compressobj(6, wbits=31), 0
    with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as saving:
        while block := saving.stdout.read(1 << 20):
            total += len(packer.compress(block))
    check(saving.returncode == 0, f"docker save {image} ended with {saving.returncode}")
    return total + len(packer.flush())


def files(image):
    container = command(["docker", "create", image]).strip()
    try:
        with subprocess.Popen(["docker", "export", container], stdout=subprocess.PIPE) as exporting:
            with tarfile.open(fileobj=exporting.stdout, mode="r|") as tar:
                return {member.name: (member.mode, member.isfile()) for member in tar}
    finally:
        command(["docker", "rm", container])


# With its tag: without one, all tags would be saved and counted.
def run(image="evenkeel:latest"):
    config = json.loads(command(["docker", "image", "inspect", image]))[0]["Config"]
    check(config["User"] == "10001:10001", f"it runs as {config['User']}")
    labels = {key.removeprefix("org.opencontainers.image."): value for key, value in config["Labels"].items()}
    check(labels["version"] == "0.1.0" and labels["licenses"] == "Apache-2.0" and labels["revision"], f"{labels}")
    hardened = ["docker", "run", "--rm", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--network", "none"]
    check("evenkeel 0.1.0" in command([*hardened, image, "--version"]), "it does not start without capabilities")

    found = files(image)
    names = {name.rsplit("/", 1)[-1] for name, (mode, is_file) in found.items() if is_file and mode & 0o111}
    check(not names & set(UNWANTED), f"it has {names & set(UNWANTED)}")
    for form in ("x86-64-v3", "x86-64-v3-counted"):
        check(any(name.endswith(f"-{form}.cwasm") for name in found), f"it lacks the interpreter ({form}), which it cannot write itself")
    privileged = [name for name, (mode, is_file) in found.items() if is_file and mode & 0o6000]
    check(not privileged, f"{privileged} run as somebody else")
    size = compressed_bytes(image) / 1e6
    check(size < MOST_MB, f"{size:.0f} MB compressed, allowed: {MOST_MB}")
    return f"{size:.1f} MB compressed, {len([name for name, (_, is_file) in found.items() if is_file])} files, user {config['User']}, revision {labels['revision'][:12]}"
