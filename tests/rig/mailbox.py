"""A real SMTP server that counts what it takes: who got how many e-mails of which subject."""

from __future__ import annotations

import threading
from collections import Counter
from email import message_from_bytes
from typing import Any

from aiosmtpd.controller import Controller

from tests.rig.den import free_port


class Mailbox:
    """Serves in a thread while it is entered. An e-mail is counted before its sender is answered, as it may be read."""

    def __init__(self) -> None:
        self._taken: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        self._controller = Controller(self, hostname="127.0.0.1", port=free_port(), ready_timeout=30)

    def __enter__(self) -> Mailbox:
        self._controller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._controller.stop()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._controller.port}"

    def taken(self, subject: str) -> Counter[str]:
        """How many e-mails with this subject each recipient got."""
        with self._lock:
            return Counter({who: count for (about, who), count in self._taken.items() if about == subject})

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:
        """Called by aiosmtpd when an e-mail is complete."""
        subject = str(message_from_bytes(envelope.content)["subject"])
        with self._lock:
            self._taken.update((subject, who) for who in envelope.rcpt_tos)
        return "250 OK"
