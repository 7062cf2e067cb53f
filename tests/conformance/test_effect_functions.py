"""The functions of the schema, called as a job would: in its own transaction, by a role that may do nothing else."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cronguard.domain.claim import Granted
from cronguard.domain.effect import EffectState, Said, Sender, claim_again, parse_kind, release
from cronguard.domain.progress import Extended
from cronguard.ports import Beat, EffectStore
from cronguard.stores import application_grants, open_effects
from cronguard.stores.dsn import parse_dsn
from tests.conftest import Database
from tests.rig.firings import SUCCEEDED, claim, finish, granted, ledger_on
from tests.rig.sending import KIND, PERIOD, effects_on, inside, sender, states, won
from tests.rig.waiting import in_background, still_waits, wait_until

Job = psycopg.Connection[Any]
FENCED = "CG002"
claim_run = partial(claim, period=PERIOD)  # the clock is the server's, and today is another day
TINY = timedelta(microseconds=1)
TEN_MINUTES = timedelta(minutes=10)
WAITING = "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"


@pytest.fixture
def store(database: Database) -> EffectStore:
    found = open_effects(parse_dsn(database.dsn))
    found.migrate()
    return found


@pytest.fixture
def role(database: Database, store: EffectStore) -> Iterator[str]:
    """A job's own role, which has been granted what `init --print-sql --app-role` prints, and nothing else."""
    name = f'billing "{os.getpid()}"'
    quoted = '"' + name.replace('"', '""') + '"'
    with psycopg.connect(database.superuser_dsn, autocommit=True) as superuser:
        superuser.execute(f"create role {quoted} login".encode())
        superuser.execute(application_grants(name).encode())
        yield name
        superuser.execute(f"drop owned by {quoted}; drop role {quoted}".encode())


@pytest.fixture
def connect(database: Database, role: str) -> Iterator[Callable[[], Job]]:
    """A job's own connection, in transactions that it ends itself."""
    opened: list[Job] = []

    def connect_as_job() -> Job:
        opened.append(psycopg.connect(database.dsn, user=role))
        return opened[-1]

    yield connect_as_job
    for connection in opened:
        connection.close()


@pytest.fixture
def job(connect: Callable[[], Job]) -> Job:
    return connect()


def ask(job: Job, call: str, *arguments: object) -> list[Any]:
    """Call a function of the schema; its answers."""
    places = ", ".join(["%s"] * len(arguments))
    return [row[0] for row in job.execute(f"select * from cronguard.{call}({places})".encode(), arguments)]


def assert_token(job: Job, held: Granted) -> None:
    ask(job, "assert_token", held.run.key, held.run.token)


def refused(job: Job, call: str, *arguments: object) -> str:
    with pytest.raises(psycopg.Error) as error:
        ask(job, call, *arguments)
    job.rollback()
    return str(error.value.sqlstate)


def recover(store: EffectStore) -> Callable[[], object]:
    """A firing that finds the lease over: it recovers the run and is granted the next attempt."""
    return lambda: claim_run(store, host="beta")


def let_the_lease_end(database: Database) -> None:
    with database.connect() as connection:
        connection.execute("update cronguard.lease set lease_until = clock_timestamp() - interval '1 second'")


# --- The fence, in every order of a recovery and a job's transaction --------------------------------------------------


def test_live_holder_passes_and_commits(store: EffectStore, job: Job, database: Database) -> None:
    held = granted(claim_run(store))
    for _ in range(3):
        assert_token(job, held)
        job.commit()
    let_the_lease_end(database)  # silent for a while, and nobody has come: it still is the last
    assert_token(job, held)
    job.commit()


@pytest.mark.parametrize("token", [0, 1, 9_999_999_999_999_999])
def test_token_that_is_not_that_of_a_live_run_is_refused(store: EffectStore, job: Job, token: int) -> None:
    held = granted(claim_run(store))
    assert refused(job, "assert_token", held.run.key, token) == FENCED
    assert refused(job, "assert_token", "nowhere", held.run.token) == FENCED
    assert refused(job, "assert_token", None, held.run.token) == FENCED
    finish(store, held, SUCCEEDED)
    assert refused(job, "assert_token", held.run.key, held.run.token) == FENCED


