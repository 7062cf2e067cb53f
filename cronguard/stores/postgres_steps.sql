-- What the Postgres ledger is asked, and told, about steps. Rules are not here: they are in domain/.

-- name: read_steps
-- Without what is remembered of their output: a decision needs none of it.
select key, period, name, ordinal, state, token, attempt, once, start_id, command_hash, started_at,
       finished_at, complete_by, exit_code, signal, note
  from cronguard.step where key = %(key)s and period = %(period)s order by ordinal, name

-- name: steps_of_run
select * from cronguard.step where key = %(key)s and period = %(period)s order by ordinal, name

-- name: save_step
-- Of its output what is not told anew stays.
insert into cronguard.step
       (key, period, name, ordinal, state, token, attempt, once, start_id, command_hash, started_at,
        finished_at, complete_by, exit_code, signal, note, output_head, output_tail, output_bytes)
values (%(key)s, %(period)s, %(name)s, %(ordinal)s, %(state)s, %(token)s, %(attempt)s, %(once)s, %(start_id)s,
        %(command_hash)s, %(started_at)s, %(finished_at)s, %(complete_by)s, %(exit_code)s, %(signal)s, %(note)s,
        %(output_head)s, %(output_tail)s, %(output_bytes)s)
on conflict (key, period, name) do update
   set ordinal = excluded.ordinal, state = excluded.state, token = excluded.token, attempt = excluded.attempt,
       once = excluded.once, start_id = excluded.start_id, command_hash = excluded.command_hash,
       started_at = excluded.started_at, finished_at = excluded.finished_at, complete_by = excluded.complete_by,
       exit_code = excluded.exit_code, signal = excluded.signal, note = excluded.note,
       output_head = coalesce(excluded.output_head, step.output_head),
       output_tail = coalesce(excluded.output_tail, step.output_tail),
       output_bytes = coalesce(excluded.output_bytes, step.output_bytes)

-- name: forget_step
delete from cronguard.step where key = %(key)s and period = %(period)s and name = %(name)s
