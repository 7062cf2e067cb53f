"""How often the tests that need luck are repeated: few times in the suite, often in a soak (CRONGUARD_TEST_ROUNDS)."""

from __future__ import annotations

import random

from tests.rig import WISHES


def rounds(by_default: int) -> int:
    """So many, unless CRONGUARD_TEST_ROUNDS says how many."""
    return int(WISHES.get("CRONGUARD_TEST_ROUNDS", by_default))


def seeded() -> random.Random:
    """Random, and printed, so that a failure can be had again: CRONGUARD_TEST_SEED."""
    seed = int(WISHES.get("CRONGUARD_TEST_SEED", random.SystemRandom().randrange(10**9)))
    print(f"CRONGUARD_TEST_SEED={seed}")
    return random.Random(seed)
