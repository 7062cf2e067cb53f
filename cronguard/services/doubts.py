"""A lock that has just become free proves nothing yet: its holder may be about to kill its command."""

from __future__ import annotations

from dataclasses import replace

from cronguard.clock import boottime
from cronguard.domain.run import Sight

ABANDONED_AFTER = 0.5  # seconds for which an advisory lock must be seen to be free: a holder looks five times in that


class Doubts:
    """Since when each lock has been seen to be free, by the token of its lease."""

    def __init__(self) -> None:
        self._seen_free: dict[int, float] = {}

    def settled(self, sight: Sight) -> Sight:
        """The same, where only those leases are abandoned whose locks have been free for long enough."""
        now = boottime()
        for lease in sight.leases:
            if lease.is_abandoned:
                self._seen_free.setdefault(lease.token, now)
            else:
                self._seen_free.pop(lease.token, None)
        leases = (replace(lease, is_abandoned=lease.is_abandoned and lease.token not in self) for lease in sight.leases)
        return replace(sight, leases=tuple(leases))

    def __contains__(self, token: int) -> bool:
        """Whether this lock is free, and that is not to be believed yet."""
        since = self._seen_free.get(token)
        return since is not None and boottime() < since + ABANDONED_AFTER
