"""A network between two machines that loses every packet when it is told to: no answer, no refusal, no end.

A namespace, and a bridge that its cable may be pulled out of. It takes root, iproute2 and a kernel with veth.
"""

from __future__ import annotations

import random
import subprocess
from contextlib import suppress


class Network:
    """`near` runs programs in the namespace; they reach this machine at `address`."""

    def __init__(self) -> None:
        number = random.SystemRandom().randrange(1 << 16)
        self._name, net = f"cg{number:04x}", f"10.{213 + number % 40}.{number >> 8}"
        self.address, self._far = f"{net}.1", f"{net}.2"

    def __enter__(self) -> Network:
        try:
            return self._made()
        except BaseException:
            self._remove()
            raise

    def __exit__(self, *_: object) -> None:
        self._remove()

    @property
    def near(self) -> tuple[str, ...]:
        """A prefix for whatever is to run there."""
        return "ip", "netns", "exec", self._name

    def lose(self) -> None:
        """From here on every packet is lost, either way."""
        _ip("link", "set", f"{self._name}a", "nomaster")

    def restore(self) -> None:
        _ip("link", "set", f"{self._name}a", "master", self._name)

    def _made(self) -> Network:
        name = self._name
        _ip("netns", "add", name)
        _ip("link", "add", name, "type", "bridge", "forward_delay", "0")
        _ip("address", "add", f"{self.address}/24", "dev", name)
        _ip("link", "set", name, "up")
        _ip("link", "add", f"{name}a", "type", "veth", "peer", "name", f"{name}b", "netns", name)
        _ip("link", "set", f"{name}a", "master", name, "up")
        _ip("-n", name, "address", "add", f"{self._far}/24", "dev", f"{name}b")
        for device in ("lo", f"{name}b"):
            _ip("-n", name, "link", "set", device, "up")
        return self

    def _remove(self) -> None:
        for words in (("link", "del", f"{self._name}a"), ("link", "del", self._name), ("netns", "del", self._name)):
            with suppress(subprocess.CalledProcessError):
                _ip(*words)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=30)
