"""Real S3 servers out of wheels: rclone checks every signature, moto knows KMS, STS and conditional writes."""

from __future__ import annotations

import shutil
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from tests.servers.process import ServerFailed, ServerProcess


class RcloneServer(ServerProcess):
    """`rclone serve s3` over a folder; a folder in it is a bucket."""

    name = "rclone"
    graceful_signal = signal.SIGTERM
    immediate_signal = signal.SIGKILL
    access_key_id = "rclone-key"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def prepare(self) -> None:
        self.data.mkdir(exist_ok=True)
        (self.directory / "rclone.conf").touch()

    def command(self) -> Sequence[str]:
        keys = f"{self.access_key_id},{self.password}"
        address = f"127.0.0.1:{self.port}"
        config = str(self.directory / "rclone.conf")
        # Almost without a cache of folders, tests may put files there themselves. With none at all rclone tidies up the
        # cache of a folder with an unfinished upload without a pause, on every core, for as long as it lives.
        options = ["--config", config, "--dir-cache-time", "1ms", "--addr", address, "--auth-key", keys]
        return [_script("rclone"), "serve", "s3", *options, str(self.data)]

    def answers(self) -> bool:
        return _answers(self.url)


class MotoServer(ServerProcess):
    name = "moto"
    graceful_signal = signal.SIGTERM
    immediate_signal = signal.SIGKILL

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        """It keeps everything in memory."""

    def command(self) -> Sequence[str]:
        # Smaller parts than AWS takes, so that tests of many parts need not send many megabytes.
        return ["env", "S3_UPLOAD_PART_MIN_SIZE=65536", _script("moto_server"), "-H", "127.0.0.1", "-p", str(self.port)]

    def answers(self) -> bool:
        return _answers(f"{self.url}/moto-api/data.json")


def _script(name: str) -> str:
    beside = Path(sys.prefix) / "bin" / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise ServerFailed(f"no {name} at {beside}; run ./test, or scripts/environment test")
    return found


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):  # noqa: S310  # our own server
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
