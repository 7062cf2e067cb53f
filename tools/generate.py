"""Write what follows from the program itself: completions, and the generated blocks of man page, README and promises.

python tools/generate.py            write what differs
python tools/generate.py --check    write nothing; name what differs, and exit 1 if anything does
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from tools import blocks, shell_completions
from tools.command_tree import commands

ROOT = Path(__file__).resolve().parents[1]


def main(argv: list[str]) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description="Write what follows from the command line itself.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1, naming each file that differs")
    check = parser.parse_args(argv).check
    differing = [(path, text) for path, text in generated() if not path.exists() or path.read_text() != text]
    for path, text in differing:
        if check:
            print(f"{path.relative_to(ROOT)} is not what tools/generate.py would write", file=sys.stderr)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            print(f"wrote {path.relative_to(ROOT)}")
    return 1 if check and differing else 0


def generated() -> Iterator[tuple[Path, str]]:
    """Each file that is generated, whole or in part, as it should be."""
    found = commands()
    yield ROOT / "completions" / "cronguard.bash", shell_completions.bash(found)
    yield ROOT / "completions" / "_cronguard", shell_completions.zsh(found)
    yield ROOT / "completions" / "cronguard.fish", shell_completions.fish(found)
    yield filled(ROOT / "man" / "cronguard.1", blocks.of_man())
    yield filled(ROOT / "README.md", blocks.of_readme())
    yield filled(ROOT / "docs" / "guarantees.md", blocks.of_guarantees())


def filled(path: Path, made: blocks.Blocks) -> tuple[Path, str]:
    """A document with its blocks filled; SystemExit when it lacks one."""
    try:
        return path, made.fill(path.read_text())
    except blocks.MarkerError as error:
        raise SystemExit(f"{path.relative_to(ROOT)}: {error}") from None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
