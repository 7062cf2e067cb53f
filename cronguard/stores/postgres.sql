-- Every statement of the Postgres ledger, by name. Rules are not here: they are in domain/.
-- %(now)s is null in production, so that the database's clock rules; tests put a clock of their own there.
-- clock_timestamp(), never now(): a renewal that waited behind a lock must not write a lease already over.

-- name: begin_look
-- One snapshot for what is read and what is noted; no lock, nothing that could conflict.
begin isolation level repeatable read read write

-- name: begin_page
-- After the lock each statement must see what was committed meanwhile.
begin isolation level read committed read write

-- name: begin
begin

-- name: commit
commit

-- name: rollback
rollback

-- name: settle_look
select set_config('statement_timeout', '10s', true),
       set_config('synchronous_commit', 'off', true)

-- name: settle_page
select set_config('lock_timeout', %(lock_for)s, true),
       set_config('statement_timeout', '10s', true),
       set_config('idle_in_transaction_session_timeout', '10s', true),
       set_config('synchronous_commit',
                  case when current_setting('synchronous_commit') in ('off', 'local') then 'on'
                       else current_setting('synchronous_commit') end, true)

-- name: settle_durably
-- The strongest there is: what no synchronous standby has applied does not count as committed. Is there one?
select set_config('lock_timeout', %(lock_for)s, true),
       set_config('statement_timeout', '10s', true),
       set_config('idle_in_transaction_session_timeout', '10s', true),
       set_config('synchronous_commit', 'remote_apply', true),
       current_setting('synchronous_standby_names') = '' as alone

-- name: settle_beat
-- A beat whose commit waits for a standby has the row; those that come after it must not pile up behind.
select set_config('lock_timeout', %(lock_for)s, true),
       set_config('statement_timeout', '10s', true)

-- name: schema
select version, min_reader from cronguard.schema_version order by version desc limit 1

-- name: clock
select coalesce(%(now)s::timestamptz, clock_timestamp()) as now

-- name: add_job
insert into cronguard.job (key, token) values (%(key)s, 0) on conflict (key) do nothing

-- name: lock_job
select * from cronguard.job where key = %(key)s for update

-- name: lock_runs
-- Before the leases: a job's own transaction that called assert_token may hold a run for long, and beats go on meanwhile.
select period from cronguard.run where key = %(key)s and period = any (%(periods)s::text[])
 order by period
   for no key update

-- name: lock_leases
select key, lane, period, token, holder, host, pid, lease_until, stop_requested,
       complete_by, extend_max, extended_for, extension_id, progress, progress_note, progressed_at
  from cronguard.lease where key = %(key)s for update

-- name: read_job
select * from cronguard.job where key = %(key)s

-- name: read_leases
select key, lane, period, token, holder, host, pid, lease_until, stop_requested,
       complete_by, extend_max, extended_for, extension_id, progress, progress_note, progressed_at, advisory_lock,
       case when advisory_lock is not null then cronguard.lock_is_free(advisory_lock) end as is_abandoned
  from cronguard.lease where key = %(key)s

-- name: read_runs
-- The period asked for, and the periods that somebody has a lease of: one list, for with an `or` between the two
-- all runs of the key would be read.
select r.*
  from cronguard.run r
 where r.key = %(key)s
   and r.period in (select %(period)s::text union select l.period from cronguard.lease l where l.key = %(key)s)

-- name: backlog
-- What may wait to be run, oldest first; which of it does is not decided here.
select r.*
  from cronguard.run r
 where r.key = %(key)s and r.state in ('pending', 'running', 'missed')
   and (%(missed)s or r.state <> 'missed')
   and (%(within)s::interval is null
        or coalesce(r.period_end, r.started_at) >= coalesce(%(now)s::timestamptz, clock_timestamp()) - %(within)s)
 order by r.period_start nulls first, r.period
 limit 1000

-- name: recorded
-- Labels of one cadence sort as time does. The last run before the first of them tells whether the key is older.
select r.*
  from cronguard.run r
 where r.key = %(key)s and r.period between %(first)s and %(last)s
union all
(select b.* from cronguard.run b where b.key = %(key)s and b.period < %(first)s order by b.period desc limit 1)

