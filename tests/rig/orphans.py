"""A program that leaves double-forked processes behind, which die around who adopts them: python orphans.py COUNT"""

from __future__ import annotations

import os
import sys
import time


def main(count: int) -> None:
    for number in range(count):
        middle = os.fork()
        if middle == 0:
            if os.fork() == 0:
                time.sleep(number % 20 / 1000)
                os._exit(number % 256)
            os._exit(0)
        os.waitpid(middle, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
