"""From what was written about steps to what the services take: an order a step, and the one command of a list."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from cronguard.domain.progress import Inside
from cronguard.errors import BadInput
from cronguard.services.briefing import EXPANDED, filled_in
from cronguard.services.steps import StepOrder
from cronguard.settings import Settings, gather
from cronguard.settings.inside import inside_of
from cronguard.settings.knobs import BY_NAME
from cronguard.settings.step_list import StepTexts, step_of

LIST_RUNNER = "cronguard.cli.step_sequence"


def settings_of_run(options: Mapping[str, Any], command: str) -> tuple[Settings, Inside]:
    """As for the run that we are inside of: what its job's table says counts too."""
    inside = inside_of(gather(options), command)
    return gather({**options, "key": inside.key}), inside


def order_of_step(texts: StepTexts, settings: Settings, place: Callable[[str], str]) -> StepOrder:
    """What one step is to do; `place` tells where one of its knobs was written. Raises BadInput."""
    read = _Reader(texts, settings, place)
    return StepOrder(
        name=texts.name,
        argv=texts.command,
        environment=settings.environment,
        once=texts.once,
        complete_by=read.own("complete_by"),
        attempts=read.own("attempts") or 1,
        retry_delay=read.own("retry_delay") or BY_NAME["retry_delay"].parse(BY_NAME["retry_delay"].default or ""),
        stop_grace=read.own_or_run("stop_grace"),
        capture=read.own_or_run("capture"),
    )


def command_of_list(steps: Sequence[StepTexts], *, expand: bool) -> list[str]:
    """The command of a run whose job is a list of steps: a process that does one after the other."""
    document = {"expand": expand, "steps": [asdict(step) for step in steps]}
    return [sys.executable, "-P", "-m", LIST_RUNNER, json.dumps(document)]


def orders_of_list(text: str, settings: Settings) -> list[StepOrder]:
    """The list back from that command; what it holds has been checked before it was handed on."""
    document = json.loads(text)
    steps = [step_of(step) for step in document["steps"]]
    facts = {name: settings.environment.get(f"CRONGUARD_{name.upper()}", "") for name in EXPANDED}
    orders = orders_of(steps, settings, "the list")
    if not document["expand"]:
        return orders
    return [replace(order, argv=filled_in(order.argv, facts)) for order in orders]


def orders_of(steps: Sequence[StepTexts], settings: Settings, origin: str) -> list[StepOrder]:
    """Of all the steps of a list; raises BadInput for the first thing in it that makes no sense."""
    return [order_of_step(step, settings, f"{origin}, step {step.name}: ".__add__) for step in steps]


class _Reader:
    """Values by the parsers of the knobs, from what the step says, or else from the settings of its run."""

    def __init__(self, texts: StepTexts, settings: Settings, place: Callable[[str], str]) -> None:
        self._texts, self._settings, self._place = texts, settings, place

    def own(self, name: str) -> Any:
        """None where the step says nothing: what its run has been told about this is about the run."""
        text = getattr(self._texts, name)
        if text is None:
            return None
        try:
            return BY_NAME[name].parse(text)
        except BadInput as error:
            raise BadInput(f"{self._place(name)}: {error}") from None

    def own_or_run(self, name: str) -> Any:
        found = self.own(name)
        return self._settings[name] if found is None else found
