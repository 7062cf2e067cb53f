-- Every statement of the SQLite ledger, by name: the same names as in postgres.sql, where this store needs them.
-- Rules are not here: they are in domain/. :now is this host's clock, in microseconds since the epoch, UTC.
-- No RETURNING, no FILTER: SQLite 3.24 is enough.

-- name: settle
pragma synchronous = full

-- name: rollback
rollback

-- name: begin
begin

-- name: begin_page
-- At once a writer: a read that turns into a write later would fail instead of waiting.
begin immediate

-- name: has_schema
select count(*) as there from sqlite_master where type = 'table' and name = 'schema_version'

-- name: any_table
select name from sqlite_master limit 1

-- name: create_schema
create table schema_version (
  version    integer primary key,
  min_reader integer not null, -- the oldest schema a client must know to write here
  applied_at integer not null
)

-- name: commit
commit

-- name: schema
select version, min_reader from schema_version order by version desc limit 1

-- name: add_job
insert into job (key, token) values (:key, 0) on conflict (key) do nothing

-- name: read_job
select * from job where key = :key

-- name: read_leases
select key, lane, period, token, holder, host, pid, lease_until, stop_requested,
       complete_by, extend_max, extended_for, extension_id, progress, progress_note, progressed_at, advisory_lock
  from lease where key = :key

-- name: read_runs
-- The period asked for, and the periods that somebody has a lease of: one list, for with an `or` between the two
-- all runs of the key would be read.
select r.*
  from run r
 where r.key = :key
   and r.period in (select :period union select l.period from lease l where l.key = :key)

-- name: backlog
-- What may wait to be run, oldest first; which of it does is not decided here.
select r.*
  from run r
 where r.key = :key and r.state in ('pending', 'running', 'missed')
   and (:missed or r.state <> 'missed')
   and (:within is null or coalesce(r.period_end, r.started_at) >= :now - :within)
 order by r.period_start, r.period
 limit 1000

-- name: recorded
-- Labels of one cadence sort as time does. The last run before the first of them tells whether the key is older.
select r.*
  from run r
 where r.key = :key and r.period between :first and :last
union all
select * from (select b.* from run b where b.key = :key and b.period < :first order by b.period desc limit 1)

-- name: note_skip
insert into skip (key, period, reason, seen_at, host, pid)
values (:key, :period, :reason, :seen_at, :host, :pid)

-- name: save_job
update job
   set token = :token, cadence = :cadence, zone = :zone, schedule = :schedule,
       last_period = :last_period, last_started_at = :last_started_at, pruned_before = :pruned_before,
       claim_within = :claim_within, start_by = :start_by,
       expected_until = :expected_until, expected_by = :expected_by,
       paused_at = :paused_at, paused_by = :paused_by, pause_reason = :pause_reason
 where key = :key

-- name: save_run
insert into run
       (key, period, state, lane, attempt, failures, recoveries, attempts_allowed, recoveries_allowed, token,
        holder, host, pid, period_start, period_end, zone, cadence, source, slot,
        started_at, finished_at, complete_by, exit_code, signal,
        extended_for, progress, progress_note, progressed_at, claim_by, reported_at, steps_hash)
values (:key, :period, :state, :lane, :attempt, :failures, :recoveries, :attempts_allowed,
        :recoveries_allowed, :token, :holder, :host, :pid, :period_start, :period_end, :zone,
        :cadence, :source, :slot, :started_at, :finished_at, :complete_by, :exit_code, :signal,
        :extended_for, :progress, :progress_note, :progressed_at, :claim_by, :reported_at,
        :steps_hash)
on conflict (key, period) do update
   set state = excluded.state, lane = excluded.lane, attempt = excluded.attempt, failures = excluded.failures,
       recoveries = excluded.recoveries, attempts_allowed = excluded.attempts_allowed,
       recoveries_allowed = excluded.recoveries_allowed, token = excluded.token, holder = excluded.holder,
       host = excluded.host, pid = excluded.pid, started_at = excluded.started_at,
       finished_at = excluded.finished_at, complete_by = excluded.complete_by,
       exit_code = excluded.exit_code, signal = excluded.signal, extended_for = excluded.extended_for,
       progress = excluded.progress, progress_note = excluded.progress_note, progressed_at = excluded.progressed_at,
       claim_by = excluded.claim_by, reported_at = excluded.reported_at, steps_hash = excluded.steps_hash

-- name: request_recovery
-- Once for a run and token, whoever asks.
insert into recovery
       (key, period, token, cause, requested_at, requested_by, claim_by, announced_at, taken_at, missed_at)
values (:key, :period, :token, :cause, :requested_at, :requested_by,
        :claim_by, :announced_at, :taken_at, :missed_at)
on conflict (key, period, token) do nothing

-- name: follow_recovery
update recovery
   set announced_at = coalesce(announced_at, :announced_at), missed_at = :missed_at
 where key = :key and period = :period and token = :token and taken_at is null

