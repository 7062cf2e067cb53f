"""The bounds of the promises in seconds, as they follow from the defaults of the settings and the rules of the code."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from cronguard.cli.opening import BEATS_OUTLAST, LONGEST_ANSWER
from cronguard.domain.claim import LeaseTerms
from cronguard.process.command import STRAGGLERS_GET
from cronguard.services.ledger import STAND_BY_LOOKS
from cronguard.services.run import GUARDIAN_WAITS
from cronguard.settings.knobs import BY_NAME
from cronguard.stores.postgres_connection import CONNECTION_DEFAULTS


def bounds() -> Iterator[tuple[str, str, str]]:
    """(what is bounded, its bound by default, what it is made of)."""
    terms = LeaseTerms.of(_default("lease"), _default("stop_grace"))
    lease, beat, grace, margin = (
        it.total_seconds() for it in (terms.lease_for, terms.beat_every, terms.stop_grace, terms.margin)
    )
    answer = min(LONGEST_ANSWER, lease / BEATS_OUTLAST)
    wait, connect = _default("db_wait").total_seconds(), CONNECTION_DEFAULTS["connect_timeout"]
    yield (
        "G1: a silent ledger: the command stands still",
        _s(lease - margin),
        (f"`--lease` {_s(lease)} less a margin of {_s(margin)}, from when the last good beat was sent"),
    )
    yield (
        "G1: the same with `--on-silence kill`: asked to stop, killed",
        f"{_s(lease - margin - grace)}, {_s(lease - margin)}",
        (f"`--stop-grace` {_s(grace)} before that"),
    )
    yield (
        "G1: a worker that is frozen: the guardian kills it",
        _s(lease - margin + GUARDIAN_WAITS),
        "half a margin later",
    )
    yield (
        "G1: a claim that a failover forgot: its holder is stopped",
        f"{_s(beat + answer)}, {_s(lease - margin)}",
        (
            f"a beat (`--beat-every`, a sixth of the lease: {_s(beat)}) and its answer (at most {_s(answer)}); where a "
            "server is silent first, or that beat fails, it stands still at the latest as for a silent ledger"
        ),
    )
    yield (
        "G3: a host that died is seen",
        _s(lease),
        "`--lease`, from its last beat; at once, where worker or guardian is left",
    )
    yield (
        "G3: a stand-by takes over",
        _s(lease + STAND_BY_LOOKS[1]),
        (f"`--lease`, and up to {_s(STAND_BY_LOOKS[1])} between two looks (`--if-held wait`)"),
    )
    yield (
        "G4: a run is over after its complete-by",
        _s(grace),
        "`--stop-grace`; the complete-by is one cadence, if not set",
    )
    yield (
        "G4: what a command leaves behind is over",
        _s(STRAGGLERS_GET + grace),
        (f"{_s(STRAGGLERS_GET)} to end by itself, then `--stop-grace` (`--stragglers kill`)"),
    )
    yield (
        "G6: nothing is started, exit 75",
        f"{_s(wait)}, {_s(wait + 2 * answer)}",
        (
            "`--db-wait`; where servers are silent, the try besides that is under way then: connecting "
            f"({_s(connect)} a server, {_s(answer)} in all) and an answer (at most {_s(answer)})"
        ),
    )
    yield (
        "G6: a result is kept on the host",
        _s(lease - margin),
        "the rest of the lease, in which it is tried to tell the ledger",
    )


def _default(name: str) -> Any:
    knob = BY_NAME[name]
    assert knob.default
    value: timedelta = knob.parse(knob.default)
    return value


def _s(seconds: float) -> str:
    return f"{seconds:g} s"
