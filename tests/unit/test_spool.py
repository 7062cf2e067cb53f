"""Undelivered results on this host: whole or not there, for the right ledger, from this user alone."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from cronguard.domain.lifecycle import Ending
from cronguard.domain.run import Captured, Outcome
from cronguard.stores.spool import FileSpool
from tests.unit.test_lifecycle import HELD

SAID = Captured(b"\0\xff head", b"tail\n", 10_000, ("sink_lost",))
ENDING = Ending(Outcome.FAILED, exit_code=3, note="naïve \udcff", captured=SAID)


def test_result_is_read_back_as_it_was_kept_and_forgotten_once_delivered(tmp_path: Path) -> None:
    spool = FileSpool([tmp_path / "spool"], "db/ops")
    assert spool.waiting() == []
    name = spool.keep(HELD, ENDING)
    assert os.stat(name).st_mode & 0o777 == 0o600
    [(found, held, ending)] = spool.waiting()
    assert (found, ending) == (name, ENDING)
    assert (held.run.key, held.run.period, held.run.token, held.lease.holder) == (
        "job",
        "2026-11-30",
        7,
        HELD.lease.holder,
    )
    spool.forget(name)
    spool.forget(name)
    assert spool.waiting() == []


def test_result_that_the_version_before_kept_is_read_too(tmp_path: Path) -> None:
    spool = FileSpool([tmp_path], "db/ops")
    path = Path(spool.keep(HELD, ENDING))
    document = json.loads(path.read_text())
    del document["ending"]["captured"]
    path.write_text(json.dumps(document))
    [(_, _, ending)] = spool.waiting()
    assert ending == replace(ENDING, captured=None)


def test_result_brings_all_of_the_run_that_a_ledger_would_need_that_has_forgotten_it(tmp_path: Path) -> None:
    spool = FileSpool([tmp_path], "db/ops")
    at = HELD.now
    run = replace(
        HELD.run, lane="2026-11-30", period_start=at, period_end=at, slot=at, complete_by=at, zone="Asia/Tokyo"
    )
    run = replace(run, cadence="day", source="schedule", recoveries=2, recoveries_allowed=5, attempts_allowed=4)
    spool.keep(replace(HELD, run=run), ENDING)
    [(_, held, _)] = spool.waiting()
    assert held.run == run


def test_result_of_another_ledger_waits_for_that_ledger(tmp_path: Path) -> None:
    FileSpool([tmp_path], "db/other").keep(HELD, ENDING)
    assert FileSpool([tmp_path], "db/ops").waiting() == []


def test_folder_that_cannot_be_written_gives_way_to_the_next(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    spool = FileSpool([tmp_path / "file" / "spool", tmp_path / "fallback"], "db/ops")
    assert spool.keep(HELD, ENDING).startswith(str(tmp_path / "fallback"))
    assert len(spool.waiting()) == 1


def test_nowhere_to_write_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError):
        FileSpool([tmp_path / "file" / "spool"], "db/ops").keep(HELD, ENDING)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"ledger": "db/ops"}', '{"ledger": "db/ops", "run": {"a": 1}}', "\x00"]
)
def test_file_that_is_no_result_is_left_for_a_person(tmp_path: Path, text: str) -> None:
    path = tmp_path / "1-x.result.json"
    path.write_text(text)
    assert FileSpool([tmp_path], "db/ops").waiting() == []
    assert path.exists()


def test_unfinished_file_is_not_a_result(tmp_path: Path) -> None:
    spool = FileSpool([tmp_path], "db/ops")
    name = Path(spool.keep(HELD, ENDING))
    name.rename(name.with_name(f".{name.name}.tmp"))
    assert spool.waiting() == []
