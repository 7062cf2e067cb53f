"""What a run is for: from a firing, an instant or a name to a period.

A period is known by its label. From a day up it is a date in the key's zone
(2026-11-30, 2026-W48, 2026-11, 2026-Q4, 2026); below it is an instant in UTC
(2026-11-30T06:00Z), so an hour that clocks repeat is two periods and one that
they skip is none.

`choose_period` is asked once for each firing, before any waiting. What it
answers is stored and never worked out again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from cronguard.domain.cadence import Cadence
from cronguard.domain.dates import date_label, first_day, first_day_called, next_first_day
from cronguard.domain.text import YEARS, format_instant
from cronguard.domain.zone import at_wall_clock
from cronguard.errors import BadInput

if TYPE_CHECKING:
    from cronguard.domain.schedule import Schedule  # a key without a schedule must not load its library

LONGEST_LABEL = 255  # bytes of UTF-8

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXAMPLE = datetime(2026, 11, 30, 6, tzinfo=UTC)
_CLOCKS_DIFFER_BY = timedelta(seconds=60)  # how far ahead of the ledger's clock a period may begin
_EDGE = timedelta(minutes=2)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Period:
    """A stretch of time from `start` up to, but not including, `end`, both aware and in UTC.

    Under the cadence `run` a period has no end; one that a person made up has no start either.
    """

    label: str
    start: datetime | None
    end: datetime | None


class PeriodSource(StrEnum):
    """Where a period came from, the surest source first."""

    LABEL = "label"  # --period: a label, or the words `current` and `previous`
    SCHEDULED_AT = "scheduled_at"
    JOB_NAME = "job_name"  # of a Kubernetes Job: …-29933640 by its controller, …-for-2026-11-28 by a person
    SCHEDULE = "schedule"  # its latest tick
    CLOCK = "clock"


@dataclass(frozen=True, slots=True)
class PeriodRequest:
    """What one firing says about its period: --period, --scheduled-at, and the name of its Kubernetes Job."""

    label: str | None = None
    scheduled_at: datetime | None = None
    job_name: str | None = None


@dataclass(frozen=True, slots=True)
class Calendar:
    """How the time of a key is cut: stored with the key, and the same for every host that fires it."""

    cadence: Cadence
    zone: ZoneInfo
    schedule: Schedule | None = None


@dataclass(frozen=True, slots=True)
class Chosen:
    """The period of one firing, and why it is this one."""

    period: Period
    source: PeriodSource
    slot: datetime | None = None  # the nominal time of the firing, where one is known
    # The choice is the same for every `now` from `valid_from` up to `valid_until`; where both are None, for any.
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    note: str | None = None  # one line for the person at the terminal


def choose_period(request: PeriodRequest, calendar: Calendar, now: datetime, nonce: str = "") -> Chosen:
    """The period that a firing at `now` is for; the first of `PeriodSource` that applies decides.

    Raises BadInput for a label that does not fit the cadence, and for a period that has not begun.
    """
    if request.label is not None:
        chosen = _from_label(request.label, calendar, now, nonce)
    elif request.scheduled_at is not None:
        chosen = _from_slot(request.scheduled_at, PeriodSource.SCHEDULED_AT, calendar, nonce)
    elif request.job_name:
        chosen = _from_job_name(request.job_name, calendar, now, nonce)
    else:
        chosen = _from_time(calendar, now, nonce)
    return _begun(chosen, now)


def _from_label(label: str, calendar: Calendar, now: datetime, nonce: str) -> Chosen:
    if label == "current":
        return replace(_from_time(calendar, now, nonce), source=PeriodSource.LABEL)
    if label == "previous":
        return _before(_from_time(calendar, now, nonce), calendar)
    return Chosen(period_named(calendar.cadence, calendar.zone, label), PeriodSource.LABEL)


def _before(chosen: Chosen, calendar: Calendar) -> Chosen:
    period, slot = previous(calendar.cadence, calendar.zone, chosen.period), None
    if calendar.schedule is not None and chosen.period.start is not None:
        # Not every period need have a tick: before Monday's comes Friday's, on a schedule for weekdays.
        slot = calendar.schedule.tick_before(chosen.period.start)
        period = period_at(calendar.cadence, calendar.zone, slot)
    return replace(chosen, period=period, source=PeriodSource.LABEL, slot=slot)


def _from_slot(slot: datetime, source: PeriodSource, calendar: Calendar, nonce: str) -> Chosen:
    slot = slot.astimezone(UTC)
    return Chosen(period_at(calendar.cadence, calendar.zone, slot, nonce), source, slot)


_SLOT_IN_NAME = re.compile(r"-(\d{7,9})$", re.ASCII)  # as the CronJob controller names a Job: minutes since the epoch
_LABEL_IN_NAME = re.compile(r"-for-(\d{4}(?:-[0-9qw]+)*(?:t\d+z?)?)$", re.ASCII)
_TIME_IN_NAME = re.compile(r"T(\d\d)(\d\d)?(\d\d)?Z?$", re.ASCII)
_JOB_LATE_AT_MOST = timedelta(days=35)
_JOB_EARLY_AT_MOST = timedelta(hours=1)


def _from_job_name(name: str, calendar: Calendar, now: datetime, nonce: str) -> Chosen:
    minutes = _SLOT_IN_NAME.search(name)
    slot = _EPOCH + timedelta(minutes=int(minutes[1])) if minutes else None
    if slot is not None and now - _JOB_LATE_AT_MOST <= slot <= now + _JOB_EARLY_AT_MOST:
        return _from_slot(slot, PeriodSource.JOB_NAME, calendar, nonce)
    if rerun := _LABEL_IN_NAME.search(name):
        label = _TIME_IN_NAME.sub(_spell_time, rerun[1].upper())
        return Chosen(period_named(calendar.cadence, calendar.zone, label), PeriodSource.JOB_NAME)
    chosen = _from_time(calendar, now, nonce)
    return replace(chosen, note=f"the job name {name!r} tells no period: the {chosen.source} decides")


def _spell_time(time: re.Match[str]) -> str:
    # A Kubernetes name has neither colons nor capitals: t0730 stands for T07:30Z.
    hour, minute, second = time.groups()
    return f"T{hour}:{minute or '00'}" + (f":{second}Z" if second else "Z")


def _from_time(calendar: Calendar, now: datetime, nonce: str) -> Chosen:
    if calendar.schedule is not None:
        return _from_schedule(calendar.schedule, calendar, now, nonce)
    period = period_at(calendar.cadence, calendar.zone, now, nonce)
    if period.end is None:
        return Chosen(period, PeriodSource.CLOCK)
    return Chosen(period, PeriodSource.CLOCK, None, period.start, period.end, _edge_note(calendar, period, now))


def _from_schedule(schedule: Schedule, calendar: Calendar, now: datetime, nonce: str) -> Chosen:
    tick = schedule.latest_tick(now)
    following_tick = schedule.next_tick(tick)
    chosen = _from_slot(tick, PeriodSource.SCHEDULE, calendar, nonce)
    return replace(
        chosen,
        valid_from=tick - schedule.early_tolerance(tick),
        valid_until=following_tick - schedule.early_tolerance(following_tick),
    )


def _edge_note(calendar: Calendar, period: Period, now: datetime) -> str | None:
    if calendar.cadence.length is None or calendar.cadence.length < _DAY or period.start is None or period.end is None:
        return None
    if min(now - period.start, period.end - now) > _EDGE:
        return None
    return f"the clock chose {period.label} within two minutes of its edge; --schedule makes the choice a certain one"


def _begun(chosen: Chosen, now: datetime) -> Chosen:
    clock = f"(the ledger's clock says {format_instant(now)})"
    if chosen.period.start is not None and chosen.period.start > now + _CLOCKS_DIFFER_BY:
        raise BadInput(f"period {chosen.period.label} has not begun yet {clock}")
    if chosen.source is PeriodSource.SCHEDULED_AT and chosen.slot is not None and chosen.slot > now + _CLOCKS_DIFFER_BY:
        raise BadInput(f"the scheduled time {format_instant(chosen.slot)} has not come yet {clock}")
    return chosen


def period_at(cadence: Cadence, zone: ZoneInfo, instant: datetime, nonce: str = "") -> Period:
    """The one period of `cadence` that `instant` lies in; `nonce` tells two of `run` in one millisecond apart."""
    instant = instant.astimezone(UTC)
    if cadence.length is None:
        return Period(_run_label(instant, nonce), instant, None)
    if cadence.on_calendar:
        return _dates_around(cadence, zone, instant)
    start = _EPOCH + (instant - _EPOCH) // cadence.length * cadence.length
    return Period(_instant_label(cadence.length, start), start, start + cadence.length)


def period_named(cadence: Cadence, zone: ZoneInfo, label: str) -> Period:
    """The period of `cadence` with exactly this label. Raises BadInput, with an example, when there is none.

    Under the cadence `run` any text on one line, without blanks around it, is a label; one that this cadence
    made itself still says when it began.
    """
    if cadence.length is None:
        return Period(_free_label(label), _stamp_in(label), None)
    period = _read_label(cadence, zone, label)
    # A label is right when its period would be called the same: 06:30 is in an hour, but is not its name.
    if period is None or period.label != label:
        example = period_at(cadence, zone, _EXAMPLE).label
        raise BadInput(f"{label!r} is not {_a(cadence)}; write the period like {example}")
    if period.start == period.end:
        raise BadInput(f"{label!r} was skipped by the clocks of {zone.key}: there is no such {cadence.name}")
    return period


def previous(cadence: Cadence, zone: ZoneInfo, period: Period) -> Period:
    """The period that ends where `period` starts. Raises BadInput for `run`, whose periods are in no order."""
    if cadence.length is None or period.start is None:
        raise BadInput("with the cadence run each period stands alone: there is no previous one")
    return period_at(cadence, zone, period.start - timedelta(microseconds=1))


def following(cadence: Cadence, zone: ZoneInfo, period: Period) -> Period:
    """The period that starts where `period` ends. Raises BadInput for `run`, whose periods are in no order."""
    if cadence.length is None or period.end is None:
        raise BadInput("with the cadence run each period stands alone: there is no following one")
    return period_at(cadence, zone, period.end)


def _run_label(instant: datetime, nonce: str) -> str:
    stamp = instant.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
    return f"{stamp}-{nonce}" if nonce else stamp


def _dates_around(cadence: Cadence, zone: ZoneInfo, instant: datetime) -> Period:
    first = first_day(cadence, instant.astimezone(zone).date())
    period = _dates_from(cadence, zone, first)
    if period.end is None or instant < period.end:
        return period
    # Where clocks go back over midnight, a date that has begun is interrupted by the one before: it keeps that hour.
    return _dates_from(cadence, zone, next_first_day(cadence, first))


def _dates_from(cadence: Cadence, zone: ZoneInfo, first: date) -> Period:
    start, end = (at_wall_clock(datetime.combine(day, time()), zone) for day in (first, next_first_day(cadence, first)))
    return Period(date_label(cadence, first), start, end)


def _instant_label(length: timedelta, start: datetime) -> str:
    precision = "seconds" if length % timedelta(minutes=1) else "minutes"
    return start.replace(tzinfo=None).isoformat(timespec=precision) + "Z"


_RUN_LABEL = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)(-.+)?", re.ASCII)


def _stamp_in(label: str) -> datetime | None:
    stamp = _RUN_LABEL.fullmatch(label)
    try:
        return datetime.fromisoformat(stamp[1]) if stamp else None
    except ValueError:  # the 30th of February, 25 o'clock
        return None


# Control characters, line separators, and the surrogates that stand for bytes of an argument that are not UTF-8.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def _free_label(label: str) -> str:
    if _UNPRINTABLE.search(label) or label != label.strip() or not 1 <= len(label.encode()) <= LONGEST_LABEL:
        raise BadInput(f"{label!r} is no label; write 1 to {LONGEST_LABEL} bytes on one line, without blanks around")
    return label


_INSTANT_LABEL = re.compile(r"(\d{4})-\d\d-\d\dT\d\d:\d\d(:\d\d)?Z", re.ASCII)


def _read_label(cadence: Cadence, zone: ZoneInfo, label: str) -> Period | None:
    if cadence.on_calendar:
        first = first_day_called(cadence, label)
        return _dates_from(cadence, zone, first) if first else None
    shape = _INSTANT_LABEL.fullmatch(label)
    if shape is None or int(shape[1]) not in YEARS:
        return None
    try:
        return period_at(cadence, zone, datetime.fromisoformat(label))
    except ValueError:  # the 30th of February, 25 o'clock
        return None


def _a(cadence: Cadence) -> str:
    if cadence.on_calendar or cadence.name == "minute":
        return f"a {cadence.name}"
    return "an hour" if cadence.name == "hour" else f"a period of {cadence.name}"
