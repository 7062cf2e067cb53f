"""What a drill asks of every store besides: to remove what it has written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cronguard.ports import Page, Store
from cronguard.stores import open_drilled
from cronguard.stores.dsn import Address
from tests.rig.firings import MakeStore, claim, granted
from tests.rig.waiting import in_background, still_waits


class Slow:
    """A store whose first claim of a key has been written, and is not committed before it is told to."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.has_written, self.may_commit = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextmanager
    def page(self, key: str, period: str) -> Iterator[Page]:
        with self._store.page(key, period) as page:
            yield page
            self.has_written.set()
            assert self.may_commit.wait(30)


def test_key_is_erased_with_the_claim_whose_commit_is_on_its_way(address: Address, make_store: MakeStore) -> None:
    """Of a key that the ledger has never seen there is no row to wait for yet."""
    slow, drilled = Slow(make_store()), open_drilled(address)
    claimed = in_background(lambda: claim(slow, key="drill-1"))  # type: ignore[arg-type]
    assert slow.has_written.wait(30)
    erased = in_background(lambda: drilled.erase("drill-1"))
    assert still_waits(erased)
    slow.may_commit.set()
    granted(claimed.result(30))
    erased.result(30)
    assert (drilled.jobs(), drilled.history("drill-1", 9)) == ([], [])
