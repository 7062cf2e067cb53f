"""A ledger's address: which store it means, and how to name it to people without its secrets.

Read strictly, and as libpq reads it: what is not certain to be a host or a
database may be a piece of a password, and must not get into a message.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from itertools import zip_longest

from cronguard.errors import BadInput

FORMS = "postgresql://host/database, a libpq string such as 'host=db dbname=ops', or sqlite:///path/ledger.db"

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_POSTGRES = re.compile(r"((?P<user>[^@/]*)@)?(?P<host>[^/?]*)(/(?P<database>[^?]*))?(\?(?P<query>.*))?", re.DOTALL)
_PAIR = re.compile(r"(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|\S*)")
_HOSTS = re.compile(r"[^@:,\s]*(:\d*)?|\[[0-9a-f:.%\w]*\](:\d*)?", re.IGNORECASE)
_NOT_IN_A_URL = re.compile(r"\s|%00|%(?![0-9a-f]{2})", re.IGNORECASE)
_MAY_HOLD_AN_AT = frozenset({"user", "password", "application_name", "options", "sslpassword", "passfile"})

_MALFORMED = (
    "the DSN is malformed; in a user or password write @ as %40, / as %2F, % as %25 and a blank as %20, "
    "as in postgresql://app:p%40ss@host/database"
)


@dataclass(frozen=True, slots=True)
class Address:
    """Where the ledger is: `store` is postgres or sqlite, `target` a libpq string or a path."""

    store: str
    target: str
    name: str  # for people, and to tell one ledger from another; never a user or a password
    has_password: bool = False


def parse_dsn(text: str) -> Address:
    """Read a DSN; raises BadInput, whose message never shows the DSN itself."""
    text = text.strip()
    if not _is_utf8(text):
        raise BadInput("the DSN has bytes that are not UTF-8; in a URL write such a byte as %FF")
    url = _URL.fullmatch(text)
    if url:
        return _from_url(url["scheme"].lower(), url["rest"])
    if _PAIR.match(text):
        return _from_conninfo(text)
    raise BadInput(f"the DSN is not one that cronguard knows; write it as {FORMS}")


def local_address(path: str) -> Address:
    """A ledger in this file, whatever bytes its path has."""
    return Address("sqlite", path, path)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _from_url(scheme: str, rest: str) -> Address:
    if scheme == "sqlite":
        return _from_path(rest)
    if scheme.partition("+")[0] not in ("postgres", "postgresql"):  # postgresql+psycopg:// as SQLAlchemy writes it
        raise BadInput(f"a DSN cannot begin with {scheme}://; write it as {FORMS}")
    parts = _POSTGRES.fullmatch(rest)
    options = dict(_pairs_of_query(parts["query"] or "")) if parts else {}
    if not parts or not _is_certain(parts["host"], parts["database"] or "", options) or not _decodes(rest):
        raise BadInput(_MALFORMED)
    host = options.get("host") or parts["host"] or options.get("hostaddr", "")
    name = _name(host, options.get("dbname") or parts["database"] or "")
    return Address("postgres", f"postgresql://{rest}", name, ":" in (parts["user"] or "") or "password" in options)


def _is_certain(hosts: str, database: str, options: dict[str, str]) -> bool:
    """Whether none of these can be the rest of a password in which @, / or ? was not escaped."""
    suspect = any("@" in name + value for name, value in options.items() if name not in _MAY_HOLD_AN_AT)
    return not suspect and "@" not in database and all(map(_HOSTS.fullmatch, hosts.split(",")))


def _decodes(rest: str) -> bool:
    """Whether each %XX is one, and all together are UTF-8: the driver fails at others with words of its own."""
    if _NOT_IN_A_URL.search(rest):
        return False
    from urllib.parse import unquote_to_bytes  # noqa: PLC0415

    return _is_utf8(unquote_to_bytes(rest).decode("utf-8", "surrogateescape"))


def _pairs_of_query(query: str) -> list[tuple[str, str]]:
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    return [(key, value.replace("%2F", "/").replace("%2f", "/")) for key, _, value in pairs]


def _from_path(rest: str) -> Address:
    if not rest.startswith("/") or rest == "/" or rest.endswith("/"):
        raise BadInput(
            "an SQLite DSN needs an absolute path to a file; write it as sqlite:///var/lib/cronguard/ledger.db"
        )
    return Address("sqlite", os.fsdecode(rest.encode()), rest)


def _from_conninfo(text: str) -> Address:
    pairs = {key: value.strip("'") for key, value in _PAIR.findall(text)}
    host, port = pairs.get("host") or pairs.get("hostaddr") or "", pairs.get("port", "")
    if "@" in host or not re.fullmatch(r"[\d,]*", port):
        raise BadInput(f"the host or port in the DSN is malformed; write it as {FORMS}")
    if port and host:
        host = _with_ports(host, port)
    place = pairs.get("dbname") or (f"service {pairs['service']}" if "service" in pairs else "")
    return Address("postgres", text, _name(host, place), "password" in pairs)


def _with_ports(hosts: str, ports: str) -> str:
    """As a URL has several of them, each with its own; one port is that of all."""
    each, own = hosts.split(","), ports.split(",")
    own = own * len(each) if len(own) == 1 else own
    named = (f"{host}:{port}" if port else host for host, port in zip_longest(each, own, fillvalue=""))
    return ",".join(named)


def _name(host: str, database: str) -> str:
    return f"{host or 'the default host'}/{database}" if database else (host or "the default host")