def test_recovery_before_the_statements(store: EffectStore, job: Job, database: Database) -> None:
    held = granted(claim_run(store))
    job.execute("select 1")  # the transaction is older than the recovery
    let_the_lease_end(database)
    recover(store)()
    assert refused(job, "assert_token", held.run.key, held.run.token) == FENCED
    assert refused(job, "claim_effect", KIND, "ada", None, held.run.key, held.run.token) == FENCED
    assert states(store) == {}


def test_recovery_that_is_under_way_first_is_waited_for(store: EffectStore, job: Job, database: Database) -> None:
    """It has written, and not committed: the job's question waits, and is then answered no."""
    held = granted(claim_run(store))
    with psycopg.connect(database.dsn) as recovery:
        recovery.execute("update cronguard.run set state = 'pending', finished_at = null")
        asking = in_background(lambda: refused(job, "assert_token", held.run.key, held.run.token))
        assert still_waits(asking, 0.5)
        recovery.commit()
        assert asking.result(30) == FENCED


def test_recovery_that_is_undone_lets_the_holder_pass(store: EffectStore, job: Job, database: Database) -> None:
    held = granted(claim_run(store))
    with psycopg.connect(database.dsn) as recovery:
        recovery.execute("update cronguard.run set state = 'pending', finished_at = null")
        asking = in_background(lambda: assert_token(job, held))
        assert still_waits(asking, 0.5)
        recovery.rollback()
        asking.result(30)
    job.commit()


@pytest.mark.parametrize("how", ["assert_token", "claim_effect"])
def test_recovery_during_the_transaction_waits_for_its_commit(
    store: EffectStore, connect: Callable[[], Job], database: Database, how: str
) -> None:
    """So what the holder wrote under its token was written before anybody else was granted the run."""
    held, job = granted(claim_run(store)), connect()
    arguments = (KIND, "ada", None) if how == "claim_effect" else ()
    ask(job, how, *arguments, held.run.key, held.run.token)
    let_the_lease_end(database)
    recovering = in_background(recover(store))
    assert still_waits(recovering, 0.5)
    job.commit()
    again = recovering.result(30)
    assert isinstance(again, Granted) and again.run.token > held.run.token
    assert refused(job, "assert_token", held.run.key, held.run.token) == FENCED
    assert states(store) == ({"ada": "sending"} if how == "claim_effect" else {})


def test_recovery_goes_on_when_the_holder_is_gone(
    store: EffectStore, connect: Callable[[], Job], database: Database
) -> None:
    held, job = granted(claim_run(store)), connect()
    ask(job, "claim_effect", KIND, "ada", None, held.run.key, held.run.token)
    let_the_lease_end(database)
    recovering = in_background(recover(store))
    assert still_waits(recovering, 0.5)
    job.close()
    assert isinstance(recovering.result(30), Granted)
    assert states(store) == {}


def test_claim_by_the_program_is_fenced_in_the_same_orders(store: EffectStore, database: Database) -> None:
    held = granted(claim_run(store))
    with store.effects(sender(held).inside) as page:
        assert page.is_live
        let_the_lease_end(database)
        recovering = in_background(recover(store))
        assert still_waits(recovering, 0.5)
    assert isinstance(recovering.result(30), Granted)
    assert won(store, "ada", by=sender(held)) is None


def test_beats_and_progress_go_on_while_a_transaction_holds_the_run(store: EffectStore, job: Job) -> None:
    held = granted(claim_run(store))
    assert_token(job, held)
    beaten = in_background(lambda: store.beat(held.lease, timedelta(seconds=60), timedelta(seconds=10)))
    assert beaten.result(30)


def test_snapshot_from_before_an_extension_is_to_be_tried_again(store: EffectStore, job: Job) -> None:
    """The holder is live; but Postgres locks no row for a snapshot that does not show it as it is."""
    held = granted(claim_run(store, complete_by="1h", extend_max=timedelta(hours=1)))
    job.execute("set session characteristics as transaction isolation level repeatable read")
    job.commit()
    job.execute("select 1 from pg_class limit 1")
    assert ledger_on(store).extend(inside(held), TEN_MINUTES).answer is Extended.GRANTED
    assert refused(job, "assert_token", held.run.key, held.run.token) == "40001"
    assert_token(job, held)
    job.commit()


