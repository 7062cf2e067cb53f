"""cronguard supervise: one pass over the ledger. It runs nothing: it asks that somebody do, and tells.

No leader is chosen among many supervisors: the work splits by rows, each row is
settled on its own page by whoever has it first, and the others find nothing
left to do there. This module cannot reach whatever starts a command: a contract
of the house forbids it, over any number of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from cronguard.clock import boottime
from cronguard.domain.effect import Effect
from cronguard.domain.expectation import LOOKED_BACK
from cronguard.domain.run import Change, Job, Sight
from cronguard.domain.supervision import (
    Brake,
    Finding,
    Found,
    Supervisor,
    Survey,
    brake,
    judge,
    judge_expected,
    late_periods,
    unknown,
)
from cronguard.errors import CronguardError, Interrupted, LedgerRefused, LedgerUnavailable, RowHeld, SchemaMismatch
from cronguard.ports import Page, SupervisedStore
from cronguard.services import effects
from cronguard.services.doubts import ABANDONED_AFTER, Doubts
from cronguard.services.ledger import Ledger
from cronguard.services.results import Spool, deliver

AT_ONCE = 1000  # candidates of one pass; what is left is found by the next
HOSTS_KEPT_FOR = timedelta(days=1)  # a container has another name each time
UNANSWERED_IN_A_ROW = 2  # pages that fail so are the ledger's failure, not a row's
# A row that an open transaction of its job has is waited for so long; of many in one pass the others hardly at all.
ROW_WAITED_FOR, ROWS_WAITED_FOR = timedelta(seconds=1), 10
AFTER_THAT = timedelta(milliseconds=20)


@dataclass(frozen=True, slots=True)
class Watch:
    """What a pass is asked to do, and by which host."""

    host: str
    lease_for: timedelta  # how long it waits where it does not trust what it sees, and trusts what it has seen
    keys: str | None = None  # with * and ?
    dry_run: bool = False
    is_recorded: bool = True  # as this host's last pass; not where it is a rehearsal


class Observes(StrEnum):
    """Why a pass has changed nothing."""

    OWN_PAUSE = "own_pause"  # it was itself away for longer than a lease
    MASS_EXPIRY = "mass_expiry"


@dataclass(frozen=True, slots=True)
class Passed:
    """One pass: when, what it found, and why it only observed, if it did."""

    at: datetime
    findings: tuple[Finding, ...]
    live: int
    observes: Observes | None = None
    failure: CronguardError | None = None  # what ended it early: what was found until then is found

    @property
    def needs_a_person(self) -> bool:
        return any(finding.found.needs_a_person for finding in self.findings)


class Told(Protocol):
    """Whoever is told of a finding as soon as it is committed."""

    def found(self, finding: Finding) -> None: ...


def supervise(
    watch: Watch, store: SupervisedStore, ledger: Ledger, spool: Spool, told: Told, *, after_own_pause: bool = False
) -> Passed:
    """One pass: deliver what this host owes, look, brake or settle row by row, and record the pass."""
    findings = [] if watch.dry_run else _deliver(spool, ledger)
    seen_at = boottime()
    survey = ledger.ask(lambda: store.survey(watch.keys, LOOKED_BACK, AT_ONCE))
    held = brake(survey, watch.lease_for)
    observes = Observes.OWN_PAUSE if after_own_pause else Observes.MASS_EXPIRY if held.observes else None
    if held.is_new:
        findings.append(Finding(Found.MASS_EXPIRY, detail=f"{survey.lapsed} of {survey.lapsed + survey.live}"))
    settling = _Settling(watch, store, ledger, told, seen_at)
    if observes is None:
        findings += settling.all_of(survey)
    if watch.is_recorded and not (watch.dry_run or settling.failure):
        _record(watch, store, ledger, survey, held)
    return Passed(survey.now, tuple(_worst_first(findings)), survey.live, observes, settling.failure)


def _deliver(spool: Spool, ledger: Ledger) -> list[Finding]:
    """Before anything is judged: a run whose result waits on this host is not lost."""
    found: list[Finding] = []

    def undelivered(name: str, error: Exception) -> None:
        found.append(Finding(Found.TROUBLE, detail=f"the result in {name} could not be delivered: {error}"))

    deliver(spool, ledger, undelivered)
    return found


def _record(watch: Watch, store: SupervisedStore, ledger: Ledger, survey: Survey, held: Brake) -> None:
    done = Supervisor(watch.host, survey.now, mass_expiry_at=held.since)
    ledger.ask(lambda: store.record_pass(done, HOSTS_KEPT_FOR))


def _worst_first(findings: Sequence[Finding]) -> list[Finding]:
    order = list(Found)
    return sorted(findings, key=lambda finding: (order.index(finding.found), finding.key, finding.period))


class _Settling:
    """Row by row, each in a transaction of its own; one that cannot be dealt with does not keep back the others."""

    def __init__(self, watch: Watch, store: SupervisedStore, ledger: Ledger, told: Told, seen_at: float) -> None:
        self._watch, self._store, self._ledger, self._told = watch, store, ledger, told
        self._act_until = seen_at + watch.lease_for.total_seconds()
        self._findings: list[Finding] = []
        self._doubts = Doubts()
        self._doubtful: list[tuple[str, str]] = []
        self._unanswered = self._held = 0
        self.failure: CronguardError | None = None

    def all_of(self, survey: Survey) -> list[Finding]:
        try:
            self._runs(survey.candidates)
            if self._doubtful:  # whose holder may be about to kill its command: a second look tells
                self._ledger.pause(ABANDONED_AFTER)
                self._runs(tuple(self._doubtful))
            for job in survey.expected:
                with self._going_on(job.key):
                    self._expected(job, survey.now)
            with self._going_on(""):
                self._effects()
        except CronguardError as error:
            self.failure = error
        return self._findings

    def _runs(self, candidates: Sequence[tuple[str, str]]) -> None:
        for key, period in candidates:
            with self._going_on(key, period):
                self._run(key, period)

    def _run(self, key: str, period: str) -> None:
        def decide(sight: Sight) -> tuple[list[Finding], Change]:
            sight = self._doubts.settled(sight)
            if any(lease.period == period and lease.token in self._doubts for lease in sight.leases):
                self._doubtful.append((key, period))
            finding, change = judge(sight, period, self._watch.host)
            return [finding] if finding else [], change

        self._settle(key, [period], decide)

    def _expected(self, job: Job, now: datetime) -> None:
        periods = late_periods(job, now)
        self._settle(job.key, periods or [""], lambda sight: judge_expected(sight, periods))

    def _effects(self) -> None:
        """What nobody confirmed is of any key, or of none: who watches over some keys leaves it to the others."""
        if self._watch.keys is not None:
            return
        if self._watch.dry_run:
            self._findings += unknown(self._store.abandoned_effects(effects.AT_ONCE))
            return
        found: list[Finding] = []
        try:
            while batch := self._newly_unknown():
                found = unknown(batch, found)
        finally:
            self._tell(found)

    def _newly_unknown(self) -> Sequence[Effect]:
        """Of any number of them so many as one transaction takes; none once it is too late to act."""
        if boottime() >= self._act_until:
            return []
        with self._store.effects() as page:
            return effects.reported(page, effects.AT_ONCE)

    def _settle(
        self, key: str, periods: Sequence[str], decide: Callable[[Sight], tuple[list[Finding], Change]]
    ) -> None:
        """Look, decide, write; then tell. What was seen a lease ago is too old to act on: we were away ourselves."""
        if boottime() >= self._act_until:
            return
        if self._watch.dry_run:
            self._findings += decide(self._store.glance(key, periods))[0]
            return
        wait_for = ROW_WAITED_FOR if self._held < ROWS_WAITED_FOR else AFTER_THAT
        with self._store.page_if_free(key, periods, wait_for) as page:
            findings = _decided(page, decide)
        self._tell(findings)

    def _tell(self, findings: Sequence[Finding]) -> None:
        self._findings += findings
        for finding in findings:
            self._told.found(finding)

    @contextmanager
    def _going_on(self, key: str, period: str = "") -> Iterator[None]:
        """Whatever is wrong with one row is told, and the pass goes on; unless it is the ledger that is away."""
        try:
            yield
            self._unanswered = 0
        except (Interrupted, LedgerRefused, SchemaMismatch):
            raise
        except RowHeld as error:
            self._held += 1
            self._trouble(key, period, error)
        except LedgerUnavailable as error:
            self._unanswered += 1
            if self._unanswered >= UNANSWERED_IN_A_ROW:
                raise
            self._trouble(key, period, error)
        except Exception as error:
            self._trouble(key, period, error)

    def _trouble(self, key: str, period: str, error: Exception) -> None:
        detail = str(error) if isinstance(error, CronguardError) else f"{type(error).__name__}: {error}"
        self._findings.append(Finding(Found.TROUBLE, key, period, detail=detail.partition("\n")[0]))


def _decided(page: Page | None, decide: Callable[[Sight], tuple[list[Finding], Change]]) -> list[Finding]:
    """Nothing where the page is somebody else's: so is what is to be done there."""
    if page is None:
        return []
    findings, change = decide(page.sight)
    page.write(change)
    return findings
