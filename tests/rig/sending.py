"""Effects for tests that talk to the services themselves."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta

from cronguard.domain.claim import Granted
from cronguard.domain.effect import SEND_WITHIN, Sender
from cronguard.domain.progress import Inside
from cronguard.ports import EffectStore
from cronguard.services.effects import Effects
from tests.rig.firings import PATIENT
from tests.rig.waiting import pause

KIND, PERIOD = "mail", "2026-11-30"


def effects_on(store: EffectStore, db_wait: float = PATIENT) -> Effects:
    return Effects(store, db_wait, pause)


def inside(held: Granted) -> Inside:
    return Inside(held.run.key, held.run.period, held.run.token, held.lease.holder.id)


def sender(
    held: Granted | None = None, within: timedelta = SEND_WITHIN, kind: str = KIND, *, idempotent: bool = False
) -> Sender:
    """A call of its own each time, from inside this run or outside of any."""
    return Sender(kind, PERIOD, str(uuid.uuid4()), within, idempotent, inside(held) if held else None)


def won(store: EffectStore, *subjects: str, by: Sender | None = None) -> list[str] | None:
    """Claim, as one call of a command would."""
    answer = effects_on(store).claim(by or sender(), subjects)
    return None if answer is None else list(answer)


def states(store: EffectStore, kind: str = KIND) -> dict[str, str]:
    """The stored state by subject; nothing is marked by looking."""
    return {effect.subject: str(effect.state) for effect in store.list_effects(kind, None, None, 10_000).effects}


MakeEffects = Callable[[], EffectStore]