-- name: note_foregone
-- The loser's line, in the same round trip as its look. What is foregone, and why, is the caller's decision.
insert into cronguard.skip (key, period, reason, seen_at, host, pid)
select %(key)s, %(period)s, f.reason, f.clock, %(host)s, %(pid)s
  from (select c.clock,
               case when exists (select from cronguard.run r
                                  where r.key = %(key)s and r.period = %(period)s and r.state = 'succeeded')
                    then %(if_succeeded)s::text
                    when exists (select from cronguard.lease l
                                  where l.key = %(key)s and l.lease_until >= c.clock
                                    and (l.advisory_lock is null or not cronguard.lock_is_free(l.advisory_lock))
                                    and (%(lanes)s::text[] is null or l.lane = any(%(lanes)s::text[])))
                    then %(if_held)s::text end as reason
          from (select coalesce(%(now)s::timestamptz, clock_timestamp()) as clock) c
         where (%(valid_from)s::timestamptz is null or c.clock >= %(valid_from)s::timestamptz)
           and (%(valid_until)s::timestamptz is null or c.clock < %(valid_until)s::timestamptz)
           and not exists (select from cronguard.job j
                            where j.key = %(key)s
                              and (j.cadence <> %(cadence)s::text or j.zone <> %(zone)s::text
                                   or j.schedule is distinct from coalesce(%(schedule)s::text, j.schedule)
                                   or j.paused_at is not null))) f
 where f.reason is not null
returning reason

-- name: note_skip
insert into cronguard.skip (key, period, reason, seen_at, host, pid)
values (%(key)s, %(period)s, %(reason)s, %(seen_at)s, %(host)s, %(pid)s)

-- name: save_job
-- That a token never falls is the schema's affair: a trigger ends the whole transaction.
update cronguard.job
   set token = %(token)s, cadence = %(cadence)s, zone = %(zone)s, schedule = %(schedule)s,
       last_period = %(last_period)s, last_started_at = %(last_started_at)s, pruned_before = %(pruned_before)s,
       claim_within = %(claim_within)s, start_by = %(start_by)s,
       expected_until = %(expected_until)s, expected_by = %(expected_by)s,
       paused_at = %(paused_at)s, paused_by = %(paused_by)s, pause_reason = %(pause_reason)s
 where key = %(key)s

-- name: save_run
insert into cronguard.run
       (key, period, state, lane, attempt, failures, recoveries, attempts_allowed, recoveries_allowed, token,
        holder, host, pid, period_start, period_end, zone, cadence, source, slot,
        started_at, finished_at, complete_by, exit_code, signal,
        extended_for, progress, progress_note, progressed_at, claim_by, reported_at, steps_hash)
values (%(key)s, %(period)s, %(state)s, %(lane)s, %(attempt)s, %(failures)s, %(recoveries)s, %(attempts_allowed)s,
        %(recoveries_allowed)s, %(token)s, %(holder)s, %(host)s, %(pid)s, %(period_start)s, %(period_end)s, %(zone)s,
        %(cadence)s, %(source)s, %(slot)s, %(started_at)s, %(finished_at)s, %(complete_by)s, %(exit_code)s, %(signal)s,
        %(extended_for)s, %(progress)s, %(progress_note)s, %(progressed_at)s, %(claim_by)s, %(reported_at)s,
        %(steps_hash)s)
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
-- Once for a run and token, whoever asks; and told to whoever listens, unless it is taken as soon as it is asked for.
with requested as (
  insert into cronguard.recovery
         (key, period, token, cause, requested_at, requested_by, claim_by, announced_at, taken_at, missed_at)
  values (%(key)s, %(period)s, %(token)s, %(cause)s, %(requested_at)s, %(requested_by)s,
          %(claim_by)s, %(announced_at)s, %(taken_at)s, %(missed_at)s)
  on conflict (key, period, token) do nothing
  returning *
)
select pg_notify('cronguard', json_build_object(
         'schema', 'cronguard.recovery/1', 'key', key, 'period', period, 'token', token, 'cause', cause,
         'requested_at', requested_at, 'requested_by', requested_by, 'claim_by', claim_by)::text)
  from requested where taken_at is null

-- name: follow_recovery
update cronguard.recovery
   set announced_at = coalesce(announced_at, %(announced_at)s), missed_at = %(missed_at)s
 where key = %(key)s and period = %(period)s and token = %(token)s and taken_at is null

