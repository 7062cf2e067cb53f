"""Output as text: cut anywhere, no text at all, or out to play tricks on a terminal."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronguard.domain.run import Captured
from cronguard.domain.transcript import on_one_line, quoted, texts_of, visible


def test_character_on_the_edge_of_head_and_tail_is_whole_where_nothing_is_left_out() -> None:
    data = "aé".encode()
    head, tail = texts_of(Captured(data[:2], data[2:], len(data)))
    assert head + tail == "aé"


@pytest.mark.parametrize("character", ["é", "€", "🙂"])
def test_character_that_the_gap_cut_in_two_is_left_out_on_both_sides(character: str) -> None:
    data = character.encode()
    for cut in range(1, len(data)):
        assert texts_of(Captured(b"a" + data[:cut], data[cut:] + b"z", 1000)) == ("a", "z")


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert texts_of(Captured(b"\xff\xfea", b"b\xc3", 4 + 1)) == ("\ufffd\ufffda", "b\ufffd")
    assert texts_of(Captured(b"a\xff", b"\xc3", 1000)) == ("a\ufffd", "\ufffd")


@given(st.binary(max_size=40), st.integers(0, 40))
def test_nothing_but_what_is_whole_is_changed_by_the_cut(data: bytes, cut: int) -> None:
    head, tail = texts_of(Captured(data[:cut], data[cut:], len(data)))
    assert head + tail == data.decode("utf-8", "replace")


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("one\n\ttwo\u00a0é🙂", "one\n\ttwo\u00a0é🙂"),
        ("dos\r\n10%\r20%", "dos\n10%^M20%"),
        ("\x00\x1b[31mred\x7f", "^@^[[31mred^?"),
        ("\x9b31m", "\\x9b31m"),  # the escape in one character
        ("\u202eright to left", "\\u202eright to left"),
    ],
)
def test_what_does_not_print_is_written_out(text: str, seen: str) -> None:
    assert visible(text) == seen


@given(st.text())
def test_nothing_that_could_move_a_cursor_is_left(text: str) -> None:
    assert all(character.isprintable() or character in "\n\t\u00a0" for character in visible(text))


def test_on_one_line_nothing_reads_as_another_record() -> None:
    assert on_one_line("a\x1b[2Jb\r\nsecond\n") == "a^[[2Jb\\nsecond\\n"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("ada", "ada"),
        ("", "''"),
        ("Zoë, 2. Stock", "'Zoë, 2. Stock'"),
        ("it's", "'it'\"'\"'s'"),
        ("two\nlines\tit's \\ é", "$'two\\nlines\\tit\\047s \\134 é'"),
        ("\x1b[2J7", "$'\\033[2J7'"),
        ("\u202e7", "$'\\342\\200\\2567'"),
    ],
)
def test_a_shell_reads_back_what_is_quoted(text: str, word: str) -> None:
    assert quoted(text) == word
    read = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True)
    assert read.stdout == text.encode()
