-- The same tables as in Postgres; instants are integers, microseconds since the epoch, UTC.

-- One row a key: its last token, its calendar, an operator's word.
create table job (
  key             text primary key check (length(cast(key as blob)) between 1 and 255),
  token           integer not null,
  cadence         text,
  zone            text,
  schedule        text,
  last_period     text,
  last_started_at integer,
  pruned_before   integer,
  paused_at       integer,
  paused_by       text,
  pause_reason    text
);

-- One row a running run, and the only one that beats touch: no index but its key, as in the fleet's ledger.
create table lease (
  key            text not null,
  lane           text not null,
  period         text not null,
  token          integer not null,
  holder         text not null,
  host           text not null,
  pid            integer not null,
  lease_until    integer not null,
  stop_requested text,
  primary key (key, lane)
);

-- One row a key and period: written a few times in its life.
create table run (
  key                text not null,
  period             text not null check (length(cast(period as blob)) between 1 and 255),
  state              text not null check (state in
    ('pending', 'running', 'succeeded', 'failed', 'timed_out', 'dead', 'missed', 'cancelled')),
  lane               text not null,
  attempt            integer not null check (attempt >= 0),
  failures           integer not null check (failures >= 0),
  recoveries         integer not null check (recoveries >= 0),
  attempts_allowed   integer not null,
  recoveries_allowed integer not null,
  token              integer not null,
  holder             text,
  host               text,
  pid                integer,
  period_start       integer,
  period_end         integer,
  zone               text,
  cadence            text,
  source             text,
  slot               integer,
  started_at         integer,
  finished_at        integer,
  complete_by        integer, -- null: never
  exit_code          integer check (exit_code between 0 and 255),
  signal             integer,
  primary key (key, period),
  constraint run_running_is_held check
    (state <> 'running' or holder is not null and host is not null and pid is not null and started_at is not null
      and token > 0 and finished_at is null),
  constraint run_success_was_seen check (state <> 'succeeded' or exit_code = 0 and finished_at is not null)
);
create unique index run_one_running on run (key, lane) where state = 'running';
create index run_recent on run (key, started_at desc);

-- Append only: one row a try, under a token of its own.
create table attempt (
  key          text not null,
  token        integer not null,
  period       text not null,
  attempt      integer not null check (attempt > 0),
  holder       text not null,
  host         text not null,
  pid          integer not null,
  requested_by text,
  started_at   integer not null,
  finished_at  integer,
  outcome      text check (outcome in
    ('succeeded', 'failed', 'start_failed', 'timed_out', 'interrupted', 'lost')),
  exit_code    integer,
  signal       integer,
  note         text,
  primary key (key, token),
  constraint attempt_ended check ((outcome is null) = (finished_at is null))
);
create index attempt_of_run on attempt (key, period);

-- Append only: one row a firing that ran nothing, and why.
create table skip (
  id      integer primary key,
  key     text not null,
  period  text not null,
  reason  text not null check (reason in
    ('held', 'already_succeeded', 'attempts_spent', 'recoveries_spent', 'echo', 'too_late', 'paused', 'cancelled',
     'pruned', 'result_waiting')),
  seen_at integer not null,
  host    text not null,
  pid     integer not null
);
create index skip_of_run on skip (key, period);

-- The fence, in the schema itself: whoever writes under an older token has been overtaken, and writes nothing.
create trigger job_token_never_falls before update on job when new.token < old.token
begin select raise(abort, 'this token is older than the last one of its key'); end;
create trigger run_token_never_falls before update on run when new.token < old.token
begin select raise(abort, 'this token is older than the last one of its run'); end;
