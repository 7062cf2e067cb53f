"""Where the command's output goes: on to ours unchanged and remembered in part, or held back until it has failed.

A thread for each stream takes it from a pipe and passes it on. Whoever reads
our output may be slow, stuck or gone: that holds up the command, as it would
without us, and never the loop that watches over the command.
"""

from __future__ import annotations

import fcntl
import os
import select
import tempfile
import threading
from contextlib import suppress

from cronguard.clock import boottime
from cronguard.domain.run import Captured
from cronguard.process.terminal import is_terminal
from cronguard.streams import write_patiently

SINK_LOST = "sink_lost"  # our own stdout or stderr would take no more
DRAIN_TIMEOUT = "drain_timeout"  # the rest could not be passed on in time, or somebody else still holds the pipe

_PIECE = 64 << 10  # larger reads are slower: each would be allocated anew
_PIPE = 1 << 20  # a pipe of this size passes three times as much as one of the usual size
_SET_PIPE_SIZE: int | None = getattr(fcntl, "F_SETPIPE_SZ", None)
_A_MOMENT = 0.1  # seconds for a thread to notice that it is no longer needed


class Output:
    """Where the command's output goes: on to ours, remembered in part, or held back."""

    def __init__(self, capture: int, quiet: bool, *, watched: bool = False) -> None:
        """`capture`: how many bytes to remember, 0 for none; `watched`: somebody asks for `last_at`."""
        self._memory = _Memory(capture)
        self._held_back = _HeldBack() if quiet else None
        self._pumps = _pumps(self._memory) if (capture or watched) and not quiet else {}

    @property
    def stdout(self) -> int | None:
        """The descriptor that the command gets as its 1; None: ours as it is."""
        return self._given(1)

    @property
    def stderr(self) -> int | None:
        """The descriptor that the command gets as its 2; None: ours as it is."""
        return self._given(2)

    @property
    def last_at(self) -> float:
        """Boottime of the last byte that was seen; of the start where none was, or none can be."""
        if self._held_back and self._held_back.has_grown():
            self._memory.last_at = boottime()
        return self._memory.last_at

    @property
    def pumped(self) -> bool:
        """Whether any stream comes by here while the command runs."""
        return bool(self._pumps)

    @property
    def seen(self) -> bool:
        """Whether `finish` will know anything: neither a terminal nor what is not captured comes by here."""
        return self._held_back is not None or (self.pumped and self._memory.capture > 0)

    def start(self) -> None:
        """The command's process has been forked and has its ends: ours of them are closed, and the pumps started."""
        self._memory.last_at = boottime()
        for pump in self._distinct():
            pump.start()

    def finish(self, within: float) -> Captured:
        """The tree is dead or its leader gone: take what is still under way, for at most so many seconds."""
        if self._held_back:
            return self._held_back.captured(self._memory.capture)
        until = boottime() + within
        notes = [note for pump in self._distinct() for note in pump.finish(until)]
        return self._memory.captured(notes)

    def abandon(self) -> None:
        """Nothing was started: what it has opened is closed."""
        for pump in self._distinct():
            with suppress(RuntimeError):  # its thread could not be started: then there is no want of descriptors
                pump.finish(0)

    def print_held_back(self) -> None:
        """What --quiet held back: both streams passed on, bytes unchanged."""
        if self._held_back:
            self._held_back.print()

    def _given(self, descriptor: int) -> int | None:
        if self._held_back:
            return self._held_back.files[descriptor]
        pump = self._pumps.get(descriptor)
        return pump.end if pump else None

    def _distinct(self) -> list[_Pump]:
        return list(dict.fromkeys(self._pumps.values()))


def _pumps(memory: _Memory) -> dict[int, _Pump]:
    """By the descriptor of ours that each passes on to; a terminal is handed to the command as it is."""
    sinks = [descriptor for descriptor in (1, 2) if not is_terminal(descriptor)]
    if len(sinks) == 2 and _same_file(1, 2):
        both = _Pump(1, memory)  # `>>log 2>&1`: through one pipe the order of the lines stays as it was
        return {1: both, 2: both}
    pumps: dict[int, _Pump] = {}
    try:
        for sink in sinks:
            pumps[sink] = _Pump(sink, memory)
    except OSError:
        for pump in pumps.values():
            pump.finish(0)
        raise
    return pumps


def _same_file(one: int, other: int) -> bool:
    try:
        return os.path.sameopenfile(one, other)
    except OSError:
        return False


class _Memory:
    """The first and the last bytes of both streams in the order in which they came by, and how many there were."""

    def __init__(self, capture: int) -> None:
        self.capture = capture
        self.last_at = boottime()
        self._head_room = capture // 2
        self._tail_room = capture - self._head_room
        self._head, self._tail = bytearray(), bytearray()
        self._total = 0
        self._lock = threading.Lock()

    def add(self, piece: bytes) -> None:
        with self._lock:
            self.last_at = boottime()
            self._total += len(piece)
            if room := self._head_room - len(self._head):
                self._head += piece[:room]
                piece = piece[room:]
            self._tail += piece[-self._tail_room :] if self._tail_room else b""
            if len(self._tail) > 2 * self._tail_room:  # cut now and then, not at each byte
                del self._tail[: -self._tail_room]

    def captured(self, notes: list[str]) -> Captured:
        with self._lock:
            tail = bytes(self._tail[-self._tail_room :]) if self._tail_room else b""
            return Captured(bytes(self._head), tail, self._total, tuple(dict.fromkeys(notes)))


