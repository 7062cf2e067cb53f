"""What the command is told: its environment, and with --expand its arguments."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cronguard.domain.claim import Granted
from cronguard.domain.text import format_instant

if TYPE_CHECKING:
    from cronguard.domain.supervision import Finding


def facts_of(held: Granted) -> dict[str, str]:
    """The run's facts by name; the same for a scheduled run and for a rerun by hand of the same period."""
    run = held.run
    facts = {
        "key": run.key,
        "period": run.period,
        "period_start": format_instant(run.period_start) if run.period_start else "",
        "period_end": format_instant(run.period_end) if run.period_end else "",
        "tz": run.zone or "",
        "token": str(run.token),
        "attempt": str(run.attempt),
        "holder": held.lease.holder.id,
        "complete_by": format_instant(run.complete_by) if run.complete_by else "never",
    }
    return {name: os.fsdecode(fact.encode()) for name, fact in facts.items()}  # UTF-8 also where the locale is not


def environment_of(held: Granted, inherited: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment and the run's facts, as CRONGUARD_…."""
    return dict(inherited) | {f"CRONGUARD_{name.upper()}": value for name, value in facts_of(held).items()}


def environment_of_finding(finding: Finding, inherited: Mapping[str, str]) -> dict[str, str]:
    """The same for the hook of a supervisor. No token: it is inside no run."""
    run, request = finding.run, finding.request
    facts = {
        "found": str(finding.found),
        "key": finding.key,
        "period": finding.period,
        "state": str(run.state) if run else "",
        "cause": str(request.cause) if request else "",
        "claim_by": format_instant(request.claim_by) if request else "",
        "ran_on": run.holder.host if run and run.holder else "",
    }
    kept = {name: value for name, value in inherited.items() if name != "CRONGUARD_TOKEN"}
    return kept | {f"CRONGUARD_{name.upper()}": os.fsdecode(fact.encode()) for name, fact in facts.items()}


EXPANDED = ("period", "period_start", "period_end", "key", "token")


def expanded(argv: Sequence[str], held: Granted) -> list[str]:
    """argv with {period} and its like replaced; other braces stay as they are."""
    facts = facts_of(held)
    return filled_in(argv, facts)


def filled_in(argv: Sequence[str], facts: Mapping[str, str]) -> list[str]:
    """Arguments in which {period} and its like are replaced."""
    return [_replaced(word, facts) for word in argv]


def _replaced(word: str, facts: Mapping[str, str]) -> str:
    for name in EXPANDED:
        word = word.replace("{" + name + "}", facts[name])
    return word
