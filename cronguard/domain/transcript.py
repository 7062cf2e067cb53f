"""What others said, as text that is safe to show: a command's output, which was bytes, cut wherever the limit fell,
and may be anything; notes, subjects and kinds, which a job may write as it likes.
"""

from __future__ import annotations

import codecs
import re
from shlex import quote

from cronguard.domain.run import Captured

_CUT_OFF = re.compile(rb"[\x80-\xbf]{1,3}")  # the rest of a character in UTF-8
_KEPT = frozenset("\n\t\u00a0")
_SPELLED = {"\n": "\\n", "\t": "\\t"}
_CARET = 0x40  # control characters are written as cat -v does: ^@ for NUL, ^[ for the escape


def texts_of(captured: Captured) -> tuple[str, str]:
    """Its head and its tail as text; what is not UTF-8 is replaced, a character that the gap cut in two left out."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    head, tail = decoder.decode(captured.head), captured.tail
    if captured.left_out:
        decoder.reset()
        cut_off = _CUT_OFF.match(tail)
        tail = tail[cut_off.end() :] if cut_off else tail
    return head, decoder.decode(tail, final=True)


def visible(text: str) -> str:
    """Safe on a terminal: lines and tabs stay, everything else that does not print is written out."""
    return "".join(map(_visible, text.replace("\r\n", "\n")))


def on_one_line(text: str) -> str:
    """Likewise, where a new line would read as another record."""
    return visible(text).replace("\n", "\\n")


def quoted(text: str) -> str:
    """As one word of a shell, which reads it back to the byte; what does not print is spelled out in it."""
    return quote(text) if text.isprintable() else f"$'{''.join(map(_spelled, text))}'"


def _spelled(character: str) -> str:
    if character.isprintable() and character not in "'\\":
        return character
    octal = (f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))
    return _SPELLED.get(character) or "".join(octal)


def _visible(character: str) -> str:
    if character.isprintable() or character in _KEPT:
        return character
    code = ord(character)
    return f"^{chr(code ^ _CARET)}" if code < 0x80 else character.encode("unicode_escape").decode()
