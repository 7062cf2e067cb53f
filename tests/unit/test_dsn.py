"""A DSN: which store it means, how it is called in messages, whether it holds a password."""

from __future__ import annotations

import pytest

from cronguard.errors import BadInput
from cronguard.stores.dsn import parse_dsn


@pytest.mark.parametrize(
    ("dsn", "name", "has_password"),
    [
        ("postgresql://db/ops", "db/ops", False),
        ("postgres://app@db.example.com:5433/ops?sslmode=require", "db.example.com:5433/ops", False),
        ("postgresql+psycopg://app:s3cret@db/ops", "db/ops", True),
        ("  postgresql://app:s%40%2F3cret@db/ops\n", "db/ops", True),
        ("postgresql://app:s3?cr#e:t@db/ops", "db/ops", True),
        ("postgresql://app:s3cret@", "the default host", True),
        ("postgresql://", "the default host", False),
        ("postgresql:///ops", "the default host/ops", False),
        ("postgresql:///ops?host=/run/postgresql", "/run/postgresql/ops", False),
        ("postgresql://app@/ops?host=%2Frun%2Fpg", "/run/pg/ops", False),
        ("postgresql://a:1,[::1]:2,/ops", "a:1,[::1]:2,/ops", False),
        ("postgresql://db/ops?user=app@tenant&password=p@ss", "db/ops", True),
        ("host=db dbname=ops", "db/ops", False),
        ("host = db port = 5433 dbname = ops password = 's3\\'cret x'", "db:5433/ops", True),
        ("host=db1,db2 port=5433,5434 dbname=ops", "db1:5433,db2:5434/ops", False),
        ("host=db1,db2 port=,5434 dbname=ops", "db1,db2:5434/ops", False),
        ("host=db1,db2 port=5433 dbname=ops", "db1:5433,db2:5433/ops", False),
        ("hostaddr=10.0.0.1 user=app", "10.0.0.1", False),
        ("service=ops", "the default host/service ops", False),
    ],
)
def test_name_for_people_has_neither_user_nor_password(dsn: str, name: str, has_password: bool) -> None:
    address = parse_dsn(dsn)
    assert (address.store, address.name, address.has_password) == ("postgres", name, has_password)


def test_driver_gets_the_url_as_it_was_written() -> None:
    assert parse_dsn("postgresql+psycopg://app:a%40b@db/ops?sslmode=require").target == (
        "postgresql://app:a%40b@db/ops?sslmode=require"
    )


@pytest.mark.parametrize("path", ["/var/lib/cronguard/ledger.db", "/a b/ä?#@:.db"])
def test_sqlite_takes_the_path_as_it_is(path: str) -> None:
    address = parse_dsn(f"sqlite://{path}")
    assert (address.store, address.target, address.name) == ("sqlite", path, path)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://app:p@ss@db/ops",
        "postgresql://app:p/ss@db/ops",
        "postgresql://app:1/2?x=p@ss@db/ops",
        "postgresql://app:pass",
        "postgresql://app:100%@db/ops",
        "postgresql://app:a%00b@db/ops",
        "postgresql://app:a%ffb@db/ops",
        "postgresql://app:a b@db/ops",
        "host=app:pass@db",
        "host=db port=pass",
        "mysql://app:pass@db/ops",
        "pass",
        "",
    ],
)
def test_what_could_be_a_piece_of_a_password_is_refused_and_not_repeated(dsn: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_dsn(dsn)
    message = str(refused.value).replace("app:p%40ss@host", "").replace("password", "")
    assert "pass" not in message
    assert "app:" not in message
