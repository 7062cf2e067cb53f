-- What `cronguard doctor` asks of an SQLite ledger besides its schema.

-- name: ground_journal
pragma journal_mode

-- name: ground_integrity
pragma quick_check(1)