-- name: take_recovery
update cronguard.recovery
   set taken_at = %(started_at)s
 where key = %(key)s and period = %(period)s and taken_at is null

-- name: open_attempt
insert into cronguard.attempt (key, token, period, attempt, holder, host, pid, requested_by, started_at)
values (%(key)s, %(token)s, %(period)s, %(attempt)s, %(holder)s, %(host)s, %(pid)s, %(requested_by)s, %(started_at)s)

-- name: recall_attempt
-- Opened before, by a claim that a failover has forgotten.
insert into cronguard.attempt (key, token, period, attempt, holder, host, pid, requested_by, started_at)
values (%(key)s, %(token)s, %(period)s, %(attempt)s, %(holder)s, %(host)s, %(pid)s, %(requested_by)s, %(started_at)s)
on conflict (key, token) do nothing

-- name: close_attempt
-- Written once; only "lost" may still give way, to what the late holder saw of its own command.
update cronguard.attempt
   set outcome = %(outcome)s, finished_at = coalesce(finished_at, %(finished_at)s), exit_code = %(exit_code)s,
       signal = %(signal)s, note = coalesce(%(note)s, note),
       output_head = coalesce(%(output_head)s, output_head), output_tail = coalesce(%(output_tail)s, output_tail),
       output_bytes = coalesce(%(output_bytes)s, output_bytes)
 where key = %(key)s and token = %(token)s and (outcome is null or outcome = 'lost')

-- name: take_lease
insert into cronguard.lease
       (key, lane, period, token, holder, host, pid, lease_until, stop_requested,
        complete_by, extend_max, extended_for, extension_id, progress, progress_note, progressed_at, advisory_lock)
values (%(key)s, %(lane)s, %(period)s, %(token)s, %(holder)s, %(host)s, %(pid)s, %(lease_until)s, %(stop_requested)s,
        %(complete_by)s, %(extend_max)s, %(extended_for)s, %(extension_id)s,
        %(progress)s, %(progress_note)s, %(progressed_at)s, %(advisory_lock)s)

-- name: update_lease
-- All that its command has said, and that it shall end; how long it lasts is the beats' affair.
update cronguard.lease
   set stop_requested = %(stop_requested)s, complete_by = %(complete_by)s,
       extended_for = %(extended_for)s, extension_id = %(extension_id)s,
       progress = %(progress)s, progress_note = %(progress_note)s, progressed_at = %(progressed_at)s
 where key = %(key)s and lane = %(lane)s and token = %(token)s and holder = %(holder)s

-- name: drop_lease
delete from cronguard.lease where key = %(key)s and lane = %(lane)s and token = %(token)s and holder = %(holder)s

-- name: note_intervention
insert into cronguard.intervention (key, period, verb, said_by, reason, said_at)
values (%(key)s, %(period)s, %(verb)s, %(said_by)s, %(reason)s, %(said_at)s)

-- name: beat
-- The one change that is decided by a single guarded statement. least() passes a null complete_by over. What the
-- command has said by cronguard.beat() is taken over.
update cronguard.lease
   set lease_until = least(coalesce(%(now)s::timestamptz, clock_timestamp()) + %(lease_for)s::interval,
                           complete_by + %(slack)s::interval),
       (progressed_at, progress_note) = (
         select greatest(s.progressed_at, lease.progressed_at),
                case when s.progressed_at > lease.progressed_at or lease.progressed_at is null
                     then coalesce(s.note, lease.progress_note) else lease.progress_note end
           from (select 1) as always
           left join cronguard.sign s on s.key = lease.key and s.token = lease.token)
 where key = %(key)s and lane = %(lane)s and token = %(token)s and holder = %(holder)s::uuid
returning lease_until, stop_requested, coalesce(%(now)s::timestamptz, clock_timestamp()) as now,
          complete_by, progressed_at

-- name: settle_session
-- For the one session that holds a lock: who is idle in it is alive, and a client that is gone is soon found out.
-- A setting that this server has not is passed over.
select set_config(s.name, w.value, false)
  from (values ('idle_session_timeout', '0'), ('tcp_keepalives_idle', '5'), ('tcp_keepalives_interval', '2'),
               ('tcp_keepalives_count', '3'), ('tcp_user_timeout', '10000')) w (name, value)
  join pg_catalog.pg_settings s on s.name = w.name

