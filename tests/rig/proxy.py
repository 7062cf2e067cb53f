"""A network that can be disturbed: a TCP proxy before a server on 127.0.0.1."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from tests.rig.den import free_port

Then = Literal["close", "cut", "silence"]


class Proxy:
    """Forwards TCP to 127.0.0.1:`server_port` from its own `port`, and does it badly when told to."""

    def __init__(self, server_port: int) -> None:
        self.server_port, self.port = server_port, free_port()
        self.connections = 0  # accepted so far
        self.round_trips = 0  # times the client spoke and was answered, those of the login included
        self.dropped = 0  # replies swallowed by drop_reply_to
        self.changed = threading.Condition()  # guards everything here; told of every change of it
        self.links: set[_Link] = set()
        self._listener: socket.socket | None = None
        self.restore()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()

    def restore(self) -> None:
        """Work well from now on; what is in the black hole goes on its way, late, as TCP would have it."""
        with self.change():
            self.holds_old = self.holds_new = False
            self.delay_for = 0.0
            self.lost: tuple[bytes, Then] | None = None
            if self._listener is None:
                self._listener = socket.create_server(("127.0.0.1", self.port), backlog=512)
                threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def cut(self) -> None:
        """Close all connections, and refuse new ones."""
        with self.change():
            if self._listener:
                _shut(self._listener)  # refuses from here on, and wakes the thread that will close it
            self._listener = None
            for link in list(self.links):
                link.close()

    def black_hole(self, *, only_new: bool = False) -> None:
        """Accept bytes and connections and forward nothing, either way; `only_new` spares the connections there are."""
        with self.change():
            self.holds_new, self.holds_old = True, not only_new

    def delay(self, seconds: float) -> None:
        """Let each flush of the client take that much longer, from now on."""
        with self.change():
            self.delay_for = seconds

    def drop_reply_to(self, words: bytes, then: Then = "close") -> None:
        """Once: let the server do the message that contains `words` to its end, but never let the client hear of it.

        Then that connection is closed, or the whole proxy is `cut`, or the client is left waiting in `silence`. The
        server must be Postgres itself: it is sent an end of stream, which a pooler would take as a cancel.
        """
        with self.change():
            self.lost = (words, then)

    @contextmanager
    def change(self) -> Iterator[None]:
        """Change something here, alone, and let everybody who waits look again."""
        with self.changed:
            yield
            self.changed.notify_all()

    def _accept(self, listener: socket.socket) -> None:
        with listener, contextlib.suppress(OSError):  # shut by cut
            while True:
                client, _ = listener.accept()
                with self.change():
                    self.connections += 1
                    link = _Link(self, client)
                    self.links.add(link)
                    if listener is not self._listener:  # cut since it was accepted
                        link.close()


class _Link:
    """One client's connection and the one made for it to the server, with a thread for each direction."""

    def __init__(self, proxy: Proxy, client: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, socket.socket()
        for side in (self._client, self._server):
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._established = self._closed = False
        self._asked = False  # the client spoke last
        self._swallow: Then | None = None  # the reply under way is to be lost
        self._searched: tuple[tuple[bytes, Then] | None, bytes] = (None, b"")  # what for, and the last bytes seen
        self._threads = 1
        threading.Thread(target=self._run, args=(self._to_server,), daemon=True).start()

    def close(self) -> None:
        """End both connections; the last thread closes the sockets, for a number in use must not be given away."""
        self._closed = True
        _shut(self._client)
        _shut(self._server)
        if not self._threads:
            self._client.close()
            self._server.close()
            self._proxy.links.discard(self)

    def _run(self, direction: Callable[[], None]) -> None:
        try:
            direction()
        except OSError:  # one side is gone, or both
            self._end("close")
        with self._proxy.change():
            self._threads -= 1
            if self._closed:
                self.close()

    def _to_server(self) -> None:
        self._hold()
        self._server.connect(("127.0.0.1", self._proxy.server_port))
        self._established, self._threads = True, 2
        threading.Thread(target=self._run, args=(self._to_client,), daemon=True).start()
        while data := _receive(self._client):
            self._hold(self._proxy.delay_for)
            self._look_at(data)
            self._server.sendall(data)
            if self._swallow:
                break
        self._hold()
        self._server.shutdown(socket.SHUT_WR)

    def _to_client(self) -> None:
        while data := _receive(self._server):
            self._hold()
            if self._swallow:
                continue
            self._answered()
            self._client.sendall(data)
        self._hold()
        self._end(self._swallow or "close")

    def _hold(self, seconds: float = 0.0) -> None:
        """Wait in the black hole, if there is one, and as long as the way is; OSError when it was closed meanwhile."""
        with self._proxy.changed:
            if seconds:
                self._proxy.changed.wait_for(lambda: self._closed, seconds)
            self._proxy.changed.wait_for(lambda: self._closed or not self._held())
            if self._closed:
                raise ConnectionAbortedError

    def _held(self) -> bool:
        return self._proxy.holds_old if self._established else self._proxy.holds_new

    def _look_at(self, data: bytes) -> None:
        with self._proxy.change():
            self._asked = True
            lost, (sought, seen) = self._proxy.lost, self._searched
            # Words may come in two pieces; but what was said before they were asked for does not count.
            seen = (seen if sought is lost else b"") + data.lower()
            self._searched = (lost, seen[-1000:])
            if lost and lost[0].lower() in seen:
                self._swallow, self._proxy.lost = lost[1], None

    def _answered(self) -> None:
        with self._proxy.change():
            self._proxy.round_trips += self._asked
            self._asked = False

    def _end(self, how: Then) -> None:
        with self._proxy.change():
            self._proxy.dropped += self._swallow is not None
            if how == "close":
                self.close()
            elif how == "cut":
                self._proxy.cut()


def _receive(one: socket.socket) -> bytes:
    try:
        return one.recv(65536)
    except OSError:  # a reset is an end, and the black hole holds it back like any other
        return b""


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
