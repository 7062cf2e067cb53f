"""What cron would give to a command of this user's, and what of ours it would not.

As crontab(5) of Debian says and its daemon does: HOME and LOGNAME from
/etc/passwd, SHELL and PATH fixed, then what PAM reads from /etc/environment, in
which these four do not count; then the lines above the command's own.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from cronguard.domain.ground import Crontab, UnderCron
from cronguard.settings import Settings
from cronguard.settings.knobs import ABOUT_THE_RUN, KNOBS

FIXED = {"SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}
PAM_OF_CRON = ("etc/pam.d/cron", "etc/pam.d/crond")  # Debian's name for it, and everybody else's
OWN_CRONTABS = ("var/spool/cron/crontabs", "var/spool/cron")
LIBPQ = (
    "PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGPASSWORD", "PGPASSFILE", "PGSERVICE", "PGSERVICEFILE",
    "PGOPTIONS", "PGSSLMODE", "PGSSLROOTCERT", "PGSSLCERT", "PGSSLKEY", "PGTARGETSESSIONATTRS",
)  # fmt: skip
OURS = tuple(knob.variable for knob in KNOBS if knob.name not in ABOUT_THE_RUN)
WHAT_SHAPES_US = (*OURS, *LIBPQ, "TZ", "PYTHONTZPATH", "XDG_CONFIG_HOME", "XDG_STATE_HOME")

_ASSIGNED = re.compile(r"""\s*["']?(?P<name>\w+)["']?\s*=\s*(?P<value>.*?)\s*$""")
_FIELDS_BEFORE_USER = 5


def cron_environment(root: Path = Path("/")) -> tuple[dict[str, str], list[Crontab]]:
    """The variables, and the crontabs with a line of cronguard's; of several, what the first says counts."""
    crontabs = list(_crontabs_with_cronguard(root))
    variables = _from_pam(root) | _from_passwd() | FIXED
    said: dict[str, str] = {}
    for crontab in crontabs:
        said = dict(crontab.variables) | said
    said.pop("LOGNAME", None)  # the one that a crontab may not change
    return variables | said, crontabs


def under_cron(settings: Settings) -> tuple[UnderCron, dict[str, str]]:
    """How this shell and cron differ, and the environment to try it out with."""
    environment = settings.environment
    variables, crontabs = cron_environment()
    found = UnderCron(
        path=variables["PATH"],
        program=shutil.which("cronguard", path=variables["PATH"]),
        program_here=_program(environment),
        only_here=tuple(
            name for name in WHAT_SHAPES_US if environment.get(name) and environment[name] != variables.get(name)
        ),
        home=variables.get("HOME"),
        home_here=environment.get("HOME"),
        user=variables.get("LOGNAME"),
        is_local_here=not (settings["dsn"] or settings["dsn_file"]),
        locale=_locale_in(variables),
        locale_here=_locale_in(environment),
        crontabs=tuple(crontabs),
    )
    return found, variables


def _program(environment: Mapping[str, str]) -> str:
    """By a name that is right in any directory."""
    beside = str(Path(sys.executable).with_name("cronguard"))
    found = shutil.which("cronguard", path=environment.get("PATH", os.defpath))
    if found is None and os.access(beside, os.X_OK):
        found = beside
    return str(Path(found).absolute()) if found else f"{sys.executable} -m cronguard"


def _locale_in(variables: Mapping[str, str]) -> str:
    return next(filter(None, (variables.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))), "")


def _from_passwd() -> dict[str, str]:
    with suppress(KeyError):
        entry = pwd.getpwuid(os.geteuid())
        return {"HOME": entry.pw_dir, "LOGNAME": entry.pw_name}
    return {}


def _from_pam(root: Path) -> dict[str, str]:
    """/etc/environment, where cron's PAM reads it."""
    if not any("pam_env" in _text(root / name) for name in PAM_OF_CRON):
        return {}
    lines = (line.removeprefix("export ") for line in _text(root / "etc/environment").splitlines())
    return dict(filter(None, map(_assignment, lines)))


# --------------------------------------------------------------------------- crontabs


def _crontabs_with_cronguard(root: Path) -> Iterator[Crontab]:
    """Those that this user may read, and whose line is this user's."""
    user = _from_passwd().get("LOGNAME", "")
    shared = [root / "etc/crontab", *_files_in(root / "etc/cron.d")]
    own = [root / folder / user for folder in OWN_CRONTABS] if user else []
    for path in (*shared, *own):
        lines = _text(path).splitlines()
        place = next((at for at, line in enumerate(lines) if _is_ours(line, user, has_user=path in shared)), None)
        if place is not None:
            yield Crontab(str(path), dict(filter(None, map(_assignment, lines[:place]))))


def _is_ours(line: str, user: str, *, has_user: bool) -> bool:
    words = line.split()
    if not words or words[0].startswith("#") or "cronguard" not in line or _assignment(line):
        return False
    at = 1 if words[0].startswith("@") else _FIELDS_BEFORE_USER
    return not has_user or (len(words) > at and words[at] == user)


def _assignment(line: str) -> tuple[str, str] | None:
    """As crontab(5) and pam_env(7) read it, quotes around the value being none of it."""
    found = None if line.lstrip().startswith("#") else _ASSIGNED.fullmatch(line)
    if found is None:
        return None
    value = found["value"]
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    return found["name"], value


def _files_in(folder: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(path for path in folder.iterdir() if path.is_file())
    return []


def _text(path: Path) -> str:
    with suppress(OSError):
        if path.is_file():
            return path.read_text(encoding="utf-8", errors="replace")
    return ""
