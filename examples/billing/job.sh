#!/bin/sh -e
# The job: cronguard run --key billing -- ./job.sh. BILLING_BY says how the e-mails are sent: python, cli or sql.
cd -P "$(dirname "$0")"
case ${BILLING_BY:-python} in
python) mails='python3 mails.py' ;;
cli) mails=./mails-cli ;;
sql) mails=./mails-sql ;;
naive) mails='python3 mails_naive.py' ;;
*) echo "job.sh: BILLING_BY: $BILLING_BY? python, cli, sql or naive" >&2; exit 2 ;;
esac
cronguard step pull     -- python3 accounts.py pull
cronguard step balances -- python3 accounts.py balances
# shellcheck disable=SC2086 # words are wanted
cronguard step mails    -- $mails
