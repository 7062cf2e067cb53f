"""cronguard drill: cause each failure on purpose, look what the commands themselves have marked, leave nothing behind.

Each round is played twice by the same hand: by replicas that run the bare
command, and by replicas that put cronguard in front of it. What one round does
stands in drill_round.py.
"""

from __future__ import annotations

from cronguard.domain.drill import Order, Round, Scenario, Tally, is_drill_key, key_of_round
from cronguard.errors import BadInput, CronguardError
from cronguard.ports import DrilledStore
from cronguard.services.drill_round import Means, Playing
from cronguard.services.ledger import Ledger


def drill(order: Order, means: Means) -> list[Tally]:
    """Hold it; whatever happens, nothing of it is left."""
    check_rights(means.store, means.ledger, order.key)
    means.tell.may_begin(means.store.name, left_by_others(means.ledger))
    drilling = _Drilling(order, means)
    try:
        return [drilling.tally_of(scenario) for scenario in order.scenarios]
    finally:
        means.stage.clear()
        drilling.erase_all()


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
        self._keys: list[str] = []  # those that may be in the ledger
        self._made = 0

    def tally_of(self, scenario: Scenario) -> Tally:
        if not self._order.applies(scenario):
            return Tally(scenario, not_applied=scenario.not_on)
        bare: list[Round] = []
        guarded: list[Round] = []
        for number in range(1, self._order.rounds + 1):
            bare.append(self._bare(scenario, number))
            guarded.append(self._guarded(scenario, number))
        return Tally(scenario, tuple(bare), tuple(guarded))

    def erase_all(self) -> None:
        """Also when a signal has come: what cannot be erased is told of."""
        for key in self._keys:
            try:
                self._means.patient.ask(lambda key=key: self._means.store.erase(key))  # type: ignore[misc]
            except CronguardError as reason:
                self._means.tell.left_behind(key, reason)

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
