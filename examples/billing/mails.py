"""The e-mails, from Python: claim ten, send and confirm one after the other, claim the next ten.

Ten, since all that was claimed and not confirmed when its host dies is unknown, and a person has to look at each.
"""

from __future__ import annotations

import os
from datetime import timedelta

from accounts import connect, due
from send import send

from cronguard import current_run

AT_ONCE = 10


def main() -> None:
    run = current_run()
    within = timedelta(seconds=int(os.environ.get("BILLING_SEND_WITHIN", "900")))
    with connect() as database:
        customers = due(database)
    for who in run.claim("reminder", customers, send_within=within, at_once=AT_ONCE):
        send(who, run.period)
        run.confirm("reminder", [who])


if __name__ == "__main__":
    main()
