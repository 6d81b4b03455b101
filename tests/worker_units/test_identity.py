"""Worker identity: the pod's name for people, a UUID of this very process for the queue."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from euterpe.worker.identity import worker_id

UUID4 = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({"POD_NAME": "transcode-7", "HOSTNAME": "node"}, "transcode-7"),
        ({"HOSTNAME": "node"}, "node"),
        ({"POD_NAME": "", "HOSTNAME": "node"}, "node"),
        ({"POD_NAME": "  ", "HOSTNAME": " "}, "worker"),
        ({}, "worker"),
    ],
)
def test_the_name_comes_from_the_pod_then_the_host_then_a_word(environ: dict[str, str], name: str) -> None:
    assert re.fullmatch(f"{name}:{UUID4}", worker_id(environ))


def test_one_process_keeps_one_identity() -> None:
    assert worker_id({"POD_NAME": "a"}) == worker_id({"POD_NAME": "a"})


def test_a_restarted_process_is_another_worker() -> None:
    program = "from euterpe.worker.identity import worker_id; print(worker_id({'POD_NAME': 'pod-0'}))"
    ids = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout
        for _ in range(2)
    }
    assert len(ids) == 2


def test_a_forked_child_is_another_worker() -> None:
    program = (
        "import os\n"
        "from euterpe.worker.identity import worker_id\n"
        "mine = worker_id({})\n"
        "reader, writer = os.pipe()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    os.write(writer, worker_id({}).encode())\n"
        "    os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
        "print(mine, os.read(reader, 200).decode(), worker_id({}))\n"
    )
    env = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True, env=env)
    before, child, after = done.stdout.split()
    assert before == after
    assert child != before
