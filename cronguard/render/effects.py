"""Effects as rows and as documents."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from cronguard.domain.effect import Effect, Listing
from cronguard.domain.text import format_instant
from cronguard.render.printing import NOTHING, print_json, print_table

COLUMNS = ("KIND", "PERIOD", "SUBJECT", "STATE", "CLAIMED", "SEND BY", "KEY", "NOTE")
INSTANTS = ("claimed_at", "send_by", "finished_at", "reported_at")


def show_effects(listing: Listing, *, as_json: bool) -> None:
    if as_json:
        effects = [_document(effect) for effect in listing.effects]
        print_json({"schema": "cronguard.effects/1", "effects": effects, "total": listing.total})
    else:
        print_table(COLUMNS, [_row(effect) for effect in listing.effects])


def _row(effect: Effect) -> list[str]:
    resolved = f"resolved by {effect.resolved_by}: {effect.reason}" if effect.resolved_by else None
    note = "; ".join(filter(None, (effect.note, resolved))) or NOTHING
    return [
        effect.kind, effect.period, effect.subject, str(effect.state),
        _when(effect.claimed_at), _when(effect.send_by), effect.key or NOTHING, note,
    ]  # fmt: skip


def _when(instant: datetime) -> str:
    return format_instant(instant.replace(microsecond=0))


def _document(effect: Effect) -> dict[str, Any]:
    known = {name: getattr(effect, name) for name in Effect.__slots__ if name not in ("claim_id", "by_once", *INSTANTS)}
    instants = {name: _instant(getattr(effect, name)) for name in INSTANTS}
    return known | {"state": str(effect.state)} | instants


def _instant(instant: datetime | None) -> str | None:
    return format_instant(instant) if instant else None
