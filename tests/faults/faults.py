"""What can go wrong: each fault has its scene, is struck at one moment, and healed after a while.

`struck` are the guards on the near host, each held at its moment. A fault lasts from half a second to more than a
lease, by the dice of the batch: an outage is sometimes a pause, and sometimes somebody else's chance.
"""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import psycopg

from tests.faults.scene import Scene, fill, on_cluster, on_postgres, on_sqlite
from tests.rig.host import Fired
from tests.rig.processes import descendants
from tests.rig.supervised import kill, worker_of

LEASE = 4.0  # seconds
TERMS = ("--lease", "4s", "--stop-grace", "0.5s", "--beat-every", "0.5s", "--db-wait", "5s")
BRIEF, LONG = 0.5, LEASE + 6  # seconds
PERIOD = ("--period", "2026-11-30")


class Fault:
    """One thing that goes wrong, in the scene where it can."""

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    period: ClassVar[tuple[str, ...]] = PERIOD
    outlives_a_lease: ClassVar[bool] = False  # it lasts until somebody else has had every chance
    uses_up_its_scene: ClassVar[bool] = False  # the next batch needs another
    freezes: ClassVar[bool] = False  # who is struck does nothing until it is healed
    is_awaited: ClassVar[bool] = False  # the far host stands by already when it strikes
    moves_the_ledgers_clock: ClassVar[bool] = False  # what the ledger says of instants is not to be believed
    hole: ClassVar[float] = 0.0  # seconds that a holder is known to act beside another; docs/guarantees.md says so

    def scene(self) -> AbstractContextManager[Scene]:
        return on_postgres()

    def lasts(self, dice: random.Random) -> float:
        """Seconds from strike to heal."""
        return LONG if self.outlives_a_lease else dice.uniform(BRIEF, LONG)

    def environment_of(self, scene: Scene, moment: str) -> dict[str, str]:
        """What else a guard of the near host is started with."""
        return {}

    def environment_of_far(self, scene: Scene) -> dict[str, str]:
        """And one of the far host, where the fault is not near's alone."""
        return {}

    def prepare(self, scene: Scene) -> None:
        """Before anything is fired."""

    def strike(self, scene: Scene, struck: Sequence[Fired], dice: random.Random) -> None:
        raise NotImplementedError

    def heal(self, scene: Scene, struck: Sequence[Fired]) -> None:
        """Nothing, where what was struck is dead."""


# --- Processes --------------------------------------------------------------------------------------------------------


class KillHolder(Fault):
    name = "kill -9 of the holder"

    def lasts(self, dice: random.Random) -> float:
        return 0.0

    def strike(self, scene: Scene, struck: Sequence[Fired], dice: random.Random) -> None:
        workers = [worker_of(fired.pid) for fired in struck]
        kill(*filter(None, workers))


class KillGuardian(KillHolder):
    name = "kill -9 of the guardian"

    def strike(self, scene: Scene, struck: Sequence[Fired], dice: random.Random) -> None:
        kill(*(fired.pid for fired in struck))


class Freeze(Fault):
    """Guardian, worker and command, as a hypervisor or a cgroup would, for longer than the lease.

    They all wake at once: until its guard has killed it, the command goes on for a moment.
    """

    name = "freeze past the lease"
    outlives_a_lease = freezes = True
    hole = 1.0

    def strike(self, scene: Scene, struck: Sequence[Fired], dice: random.Random) -> None:
        self._frozen = [pid for fired in struck for pid in (fired.pid, *descendants(fired.pid))]
        kill(*self._frozen, signum=signal.SIGSTOP)

    def heal(self, scene: Scene, struck: Sequence[Fired]) -> None:
        kill(*self._frozen, signum=signal.SIGCONT)


class Reboot(Fault):
    """Everything on the host is dead at once; its disk, and with it its spool and its local ledger, is there later."""

    name = "host reboot"
    needs = ("namespaces",)

    def scene(self) -> AbstractContextManager[Scene]:
        return on_postgres(own_pids=True)

    def strike(self, scene: Scene, struck: Sequence[Fired], dice: random.Random) -> None:
        scene.near.close()

    def heal(self, scene: Scene, struck: Sequence[Fired]) -> None:
        scene.near.reboot()


