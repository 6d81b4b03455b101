"""A webhook receiver on Python's own http.server: verifies everything, prints one JSON line per event.

    EUTERPE_WEBHOOK_SECRET=whsec_... PORT=9000 python examples/receiver.py

While a secret is being rotated, give both: EUTERPE_WEBHOOK_SECRET="whsec_new whsec_old".
"""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from euterpe.webhooks import MemoryNonces, NonceStoreFull, WebhookVerificationError, verify

MAX_BODY_BYTES = 20 * 1024 * 1024
SECRETS = os.environ.get("EUTERPE_WEBHOOK_SECRET", "").split()
NONCES = MemoryNonces()


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_POST(self) -> None:
        length = self.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            self.answer(413)
            return
        body = self.rfile.read(int(length))
        try:
            event = verify(self.headers.items(), body, SECRETS, nonces=NONCES)
        except NonceStoreFull:
            self.answer(503)
        except WebhookVerificationError as error:
            print(json.dumps({"refused": type(error).__name__}), file=sys.stderr, flush=True)
            self.answer(401)
        else:
            # The same event may come again (a lost answer, a crash): process each event_id once.
            known = {name: event.payload.get(name) for name in ("type", "sequence")}
            print(json.dumps({"event_id": event.event_id, **known}), flush=True)
            self.answer(204)

    def answer(self, status: int) -> None:
        self.send_response(status)
        if status != 204:
            self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Quiet: the JSON lines are the log."""


def main() -> None:
    if not SECRETS:
        sys.exit("EUTERPE_WEBHOOK_SECRET is not set")
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "9000"))), Receiver)
    print(json.dumps({"listening": server.server_address[1]}), flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
