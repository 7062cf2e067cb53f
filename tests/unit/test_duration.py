"""Lengths of time: what may be typed, and how they are written back."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronguard.domain.duration import LONGEST, parse_duration
from cronguard.domain.text import format_duration
from cronguard.errors import BadInput

ROOT = Path(__file__).parents[2]
MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("90s", 1.5 * MINUTE),
        ("15m", 15 * MINUTE),
        ("1h30m", 90 * MINUTE),
        ("1.5h", 90 * MINUTE),
        ("2d", timedelta(days=2)),
        ("1w", timedelta(days=7)),
        ("0.5s", timedelta(milliseconds=500)),
        ("1w2d3h4m5s", timedelta(days=9, hours=3, minutes=4, seconds=5)),
        ("3660d", LONGEST),
    ],
)
def test_a_duration_is_read(text: str, length: timedelta) -> None:
    assert parse_duration(text) == length


@pytest.mark.parametrize(
    "text",
    [
        "10min",
        "90",
        "-5m",
        "+5m",
        "",
        " ",
        "m",
        "5 m",
        "5m ",
        "15M",
        "1h, 30m",
        "30m1h",
        "1m1m",
        "1mm",
        "1y",
        "1.h",
        ".5h",
        "1..5h",
        "1e3s",
        "500ms",
        "٣m",
        "5m\n",
        "1_000s",
        "never",
        "0",
        "inf",
        "nan",
    ],
)
def test_what_is_no_duration_is_refused_with_the_forms_that_are(text: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_duration(text)
    assert str(refused.value) == f"{text!r} is not a duration; write it like 90s, 15m, 1h30m, 2d or 1w"


@pytest.mark.parametrize("text", ["0s", "0h0m", "0.0000001s"])
def test_no_time_at_all_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is no time at all; write it like 90s"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["3661d", "523w", "999999999w", "99999999d"])
def test_more_than_ten_years_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is longer than ten years; write it like 90s"):
        parse_duration(text)


@given(st.text(max_size=20) | st.from_regex(r"[0-9.wdhms]{1,12}", fullmatch=True))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        assert timedelta() < parse_duration(text) <= LONGEST
    except BadInput as refused:
        assert len(str(refused).splitlines()) == 1


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (15 * MINUTE, "15m"),
        (90 * MINUTE, "1h30m"),
        (timedelta(days=1), "1d"),
        (timedelta(days=7), "7d"),
        (timedelta(hours=36), "1d12h"),
        (timedelta(milliseconds=500), "0.5s"),
        (timedelta(seconds=61, microseconds=1), "1m1.000001s"),
        (timedelta(), "0s"),
        (timedelta(seconds=-90), "-1m30s"),
    ],
)
def test_a_duration_is_written_without_empty_parts(length: timedelta, text: str) -> None:
    assert format_duration(length) == text


@settings(deadline=None)
@given(st.timedeltas(min_value=timedelta(microseconds=1), max_value=LONGEST))
def test_what_is_written_is_read_back_to_the_microsecond(length: timedelta) -> None:
    assert parse_duration(format_duration(length)) == length


def test_writing_a_duration_and_naming_a_cadence_load_no_library() -> None:
    code = (
        "import sys; from datetime import timedelta;"
        "from cronguard.domain import cadence, deadline, period, text;"
        "cadence.Cadence.parse('day'); deadline.Deadline.parse('07:00'); text.format_duration(timedelta(1));"
        "print({'durationpy', 'cronsim', 'difflib'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