def test_extension_that_waits_for_a_jobs_transaction_keeps_no_beat_waiting(
    store: EffectStore, job: Job, database: Database
) -> None:
    held = granted(claim_run(store, complete_by="1h", extend_max=timedelta(hours=1)))
    assert_token(job, held)
    extending = in_background(lambda: ledger_on(store).extend(inside(held), TEN_MINUTES))
    with database.connect() as other:
        wait_until(lambda: other.execute(WAITING).fetchall(), 20)
        other.execute("select from cronguard.lease for update nowait")
    assert not extending.done()
    job.commit()
    assert extending.result(20).answer is Extended.GRANTED


def test_snapshot_from_before_a_recovery_fails_too(store: EffectStore, job: Job, database: Database) -> None:
    held = granted(claim_run(store))
    job.execute("set transaction isolation level repeatable read")
    job.execute("select 1 from pg_class limit 1")
    let_the_lease_end(database)
    recover(store)()
    assert refused(job, "assert_token", held.run.key, held.run.token) == "40001"


@pytest.mark.needs("psql")
def test_example_of_the_manual_exits_0_only_where_the_fence_let_it_pass(
    store: EffectStore, database: Database, role: str
) -> None:
    page = (Path(__file__).parents[2] / "man" / "cronguard-once.1").read_text().replace("\\e\n", "\\\n")
    (example,) = re.findall(r"^psql .*?^END$", page, re.DOTALL | re.MULTILINE)
    with psycopg.connect(database.superuser_dsn, autocommit=True) as superuser:
        superuser.execute("create table account as select 5 as balance; grant select, update on account to public")
    held = granted(claim_run(store))
    told = {"CRONGUARD_KEY": held.run.key, "APP_DSN": database.server.dsn(database.name, user=role)}
    codes = []
    for token in (held.run.token, held.run.token - 1):
        environment = os.environ | told | {"CRONGUARD_TOKEN": str(token)}
        done = subprocess.run(["sh", "-ec", example], env=environment, capture_output=True, timeout=60, check=False)
        codes.append(done.returncode)
    assert codes == [0, 3]
    with database.connect() as connection:
        assert connection.execute("select balance from account").fetchone() == (4,)


# --- Effects ----------------------------------------------------------------------------------------------------------


def test_effect_in_the_jobs_own_transaction(store: EffectStore, job: Job) -> None:
    held = granted(claim_run(store))
    run = (held.run.key, held.run.token)
    assert ask(job, "period", *run) == [PERIOD]
    assert sorted(ask(job, "claim_effects", KIND, ["ada", "bob", "ada"], None, *run)) == ["ada", "bob"]
    job.rollback()
    assert states(store) == {}
    assert ask(job, "claim_effect", KIND, "ada", None, *run) == [True]
    assert ask(job, "claim_effect", KIND, "ada", PERIOD, *run) == [False]
    assert ask(job, "claim_effects", KIND, ["ada", "bob"], None, *run) == ["bob"]
    assert ask(job, "confirm_effect", KIND, "ada", PERIOD, "no. 12") == [True]
    assert ask(job, "confirm_effect", KIND, "nobody", PERIOD) == [False]
    assert ask(job, "release_effect", KIND, "ada", PERIOD, *run) == [False]
    assert ask(job, "release_effect", KIND, "bob", PERIOD) == [False]
    assert ask(job, "release_effect", KIND, "bob", PERIOD, *run) == [True]
    job.commit()
    assert states(store) == {"ada": "sent", "bob": "released"}
    (sent,) = store.list_effects(KIND, None, EffectState.SENT, 10).effects
    assert (sent.key, sent.token, sent.note) == (*run, "no. 12")
    assert [str(token) for token in ask(job, "effect_token", KIND, "ada", PERIOD)] == [sent.effect_token]


