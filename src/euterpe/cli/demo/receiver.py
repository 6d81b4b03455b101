"""The demo's own webhook receiver: Python's plain HTTP server, which verifies whatever comes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from euterpe.webhooks import MemoryNonces, VerifiedEvent, WebhookVerificationError, verify


class Receiver:
    """Keeps the events that prove to be genuine, and counts the others. `on_event` is called before the answer."""

    def __init__(self, on_event: Callable[[VerifiedEvent], None] | None = None) -> None:
        self._on_event = on_event
        self.secret = ""
        self.url = ""
        self.events: list[VerifiedEvent] = []
        self.refused = 0
        self._nonces = MemoryNonces()

    def take(self, headers: list[tuple[str, str]], body: bytes) -> int:
        """The status to answer with."""
        try:
            event = verify(headers, body, self.secret, nonces=self._nonces)
        except WebhookVerificationError:
            self.refused += 1
            return 401
        self.events.append(event)
        if self._on_event is not None:
            self._on_event(event)
        return 204

    @contextmanager
    def listening(self) -> Iterator[None]:
        """On a free port of this machine, while this lasts."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{server.server_address[1]}/webhooks"
        thread = threading.Thread(target=server.serve_forever, name="demo-receiver", daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class ReceiverHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            self.send_response(receiver.take(list(self.headers.items()), body))
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """The demo tells it in its own words."""

    return ReceiverHandler
