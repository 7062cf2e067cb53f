"""A length of time as people type it: 90s, 15m, 1h30m, 2d, 1w.

Writing one is `text.format_duration`, which does not need this module or its
library.
"""

from __future__ import annotations

import re
from datetime import timedelta

import durationpy  # noqa: TID253 - its one home: whoever reads a free duration enters by this module

from cronguard.errors import BadInput

LONGEST = timedelta(days=3660)  # ten years: whatever is longer was a slip of the keyboard

_FORMS = "write it like 90s, 15m, 1h30m, 2d or 1w"
# The library reads more than people mean: `1h, 30m` passes, `1mm` is a month. Here: large units first, each once.
_SHAPE = re.compile("(?=.)" + "".join(rf"(?:\d{{1,9}}(?:\.\d{{1,9}})?{unit})?" for unit in "wdhms"), re.ASCII)


def parse_duration(text: str) -> timedelta:
    """The length of time that `text` names: more than nothing, at most ten years. Raises BadInput.

    A number always has its unit (w, d, h, m, s); a decimal fraction is fine (1.5h).
    """
    if not _SHAPE.fullmatch(text):
        raise BadInput(f"{text!r} is not a duration; {_FORMS}")
    try:
        length = durationpy.from_str(text)
    except (ValueError, OverflowError):  # in shape, so only too large
        length = timedelta.max
    if length <= timedelta():
        raise BadInput(f"{text!r} is no time at all; {_FORMS}")
    if length > LONGEST:
        raise BadInput(f"{text!r} is longer than ten years; {_FORMS}")
    return length
