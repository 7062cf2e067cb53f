"""The number of the lock that --lock advisory keeps: the same on every host, and in every version."""

from __future__ import annotations

import hashlib

_SPACE = "cronguard:v1:"


def lock_number(key: str, lane: str) -> int:
    """The first 8 bytes, big-endian and signed, of SHA-256 over `cronguard:v1:`, the key, a NUL and the lane.

    64 bits: among a million keys two would share a number once in 40 million fleets. Never change it: hosts of
    two versions would each have a lock of their own.
    """
    digest = hashlib.sha256(f"{_SPACE}{key}\0{lane}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
