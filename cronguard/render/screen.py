"""A terminal that is looked at for a while: what has not changed is not written again."""

from __future__ import annotations

import re

from cronguard.render.printing import print_text, terminal_size

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_CLEAR_ALL, _CLEAR_BELOW, _UP = "\x1b[H\x1b[2J", "\r\x1b[J", "\x1b[{}A"


class Screen:
    """Shows one text in the place of the last. Where the cursor cannot be moved the new one comes below it."""

    def __init__(self, *, can_move: bool) -> None:
        self._can_move = can_move
        self._shown: str | None = None
        self._size = terminal_size()

    def show(self, text: str) -> None:
        size = terminal_size()
        text = _cut(text, *size) if self._can_move else text
        if (text, size) == (self._shown, self._size):
            return
        print_text(self._way_back(size) + text)
        self._shown, self._size = text, size

    def _way_back(self, size: tuple[int, int]) -> str:
        """To where the last text began; a window that has changed its size has moved all lines."""
        if self._shown is None or not self._can_move:
            return "\n" if self._shown else ""
        if size != self._size:
            return _CLEAR_ALL
        lines = sum(_height(line, size[0]) for line in self._shown.splitlines())
        return _UP.format(lines) + _CLEAR_BELOW


def _height(line: str, width: int) -> int:
    return max(1, -(-len(_COLOURS.sub("", line)) // width)) if width else 1


def _cut(text: str, width: int, height: int) -> str:
    """As many lines as the window has, less one for the cursor: nobody can go back to what has scrolled away."""
    lines, used = text.splitlines(), 0
    kept: list[str] = []
    for line in lines:
        used += _height(line, width)
        if height and used > height - 2 and len(lines) > len(kept) + 1:
            return "\n".join([*kept, f"... and {len(lines) - len(kept)} more lines"]) + "\n"
        kept.append(line)
    return text
