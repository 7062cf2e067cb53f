#!/bin/sh -e
# The same job as it is often written, for comparison: nobody guards it, and its e-mails are checked, sent, recorded.
cd -P "$(dirname "$0")"
python3 accounts.py pull
python3 accounts.py balances
python3 mails_naive.py
