"""Many contenders for one key, let go at once: python -m benchmarks.contention [--rounds N] [--contenders N …]."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.cases import CRONGUARD, DATABASE, clean_environment
from benchmarks.report import machine, percentile, print_table
from tests.rig.postgres import Server

CONNECTIONS = 100
REFUSED = ("too many clients", "remaining connection slots")  # in the server's log
TITLES = (
    "ledger", "contenders", "rounds", "granted", "skipped", "failed",
    "p50 ms", "p99 ms", "last ms", "questions", "refused connections", "as promised",
)  # fmt: skip


def main() -> None:
    options = _options()
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cronguard-bench-")))
        server = stack.enter_context(Server(max_connections=CONNECTIONS, fsync="on", full_page_writes="on"))
        server.create_database(DATABASE)
        base = clean_environment(scratch) | {"CRONGUARD_STATE_DIR": str(scratch / "state")}
        ledgers = {"Postgres": base | {"CRONGUARD_DSN": server.dsn(DATABASE, "tcp")}, "SQLite": base}
        print(machine(server.execute("show server_version")[0][0].split()[0]), end="\n\n")
        print_table(TITLES, list(_rows(options, ledgers, server)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.contention", description=__doc__)
    parser.add_argument("--contenders", type=int, nargs="+", default=[50, 200, 500], help="[50 200 500]")
    parser.add_argument("--rounds", type=int, default=3, help="how often each number of contenders meets [3]")
    return parser.parse_args()


def _rows(options: argparse.Namespace, ledgers: Mapping[str, dict[str, str]], server: Server) -> Iterator[list[str]]:
    for ledger, environment in ledgers.items():
        subprocess.run([CRONGUARD, "init"], env=environment, check=True, capture_output=True)
        for count in options.contenders:
            refused = _refused(server)
            keys = [f"herd-{count}-{n}" for n in range(options.rounds)]
            found = [contender for key in keys for contender in _meet(count, key, environment)]
            yield [ledger, str(count), str(options.rounds), *_row(found, options.rounds, _refused(server) - refused)]


def _meet(count: int, key: str, environment: Mapping[str, str]) -> list[dict[str, Any]]:
    herd = [sys.executable, "-m", "benchmarks.herd", str(count), key]
    done = subprocess.run(herd, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=300)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    for why, how_many in Counter(one["why"] for one in found if one["why"]).items():
        print(f"{key}: {how_many} failed: {why}", file=sys.stderr)
    return found


def _row(found: list[dict[str, Any]], rounds: int, refused: int) -> list[str]:
    verdicts = Counter(one["verdict"] for one in found)
    times = [one["ms"] for one in found]
    clean = all(one["exit_code"] == 0 for one in found)
    promised = clean and verdicts["granted"] == rounds and not verdicts["failed"]
    return [
        *(str(verdicts[verdict]) for verdict in ("granted", "skipped", "failed")),
        *(f"{figure:.0f}" for figure in (percentile(times, 50), percentile(times, 99), max(times))),
        f"{sum(one['asked'] for one in found) / len(found):.2f}",
        str(refused),
        "yes" if promised else "NO",
    ]


def _refused(server: Server) -> int:
    log = server.den.log()
    return sum(log.count(words) for words in REFUSED)


if __name__ == "__main__":
    main()
