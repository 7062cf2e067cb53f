"""The generated blocks of the man page (mdoc) and of the README (Markdown), and how they are put in their places."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cronguard.errors import EXIT_CODES
from cronguard.settings.knobs import KNOBS
from tools.bounds import bounds
from tools.command_tree import Option, command
from tools.meanings import SKIP_REASONS, default_of, exit_of_skip, may_stand_in, meaning_of


class MarkerError(Exception):
    """A document has not the markers it should have."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """What stands between `begin` (with the block's name) and `end`, each a line of its own."""

    begin: str
    end: str
    texts: dict[str, Callable[[], str]]
    may_have_none: bool = False

    def fill(self, document: str) -> str:
        """The document with every block made anew; raises MarkerError for one that is unknown, double or absent."""
        pattern = re.compile(
            rf"^{re.escape(self.begin).replace('NAME', '([a-z-]+)')}\n(?:.*\n)*?{re.escape(self.end)}$", re.MULTILINE
        )
        found = [match[1] for match in pattern.finditer(document)]
        if sorted(found) != sorted(self.texts) and (found or not self.may_have_none):
            raise MarkerError(f"has the blocks {found or 'none'}, and should have each of {list(self.texts)} once")
        return pattern.sub(lambda match: self._block(match[1]), document)

    def _block(self, name: str) -> str:
        return f"{self.begin.replace('NAME', name)}\n{self.texts[name]()}{self.end}"


# --------------------------------------------------------------------------- the man page


def of_man() -> Blocks:
    texts = {
        "options": _man_options,
        "environment": _man_environment,
        "exit-codes": lambda: "".join(f".It {code}\n{_sentence(text)}\n" for code, text in EXIT_CODES),
        "skip-reasons": _man_skip_reasons,
    }
    return Blocks('.\\" generated: NAME', '.\\" end', texts)


def _man_options() -> str:
    return "".join(map(_man_option, command("run").options))


def _man_option(option: Option) -> str:
    default = default_of(option)
    sentences = [_sentence(meaning_of(option)), *([f"The default is {_roff(default)}."] if default else [])]
    return f".It {_man_names(option)}\n" + "\n".join(sentences) + "\n"


def _man_names(option: Option) -> str:
    names = " , ".join(f"Fl {name[1:]}" if name in option.shorts else f"Fl Fl {name[2:]}" for name in option.names)
    if option.alternatives:
        return f"{names} Cm {' | '.join(option.alternatives)}"
    return f"{names} Ar {option.metavar}" if option.metavar else names


def _man_environment() -> str:
    return "".join(f".It Ev {knob.variable}\n.Fl Fl {knob.option[2:]}\n" for knob in KNOBS)


def _man_skip_reasons() -> str:
    rows = ((reason, text, exit_of_skip(reason)) for reason, text in SKIP_REASONS.items())
    return "".join(f".It Sy {reason}\n{_sentence(text)}\nExit code: {_roff(code)}.\n" for reason, text, code in rows)


def _sentence(text: str) -> str:
    """Begun with a capital, unless it begins with our name, and ended with a full stop."""
    first = text[:1] if text.startswith("cronguard") else text[:1].upper()
    sentence = f"{first}{text[1:].rstrip('.')}."
    return _roff("\n".join(textwrap.wrap(sentence, 74, break_on_hyphens=False)))


def _roff(text: str) -> str:
    """Plain text for roff: options keep their hyphens, and what is not ASCII has a name."""
    text = text.replace("\\", "\\e").replace("--", "\\-\\-")
    return "".join(char if char.isascii() else f"\\[u{ord(char):04X}]" for char in text)


# --------------------------------------------------------------------------- the README


def of_readme() -> Blocks:
    """Until it is written the README has no block; from its first one on it must have them all."""
    texts = {
        "options": _readme_options,
        "exit-codes": lambda: _table(("code", "meaning"), ((f"`{code}`", text) for code, text in EXIT_CODES)),
        "skip-reasons": _readme_skip_reasons,
    }
    return Blocks("<!-- generated: NAME -->", "<!-- end -->", texts, may_have_none=True)


def _readme_options() -> str:
    head = ("option", "variable", "configuration", "default", "meaning")
    return _table(head, (_readme_option(option) for option in command("run").options))


def _readme_option(option: Option) -> tuple[str, ...]:
    names = ", ".join(f"`{name}{f' {option.metavar}' if option.metavar else ''}`" for name in option.names)
    variable = f"`{option.knob.variable}`" if option.knob else ""
    return names, variable, _configuration(option), default_of(option), _clause(meaning_of(option))


def _clause(text: str) -> str:
    """Begun small, unless the first word is an abbreviation, and without a full stop."""
    return (text if text[:2].isupper() else text[:1].lower() + text[1:]).rstrip(".")


def _configuration(option: Option) -> str:
    """The key in the configuration, and where it may stand if not everywhere."""
    sections = may_stand_in(option.knob.name) if option.knob else ()
    if not (option.knob and sections):
        return ""
    return f"`{option.knob.name}`" + (f" in `[{sections[0]}]` only" if len(sections) == 1 else "")


def _readme_skip_reasons() -> str:
    rows = ((f"`{reason}`", text, exit_of_skip(reason)) for reason, text in SKIP_REASONS.items())
    return _table(("reason", "meaning", "exit code"), rows)


# --------------------------------------------------------------------------- the promises


def of_guarantees() -> Blocks:
    return Blocks("<!-- generated: NAME -->", "<!-- end of bounds -->", {"bounds": _bounds})


def _bounds() -> str:
    return _table(("bound", "by default", "of what"), bounds())


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = (" | ".join(cell.replace("|", "\\|") for cell in row) for row in (head, ("---",) * len(head), *rows))
    return "".join(f"| {line} |\n" for line in lines)
