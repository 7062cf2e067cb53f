"""Completions: static files that the shells accept, and that complete what the command line has."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cronguard.domain.cadence import Cadence
from cronguard.errors import BadInput
from tools.command_tree import Command, commands
from tools.shell_completions import WORDS

COMPLETIONS = Path(__file__).resolve().parents[2] / "completions"
BASH, ZSH, FISH = COMPLETIONS / "cronguard.bash", COMPLETIONS / "_cronguard", COMPLETIONS / "cronguard.fish"
COMMANDS = tuple(command for command in commands() if command.name)

# What is typed, and what is offered at its end; gadget-… and settings.toml are in the fixture's folder.
CASES = (
    ("cronguard ", {command.name for command in COMMANDS}),
    ("cronguard hi", {"history"}),
    ("cronguard --v", {"--version"}),
    ("cronguard run --comp", {"--complete-by"}),
    ("cronguard run --key digest --exp", {"--expand"}),
    ("cronguard run --every ", set(WORDS["CADENCE"])),
    ("cronguard run --exclusive ", {"key", "period"}),
    ("cronguard run --rerun --if-held w", {"wait"}),
    ("cronguard run --period cur", {"current"}),
    ("cronguard run --config sett", {"settings.toml"}),
    ("cronguard run --state-dir sta", {"state"}),
    ("cronguard run --key digest gadget-", {"gadget-one", "gadget-two"}),
    ("cronguard run --key digest -- gadget-", {"gadget-one", "gadget-two"}),
    ("cronguard run --key digest -- gadget-one sett", {"settings.toml"}),
    ("cronguard once mail ada --period x -- gadget-", {"gadget-one", "gadget-two"}),
    ("cronguard once mail ada -- gadget-one sett", {"settings.toml"}),
    ("cronguard once mail ada --released", {"--released-on"}),
    ("cronguard effects mail --state ", {"sending", "sent", "released", "unknown"}),
    ("cronguard claim mail --file sett", {"settings.toml"}),
    ("cronguard history --js", {"--json"}),
    ("cronguard pau", {"pause"}),
    ("cronguard reset --re", {"--reason"}),
    ("cronguard beat --pro", {"--progress"}),
    ("cronguard step pull --on", {"--once"}),
    ("cronguard step pull --complete-by ", {"never"}),
    ("cronguard step pull --once -- gadget-", {"gadget-one", "gadget-two"}),
    ("cronguard settle --ag", {"--again"}),
    ("cronguard show --dsn-file sett", {"settings.toml"}),
    ("cronguard doctor --cr", {"--cron"}),
    ("cronguard supervise --met", {"--metrics"}),
    ("cronguard supervise --metrics sett", {"settings.toml"}),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A home with two programs of the test's own in its `bin`, a file and a folder."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "state").mkdir()
    (tmp_path / "settings.toml").touch()
    for name in ("gadget-one", "gadget-two"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def _environment(folder: Path) -> dict[str, str]:
    path = f"{folder / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    return {"PATH": path, "HOME": str(folder), "ZDOTDIR": str(folder), "LANG": "C.UTF-8", "TERM": "dumb"}


def _said(folder: Path, *command: str) -> str:
    """What a shell prints; its stderr must stay empty."""
    done = subprocess.run(
        command, cwd=folder, env=_environment(folder), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# --- bash -------------------------------------------------------------------------------------------------------------

# As bash itself calls a completion: words, the number of the one at the cursor, and the answer in COMPREPLY.
_IN_BASH = """
source "$1"; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
[[ $(complete -p cronguard) == *"-F _cronguard cronguard" ]] && _cronguard cronguard
printf '%s\\n' "${COMPREPLY[@]}"
"""


def _in_bash(folder: Path, *words: str, before: str = "") -> set[str]:
    said = _said(folder, "bash", "--norc", "-c", before + _IN_BASH, "bash", str(BASH), *words)
    return set(said.splitlines()) - {""}


def test_bash_accepts_its_file() -> None:
    subprocess.run(["bash", "-n", str(BASH)], check=True)


@pytest.mark.parametrize(("typed", "offered"), CASES)
def test_bash_completes(folder: Path, typed: str, offered: set[str]) -> None:
    assert _in_bash(folder, *typed.split(" ")) == offered


@pytest.mark.parametrize(("words", "offered"), [(("=",), {"key", "period"}), (("=", "pe"), {"period"})])
def test_bash_completes_a_value_behind_an_equals_sign(folder: Path, words: tuple[str, ...], offered: set[str]) -> None:
    """bash gives the sign as a word of its own."""
    assert _in_bash(folder, "cronguard", "run", "--exclusive", *words) == offered


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_bash_offers_every_option(folder: Path, command: Command) -> None:
    names = {name for option in command.options for name in option.names}
    assert _in_bash(folder, "cronguard", command.name, "-") == names


@pytest.mark.parametrize("helper", ["_command_offset", "_comp_command_offset"])
def test_bash_leaves_the_command_to_the_completions_that_are_installed(folder: Path, helper: str) -> None:
    before = f'{helper}() {{ COMPREPLY=("word $1"); }}\n'
    for typed in ("cronguard run --key digest -- tar -", "cronguard run --key=digest -- tar -"):
        words = typed.replace("=", " = ").split(" ")
        assert _in_bash(folder, *words, before=before) == {f"word {words.index('tar')}"}


# --- fish -------------------------------------------------------------------------------------------------------------


def _in_fish(folder: Path, typed: str) -> set[str]:
    said = _said(folder, "fish", "--command", f"source {FISH}; complete -C '{typed}'")
    return {line.partition("\t")[0].rstrip("/") for line in said.splitlines()}


@pytest.mark.needs("fish")
def test_fish_accepts_its_file() -> None:
    subprocess.run(["fish", "--no-execute", str(FISH)], check=True)


@pytest.mark.needs("fish")
@pytest.mark.parametrize(("typed", "offered"), CASES)
def test_fish_completes(folder: Path, typed: str, offered: set[str]) -> None:
    assert _in_fish(folder, typed) == offered


@pytest.mark.needs("fish")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_fish_offers_every_option(folder: Path, command: Command) -> None:
    names = {name for option in command.options for name in option.names}
    assert _in_fish(folder, f"cronguard {command.name} -") == names


@pytest.mark.needs("fish")
def test_fish_offers_no_option_of_ours_behind_the_command(folder: Path) -> None:
    assert _in_fish(folder, "cronguard run --key digest gadget-one --comp") == set()
    assert _in_fish(folder, "cronguard run --key digest -- gadget-one --comp") == set()


# --- zsh --------------------------------------------------------------------------------------------------------------


class Zsh:
    """An interactive zsh at a terminal; zsh completes nothing elsewhere."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal

    def type(self, text: str, until: set[str]) -> str:
        """Type, and read until the answer has all these words; AssertionError after a while."""
        os.write(self._terminal, text.encode())
        said, limit = "", time.monotonic() + 30
        while not all(word in said.replace(text.strip(), "") for word in until):
            assert time.monotonic() < limit, said
            if select.select([self._terminal], [], [], 0.1)[0]:
                said += os.read(self._terminal, 65536).decode(errors="replace")
        return said

    @classmethod
    @contextmanager
    def opened(cls, folder: Path) -> Iterator[Zsh]:
        """With completions set up, a wide line, and TAB to list them."""
        (folder / ".zshrc").write_text(
            f"fpath=({COMPLETIONS} $fpath); autoload -U compinit; compinit -u -D\n"
            "bindkey '^I' list-choices; LISTMAX=0; PS1='ready> '; stty columns 200 rows 100 -echo\n"
        )
        outer, inner = pty.openpty()
        zsh = subprocess.Popen(
            ["zsh", "-i"], cwd=folder, env=_environment(folder), stdin=inner, stdout=inner, stderr=inner,
            start_new_session=True,
        )  # fmt: skip
        os.close(inner)
        try:
            shell = cls(outer)
            shell.type("", {"ready> "})
            yield shell
        finally:
            zsh.kill()
            zsh.wait()
            with contextlib.suppress(OSError):
                os.close(outer)


@pytest.mark.needs("zsh")
def test_zsh_accepts_its_file() -> None:
    subprocess.run(["zsh", "-n", str(ZSH)], check=True)


@pytest.mark.needs("zsh")
def test_zsh_completes(folder: Path) -> None:
    with Zsh.opened(folder) as zsh:
        for number, (typed, offered) in enumerate(CASES):
            zsh.type(f"{typed}\t", offered)
            zsh.type(f"\x15echo done''{number}\n", {f"done{number}"})  # nothing of this answer is left for the next


# --- Words ------------------------------------------------------------------------------------------------------------


def test_the_cadences_that_are_offered_are_those_that_have_a_name() -> None:
    assert [Cadence.parse(word).name for word in WORDS["CADENCE"]] == list(WORDS["CADENCE"])
    with pytest.raises(BadInput, match=f"write {', '.join(WORDS['CADENCE'])}, or an interval"):
        Cadence.parse("fortnight")