-- name: take_recovery
update recovery
   set taken_at = :started_at
 where key = :key and period = :period and taken_at is null

-- name: open_attempt
insert into attempt (key, token, period, attempt, holder, host, pid, requested_by, started_at)
values (:key, :token, :period, :attempt, :holder, :host, :pid, :requested_by, :started_at)

-- name: recall_attempt
-- Opened before, in a ledger that was put back to an older state since.
insert or ignore into attempt (key, token, period, attempt, holder, host, pid, requested_by, started_at)
values (:key, :token, :period, :attempt, :holder, :host, :pid, :requested_by, :started_at)

-- name: close_attempt
-- Written once; only "lost" may still give way, to what the late holder saw of its own command.
update attempt
   set outcome = :outcome, finished_at = coalesce(finished_at, :finished_at), exit_code = :exit_code,
       signal = :signal, note = coalesce(:note, note),
       output_head = coalesce(:output_head, output_head), output_tail = coalesce(:output_tail, output_tail),
       output_bytes = coalesce(:output_bytes, output_bytes)
 where key = :key and token = :token and (outcome is null or outcome = 'lost')

-- name: take_lease
insert into lease
       (key, lane, period, token, holder, host, pid, lease_until, stop_requested,
        complete_by, extend_max, extended_for, extension_id, progress, progress_note, progressed_at, advisory_lock)
values (:key, :lane, :period, :token, :holder, :host, :pid, :lease_until, :stop_requested,
        :complete_by, :extend_max, :extended_for, :extension_id, :progress, :progress_note, :progressed_at,
        :advisory_lock)

-- name: update_lease
-- All that its command has said, and that it shall end; how long it lasts is the beats' affair.
update lease
   set stop_requested = :stop_requested, complete_by = :complete_by,
       extended_for = :extended_for, extension_id = :extension_id,
       progress = :progress, progress_note = :progress_note, progressed_at = :progressed_at
 where key = :key and lane = :lane and token = :token and holder = :holder

-- name: drop_lease
delete from lease where key = :key and lane = :lane and token = :token and holder = :holder

-- name: note_intervention
insert into intervention (key, period, verb, said_by, reason, said_at)
values (:key, :period, :verb, :said_by, :reason, :said_at)

-- name: beat
update lease
   set lease_until = min(:now + :lease_for, coalesce(complete_by + :slack, :now + :lease_for))
 where key = :key and lane = :lane and token = :token and holder = :holder

-- name: beat_answer
select lease_until, stop_requested, :now as now, complete_by, progressed_at
  from lease where key = :key and lane = :lane and token = :token and holder = :holder

-- name: history_of_key
-- While it runs, what a command says of itself is in the lease: named last, it counts.
select r.*,
       (select count(*) from skip s where s.key = r.key and s.period = r.period) as skips,
       l.lease_until,
       coalesce(l.progress, r.progress) as progress, coalesce(l.progress_note, r.progress_note) as progress_note,
       coalesce(l.progressed_at, r.progressed_at) as progressed_at,
       :now as now
  from run r
  left join lease l on l.key = r.key and l.lane = r.lane and l.token = r.token
 where r.key = :key
 order by coalesce(r.started_at, r.finished_at) desc
 limit :limit

-- name: history
select r.*,
       (select count(*) from skip s where s.key = r.key and s.period = r.period) as skips,
       l.lease_until,
       coalesce(l.progress, r.progress) as progress, coalesce(l.progress_note, r.progress_note) as progress_note,
       coalesce(l.progressed_at, r.progressed_at) as progressed_at,
       :now as now
  from run r
  left join lease l on l.key = r.key and l.lane = r.lane and l.token = r.token
 order by coalesce(r.started_at, r.finished_at) desc
 limit :limit

-- name: show
select r.*,
       (select count(*) from skip s where s.key = r.key and s.period = r.period) as skips,
       l.lease_until,
       coalesce(l.progress, r.progress) as progress, coalesce(l.progress_note, r.progress_note) as progress_note,
       coalesce(l.progressed_at, r.progressed_at) as progressed_at,
       :now as now
  from run r
  left join lease l on l.key = r.key and l.lane = r.lane and l.token = r.token
 where r.key = :key and (:period is null or r.period = :period)
 order by coalesce(r.started_at, r.finished_at) desc
 limit 1

-- name: attempts_of_run
select * from attempt where key = :key and period = :period order by token

-- name: skips_of_run
select * from skip
 where key = :key and (:period is null or period = :period)
 order by id desc limit :limit

-- name: interventions_of_run
-- Those about this run, and those about its key.
select * from intervention
 where key = :key and (period is null or period = :period)
 order by id desc limit :limit

-- name: record_migration
insert into schema_version (version, min_reader, applied_at) values (:version, :min_reader, :now)
