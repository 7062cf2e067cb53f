"""For jobs in Python: the run that this process is inside of, and what it does to the outside.

    from cronguard import current_run

    run = current_run()
    for who in run.claim("reminder", customers(run.period)):
        send(who)
        run.confirm("reminder", [who])

    with run.effect("payment", "4711") as effect:
        if effect.claimed:
            pay(4711, idempotency_key=effect.token)

The ledger is found as every `cronguard` finds it: by the variables that
`cronguard run` has left as they were, and by the configuration.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from uuid import uuid4

from cronguard.domain.effect import SEND_WITHIN, Said, Sender, parse_effect_period, parse_kind, parse_subject
from cronguard.domain.progress import Inside, parse_note, parse_progress
from cronguard.errors import BadInput, RunLost
from cronguard.ports import EffectStore
from cronguard.services.effects import Effects, Tally
from cronguard.services.ledger import Ledger
from cronguard.settings import Settings, gather
from cronguard.settings.inside import inside_of
from cronguard.settings.place import dsn_of, local_ledger
from cronguard.stores import open_effects
from cronguard.stores.dsn import local_address, parse_dsn

AT_ONCE = 1000  # subjects that one transaction takes, unless `claim` is told otherwise


def current_run() -> CurrentRun:
    """The run that this process is inside of; raises BadInput outside of any."""
    settings = gather({})
    return CurrentRun(inside_of(settings, "current_run"), _store(settings), settings["db_wait"].total_seconds())


@dataclass(slots=True)
class Claim:
    """One effect, as `CurrentRun.effect` gives it: to be done where it is `claimed`, and nowhere else."""

    kind: str
    subject: str
    claimed: bool
    token: str | None = None  # for an idempotent provider: the same on each try
    note: str | None = None  # to be kept with it, such as the provider's own number
    released: bool = False

    def release(self) -> None:
        """It was certainly not done, and may be tried again."""
        self.released = True


class CurrentRun:
    """A run, seen from inside. What changes the ledger raises RunLost once the run is over or another host has it."""

    def __init__(self, inside: Inside, store: EffectStore, db_wait: float) -> None:
        self._inside = inside
        self._ledger = Ledger(store, db_wait, time.sleep)
        self._effects = Effects(store, db_wait, time.sleep)

    @property
    def key(self) -> str:
        return self._inside.key

    @property
    def period(self) -> str:
        return self._inside.period

    @property
    def token(self) -> int:
        return self._inside.token

    def beat(self, progress: str | None = None, note: str | None = None) -> None:
        """It gets on: `3/10`, `40%` or `3`, and a line; as `cronguard beat`."""
        said = (
            parse_progress(progress) if progress is not None else None,
            parse_note(note) if note is not None else None,
        )
        if not self._ledger.progress(self._inside, *said):
            raise self._lost()

    @contextmanager
    def effect(
        self,
        kind: str,
        subject: str,
        *,
        period: str | None = None,
        send_within: timedelta = SEND_WITHIN,
        provider_idempotent: bool = False,
    ) -> Iterator[Claim]:
        """Claimed on entering, sent on leaving. Left by an exception, nobody knows: it becomes unknown."""
        sender = self._sender(kind, period, send_within, provider_idempotent)
        token = self._won(sender, [subject]).get(subject)
        effect = Claim(sender.kind, subject, token is not None, token)
        try:
            yield effect
        finally:
            if effect.claimed and effect.released:
                self._effects.release(sender.kind, sender.period, [subject], self._inside, sender.claim_id)
        if effect.claimed and not effect.released:
            self._effects.confirm(sender.kind, sender.period, [subject], effect.note)

    def claim(
        self,
        kind: str,
        subjects: Iterable[str],
        *,
        period: str | None = None,
        send_within: timedelta = SEND_WITHIN,
        provider_idempotent: bool = False,
        at_once: int = AT_ONCE,
    ) -> Iterator[str]:
        """Those of the subjects that are this run's to be done, each to be confirmed, or released, when it is.

        Claimed `at_once` many at a time, as they are asked for: what is claimed and not done when this process
        dies becomes unknown.
        """
        batches = _batches(subjects, at_once)
        terms = self._sender(kind, period, send_within, provider_idempotent)
        return (who for batch in batches for who in self._won(replace(terms, claim_id=str(uuid4())), batch))

    def confirm(
        self, kind: str, subjects: Iterable[str], *, period: str | None = None, note: str | None = None
    ) -> None:
        """They were done; raises BadInput where some were never claimed, once the others are written.

        Each call connects to the ledger anew: where many are done at once, let one call say so.
        """
        of, told = (parse_kind(kind), self._period(period)), Tally()
        for batch in _batches(subjects):
            told.take(self._effects.confirm(*of, batch, note))
        _refuse(told)

    def release(self, kind: str, subjects: Iterable[str], *, period: str | None = None) -> None:
        """They were certainly not done; raises BadInput where some were sent, or are not this run's, likewise."""
        of, told = (parse_kind(kind), self._period(period)), Tally()
        for batch in _batches(subjects):
            told.take(self._effects.release(*of, batch, self._inside))
        _refuse(told)

    def _sender(self, kind: str, period: str | None, send_within: timedelta, idempotent: bool) -> Sender:
        if send_within <= timedelta():
            raise BadInput(f"send_within is {send_within}: all would be abandoned at once; give it some time")
        return Sender(parse_kind(kind), self._period(period), str(uuid4()), send_within, idempotent, self._inside)

    def _period(self, period: str | None) -> str:
        return self.period if period is None else parse_effect_period(period)

    def _won(self, sender: Sender, subjects: Sequence[str]) -> dict[str, str]:
        won = self._effects.claim(sender, [parse_subject(subject) for subject in subjects])
        if won is None:
            raise self._lost()
        return won

    def _lost(self) -> RunLost:
        return RunLost(f"{self.key} {self.period}: no live run under token {self.token}: it is over, or lost")


def _batches(subjects: Iterable[str], at_once: int = AT_ONCE) -> Iterator[list[str]]:
    """Never more of them at once; refused where it is called, not where the first is asked for."""
    if isinstance(subjects, str):
        raise BadInput(f"the subjects are one str, {subjects!a}, and each letter would be one; give a list of them")
    if at_once < 1:
        raise BadInput(f"at_once is {at_once}, and nothing would ever be claimed; give it 1 or more")
    waiting = iter(subjects)
    return iter(lambda: list(islice(waiting, at_once)), [])


def _refuse(told: Tally) -> None:
    for said in (Said.NOT_CLAIMED, Said.NOT_YOURS, Said.WAS_SENT):
        if told.counts[said]:
            raise BadInput(f"{told.counts[said]} of {told.counts.total()}: {said}, the first {told.first[said]!a}")


def _store(settings: Settings) -> EffectStore:
    """A ledger that is not there is not made: the run is in no other."""
    dsn, _ = dsn_of(settings)
    address = parse_dsn(dsn) if dsn is not None else local_address(local_ledger(settings))
    return open_effects(address, create=False, durable=settings["durable"])
