"""A process inside of a run that starts commands of its own: `cronguard step`.

It has no guardian and no lease. Whoever guards the run freezes, thaws and kills
it along with everything below it; it passes signals on, and leaves nothing
behind when it ends by itself.
"""

from __future__ import annotations

from datetime import timedelta

from cronguard.clock import NEVER
from cronguard.domain.claim import LeaseTerms
from cronguard.domain.run import seconds
from cronguard.process.command import Limits, OnSilence
from cronguard.process.guardian import Worker
from cronguard.process.heartbeat import Trust
from cronguard.process.link import Link
from cronguard.process.linux import become_subreaper
from cronguard.process.signals import SUSPEND, Caller, Signals


def become_worker_of_a_run() -> Worker:
    """To be called before any thread. Its commands get a session of their own: a signal to the run's group reaches
    them once, through us."""
    become_subreaper()
    signals = Signals(Caller())
    signals.install(*SUSPEND)
    return Worker(Link(), signals, foreground=None)


def deadline_only(complete_at: float, stop_grace: timedelta) -> Limits:
    """Nothing but a complete-by (boottime) ends the command from outside: the lease is the run's affair."""
    trust = Trust(LeaseTerms(stop_grace, stop_grace, stop_grace), on_news=lambda: None)
    trust.until, trust.complete_at = NEVER, complete_at
    return Limits(trust, seconds(stop_grace), OnSilence.CONTINUE)
