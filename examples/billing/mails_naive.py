"""The e-mails as they are often sent, for comparison: check, send, record. Do not do this.

Two who check before either has recorded both send; who is killed between send and record sends it again.
"""

from __future__ import annotations

import os

from accounts import connect, due
from send import send

CHECK = "select 1 from billing.reminded where name = %s and period = %s"
RECORD = "insert into billing.reminded (name, period) values (%s, %s)"


def main() -> None:
    period = os.environ["CRONGUARD_PERIOD"]
    with connect() as database:
        for who in due(database):
            if not database.execute(CHECK, [who, period]).fetchone():
                send(who, period)
                database.execute(RECORD, [who, period])
            database.commit()


if __name__ == "__main__":
    main()
