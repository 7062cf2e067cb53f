"""Send one reminder by SMTP, once: send.py WHO. Exit code 0 means that the server has taken it."""

from __future__ import annotations

import os
import smtplib
import sys

FROM = "billing@example.com"


def send(who: str, period: str) -> None:
    """It is not tried again here: whoever is not answered cannot know whether it was taken."""
    host, _, port = os.environ["BILLING_SMTP"].partition(":")
    head = f"From: {FROM}\r\nTo: {who}\r\nSubject: Your balance of {period}\r\n"
    with smtplib.SMTP(host, int(port), local_hostname="billing.example.com", timeout=10) as server:
        server.sendmail(FROM, [who], f"{head}\r\nPlease pay.\r\n")


if __name__ == "__main__":
    send(sys.argv[1], os.environ["CRONGUARD_PERIOD"])