# --- The way to the ledger --------------------------------------------------------------------------------------------


class Cut(Fault):
    name = "connection cut"

    def strike(self, scene: Scene, struck: Sequence[Fired], dice: random.Random) -> None:
        assert scene.proxy
        scene.proxy.cut()

    def heal(self, scene: Scene, struck: Sequence[Fired]) -> None:
        assert scene.proxy
        scene.proxy.restore()


class BlackHole(Cut):
    name = "black hole"

    def strike(self, scene: Scene, struck: Sequence[Fired], dice: random.Random) -> None:
        assert scene.proxy
        scene.proxy.black_hole()


class PoolerRestart(Fault):
    name = "pooler restart"
    needs = ("pgbouncer",)

    def scene(self) -> AbstractContextManager[Scene]:
        return on_postgres("pooler")

    def strike(self, scene: Scene, struck: Sequence[Fired], dice: random.Random) -> None:
        assert scene.pooler
        scene.pooler.stop()

    def heal(self, scene: Scene, struck: Sequence[Fired]) -> None:
        assert scene.pooler
        scene.pooler.start()


# --- The ledger itself ------------------------------------------------------------------------------------------------


class DatabaseRestart(Fault):
    """An orderly restart, or a crash: by the dice."""

    name = "database restart"

    def strike(self, scene: Scene, struck: Sequence[Fired], dice: random.Random) -> None:
        assert scene.server
        scene.server.stop(dice.choice(("fast", "immediate")))

    def heal(self, scene: Scene, struck: Sequence[Fired]) -> None:
        assert scene.server
        scene.server.start()


class FailoverSync(Fault):
    """The primary is killed, and the standby that every commit has waited for takes its place."""

    name = "database failover, synchronous"
    uses_up_its_scene = True

    def scene(self) -> AbstractContextManager[Scene]:
        return on_cluster(synchronous=1)

    def lasts(self, dice: random.Random) -> float:
        return LEASE  # it is over at once; so long what runs goes on, if it may

    def strike(self, scene: Scene, struck: Sequence[Fired], dice: random.Random) -> None:
        assert scene.cluster
        scene.cluster.fail_over()
        scene.dsn = scene.cluster.primary.dsn(scene.database)


class FailoverAsync(FailoverSync):
    """The standby has heard of none of the claims; nor has anybody who asks it once it is the primary."""

    name = "database failover, asynchronous"
    is_awaited = True
    hole = 3.0  # a beat, and a new connection for it

    def scene(self) -> AbstractContextManager[Scene]:
        return on_cluster(asynchronous=1)

    def prepare(self, scene: Scene) -> None:
        assert scene.cluster
        scene.cluster.settle()
        scene.cluster.standbys[0].fall_behind()


class ConnectionLimit(Fault):
    """Other clients have every connection that the server gives, and take each one that becomes free."""

    name = "connection limit"

    def scene(self) -> AbstractContextManager[Scene]:
        return on_postgres("straight", max_connections=80)

    def strike(self, scene: Scene, struck: Sequence[Fired], dice: random.Random) -> None:
        self._over = threading.Event()
        self._hog = threading.Thread(target=self._take_all, args=(scene.dsn,))
        self._hog.start()

    def heal(self, scene: Scene, struck: Sequence[Fired]) -> None:
        self._over.set()
        self._hog.join()

    def _take_all(self, dsn: str) -> None:
        taken: list[psycopg.Connection[Any]] = []
        while not self._over.is_set():
            try:
                taken.append(psycopg.connect(dsn, connect_timeout=5))
            except psycopg.OperationalError:
                self._over.wait(0.01)
        for connection in taken:
            connection.close()


# --- Disks ------------------------------------------------------------------------------------------------------------


class DiskFull(Fault):
    """The disk that holds a local ledger and the spool."""

    name = "disk full"
    needs = ("tmpfs",)

    def scene(self) -> AbstractContextManager[Scene]:
        return on_sqlite(small_disk=True)

    def strike(self, scene: Scene, struck: Sequence[Fired], dice: random.Random) -> None:
        assert scene.disk
        self._filler = fill(scene.disk)

    def heal(self, scene: Scene, struck: Sequence[Fired]) -> None:
        self._filler.unlink()


