-- One row a key: the lock of its page, its last token, its calendar, an operator's word.
create table cronguard.job (
  key             text collate "C" primary key check (octet_length(key) between 1 and 255),
  token           bigint not null,
  cadence         text,
  zone            text,
  schedule        text,
  last_period     text collate "C",
  last_started_at timestamptz,
  pruned_before   timestamptz,
  paused_at       timestamptz,
  paused_by       text,
  pause_reason    text
) with (fillfactor = 50);

-- One row a running run, and the only one that beats touch: no index but its key, so every beat is HOT.
create table cronguard.lease (
  key            text collate "C" not null,
  lane           text collate "C" not null,
  period         text collate "C" not null,
  token          bigint not null,
  holder         uuid not null,
  host           text not null,
  pid            integer not null,
  lease_until    timestamptz not null,
  stop_requested text,
  primary key (key, lane)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- One row a key and period: written a few times in its life.
create table cronguard.run (
  key                text collate "C" not null,
  period             text collate "C" not null check (octet_length(period) between 1 and 255),
  state              text collate "C" not null check (state in
    ('pending', 'running', 'succeeded', 'failed', 'timed_out', 'dead', 'missed', 'cancelled')),
  lane               text collate "C" not null,
  attempt            integer not null check (attempt >= 0),
  failures           integer not null check (failures >= 0),
  recoveries         integer not null check (recoveries >= 0),
  attempts_allowed   integer not null,
  recoveries_allowed integer not null,
  token              bigint not null,
  holder             uuid,
  host               text,
  pid                integer,
  period_start       timestamptz,
  period_end         timestamptz,
  zone               text,
  cadence            text,
  source             text,
  slot               timestamptz,
  started_at         timestamptz,
  finished_at        timestamptz,
  complete_by        timestamptz, -- null: never
  exit_code          integer check (exit_code between 0 and 255),
  signal             integer,
  primary key (key, period),
  constraint run_running_is_held check
    (state <> 'running' or num_nulls(holder, host, pid, started_at) = 0 and token > 0 and finished_at is null),
  constraint run_success_was_seen check (state <> 'succeeded' or exit_code = 0 and finished_at is not null)
);
create unique index run_one_running on cronguard.run (key, lane) where state = 'running';
create index run_recent on cronguard.run (key, started_at desc);

-- Append only: one row a try, under a token of its own.
create table cronguard.attempt (
  key          text collate "C" not null,
  token        bigint not null,
  period       text collate "C" not null,
  attempt      integer not null check (attempt > 0),
  holder       uuid not null,
  host         text not null,
  pid          integer not null,
  requested_by text,
  started_at   timestamptz not null,
  finished_at  timestamptz,
  outcome      text collate "C" check (outcome in
    ('succeeded', 'failed', 'start_failed', 'timed_out', 'interrupted', 'lost')),
  exit_code    integer,
  signal       integer,
  note         text,
  primary key (key, token),
  constraint attempt_ended check ((outcome is null) = (finished_at is null))
);
create index attempt_of_run on cronguard.attempt (key, period);

-- Append only: one row a firing that ran nothing, and why.
create table cronguard.skip (
  id      bigint generated always as identity primary key,
  key     text collate "C" not null,
  period  text collate "C" not null,
  reason  text collate "C" not null check (reason in
    ('held', 'already_succeeded', 'attempts_spent', 'recoveries_spent', 'echo', 'too_late', 'paused', 'cancelled',
     'pruned', 'result_waiting')),
  seen_at timestamptz not null,
  host    text not null,
  pid     integer not null
);
create index skip_of_run on cronguard.skip (key, period);

-- The fence, in the schema itself: whoever writes under an older token has been overtaken, and writes nothing.
create function cronguard.refuse_older_token() returns trigger language plpgsql as $$
begin
  raise exception 'token % is older than token % of %', new.token, old.token, old.key using errcode = 'CG001';
end $$;
create trigger job_token_never_falls before update on cronguard.job
  for each row when (new.token < old.token) execute function cronguard.refuse_older_token();
create trigger run_token_never_falls before update on cronguard.run
  for each row when (new.token < old.token) execute function cronguard.refuse_older_token();
