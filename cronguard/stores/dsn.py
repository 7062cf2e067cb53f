"""A ledger's address: which store it means, and how to name it to people without its secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cronguard.errors import BadInput

FORMS = "postgresql://host/database, a libpq string such as 'host=db dbname=ops', or sqlite:///path/ledger.db"

_URL = re.compile(r"^(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<rest>.*)$", re.IGNORECASE | re.DOTALL)
_PAIR = re.compile(r"(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|\S*)")


@dataclass(frozen=True, slots=True)
class Address:
    """Where the ledger is: `store` is postgres or sqlite, `target` a libpq string or a path."""

    store: str
    target: str
    name: str  # for people, and to tell one ledger from another; never a user or a password
    has_password: bool = False


def parse_dsn(text: str) -> Address:
    """Read a DSN; raises BadInput, whose message never shows the DSN itself."""
    url = _URL.match(text.strip())
    if url:
        return _from_url(url["scheme"].lower(), url["rest"])
    if _PAIR.match(text.strip()):
        return _from_conninfo(text.strip())
    raise BadInput(f"the DSN is not one that cronguard knows; write it as {FORMS}")


def _from_url(scheme: str, rest: str) -> Address:
    if scheme == "sqlite":
        return _from_path(rest)
    dialect = scheme.partition("+")[0]  # postgresql+psycopg:// as SQLAlchemy writes it
    if dialect not in ("postgres", "postgresql"):
        raise BadInput(f"a DSN cannot begin with {scheme}://; write it as {FORMS}")
    address, _, query = rest.partition("?")
    user, _, place = address.rpartition("@")
    host, _, database = place.partition("/")
    options = dict(_pairs_of_query(query))
    name = _name(options.get("host") or host or options.get("hostaddr", ""), options.get("dbname") or database)
    has_password = ":" in user or "password" in options
    return Address("postgres", f"postgresql://{rest}", name, has_password)


def _from_path(rest: str) -> Address:
    if not rest.startswith("/") or rest == "/" or rest.endswith("/"):
        raise BadInput(
            "an SQLite DSN needs an absolute path to a file; write it as sqlite:///var/lib/cronguard/ledger.db"
        )
    return Address("sqlite", rest, rest)


def _from_conninfo(text: str) -> Address:
    pairs = {key: value.strip("'") for key, value in _PAIR.findall(text)}
    host = pairs.get("host") or pairs.get("hostaddr") or ""
    if "port" in pairs and host:
        host = f"{host}:{pairs['port']}"
    place = pairs.get("dbname") or (f"service {pairs['service']}" if "service" in pairs else "")
    return Address("postgres", text, _name(host, place), "password" in pairs)


def _pairs_of_query(query: str) -> list[tuple[str, str]]:
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    return [(key, value.replace("%2F", "/").replace("%2f", "/")) for key, _, value in pairs]


def _name(host: str, database: str) -> str:
    return f"{host or 'the default host'}/{database}" if database else (host or "the default host")
