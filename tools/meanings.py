"""What options and skip reasons mean, for the documents: asked of the program wherever it knows."""

from __future__ import annotations

import re
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from cronguard.domain.claim import Skipped
from cronguard.domain.run import Run, SkipReason, State
from cronguard.errors import BadInput
from cronguard.services.judging import exit_code_of_skip
from cronguard.settings.config_file import read_config
from tools.command_tree import Option

_DEFAULT_IN_HELP = re.compile(r" \(([^()]+)\)$")

SKIP_REASONS: dict[SkipReason, str] = {
    SkipReason.HELD: "another holder has a live lease of the key (with --exclusive period: of this period)",
    SkipReason.ALREADY_SUCCEEDED: "the run of this period succeeded; --rerun --force runs it again",
    SkipReason.ATTEMPTS_SPENT: "the run failed or ran out of time and has no attempt left; --rerun runs it again",
    SkipReason.RECOVERIES_SPENT: "its holders died and it has no recovery left, it is dead; --rerun runs it again",
    SkipReason.ECHO: "the clock chose this period moments after another period of the key was started: "
    "two clocks on either side of an edge; --schedule tells the periods apart",
    SkipReason.TOO_LATE: "its start-by or its complete-by has passed",
    SkipReason.PAUSED: "the key is paused in the ledger",
    SkipReason.CANCELLED: "the run was cancelled in the ledger; --rerun runs it after all",
    SkipReason.PRUNED: "the period is older than what the ledger remembers",
    SkipReason.RESULT_WAITING: "it ran on this host, and its result still waits to be delivered to the ledger",
}


def default_of(option: Option) -> str:
    """The default as a person would type it or say it; nothing for a switch, or where nothing stands in for it."""
    knob = option.knob
    if knob is None or knob.is_flag:
        return ""
    in_help = _DEFAULT_IN_HELP.search(knob.help)
    return knob.default or (in_help[1] if in_help else "")


def meaning_of(option: Option) -> str:
    """The help without the default that it may end with."""
    if option.knob is None:
        return option.help
    return option.knob.help if option.knob.default else _DEFAULT_IN_HELP.sub("", option.knob.help)


def may_stand_in(name: str) -> tuple[str, ...]:
    """The sections of the configuration in which a knob may be set, by trying them."""
    return tuple(section for section in ("defaults", 'jobs."KEY"') if _is_accepted(section, name))


def _is_accepted(section: str, name: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.toml"
        path.write_text(f'[{section}]\n{name} = "1"\n')
        try:
            read_config(path)
        except BadInput:
            return False
    return True


def exit_of_skip(reason: SkipReason) -> str:
    """The exit code of such a skip, found by asking with a run and a --skip-exit that cannot be mistaken."""
    ended_badly, skip_exit = 3, 42
    state = State.DEAD if reason is SkipReason.RECOVERIES_SPENT else State.FAILED
    run = Run("key", "period", state, exit_code=ended_badly)
    code = exit_code_of_skip(Skipped(reason, datetime(2026, 11, 30, tzinfo=UTC), run), skip_exit)
    return {skip_exit: "0, or --skip-exit", ended_badly: "that of the run"}.get(code, str(code))
