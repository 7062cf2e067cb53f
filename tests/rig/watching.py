"""Passes of a supervisor for tests that talk to the services themselves."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from cronguard.domain.supervision import Finding
from cronguard.ports import SupervisedStore
from cronguard.services.supervise import Passed, Watch, supervise
from cronguard.stores.spool import FileSpool
from tests.rig.firings import ledger_on

WATCH = Watch("omega", timedelta(seconds=60))
NOTHING_WAITS = FileSpool([], "no ledger")


class Listener:
    """Whoever is told of findings: here, a list of them."""

    def __init__(self) -> None:
        self.heard: list[Finding] = []

    def found(self, finding: Finding) -> None:
        self.heard.append(finding)


def pass_over(store: SupervisedStore, told: Listener | None = None, *, late: bool = False, **watch: Any) -> Passed:
    """One pass, as `cronguard supervise` makes it."""
    asked = replace(WATCH, **watch)
    return supervise(asked, store, ledger_on(store), NOTHING_WAITS, told or Listener(), after_own_pause=late)


def found(passed: Passed) -> list[tuple[str, str]]:
    """(what, period) of each finding."""
    return [(str(finding.found), finding.period) for finding in passed.findings]
