"""cronguard: three replicas, one cron job, one run.

The house, room by room:

    cli/        FRONT DOOR    argv -> settings -> one service call -> exit code
    api.py      SIDE DOOR     the same services, for jobs in Python: `from cronguard import current_run`
    settings/                 every knob once; the only reader of the environment
    render/                   what people and programs see; printing.py, the only import of rich
    services/   THE HALL      one use case a file, each a straight line
    process/    THE WORKSHOP  the command: started, kept on its lease, stopped, reaped
    stores/     THE CELLAR    SQL and drivers, behind `open_store`
    ports.py                  what the services ask of a store
    domain/     THE STUDY     pure: nouns, periods, the life of a run; every rule is here
    errors.py                 our own failures, each with its exit code
    streams.py                the three streams that the caller gave us
    clock.py                  this host's clocks: for waiting, and for one guess

Which way the arrows go:

    cli | api -> render | settings | services -> process | stores (doors only) -> ports -> domain
        -> errors | streams | clock

What is never done:

    domain does no I/O and reads no clock
    services name no store, and no driver's name leaves stores/
    no SQL stands in Python, and no rule in SQL
    nothing but settings/ reads the environment
    a host's wall clock never judges a lease

The walk of `cronguard run`: argv -> settings -> firing -> claim -> granted or
skipped -> command -> how it ended -> outcome -> finish -> exit code. Read it in
services/run.py; the rules it obeys, in domain/admission.py and domain/lifecycle.py.

The walk of `cronguard supervise`: survey -> brake -> page by page: judge, commit,
tell. services/supervise.py; its rules, in domain/supervision.py and domain/expectation.py.

The walk of `cronguard drill`: round by round, bare and guarded: fire -> harm -> wait -> the
commands' own marks -> verdict. services/drill.py; its rules, in domain/drill.py and domain/witness.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cronguard.api import Claim, CurrentRun, current_run

__all__ = ["Claim", "CurrentRun", "current_run"]


def __getattr__(name: str) -> Any:
    """Loaded when it is asked for: every start of the program imports this page, and needs none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from cronguard import api  # noqa: PLC0415

    return getattr(api, name)