class _Pump:
    """One stream, from the command's pipe to a descriptor of ours.

    A thread that is stuck in a write cannot be woken, so it may outlive
    `finish`. It uses the pipe under the lock only, and then only while it is
    not over: the pipe's number may belong to somebody else by then.
    """

    def __init__(self, sink: int, memory: _Memory) -> None:
        self._source, self.end = os.pipe()
        try:
            self._over_told, self._tell_over = os.pipe()
        except OSError:
            os.close(self._source)
            os.close(self.end)
            raise
        os.set_blocking(self._source, False)  # our end of our own pipe: nobody else has this open file
        _enlarge(self._source)
        self._sink, self._memory = sink, memory
        self._lock = threading.Lock()
        self._over = False
        self._lost = False
        self._notes: list[str] = []
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)

    def start(self) -> None:
        os.close(self.end)
        self.end = -1
        self._thread.start()

    def finish(self, until: float) -> list[str]:
        """Wait for the end of the stream, then close; the notes on it."""
        if self._over:
            return self._notes
        in_time = self._wait(until)
        with self._lock:
            self._over = True
            if not in_time:
                self._take_the_rest()
            os.close(self._source)
        os.close(self._tell_over)
        if self._thread.is_alive():
            self._thread.join(_A_MOMENT)
        self._notes = [SINK_LOST] * self._lost + [DRAIN_TIMEOUT] * (not in_time)
        return self._notes

    def _wait(self, until: float) -> bool:
        if self.end >= 0:  # it was never started
            os.close(self.end)
            os.close(self._over_told)
            return True
        self._thread.join(max(0.0, until - boottime()))
        return not self._thread.is_alive()

    def _take_the_rest(self) -> None:
        """What the command has said is remembered, although nobody takes it from us: it is the end that tells why."""
        with suppress(BlockingIOError):
            for _ in range(_PIPE // _PIECE):
                if not (piece := os.read(self._source, _PIECE)):
                    break
                self._memory.add(piece)

    # ----------------------------------------------------------------------- in the thread

    def _run(self) -> None:
        arriving = _poll((self._source, select.POLLIN), (self._over_told, select.POLLIN))
        leaving = _poll((self._sink, select.POLLOUT), (self._over_told, select.POLLIN))
        while piece := self._next(arriving):
            self._pass_on(piece, leaving)
        os.close(self._over_told)

    def _next(self, arriving: select.poll) -> bytes:
        """The next piece, remembered; nothing at the end of the stream, or once it is over."""
        while True:
            with self._lock, suppress(BlockingIOError):
                if piece := b"" if self._over else os.read(self._source, _PIECE):
                    self._memory.add(piece)
                return piece
            arriving.poll()

    def _pass_on(self, piece: bytes, leaving: select.poll) -> None:
        rest = memoryview(piece)
        while rest and not self._lost:
            try:
                rest = rest[os.write(self._sink, rest) :]
            except BlockingIOError:  # somebody made it non-blocking, which all its users share: we leave it so
                leaving.poll()
                if self._over:
                    return
            except OSError:  # its reader is gone, its disk full: that is no reason to disturb the command
                self._lost = True


def _poll(*watched: tuple[int, int]) -> select.poll:
    poll = select.poll()
    for descriptor, events in watched:
        poll.register(descriptor, events)
    return poll


def _enlarge(pipe: int) -> None:
    if _SET_PIPE_SIZE is not None:
        with suppress(OSError):  # each user has a limit of such pages
            fcntl.fcntl(pipe, _SET_PIPE_SIZE, _PIPE)


class _HeldBack:
    """--quiet: two files without a name, one for each stream; they vanish with the process, however it ends."""

    def __init__(self) -> None:
        self.files = {1: _unnamed_file(), 2: _unnamed_file()}  # by the descriptor that each stands for
        self._seen = 0

    def has_grown(self) -> bool:
        """Since the last time that it was asked."""
        before, self._seen = self._seen, sum(map(_size, self.files.values()))
        return self._seen > before

    def captured(self, capture: int) -> Captured:
        """Both streams, one after the other: which byte came first is not known any more."""
        total = sum(map(_size, self.files.values()))
        first = min(capture // 2, total)
        last = min(capture - capture // 2, total - first)
        return Captured(self._bytes(0, first), self._bytes(total - last, last), total)

    def _bytes(self, start: int, length: int) -> bytes:
        found = b""
        for file in self.files.values():
            size = _size(file)
            if start < size and len(found) < length:
                found += os.pread(file, length - len(found), start)
            start = max(0, start - size)
        return found

    def print(self) -> None:
        for target, file in self.files.items():
            _copy(file, target)

    def __del__(self) -> None:
        for file in self.files.values():
            os.close(file)


def _size(file: int) -> int:
    return os.fstat(file).st_size


def _unnamed_file() -> int:
    """Appended to, so that a command that opens its /dev/stderr anew overwrites nothing of what it said."""
    try:
        with tempfile.TemporaryFile(buffering=0) as file:
            descriptor = os.dup(file.fileno())
    except OSError:  # a read-only container without a /tmp
        descriptor = os.memfd_create("cronguard-output")
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_APPEND)
    return descriptor


def _copy(file: int, target: int) -> None:
    """Read by position: a process that was left running may still be writing at the end of it."""
    done, size = 0, _size(file)
    while done < size and (piece := os.pread(file, min(_PIECE, size - done), done)):
        if not write_patiently(target, piece):  # there is nobody to tell
            return
        done += len(piece)
