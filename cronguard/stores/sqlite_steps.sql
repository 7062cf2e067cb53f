-- What the SQLite ledger is asked, and told, about steps: the same names as in postgres_steps.sql.

-- name: read_steps
-- Without what is remembered of their output: a decision needs none of it.
select key, period, name, ordinal, state, token, attempt, once, start_id, command_hash, started_at,
       finished_at, complete_by, exit_code, signal, note
  from step where key = :key and period = :period order by ordinal, name

-- name: steps_of_run
select * from step where key = :key and period = :period order by ordinal, name

-- name: save_step
-- Of its output what is not told anew stays.
insert into step
       (key, period, name, ordinal, state, token, attempt, once, start_id, command_hash, started_at,
        finished_at, complete_by, exit_code, signal, note, output_head, output_tail, output_bytes)
values (:key, :period, :name, :ordinal, :state, :token, :attempt, :once, :start_id,
        :command_hash, :started_at, :finished_at, :complete_by, :exit_code, :signal, :note,
        :output_head, :output_tail, :output_bytes)
on conflict (key, period, name) do update
   set ordinal = excluded.ordinal, state = excluded.state, token = excluded.token, attempt = excluded.attempt,
       once = excluded.once, start_id = excluded.start_id, command_hash = excluded.command_hash,
       started_at = excluded.started_at, finished_at = excluded.finished_at, complete_by = excluded.complete_by,
       exit_code = excluded.exit_code, signal = excluded.signal, note = excluded.note,
       output_head = coalesce(excluded.output_head, step.output_head),
       output_tail = coalesce(excluded.output_tail, step.output_tail),
       output_bytes = coalesce(excluded.output_bytes, step.output_bytes)

-- name: forget_step
delete from step where key = :key and period = :period and name = :name
