"""What supervise does once it is called: one pass or many, and for each what people, hooks and graphs are told."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

from cronguard.cli.findings import COLUMNS, document_of, rows_of
from cronguard.cli.metrics_file import write_metrics
from cronguard.cli.opening import Opened, opened_for_supervision
from cronguard.cli.tell import complain, remark, warn
from cronguard.clock import boottime
from cronguard.domain.pruning import USUAL
from cronguard.domain.run import parse_name
from cronguard.domain.supervision import Finding, Found
from cronguard.errors import SUCCESS, BadInput, CronguardError, Interrupted, LedgerRefused, LedgerUnavailable
from cronguard.ports import SupervisedStore
from cronguard.process.hook import Hook
from cronguard.process.signals import interrupting
from cronguard.render.printing import print_json, print_table
from cronguard.services.briefing import environment_of_finding
from cronguard.services.prune import prune_ledger
from cronguard.services.supervise import Observes, Passed, Watch
from cronguard.services.supervise import supervise as pass_over
from cronguard.settings import Settings, gather
from cronguard.settings.host import host_name
from cronguard.settings.parsers import duration, naming, text, utf8

Read = TypeVar("Read")

NEEDS_A_PERSON = 1
COUNTED = 100  # runs of each key that the metrics count, the newest
LEDGER_KNOBS = ("dsn", "dsn_file", "state_dir", "db_wait", "durable", "config")
HOOKED = (Found.RECOVERY, Found.UNCLAIMED, Found.MISSED, Found.DEAD)
WHY_IT_OBSERVES = {
    Observes.OWN_PAUSE: "this pass was late by more than a lease, and only looked",
    Observes.MASS_EXPIRY: "most leases are over at once: waiting for one lease to see who is still there",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What was typed, read."""

    watch: Watch
    every: timedelta | None
    as_json: bool
    exit_status: bool
    prune: bool
    metrics: str | None
    hook: Hook | None


def supervise(options: dict[str, Any]) -> int:
    settings = gather({name: options[name] for name in LEDGER_KNOBS})
    asked = _read(options, settings)
    if sys.stdout is None:
        raise BadInput("standard output is closed, and each finding is told once: send it somewhere, or to /dev/null")
    try:
        with interrupting(), opened_for_supervision(settings, create=not asked.watch.dry_run) as it:
            return _Passing(asked, it, settings.environment).as_asked()
    except Interrupted as told:
        return told.exit_code


class _Passing:
    """One pass, or pass after pass; and the one who is told of findings while it goes on."""

    def __init__(self, asked: Asked, it: Opened[SupervisedStore], environment: Mapping[str, str]) -> None:
        self._asked, self._it, self._environment = asked, it, environment

    def as_asked(self) -> int:
        if self._asked.every is not None:
            self._again_and_again(self._asked.every.total_seconds())
        passed = self._once()
        return NEEDS_A_PERSON if self._asked.exit_status and passed.needs_a_person else SUCCESS

    def _again_and_again(self, every: float) -> NoReturn:
        """Until told to stop. That the ledger is away is said, and it is asked again at the next pass."""
        due_at, lease_for = boottime(), self._asked.watch.lease_for.total_seconds()
        while True:
            try:
                self._once(after_own_pause=boottime() - due_at > lease_for)
            except Interrupted:
                raise
            except CronguardError as error:
                complain(str(error))
            due_at = boottime() + every
            self._it.signals.pause(every)

    def _once(self, *, after_own_pause: bool = False) -> Passed:
        it, watch = self._it, self._asked.watch
        try:
            passed = pass_over(watch, it.store, it.ledger, it.spool, self, after_own_pause=after_own_pause)
            self._show(passed)
            if passed.failure:
                raise passed.failure
            if self._asked.prune and not watch.dry_run:
                prune_ledger(it.ledger, USUAL)
            self._measure()
        except (LedgerUnavailable, LedgerRefused):
            if self._asked.metrics:
                write_metrics(self._asked.metrics, None)
            raise
        return passed

    def _measure(self) -> None:
        store, watch = self._it.store, self._asked.watch
        if self._asked.metrics:
            metrics = self._it.ledger.ask(lambda: store.metrics(watch.keys, COUNTED))
            write_metrics(self._asked.metrics, metrics)

    def _show(self, passed: Passed) -> None:
        """Nothing where there is nothing to say, unless a program reads us, or a person who waits for a word."""
        watch = self._asked.watch
        if self._asked.as_json:
            print_json(document_of(passed, watch.host, dry_run=watch.dry_run))
        elif passed.findings:
            print_table(COLUMNS, rows_of(passed))
        if passed.observes:
            remark(WHY_IT_OBSERVES[passed.observes])
        elif not passed.findings:
            remark(f"nothing to do; live leases: {passed.live}")

    # ----------------------------------------------------------------------- told, while the pass goes on

    def found(self, finding: Finding) -> None:
        """It is committed: now the hook may know."""
        hook = self._asked.hook
        if hook and finding.found in HOOKED:
            wrong = hook.run(environment_of_finding(finding, self._environment))
            if wrong:
                warn(f"{finding.key} {finding.period}: the hook of --on-request {wrong}")


def _read(options: Mapping[str, Any], settings: Settings) -> Asked:
    keys, every, hook = options["keys"], options["pass_every"], options["on_request"]
    if options["prune"] and keys is not None:
        raise BadInput("--prune goes over all keys; leave --key out, or type: cronguard prune")
    watch = Watch(
        host=host_name(),
        lease_for=settings["lease"],
        keys=_given("--key", lambda: parse_name(utf8(keys), "key")) if keys is not None else None,
        dry_run=options["dry_run"],
    )
    return Asked(
        watch=watch,
        every=_given("--every", lambda: duration(every)) if every is not None else None,
        as_json=options["json"],
        exit_status=options["exit_status"],
        prune=options["prune"],
        metrics=_given("--metrics", lambda: text(options["metrics"])) if options["metrics"] is not None else None,
        hook=Hook(_given("--on-request", lambda: text(hook))) if hook is not None else None,
    )


def _given(option: str, read: Callable[[], Read]) -> Read:
    with naming(option):
        return read()
