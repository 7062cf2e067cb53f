"""The folder where undelivered results wait: one file each, whole or not there, for its owner alone."""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from cronguard.domain.claim import Granted
from cronguard.domain.lifecycle import Ending
from cronguard.domain.run import Attempt, Captured, Holder, Lease, Outcome, Run, State

SUFFIX = ".result.json"
# All of it that a ledger would need that has forgotten the run.
_OF_RUN = (
    "key", "period", "lane", "token", "attempt", "failures", "recoveries", "attempts_allowed", "recoveries_allowed",
    "zone", "cadence", "source", "steps_hash",
)  # fmt: skip
_INSTANTS = ("period_start", "period_end", "slot", "started_at", "complete_by")


class FileSpool:
    """Results for one ledger, in the first of these folders that can be written; all of them are read."""

    def __init__(self, folders: list[Path], ledger: str) -> None:
        self._folders = folders
        self._ledger = ledger

    def keep(self, held: Granted, ending: Ending) -> str:
        """Write, sync, rename; raises the last OSError when no folder can be written."""
        text = json.dumps(_document(self._ledger, held, ending))
        failure = OSError("no folder to keep results in")
        for folder in self._folders:
            try:
                return _write(folder, f"{held.run.token}-{held.lease.holder.id}{SUFFIX}", text)
            except OSError as error:
                failure = error
        raise failure

    def packed(self, held: Granted, ending: Ending) -> bytes:
        """A result as `keep` would write it."""
        return json.dumps(_document(self._ledger, held, ending)).encode()

    def unpacked(self, text: bytes) -> tuple[Granted, Ending] | None:
        """What `packed` has packed; None for anything else."""
        with suppress(ValueError):
            return self._result_in(json.loads(text))
        return None

    def waiting(self) -> list[tuple[str, Granted, Ending]]:
        paths = [path for folder in self._folders for path in _own_results(folder)]
        documents = ((str(path), _read(path)) for path in sorted(paths, key=lambda path: path.name))
        return [(name, *found) for name, document in documents if (found := self._result_in(document))]

    def count(self) -> int:
        """All results of this user's, also those for other ledgers and those that cannot be read."""
        return sum(len(_own_results(folder)) for folder in self._folders)

    def _result_in(self, document: dict[str, Any] | None) -> tuple[Granted, Ending] | None:
        """None for another ledger's result, and for what is no result: that is left for a person to look at."""
        if document is None or document.get("ledger") != self._ledger:
            return None
        with suppress(KeyError, TypeError, ValueError):
            return _result(document)
        return None

    def forget(self, name: str) -> None:
        with suppress(FileNotFoundError):
            Path(name).unlink()


def _own_results(folder: Path) -> list[Path]:
    """Only what this user wrote: a folder below /tmp may hold anybody's files."""
    with suppress(OSError):
        found = [Path(entry.path) for entry in os.scandir(folder) if entry.name.endswith(SUFFIX)]
        return [path for path in found if path.lstat().st_uid == os.geteuid()]
    return []


def _write(folder: Path, name: str, text: str) -> str:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.stat().st_uid != os.geteuid():
        raise PermissionError(f"{folder} belongs to somebody else")
    unfinished, path = folder / f".{name}", folder / name
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)
    return str(path)


def _read(path: Path) -> dict[str, Any] | None:
    with suppress(OSError, ValueError):
        document = json.loads(path.read_text(encoding="utf-8"))
        return document if isinstance(document, dict) else None
    return None


def _document(ledger: str, held: Granted, ending: Ending) -> dict[str, Any]:
    run = held.run
    known = {name: getattr(run, name) for name in _OF_RUN}
    instants = {name: at.isoformat() for name in _INSTANTS if (at := getattr(run, name)) is not None}
    return {
        "schema": "cronguard.result/1",
        "ledger": ledger,
        "run": known | instants,
        "holder": asdict(held.lease.holder),
        "granted_at": held.now.isoformat(),
        "ending": _ending_document(ending),
    }


def _ending_document(ending: Ending) -> dict[str, Any]:
    captured = ending.captured
    output = {
        "head": b64encode(captured.head).decode(),
        "tail": b64encode(captured.tail).decode(),
        "total": captured.total,
        "notes": captured.notes,
    } if captured else None  # fmt: skip
    return asdict(replace(ending, captured=None)) | {"captured": output}


def _result(document: dict[str, Any]) -> tuple[Granted, Ending]:
    holder, granted_at = Holder(**document["holder"]), datetime.fromisoformat(document["granted_at"])
    known = document["run"]
    instants = {name: datetime.fromisoformat(known[name]) for name in _INSTANTS if name in known}
    run = Run(state=State.RUNNING, holder=holder, **known | instants)
    attempt = Attempt(run.key, run.period, run.token, run.attempt, holder, granted_at)
    lease = Lease(run.key, run.lane, run.period, run.token, holder, granted_at)
    return Granted(run, attempt, lease, granted_at), _ending(document["ending"])


def _ending(document: dict[str, Any]) -> Ending:
    output = document.get("captured")  # the version before did not keep it
    captured = Captured(
        b64decode(output["head"]), b64decode(output["tail"]), output["total"], tuple(output["notes"])
    ) if output else None  # fmt: skip
    return Ending(**document | {"outcome": Outcome(document["outcome"]), "captured": captured})