def test_the_schema_releases_outside_of_a_run_what_the_domain_does(store: EffectStore, job: Job) -> None:
    for number, (state, by_once, overdue) in enumerate(product(EffectState, (False, True), (False, True))):
        who = f"customer {number}"
        claimer = replace(sender(within=TINY if overdue else timedelta(hours=1)), by_once=by_once)
        won(store, who, by=claimer)
        with store.effects() as page:
            (there,) = page.find(KIND, PERIOD, [who])
            there = replace(there, state=state, finished_at=None if state is EffectState.SENDING else page.now)
            page.change([there])
            said, _ = release(there, None, None, page.now)
        answer = ask(job, "release_effect", KIND, who, PERIOD)
        job.commit()
        assert answer == [said in (Said.WRITTEN, Said.ALREADY_SO)], (there, said)
        again = ask(job, "claim_effect", KIND, who, PERIOD)
        assert again == answer  # and it is nobody's in particular now
        assert ask(job, "release_effect", KIND, who, PERIOD) == answer
        job.commit()


def test_outside_of_a_run_the_period_must_be_named(store: EffectStore, job: Job) -> None:
    assert refused(job, "claim_effect", KIND, "ada") == "CG004"
    assert ask(job, "claim_effect", KIND, "ada", PERIOD) == [True]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"kind": None}, "the kind must be 1 to 255 bytes"),
    ({"kind": ""}, "the kind must be 1 to 255 bytes"),
    ({"kind": "my kind "}, "the kind must be 1 to 255 bytes"),
    ({"kind": "\x1b[31m"}, "the kind must be 1 to 255 bytes"),
    ({"kind": "non\u00a0breaking"}, "the kind must be 1 to 255 bytes"),
    ({"kind": "left\u202eright"}, "the kind must be 1 to 255 bytes"),
    ({"kind": "ü" * 128}, "the kind must be 1 to 255 bytes"),
    ({"period": " 2026"}, "the period must be 1 to 255 bytes"),
    ({"period": "2026\n11"}, "the period must be 1 to 255 bytes"),
    ({"period": "current"}, "current is no period of an effect"),
    ({"token": 5}, "a run is named by its key and its token, neither without the other"),
    ({"key": "job"}, "a run is named by its key and its token, neither without the other"),
    ({"subject": None}, "each subject must be 1 to 1000 bytes"),
    ({"subject": ""}, "each subject must be 1 to 1000 bytes"),
    ({"subject": "ü" * 501}, "each subject must be 1 to 1000 bytes"),
    ({"send_within": None}, "send_within must be more than nothing"),
    ({"send_within": timedelta(0)}, "send_within must be more than nothing"),
    ({"send_within": timedelta(hours=-1)}, "send_within must be more than nothing"),
    ({"send_within": timedelta(days=3661)}, "send_within must be more than nothing"),
    ({"idempotent": None}, "idempotent must be true or false"),
]


def test_what_the_command_line_would_refuse_is_refused_in_one_line(store: EffectStore, job: Job) -> None:
    """A job could claim it, and no person could then resolve it by the name that it has."""
    for wrong, why in REFUSED:
        asked = {"kind": KIND, "subject": "ada", "period": PERIOD} | wrong
        call = "select cronguard.claim_effect({})".format(", ".join(f"{name} => %({name})s" for name in asked))
        with pytest.raises(psycopg.Error) as error:
            job.execute(call.encode(), asked)
        job.rollback()
        said = str(error.value.diag.message_primary)
        assert (error.value.sqlstate, why in said, "\n" in said) == ("CG004", True, False), wrong
    assert states(store) == {}


@pytest.mark.parametrize("standard", ["on", "off"])
def test_kinds_that_the_command_line_takes(store: EffectStore, job: Job, standard: str) -> None:
    job.execute(f"set standard_conforming_strings = {standard}".encode())
    for kind in ("mail", "two words", "Grüße/日本:1", "ü" * 127, "\U0001f4e7"):
        assert ask(job, "claim_effect", kind, "two\nlines", PERIOD) == [True]
        job.commit()
        assert states(store, kind) == {"two\nlines": "sending"}
        assert parse_kind(kind) == kind


def test_claimers_of_one_subject_wait_for_each_other(store: EffectStore, connect: Callable[[], Job]) -> None:
    first, second = connect(), connect()
    assert ask(first, "claim_effect", KIND, "ada", PERIOD) == [True]
    asking = in_background(lambda: ask(second, "claim_effect", KIND, "ada", PERIOD))
    assert still_waits(asking, 0.5)
    first.commit()
    assert asking.result(30) == [False]