-- name: backend
select pg_backend_pid() as answer

-- name: try_lock
-- Of the session, and never waited for: who waited and is gone would still get it.
select pg_try_advisory_lock(%(lock)s::bigint) as answer

-- name: unlock
select pg_advisory_unlock(%(lock)s::bigint) as answer

-- name: has_lock
select exists (select from pg_catalog.pg_locks k
                where k.locktype = 'advisory' and k.granted and k.objsubid = 1 and k.pid = pg_backend_pid()
                  and k.classid::bigint = (%(lock)s::bigint >> 32) & 4294967295
                  and k.objid::bigint = %(lock)s::bigint & 4294967295) as answer

-- name: history_of_key
-- While it runs, what a command says of itself is in the lease: named last, it counts.
select r.*,
       (select count(*) from cronguard.skip s where s.key = r.key and s.period = r.period) as skips,
       l.lease_until,
       coalesce(l.progress, r.progress) as progress, coalesce(l.progress_note, r.progress_note) as progress_note,
       coalesce(l.progressed_at, r.progressed_at) as progressed_at,
       coalesce(%(now)s::timestamptz, clock_timestamp()) as now
  from cronguard.run r
  left join cronguard.lease l on l.key = r.key and l.lane = r.lane and l.token = r.token
 where r.key = %(key)s
 order by coalesce(r.started_at, r.finished_at) desc nulls last
 limit %(limit)s

-- name: history
-- The newest of each key first, by index, so that millions of runs are not sorted for the last twenty.
select r.*,
       (select count(*) from cronguard.skip s where s.key = r.key and s.period = r.period) as skips,
       l.lease_until,
       coalesce(l.progress, r.progress) as progress, coalesce(l.progress_note, r.progress_note) as progress_note,
       coalesce(l.progressed_at, r.progressed_at) as progressed_at,
       coalesce(%(now)s::timestamptz, clock_timestamp()) as now
  from cronguard.job j
 cross join lateral (select * from cronguard.run k where k.key = j.key
                      order by coalesce(k.started_at, k.finished_at) desc nulls last limit %(limit)s) r
  left join cronguard.lease l on l.key = r.key and l.lane = r.lane and l.token = r.token
 order by coalesce(r.started_at, r.finished_at) desc nulls last
 limit %(limit)s

-- name: show
select r.*,
       (select count(*) from cronguard.skip s where s.key = r.key and s.period = r.period) as skips,
       l.lease_until,
       coalesce(l.progress, r.progress) as progress, coalesce(l.progress_note, r.progress_note) as progress_note,
       coalesce(l.progressed_at, r.progressed_at) as progressed_at,
       coalesce(%(now)s::timestamptz, clock_timestamp()) as now
  from cronguard.run r
  left join cronguard.lease l on l.key = r.key and l.lane = r.lane and l.token = r.token
 where r.key = %(key)s and (%(period)s::text is null or r.period = %(period)s)
 order by coalesce(r.started_at, r.finished_at) desc nulls last
 limit 1

-- name: attempts_of_run
select * from cronguard.attempt where key = %(key)s and period = %(period)s order by token

-- name: skips_of_run
select * from cronguard.skip
 where key = %(key)s and (%(period)s::text is null or period = %(period)s)
 order by id desc limit %(limit)s

-- name: interventions_of_run
-- Those about this run, and those about its key.
select * from cronguard.intervention
 where key = %(key)s and (period is null or period = %(period)s)
 order by id desc limit %(limit)s

-- name: migrations_lock
-- Taken before the first look at the schema: replicas that race wait here, one after the other.
select pg_advisory_xact_lock(%(lock)s)

-- name: has_schema
select to_regclass('cronguard.schema_version') is not null as there

-- name: create_schema
create schema if not exists cronguard;
create table cronguard.schema_version (
  version    integer primary key,
  min_reader integer not null, -- the oldest schema a client must know to write here
  applied_at timestamptz not null default clock_timestamp()
)

-- name: record_migration
insert into cronguard.schema_version (version, min_reader) values (%(version)s, %(min_reader)s)
