"""All guarantees of the ledger at once, by chance: many workers and supervisors, freezes, deaths, reconnects."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from cronguard.domain import lifecycle
from cronguard.domain.claim import Granted
from cronguard.domain.lifecycle import Standing
from cronguard.domain.run import Sight, State
from cronguard.stores import open_store, open_supervised
from cronguard.stores.dsn import Address
from tests.rig.fleet import Fleet, Witness
from tests.rig.rounds import rounds, seeded

WORKERS, SUPERVISORS = 40, 3
SECONDS = 10  # of each trial; CRONGUARD_TEST_ROUNDS says for how many in a soak


@pytest.fixture
def fleet(direct_address: Address) -> Fleet:
    return Fleet(
        lambda: open_store(direct_address, answer_within=2),
        lambda: open_supervised(direct_address, answer_within=2),
        seed=seeded().randrange(10**9),
    )


def for_seconds(seconds: float) -> Callable[[], bool]:
    over = time.monotonic() + seconds
    return lambda: time.monotonic() > over


def has_seen_enough(witness: Witness) -> bool:
    """Every kind of thing has happened, else the trial would prove nothing."""
    standings = {finish.standing for finish in list(witness.finishes)}
    recovered = any(grant.held.run.recoveries for grant in list(witness.grants))
    return {Standing.MINE, Standing.LOST} <= standings and len(witness.grants) > 20 and recovered


def test_nothing_goes_wrong_in_a_fleet_where_everything_does(fleet: Fleet) -> None:
    over, given_up = for_seconds(rounds(SECONDS)), for_seconds(rounds(SECONDS) + 120)
    witness = fleet.run(WORKERS, SUPERVISORS, lambda: (over() and has_seen_enough(fleet.witness)) or given_up())
    assert witness.complaints() == []
    assert has_seen_enough(witness)


def believes_whoever_comes(held: Granted, sight: Sight) -> Standing:
    """The rule without its token."""
    run = sight.run(held.run.period)
    if run is None:
        return Standing.LOST
    return {State.RUNNING: Standing.MINE, State.PENDING: Standing.LATE, State.DEAD: Standing.LATE}.get(
        run.state, Standing.ALREADY_SO
    )


def test_it_would_be_seen_if_a_run_succeeded_without_its_steps(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "unfinished", lambda _steps: ())
    fleet.endings, fleet.left_steps, given_up = (1, 0, 0), 0.8, for_seconds(120)
    witness = fleet.run(WORKERS, SUPERVISORS, lambda: bool(fleet.witness.complaints()) or given_up())
    assert any("succeeded without its step" in complaint for complaint in witness.complaints())


def test_it_would_be_seen_if_finish_did_not_look_at_the_token(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "standing", believes_whoever_comes)
    fleet.late_finishes, given_up = 1.0, for_seconds(120)
    witness = fleet.run(WORKERS, SUPERVISORS, lambda: bool(fleet.witness.complaints()) or given_up())
    assert witness.complaints()
