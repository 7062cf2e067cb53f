-- How a drill removes the keys that it has made, by name. No other key is ever given to these.

-- name: erase_leases
delete from lease where key = :key

-- name: erase_steps
delete from step where key = :key

-- name: erase_requests
delete from recovery where key = :key

-- name: erase_attempts
delete from attempt where key = :key

-- name: erase_skips
delete from skip where key = :key

-- name: erase_runs
delete from run where key = :key

-- name: erase_job
delete from job where key = :key
