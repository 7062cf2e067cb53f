"""Which schema this version writes, and whether a ledger's schema lets it."""

from __future__ import annotations

from cronguard.errors import SchemaMismatch

VERSION = 8  # the newest migration this version knows, and the schema it needs

# version -> the oldest client schema that may still write there. Expand first, contract two releases
# later: only a contracting step may raise it, since clients of the version before run on for a while.
MIN_READER = {1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 1, 7: 1, 8: 1}


def check(version: int | None, min_reader: int | None, where: str) -> None:
    """Raise SchemaMismatch, saying what to type, unless this version may write to that schema."""
    if version is None or min_reader is None:
        raise SchemaMismatch(f"the ledger at {where} has no cronguard schema yet; create it with: cronguard init")
    if min_reader > VERSION:
        raise SchemaMismatch(
            f"the ledger at {where} has schema {version}, which needs a newer cronguard "
            f"(this one knows schema {VERSION}); upgrade cronguard on this host"
        )
    if version < VERSION:
        raise SchemaMismatch(
            f"the ledger at {where} has schema {version}, older than this cronguard needs ({VERSION}); "
            "upgrade it with: cronguard init"
        )
