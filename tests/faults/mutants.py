"""The rules, each taken away by a small change of the text, and the test that must miss it.

A change that no longer finds its text is an error: whoever rewrites a rule rewrites its mutant too.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Change:
    """In this file, this text (there once) becomes that."""

    file: str
    old: str
    new: str

    def make(self, tree: Path) -> None:
        """LookupError where the text is not there exactly once."""
        path = tree / "cronguard" / self.file
        text = path.read_text()
        if text.count(self.old) != 1:
            raise LookupError(f"{self.file} has {text.count(self.old)} times: {self.old}")
        path.write_text(text.replace(self.old, self.new))


@dataclass(frozen=True)
class Mutant:
    """One rule less."""

    name: str
    caught_by: str  # the test's name as pytest knows it
    changes: tuple[Change, ...]


SEED = 58  # of the dice, with which the black hole outlasts two leases
NO_TRUST_TIMER = Change(
    "process/heartbeat.py",
    "self.until = max(self.until, sent_at + valid_for.total_seconds())",
    'self.until = float("inf")',
)
MUTANTS = (
    Mutant(
        "no token in finish",
        "tests/conformance/test_claims.py::test_success_after_a_takeover_changes_no_row_but_its_attempts[sqlite]",
        (
            Change(
                "domain/lifecycle.py",
                "if run is None or run.token != held.run.token or run.holder is None "
                "or run.holder.id != held.lease.holder.id:",
                "if run is None:",
            ),
        ),
    ),
    Mutant(
        "no trust timer",
        "tests/process/test_lease.py::test_row_21_no_answer_until_the_lease_is_nearly_over_freezes_the_command",
        (NO_TRUST_TIMER,),
    ),
    Mutant(
        "no trust timer, seen by the witness",
        "tests/faults/test_cells.py::test_promises_hold_at_every_moment[black hole]",
        (NO_TRUST_TIMER,),
    ),
    Mutant(
        "a lease is judged by the host's clock",
        "tests/faults/test_leases.py::test_hosts_clock_neither_ends_a_lease_nor_prolongs_it[the other-3600]",
        (
            Change(
                "services/ledger.py",
                "            sight = self._doubts.settled(sight)\n",
                "            sight = replace(self._doubts.settled(sight), now=host_now())\n",
            ),
            Change(
                "services/ledger.py",
                "self._decided(claim, self._doubts.settled(page.sight), hold)",
                "self._decided(claim, replace(self._doubts.settled(page.sight), now=host_now()), hold)",
            ),
        ),
    ),
    Mutant(
        "recovered by its age alone",
        "tests/faults/test_leases.py::test_run_that_is_older_than_its_lease_is_left_alone_while_it_beats",
        (
            Change(
                "domain/admission.py",
                "if run and lease.lapsed(sight.now) and _excludes(claim, lease):",
                "if run and run.started_at and sight.now - run.started_at > claim.spec.terms.lease_for "
                "and _excludes(claim, lease):",
            ),
        ),
    ),
    Mutant(
        "no echo guard",
        "tests/conformance/test_claims.py::test_echo_of_a_tick_on_the_other_side_of_midnight_does_not_run[sqlite]",
        (Change("domain/admission.py", "if run is None and _is_echo(claim, sight):", "if False:"),),
    ),
    Mutant(
        "a lease is released by whoever",
        "tests/conformance/test_store.py::test_dropped_lease_is_only_the_one_that_was_meant[sqlite]",
        (
            Change(
                "stores/sqlite.sql",
                "delete from lease where key = :key and lane = :lane and token = :token and holder = :holder",
                "delete from lease where key = :key and lane = :lane",
            ),
        ),
    ),
    Mutant(
        "a lease is released by whoever, Postgres",
        "tests/conformance/test_store.py::test_dropped_lease_is_only_the_one_that_was_meant[postgres]",
        (
            Change(
                "stores/postgres.sql",
                "delete from cronguard.lease where key = %(key)s and lane = %(lane)s "
                "and token = %(token)s and holder = %(holder)s",
                "delete from cronguard.lease where key = %(key)s and lane = %(lane)s",
            ),
        ),
    ),
    Mutant(
        "a beat renews a lease that was lost",
        "tests/conformance/test_store.py::test_beat_under_another_token_or_holder_or_lane_is_refused[sqlite-other0]",
        (
            Change(
                "stores/sqlite.sql",
                "coalesce(complete_by + :slack, :now + :lease_for))\n"
                " where key = :key and lane = :lane and token = :token and holder = :holder",
                "coalesce(complete_by + :slack, :now + :lease_for))\n where key = :key and lane = :lane",
            ),
            Change(
                "stores/sqlite.sql",
                "from lease where key = :key and lane = :lane and token = :token and holder = :holder\n\n"
                "-- name: history_of_key",
                "from lease where key = :key and lane = :lane\n\n-- name: history_of_key",
            ),
        ),
    ),
    Mutant(
        "a period that succeeded may run again",
        "tests/conformance/test_claims.py::test_period_that_succeeded_does_not_run_again[sqlite]",
        (
            Change(
                "domain/admission.py",
                "if run and run.state is State.SUCCEEDED and not (claim.spec.rerun and claim.spec.force):",
                "if False:",
            ),
        ),
    ),
    Mutant(
        "the token stands still when a failover forgot the last one",
        "tests/unit/test_lifecycle.py::test_token_rises_also_when_the_clock_stands_or_falls_back",
        (
            Change(
                "domain/lifecycle.py", "return max(last + 1, int(now.timestamp() * 1000))", "return last + 1"
            ),
        ),
    ),
    Mutant(
        "a result that is refused is dropped",
        "tests/faults/test_local_ledger.py::test_result_that_a_damaged_ledger_does_not_take_is_kept",
        (
            Change(
                "services/run.py",
                "            self._keep(ending, failure)\n        self._let_go()",
                "            del failure\n        self._let_go()",
            ),
        ),
    ),
    Mutant(
        "a ledger that was removed is taken for a new one",
        "tests/faults/test_local_ledger.py::"
        "test_ledger_that_is_gone_lets_nothing_start_until_a_person_says_so[removed]",
        (Change("stores/sqlite.py", "        if was_kept:\n", "        if False:\n"),),
    ),
)  # fmt: skip
