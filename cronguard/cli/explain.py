"""--dry-run: what would happen now and why, in plain columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cronguard.cli.tell import why_skipped
from cronguard.domain.claim import Claim, Skipped
from cronguard.domain.period import Chosen
from cronguard.domain.run import Sight
from cronguard.domain.text import format_instant
from cronguard.render.printing import print_pairs
from cronguard.services.ledger import Verdict
from cronguard.settings import Settings
from cronguard.settings.knobs import KNOBS

SECRETS = ("dsn",)


def explain(verdict: Verdict, sight: Sight, settings: Settings, what: str, ledger: str) -> None:
    print_pairs([*_verdict(verdict, what, ledger), *_period(verdict.claim), *_holders(sight)])
    print_pairs([("SETTING", "VALUE  (WHERE IT WAS SET)"), *_settings(settings)])


def explain_backlog(key: str, behind: Sequence[Chosen]) -> None:
    """Older periods, in the order in which they would be run."""
    print_pairs([("waiting", f"{key} {one.period.label}: {one.note}") for one in behind] or [("waiting", "nothing")])


def _verdict(verdict: Verdict, what: str, ledger: str) -> Iterator[tuple[str, str]]:
    if isinstance(verdict.answer, Skipped):
        yield "would", f"not run: {why_skipped(verdict.answer, verdict.claim)}"
    else:
        run = verdict.answer.run
        by = f"to be over by {format_instant(run.complete_by)}" if run.complete_by else "without a deadline"
        yield "would", f"run: {what}"
        yield "attempt", f"{run.attempt}, {by}"
    yield "ledger", ledger
    for change in verdict.changed:
        yield "changes", f"the key's {change}"


def _period(claim: Claim) -> Iterator[tuple[str, str]]:
    chosen, calendar = claim.chosen, claim.calendar
    schedule = f", schedule {calendar.schedule.expression!r}" if calendar.schedule else ""
    yield "key", claim.key
    yield "period", f"{claim.period}  (from the {chosen.source.replace('_', ' ')})"
    yield "calendar", f"every {calendar.cadence.name} in {calendar.zone.key}{schedule}"
    if chosen.slot:
        yield "slot", format_instant(chosen.slot)
    if chosen.note:
        yield "note", chosen.note


def _holders(sight: Sight) -> Iterator[tuple[str, str]]:
    if not sight.leases:
        yield "held by", "nobody"
    for lease in sight.leases:
        over = " (over)" if lease.lapsed(sight.now) else ""
        until = f"lease until {format_instant(lease.lease_until)}{over}"
        yield "held by", f"{lease.holder.host} pid {lease.holder.pid}, period {lease.period}, {until}"


def _settings(settings: Settings) -> Iterator[tuple[str, str]]:
    for knob in KNOBS:
        setting = settings.setting(knob.name)
        text = "-" if setting.text is None else "(set)" if knob.name in SECRETS else setting.text
        yield knob.name, f"{text}  ({setting.origin})"
