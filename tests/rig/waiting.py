"""Waiting, always with a limit: the only sleep in the tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], within: float = 30.0, every: float = 0.02, saying: str = "") -> T:
    """Ask `condition` until it answers something true, and return that; AssertionError at the limit."""
    limit = time.monotonic() + within
    while not (answer := condition()):
        if time.monotonic() >= limit:
            raise AssertionError(f"not within {within:g} s: {saying or condition}")
        time.sleep(every)
    return answer


def in_time(measured: Callable[[], float], limit: float, tries: int = 5) -> None:
    """That something takes at most so many seconds. The machine may be busy: of its measurements one has to be good."""
    taken: list[float] = []
    while not taken or min(taken) > limit:
        assert len(taken) < tries, f"not within {limit:g} s: {taken}"
        taken.append(measured())


def in_background(work: Callable[[], T]) -> Future[T]:
    """Start it in a thread that may hang for ever; ask the future with `result(seconds)`."""
    future: Future[T] = Future()

    def body() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=body, daemon=True).start()
    return future


def still_waits(future: Future[T], for_seconds: float = 1.0) -> bool:
    """Whether the work in the background is still not over after that long."""
    try:
        future.result(for_seconds)
    except TimeoutError:
        return not future.done()
    return False


def pause(seconds: float) -> None:
    """What the product is given to wait with, where a test drives its services without a terminal and signals."""
    time.sleep(seconds)
