"""cronguard drill: cause each failure on purpose, look what the commands themselves have marked, leave nothing behind.

Each round is played twice by the same hand: by replicas that run the bare
command, and by replicas that put cronguard in front of it. What one round does
stands in drill_round.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from cronguard.domain.drill import Order, Round, Scenario, Tally, is_drill_key, key_of_round
from cronguard.errors import BadInput, CronguardError, Interrupted
from cronguard.ports import DrilledStore
from cronguard.services.drill_round import Means, Playing
from cronguard.services.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Shown:
    """What a drill has shown, and why it came to no end, if it did not: its last scenario may lack rounds then."""

    tallies: tuple[Tally, ...]
    cut_short_by: CronguardError | None = None


def drill(order: Order, means: Means) -> Shown:
    """Hold it; whatever happens, nothing of it is left."""
    check_rights(means.store, means.ledger, order.key)
    means.tell.may_begin(means.store.name, left_by_others(means.ledger))
    drilling = _Drilling(order, means)
    cut_short_by: CronguardError | None = None
    try:
        drilling.play_all()
    except CronguardError as reason:
        cut_short_by = reason
    finally:
        means.stage.clear()
        is_erased = drilling.erase_all()
    if isinstance(cut_short_by, Interrupted):
        so = "the drill is stopped, and what it wrote is removed" if is_erased else "the drill is stopped"
        cut_short_by = Interrupted(cut_short_by.signum, so)
    return Shown(tuple(drilling.tallies.values()), cut_short_by)


def check_rights(store: DrilledStore, ledger: Ledger, key: str) -> None:
    """Raise BadInput where this role could not remove what a drill leaves; then one is removed that is not there."""
    grant = ledger.ask(store.lacking)
    if grant:
        raise BadInput(
            f"this role may not delete what a drill writes to the ledger at {store.name}; have its owner type: {grant}"
        )
    ledger.ask(lambda: store.erase(key))


def left_by_others(ledger: Ledger) -> list[str]:
    """The keys of other drills: under way, or killed before they could remove them."""
    return [job.key for job in ledger.asked(lambda store: store.jobs()) if is_drill_key(job.key)]


def clean(store: DrilledStore, ledger: Ledger, key: str) -> list[str]:
    """Remove what drills have left; which keys those were. `key` is one that nobody has."""
    check_rights(store, ledger, key)
    left = left_by_others(ledger)
    for other in left:
        ledger.ask(lambda other=other: store.erase(other))  # type: ignore[misc]
    return left


class _Drilling:
    """Scenario by scenario, round by round; each round with guard under a key of its own."""

    def __init__(self, order: Order, means: Means) -> None:
        self._order, self._means = order, means
        self.tallies: dict[str, Tally] = {}  # of the rounds that came to their end, by scenario
        self._keys: list[str] = []  # those that may be in the ledger
        self._made = 0

    def play_all(self) -> None:
        for scenario in self._order.scenarios:
            if self._order.applies(scenario):
                self._play(scenario)
            else:
                self.tallies[scenario.name] = Tally(scenario, not_applied=scenario.not_on)

    def _play(self, scenario: Scenario) -> None:
        bare: list[Round] = []
        guarded: list[Round] = []
        for number in range(1, self._order.rounds + 1):
            bare.append(self._bare(scenario, number))
            guarded.append(self._guarded(scenario, number))
            self.tallies[scenario.name] = Tally(scenario, tuple(bare), tuple(guarded))

    def erase_all(self) -> bool:
        """Also when a signal has come: what cannot be erased is told of."""
        is_erased = True
        for key in self._keys:
            try:
                self._means.patient.ask(lambda key=key: self._means.store.erase(key))  # type: ignore[misc]
            except CronguardError as reason:
                is_erased = False
                self._means.tell.left_behind(key, reason)
        return is_erased

    def _bare(self, scenario: Scenario, number: int) -> Round:
        self._means.tell.begins(scenario, number, guarded=False)
        return Playing(scenario, number, None, self._order.replicas, self._means).to_the_end()

    def _guarded(self, scenario: Scenario, number: int) -> Round:
        self._means.tell.begins(scenario, number, guarded=True)
        self._made += 1
        key = key_of_round(self._order.key, self._made)
        self._keys.append(key)
        played = Playing(scenario, number, key, self._order.replicas, self._means).to_the_end()
        self._means.ledger.ask(lambda: self._means.store.erase(key))
        self._keys.remove(key)
        return played
