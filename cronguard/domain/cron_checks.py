"""What would differ under cron: its poor environment against this shell's, and one checkup against the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from cronguard.domain.diagnosis import Diagnosis, Level, note, ok, problem, warning
from cronguard.domain.ground import UnderCron

STATE_DIR = "CRONGUARD_STATE_DIR"
WHERE_THE_LEDGER_IS = ("CRONGUARD_DSN", "CRONGUARD_DSN_FILE", "CRONGUARD_CONFIG", STATE_DIR)
# What these say may be compared word by word; others tell of sizes and times, which are never twice the same.
STEADY = ("settings.configuration", "ledger.reached", "zone.data", "state.folder", "output.encoding")
ABOUT_THE_LEDGER, ABOUT_THE_FOLDER = ("ledger.reached", "ledger.address"), ("state.folder",)
IN_THE_CONFIGURATION = ("CRONGUARD_DSN_FILE", STATE_DIR)


def _crontabs(it: UnderCron) -> Iterator[Diagnosis]:
    for crontab in it.crontabs:
        sets = f", and sets {', '.join(sorted(crontab.variables))}" if crontab.variables else ""
        yield ok("cron.crontab", f"{crontab.path} has a line with cronguard{sets}")


def _program(it: UnderCron) -> Iterator[Diagnosis]:
    if it.program:
        yield ok("cron.program", f"cron finds {it.program}")
    else:
        yield problem(
            "cron.program", f"cron does not find cronguard: its PATH is {it.path}",
            "the line ends with 127, which only cron's mail tells", f"in the crontab: {it.program_here} run ...",
        )  # fmt: skip


def variables_checked(it: UnderCron, *, same_ledger: bool, same_folder: bool) -> Iterator[Diagnosis]:
    """What tells where the ledger is weighs more: a job that is guarded by another ledger is guarded by none."""
    for name in it.only_here:
        what = f"{name} is set in this shell, and cron does not set it so"
        if name == STATE_DIR and not it.is_local_here:
            yield _results_checked(what, same_folder=same_folder)
        elif not (name in WHERE_THE_LEDGER_IS or name.startswith("PG")):
            yield warning("cron.variables", what, "under cron it has no effect", _put(name))
        elif same_ledger:
            yield note("cron.variables", what, "harmless: cron's environment leads to the same ledger")
        else:
            why = "under cron another ledger would be used, or none be reached: hosts would not see each other's runs"
            yield problem("cron.variables", what, why, _put(name))


def _results_checked(what: str, *, same_folder: bool) -> Diagnosis:
    """Of a ledger that is elsewhere the state directory has only what could not be delivered to it."""
    if same_folder:
        return note("cron.variables", what, "harmless: under cron results are kept in the same folder")
    why = "results that cannot be delivered are kept elsewhere under cron: neither side delivers those of the other"
    return warning("cron.variables", what, why, _put(STATE_DIR))


def _put(name: str) -> str:
    """Never the value, which may be a secret."""
    if name == "PGPASSWORD":
        return "put the password into ~/.pgpass, which only its owner may read"
    if name == "TZ":  # of the daemon, for the times at which cron fires
        return "say --tz, or put CRONGUARD_TZ=... above the line in the crontab"
    if name == "CRONGUARD_DSN":
        file = "/etc/cronguard/dsn"
        return f"in the crontab, above the line: CRONGUARD_DSN_FILE={file}   # with the DSN in it, chmod 600"
    where = f"   # or {name.removeprefix('CRONGUARD_').lower()} in /etc/cronguard/config.toml"
    return f"in the crontab, above the line: {name}=...{where if name in IN_THE_CONFIGURATION else ''}"


def _home(it: UnderCron) -> Iterator[Diagnosis]:
    if it.user is None:
        why = "cron starts nothing for a user without a line in /etc/passwd"
        yield warning("cron.user", "this user has no name, and so no crontab", why, "crontab -u NAME -e")
    elif it.home is None:
        yield warning("cron.home", "cron would set no HOME", "the ledger on this host has no place then",
                      "in the crontab, above the line: CRONGUARD_STATE_DIR=/var/lib/cronguard")  # fmt: skip
    elif it.home_here != it.home:
        why = "the configuration and the ledger of this user are looked for there"
        here = f"and {it.home_here} here" if it.home_here else "and it is not set here"
        yield note("cron.home", f"HOME is {it.home} under cron, {here}", why)


def _locale(it: UnderCron) -> Iterator[Diagnosis]:
    if it.locale_here != it.locale:
        what = f"the locale is {it.locale or 'not set'} under cron, and {it.locale_here or 'not set'} here"
        why = "cronguard does not mind; what the command prints, and how it sorts, may be another there"
        yield note("cron.locale", what, why, f"in the crontab, above the line: LC_ALL={it.locale_here or 'C.UTF-8'}")


def differences(here: Sequence[Diagnosis], there: Sequence[Diagnosis]) -> Iterator[Diagnosis]:
    """What the checkup says otherwise under cron; worse than here is as bad as it says, better is worth a note."""
    for found in there:
        alike = [one for one in here if one.check == found.check]
        is_news = alike or found.level is not Level.OK
        if is_news and not any(one.level is found.level and _says_the_same(one, found) for one in alike):
            yield _difference(found, alike)


def _difference(found: Diagnosis, alike: Sequence[Diagnosis]) -> Diagnosis:
    before = alike[0] if alike else None
    what, check = f"under cron: {found.what}", f"cron.{found.check}"
    if before and (before.check, before.level, found.level) == ("ledger.reached", Level.OK, Level.OK):
        why = f"here: {before.what}; runs that are recorded in the one are unknown to the other"
        return problem(check, what, why, "say where the ledger is in /etc/cronguard/config.toml, or in the crontab")
    level = found.level if found.level.rank > (before.level.rank if before else 0) else Level.NOTE
    return replace(
        found, check=check, level=level, what=what, why=found.why or f"here: {before.what if before else ''}"
    )


def _says_the_same(one: Diagnosis, other: Diagnosis) -> bool:
    return one.what == other.what or other.check not in STEADY


def cron_checked(it: UnderCron, here: Sequence[Diagnosis], there: Sequence[Diagnosis]) -> Iterator[Diagnosis]:
    """All of it, and a line that says so where nothing differs."""
    found = [one for rule in CRON_RULES for one in rule(it)]
    same_ledger, same_folder = (_said(here, *of) == _said(there, *of) for of in (ABOUT_THE_LEDGER, ABOUT_THE_FOLDER))
    found += variables_checked(it, same_ledger=same_ledger, same_folder=same_folder)
    if it.failure:
        why = "so would every cronguard there"
        found.append(problem("cron.checkup", f"under cron: {it.failure}", why, "look at what the line says"))
    found += differences(here, there)
    yield from found
    if all(one.level is Level.OK for one in found):
        yield ok("cron.differences", "under cron's environment the checkup says the same")


def _said(found: Sequence[Diagnosis], *checks: str) -> str:
    return next((one.what for one in found if one.check in checks), "")


Rule = Callable[[UnderCron], Iterator[Diagnosis]]
CRON_RULES: tuple[Rule, ...] = (_crontabs, _program, _home, _locale)