@pytest.mark.parametrize("state", EffectState)
@pytest.mark.parametrize("theirs", [False, True])
@pytest.mark.parametrize("ours", [False, True])
@pytest.mark.parametrize("overdue", [False, True])
def test_the_schema_claims_again_what_the_domain_does(
    store: EffectStore, job: Job, state: EffectState, theirs: bool, ours: bool, overdue: bool
) -> None:
    won(store, "ada", by=sender(within=TINY if overdue else timedelta(hours=1), idempotent=theirs))
    (there,) = store.list_effects(KIND, None, None, 1).effects
    with store.effects() as page:
        finished_at = None if state is EffectState.SENDING else page.now
        there = replace(there, state=state, finished_at=finished_at)
        page.change([there])
        again = claim_again(there, Sender(KIND, PERIOD, "another call", idempotent=ours), page.now)
    answer = ask(job, "claim_effect", KIND, "ada", PERIOD, None, None, timedelta(hours=1), ours)
    job.commit()
    assert answer == [again is not None]
    if again:
        (after,) = store.list_effects(KIND, None, None, 1).effects
        assert (after.state, after.effect_token, after.idempotent, after.finished_at) == (
            again.state, again.effect_token, ours, None,
        )  # fmt: skip


def test_effects_that_sql_claimed_are_abandoned_like_others(store: EffectStore, job: Job) -> None:
    ask(job, "claim_effect", KIND, "ada", PERIOD, None, None, TINY)
    job.commit()
    assert len(effects_on(store).report_abandoned()) == 1
    assert ask(job, "claim_effect", KIND, "ada", PERIOD) == [False]
    assert ask(job, "confirm_effect", KIND, "ada", PERIOD) == [True]


def test_beat_is_seen_by_the_worker_at_its_next_beat(store: EffectStore, job: Job) -> None:
    held = granted(claim_run(store))
    assert ask(job, "beat", held.run.key, 1) == [False]
    assert ask(job, "beat", held.run.key, held.run.token, "customers from K on") == [True]
    beat = worker_beats(store, held)
    assert beat and beat.progressed_at is None  # it has not committed, and holds up nobody
    job.commit()
    said = worker_beats(store, held)
    assert said and said.progressed_at
    assert noted(store) == "customers from K on"
    assert ask(job, "beat", held.run.key, held.run.token) == [True]
    job.commit()
    again = worker_beats(store, held)
    assert again and again.progressed_at and again.progressed_at > said.progressed_at
    assert noted(store) == "customers from K on"


def test_note_that_is_too_long_is_cut_and_undoes_nothing(store: EffectStore, job: Job) -> None:
    held = granted(claim_run(store))
    assert ask(job, "claim_effect", KIND, "ada", None, held.run.key, held.run.token) == [True]
    assert ask(job, "beat", held.run.key, held.run.token, "ü" * 1001) == [True]
    job.commit()
    assert worker_beats(store, held)
    assert noted(store) == "ü" * 1000
    assert states(store) == {"ada": "sending"}


def test_signs_of_attempts_that_are_over_are_cleared_away(store: EffectStore, job: Job, database: Database) -> None:
    for _ in range(3):
        held = granted(claim_run(store, rerun=True, force=True))
        assert ask(job, "beat", held.run.key, held.run.token) == [True]
        job.commit()
        finish(store, held, SUCCEEDED)
    assert ask(job, "beat", held.run.key, held.run.token) == [False]
    with database.connect() as connection:
        assert connection.execute("select count(*) from cronguard.sign").fetchone() == (1,)


def worker_beats(store: EffectStore, held: Granted) -> Beat | None:
    return store.beat(held.lease, timedelta(seconds=60), timedelta(seconds=10))


def noted(store: EffectStore) -> str | None:
    record = store.show("job", PERIOD)
    return record.run.progress.note if record and record.run and record.run.progress else None


# --- Who may do what --------------------------------------------------------------------------------------------------

DENIED = "42501"
TABLES = ("job", "lease", "run", "attempt", "skip", "effect", "sign", "schema_version")


