"""Every fault at every moment: a few rounds of each here (`python -m tests.faults.lab` for many), several at once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.faults.batch import Tally
from tests.faults.faults import FAULTS, MOMENTS, Fault
from tests.faults.lab import rounds_of
from tests.rig.rounds import rounds, seeded

SIDE_BY_SIDE = 3  # they mostly wait for leases
PATIENT = 1200.0  # seconds: whoever is asked first may be the last to be begun


@pytest.fixture(scope="module")
def cells(request: pytest.FixtureRequest) -> Iterator[dict[type[Fault], Future[dict[str, Tally]]]]:
    """Every fault that a test of this session asks for, begun at once."""
    seed = seeded().randrange(10**9)
    asked = [item.callspec.params["fault"] for item in request.session.items if item.path == request.path]  # type: ignore[attr-defined]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        yield {fault: pool.submit(rounds_of, fault, list(MOMENTS), rounds(1), seed) for fault in asked}


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, id=fault.name, marks=pytest.mark.needs(*fault.needs)) for fault in FAULTS]
)
def test_promises_hold_at_every_moment(fault: type[Fault], cells: dict[type[Fault], Future[dict[str, Tally]]]) -> None:
    tallies = cells[fault].result(PATIENT * rounds(1))
    assert {moment: tally.broken for moment, tally in tallies.items() if tally.broken} == {}
    assert set(tallies) == set(MOMENTS)