class SpoolFull(DiskFull):
    """The near host cannot reach the ledger, and can keep nothing either."""

    name = "disk full, and connection cut"
    outlives_a_lease = True

    def scene(self) -> AbstractContextManager[Scene]:
        return on_postgres(small_disk=True)

    def strike(self, scene: Scene, struck: Sequence[Fired], dice: random.Random) -> None:
        super().strike(scene, struck, dice)
        assert scene.proxy
        scene.proxy.cut()

    def heal(self, scene: Scene, struck: Sequence[Fired]) -> None:
        super().heal(scene, struck)
        assert scene.proxy
        scene.proxy.restore()


# --- Clocks -----------------------------------------------------------------------------------------------------------


class ClockAhead(Fault):
    """The near host's wall clock steps; one that has not claimed yet was wrong from the start."""

    name = "host clock +1 h"
    period = ("--every", "hour", "--tz", "UTC")
    wrong_by = 3600

    def environment_of(self, scene: Scene, moment: str) -> dict[str, str]:
        file = scene.folder / f"clock-{moment.replace(' ', '-')}"
        if moment == "before claim":
            file.write_text(str(self.wrong_by))
        return {"LAB_CLOCK": str(file)}

    def strike(self, scene: Scene, struck: Sequence[Fired], dice: random.Random) -> None:
        for moment in MOMENTS:
            (scene.folder / f"clock-{moment.replace(' ', '-')}").write_text(str(self.wrong_by))

    def heal(self, scene: Scene, struck: Sequence[Fired]) -> None:
        for file in scene.folder.glob("clock-*"):
            file.unlink()


class ClockBehind(ClockAhead):
    name = "host clock -1 h"
    wrong_by = -3600


class LedgersClockAhead(Fault):
    """The one clock of the one machine steps, by which a local ledger judges its leases."""

    name = "clock +1 h, SQLite"
    period = (*PERIOD, "--complete-by", "never")  # a complete-by is an instant of that clock
    moves_the_ledgers_clock = True
    hole = 2.0  # a beat
    wrong_by = 3600

    def scene(self) -> AbstractContextManager[Scene]:
        return on_sqlite()

    def environment_of(self, scene: Scene, moment: str) -> dict[str, str]:
        return self.environment_of_far(scene)

    def environment_of_far(self, scene: Scene) -> dict[str, str]:
        return {"LAB_CLOCK": str(scene.folder / "clock")}

    def strike(self, scene: Scene, struck: Sequence[Fired], dice: random.Random) -> None:
        (scene.folder / "clock").write_text(str(self.wrong_by))

    def heal(self, scene: Scene, struck: Sequence[Fired]) -> None:
        (scene.folder / "clock").unlink()


class LedgersClockBehind(LedgersClockAhead):
    name = "clock -1 h, SQLite"
    wrong_by = -3600


def _on_sqlite(fault: type[Fault], **scene: bool) -> type[Fault]:
    """The same fault, with a ledger in a file."""
    own: dict[str, Any] = {"name": f"{fault.name}, SQLite", "scene": lambda _self: on_sqlite(**scene)}
    return type(f"{fault.__name__}OnSqlite", (fault,), own)


MOMENTS: dict[str, str] = {  # and the name of its point in tests/rig/faulty.py
    "before claim": "before_claim",
    "between claim and start": "after_claim",
    "running": "",
    "at exit, before finish": "before_finish",
    "finish sent, not acknowledged": "after_finish",
}
FAULTS: tuple[type[Fault], ...] = (
    KillHolder, KillGuardian, Freeze, Reboot,
    Cut, BlackHole, PoolerRestart,
    DatabaseRestart, FailoverSync, FailoverAsync, ConnectionLimit,
    SpoolFull, ClockAhead, ClockBehind,
    *(_on_sqlite(fault) for fault in (KillHolder, KillGuardian, Freeze)), _on_sqlite(Reboot, own_pids=True),
    _on_sqlite(DiskFull, small_disk=True), LedgersClockAhead, LedgersClockBehind,
)  # fmt: skip
BY_NAME = {fault.name: fault for fault in FAULTS}
