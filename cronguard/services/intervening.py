"""A person steps in: first what would happen, then the same decision again under the key's lock."""

from __future__ import annotations

from cronguard.domain.intervention import Reply, Wish, intervene
from cronguard.domain.run import Change, Sight
from cronguard.services.ledger import Ledger
from cronguard.services.results import Spool, deliver_what_can_be


def preview(ledger: Ledger, spool: Spool, wish: Wish) -> Reply:
    """What would become of it now; nothing is changed, but that this host delivers what it still owed."""
    deliver_what_can_be(spool, ledger)

    def only_look(sight: Sight) -> tuple[Reply, Change]:
        return intervene(wish, sight)[0], Change()

    return ledger.change(wish.key, wish.period or "", only_look)


def step_in(ledger: Ledger, wish: Wish) -> Reply:
    """Decided anew: what the person was asked about may have changed while they thought."""
    return ledger.change(wish.key, wish.period or "", lambda sight: intervene(wish, sight))
