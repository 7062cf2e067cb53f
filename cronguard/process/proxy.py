"""A way to a server that can be cut: what is said to it goes on to the server, byte by byte, until somebody cuts it."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path

from cronguard.ports import Way

_CHUNK = 65536
_LOCALHOST = "127.0.0.1"


class Proxy:
    """Listens for one replica, in the way that the server itself is reached, and forwards."""

    def __init__(self, server: Way, folder: Path) -> None:
        self._server = server
        self.way = Way(str(folder), server.port) if server.is_local else Way(_LOCALHOST, 0)
        self._lock = threading.Lock()
        self._links: set[socket.socket] = set()
        self._is_cut = False
        self._listener = socket.socket(_family(self.way))
        self._listener.bind(_place(self.way))
        self._listener.listen()
        if not server.is_local:
            self.way = Way(_LOCALHOST, self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Close every connection, and each that comes: until `restore`."""
        with self._lock:
            self._is_cut = True
            for link in self._links:
                _shut(link)

    def restore(self) -> None:
        with self._lock:
            self._is_cut = False

    def close(self) -> None:
        self.cut()
        _shut(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._link, args=(client,), daemon=True).start()

    def _link(self, client: socket.socket) -> None:
        """One connection of the client's, and the one that is made for it; the other direction has another thread."""
        server = socket.socket(_family(self._server))
        with client, server, suppress(OSError):
            if not self._is_let_through(client, server):
                return
            server.connect(_place(self._server))
            back = threading.Thread(target=_pump, args=(server, client), daemon=True)
            back.start()
            _pump(client, server)
            back.join()
        with self._lock:
            self._links -= {client, server}

    def _is_let_through(self, *links: socket.socket) -> bool:
        with self._lock:
            self._links |= set() if self._is_cut else {*links}
            return not self._is_cut


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Until one side ends; then the other side is told."""
    with suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)
    _shut(source)
    _shut(target)


def _family(way: Way) -> socket.AddressFamily:
    if way.is_local:
        return socket.AF_UNIX
    return socket.AF_INET6 if ":" in way.host else socket.AF_INET


def _place(way: Way) -> str | tuple[str, int]:
    """As Postgres names its sockets."""
    return f"{way.host}/.s.PGSQL.{way.port}" if way.is_local else (way.host, way.port)


def _shut(link: socket.socket) -> None:
    with suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)
