"""Effects: claim before it is done, say afterwards how it went; by the batch, and asked for with patience."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from cronguard.clock import boottime
from cronguard.domain import effect as rules
from cronguard.domain.effect import Effect, EffectState, Listing, Said, Sender
from cronguard.domain.progress import Inside
from cronguard.errors import LedgerUnavailable
from cronguard.ports import EffectPage, EffectStore
from cronguard.services.patience import patiently

_Told = TypeVar("_Told")

AT_ONCE = 10_000  # effects that one transaction marks as told of


@dataclass(slots=True)
class Tally:
    """What became of a number of words, with the first subject of each kind of answer."""

    counts: Counter[Said] = field(default_factory=Counter)
    first: dict[Said, str] = field(default_factory=dict)

    def add(self, said: Said, subject: str) -> None:
        self.counts[said] += 1
        self.first.setdefault(said, subject)

    def take(self, other: Tally) -> None:
        self.counts.update(other.counts)
        self.first = other.first | self.first


class Effects:
    """The effects of one ledger, which is asked until it answers, for `db_wait` seconds."""

    def __init__(
        self,
        store: EffectStore,
        db_wait: float,
        pause: Callable[[float], None],
        on_failure: Callable[[LedgerUnavailable], None] = lambda _failure: None,
    ) -> None:
        self._store = store
        self._db_wait = db_wait
        self._pause = pause
        self._on_failure = on_failure

    def claim(self, sender: Sender, subjects: Sequence[str]) -> dict[str, str] | None:
        """Those that are this sender's to be done now, with the token of each; None when its run is not live.

        One transaction, of as many round trips for a million subjects as for one.
        """

        def decide(page: EffectPage) -> dict[str, str] | None:
            return _claimed(page, sender, list(dict.fromkeys(subjects))) if page.is_live else None

        return self._write(decide, sender.inside)

    def confirm(self, kind: str, period: str, subjects: Sequence[str], note: str | None = None) -> Tally:
        """They were done."""
        return self._say(kind, period, subjects, lambda effect, now: rules.confirm(effect, note, now))

    def release(
        self, kind: str, period: str, subjects: Sequence[str], inside: Inside | None, claim_id: str | None = None
    ) -> Tally:
        """They were certainly not done, and may be claimed again."""
        return self._say(kind, period, subjects, lambda effect, now: rules.release(effect, claim_id, inside, now))

    def resolve(self, kind: str, period: str, subjects: Sequence[str], *, sent: bool, by: str, reason: str) -> Tally:
        """A person has looked."""
        return self._say(kind, period, subjects, lambda effect, now: rules.resolve(effect, sent, by, reason, now))

    def report_abandoned(self, limit: int = AT_ONCE) -> Sequence[Effect]:
        """For a supervisor: those that are unknown and were never told of, each to one caller only, whoever asks."""
        return self._write(lambda page: reported(page, limit))

    def listed(self, kind: str | None, period: str | None, state: EffectState | None, limit: int) -> Listing:
        """As they are seen now. A look, which takes no right to write."""
        found = self._ask(lambda: self._store.list_effects(kind, period, state, limit))
        return replace(found, effects=tuple(rules.as_seen(effect, found.now) for effect in found.effects))

    def knows(self, kind: str) -> bool:
        return self._ask(lambda: self._store.has_kind(kind))

    # ----------------------------------------------------------------------- how it is asked

    def _say(
        self,
        kind: str,
        period: str,
        subjects: Sequence[str],
        decision: Callable[[Effect, datetime], tuple[Said, Effect]],
    ) -> Tally:
        wanted = list(dict.fromkeys(subjects))
        return self._write(lambda page: _said(page, wanted, page.find(kind, period, wanted), decision))

    def _write(self, decide: Callable[[EffectPage], _Told], inside: Inside | None = None) -> _Told:
        def once() -> _Told:
            with self._store.effects(inside) as page:
                return decide(page)

        return self._ask(once)

    def _ask(self, ask: Callable[[], _Told]) -> _Told:
        return patiently(ask, boottime() + self._db_wait, self._pause, self._on_failure)


def _claimed(page: EffectPage, sender: Sender, subjects: Sequence[str]) -> dict[str, str]:
    """In the order that they were asked for."""
    claimed = rules.first_claim(sender, page.now)
    won = page.add(claimed, subjects)
    rest = [subject for subject in subjects if subject not in won]
    again, abandoned = [], []
    for there in page.claimable(claimed, rest) if rest else ():
        if mine := rules.claim_again(there, sender, page.now):
            again.append(mine)
        elif lost := rules.abandon(there, page.now):
            abandoned.append(lost)
    page.change([*again, *abandoned])
    won |= {effect.subject: effect.effect_token for effect in again}
    return {subject: won[subject] for subject in subjects if subject in won}


def reported(page: EffectPage, limit: int) -> Sequence[Effect]:
    """What was abandoned becomes unknown; what is unknown and was never told of, for whoever tells of it now."""
    overdue = (rules.abandon(effect, page.now) for effect in page.overdue(limit))
    abandoned = [effect for effect in overdue if effect]
    found = [*abandoned, *page.unreported(limit - len(abandoned))]
    told = [replace(effect, reported_at=page.now) for effect in found]
    page.change(told)
    return sorted(told, key=lambda effect: (effect.kind, effect.period, effect.subject))


def _said(
    page: EffectPage,
    wanted: Sequence[str],
    found: Sequence[Effect],
    decision: Callable[[Effect, datetime], tuple[Said, Effect]],
) -> Tally:
    told, changed, there = Tally(), [], {effect.subject: effect for effect in found}
    for subject in wanted:
        said, effect = decision(there[subject], page.now) if subject in there else (Said.NOT_CLAIMED, None)
        told.add(said, subject)
        if effect and said is Said.WRITTEN:
            changed.append(effect)
    page.change(changed)
    return told