@pytest.mark.parametrize("table", TABLES)
def test_jobs_role_can_neither_read_nor_write_the_ledger(job: Job, table: str) -> None:
    for statement in (
        f"select * from cronguard.{table}", f"delete from cronguard.{table}", f"truncate cronguard.{table}",
        f"insert into cronguard.{table} default values", f"select from cronguard.{table} for share",
        f"create table cronguard.{table}_of_mine ()", f"drop table cronguard.{table}",
    ):  # fmt: skip
        with pytest.raises(psycopg.Error) as error:
            job.execute(statement.encode())
        job.rollback()
        assert error.value.sqlstate == DENIED, statement


def test_role_without_the_grants_can_call_nothing(store: EffectStore, database: Database, role: str) -> None:
    with psycopg.connect(database.superuser_dsn, autocommit=True) as superuser:
        superuser.execute("create role stranger login; grant usage on schema cronguard to stranger")
        with psycopg.connect(database.server.dsn(database.name, user="stranger"), autocommit=True) as stranger:
            functions = superuser.execute(
                "select oid::regprocedure::text from pg_proc where pronamespace = 'cronguard'::regnamespace"
                " and prorettype <> 'trigger'::regtype and proname <> 'lock_is_free'"  # which anybody may ask
            ).fetchall()
            may = [
                superuser.execute("select has_function_privilege(%s, %s, 'execute')", [who, name]).fetchone()
                for who in ("stranger", role)
                for (name,) in functions
            ]
            assert refused_alone(stranger, "claim_effect", KIND, "ada", PERIOD) == DENIED
        superuser.execute("drop owned by stranger; drop role stranger")
    assert may == [(False,)] * len(functions) + [(True,)] * len(functions)
    assert len(functions) == 8


def refused_alone(connection: Job, call: str, *arguments: object) -> str:
    with pytest.raises(psycopg.Error) as error:
        ask(connection, call, *arguments)
    return str(error.value.sqlstate)


HOSTILE = """
create schema hostile;
create table hostile.effect (like cronguard.effect);
create table hostile.run (like cronguard.run);
create function hostile.clock_timestamp() returns timestamptz language sql as 'select timestamptz ''1970-01-01''';
create function hostile.gen_random_uuid() returns uuid language sql as 'select null::uuid';
create function hostile.captured(text, text) returns boolean language plpgsql as
  'begin raise exception ''captured''; end';
create operator hostile.= (leftarg = text, rightarg = text, function = hostile.captured);
create function hostile.unnest(text[]) returns setof text language sql as 'select ''captured''';
grant usage on schema hostile to public;
grant select on all tables in schema hostile to public;
"""
SHADOWED = """
set search_path = pg_temp, hostile, pg_catalog, cronguard, public;
create temp table effect (like hostile.effect);
create temp table run (like hostile.run);
create type pg_temp.text as enum ('captured');
"""


def test_hostile_search_path_captures_nothing(store: EffectStore, database: Database, job: Job) -> None:
    held = granted(claim_run(store))
    run = (held.run.key, held.run.token)
    with psycopg.connect(database.superuser_dsn, autocommit=True) as superuser:
        superuser.execute(HOSTILE.encode())
    job.execute(SHADOWED.encode())
    job.commit()
    ask(job, "assert_token", *run)
    assert ask(job, "period", *run) == [PERIOD]
    assert ask(job, "claim_effect", KIND, "ada", None, *run) == [True]
    assert sorted(ask(job, "claim_effects", KIND, ["ada", "bob"], None, *run)) == ["bob"]
    assert ask(job, "confirm_effect", KIND, "ada", PERIOD) == [True]
    assert ask(job, "release_effect", KIND, "bob", PERIOD, *run) == [True]
    assert ask(job, "effect_token", KIND, "ada", PERIOD) != [None]
    job.commit()
    assert ask(job, "beat", *run) == [True]
    assert states(store) == {"ada": "sent", "bob": "released"}
    assert job.execute("select count(*) from pg_temp.effect").fetchone() == (0,)


def test_every_function_has_its_search_path_pinned_with_temporary_objects_last(
    store: EffectStore, database: Database
) -> None:
    with database.connect() as connection:
        found = connection.execute(
            "select proname, proconfig from pg_proc where pronamespace = 'cronguard'::regnamespace"
            " and prorettype <> 'trigger'::regtype"
        ).fetchall()
    assert {name: config for name, config in found if config != ["search_path=pg_catalog, pg_temp"]} == {}
