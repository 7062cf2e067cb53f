"""The command of a drill: it writes down that it lives, and ends when it is told to. A program of its own.

    python marking.py LIFELINE FOLDER REPLICA

It loads nothing of ours: whatever else may be wrong, its marks are true. They
go to FOLDER/REPLICA-PID; FOLDER/REPLICA-PID.done tells it that its work is done.
LIFELINE is a named pipe that somebody can write to for as long as the drill is on.
"""

import os
import sys
import time

EVERY = 0.02  # seconds between two marks
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # the same for every process of the host


def main(lifeline: str, folder: str, replica: str) -> None:
    """Mark the start, the time in between and the end; without a drill there is none."""
    drill = os.open(lifeline, os.O_RDONLY | os.O_NONBLOCK)
    name = f"{folder}/{replica}-{os.getpid()}"
    marks = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
    os.write(marks, f"start {time.clock_gettime(CLOCK):.6f} {os.getpid()} {os.getppid()}\n".encode())
    while not os.access(f"{name}.done", os.F_OK):
        if is_over(drill):
            sys.exit(1)
        time.sleep(EVERY)
        os.write(marks, f"alive {time.clock_gettime(CLOCK):.6f}\n".encode())
    os.write(marks, f"end {time.clock_gettime(CLOCK):.6f}\n".encode())


def is_over(drill: int) -> bool:
    """Whether nobody is left who could write to the pipe."""
    try:
        return not os.read(drill, 1)
    except BlockingIOError:
        return False


if __name__ == "__main__":
    main(*sys.argv[1:])
