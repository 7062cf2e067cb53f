"""Effects to rows and back; both stores share this."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cronguard.domain.effect import Effect, EffectState
from cronguard.domain.progress import Inside
from cronguard.stores.rows import Params, Row

_COLUMNS = Effect.__slots__


def effect_of(row: Row) -> Effect:
    known = {name: row[name] for name in _COLUMNS}
    flags = {name: bool(row[name]) for name in ("idempotent", "by_once")}
    return Effect(**known | flags | {"state": EffectState(row["state"])})


def effect_row(effect: Effect) -> Params:
    return {name: _plain(getattr(effect, name)) for name in _COLUMNS}


def effect_columns(effects: Sequence[Effect]) -> Params:
    """One list a column, so that any number of effects is one statement."""
    return {name: [_plain(getattr(effect, name)) for effect in effects] for name in _COLUMNS}


def inside_row(inside: Inside) -> Params:
    return {"key": inside.key, "period": inside.period, "token": inside.token, "holder": inside.holder}


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, EffectState) else value
