"""From what was typed to what a drill takes: its order, and the surroundings of its replicas."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cronguard.domain.drill import LEAST_REPLICAS, MOST_REPLICAS, MOST_ROUNDS, Order, check_time, chosen
from cronguard.settings import Settings
from cronguard.settings.knobs import BY_NAME
from cronguard.settings.parsers import duration, naming, whole
from cronguard.settings.place import dsn_of, local_ledger

_OURS = "CRONGUARD_"
_IN_A_FILE = "sqlite://"


def new_key() -> str:
    return f"drill-{uuid.uuid4()}"


def drill_order_of(settings: Settings, replicas: str, rounds: str, only: Sequence[str], within: str | None) -> Order:
    """What `cronguard drill` is to do; raises BadInput, naming the option."""
    ledger = dsn_of(settings)[0]
    on_one_host = ledger is None or ledger.lower().startswith(_IN_A_FILE)
    with naming("--only"):
        scenarios = chosen(only)
    with naming("--replicas"):
        count = whole(replicas, LEAST_REPLICAS, MOST_REPLICAS)
    with naming("--rounds"):
        order = Order(new_key(), scenarios, count, whole(rounds, 1, MOST_ROUNDS), on_one_host)
    if within is not None:
        with naming("--within"):
            check_time(order, duration(within))
    return order


def surroundings(settings: Settings, folder: Path) -> Callable[[str | None], dict[str, str]]:
    """The environment of a replica: the same ledger, by this DSN or its own, and nothing else of what is configured.

    What it could not deliver waits in the drill's folder, and goes with it.
    """
    config = folder / "config.toml"
    config.touch()
    ledger = dsn_of(settings)[0] or f"{_IN_A_FILE}{local_ledger(settings)}"
    others = {name: value for name, value in settings.environment.items() if not name.startswith(_OURS)}
    own = {"config": str(config), "state_dir": str(folder / "state")}

    def environment(dsn: str | None) -> dict[str, str]:
        return others | _variables({**own, "dsn": dsn or ledger})

    return environment


def _variables(values: Mapping[str, str]) -> dict[str, str]:
    return {BY_NAME[name].variable: value for name, value in values.items()}
