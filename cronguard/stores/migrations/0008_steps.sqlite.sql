-- One row a named part of a run, so that the run can be gone on with where it was cut off.
create table step (
  key          text not null,
  period       text not null,
  name         text not null check (length(cast(name as blob)) between 1 and 255),
  ordinal      integer not null check (ordinal > 0),
  state        text not null check (state in ('pending', 'running', 'succeeded', 'failed', 'unknown')),
  token        integer not null, -- of the run's attempt under which it last started
  attempt      integer not null check (attempt >= 0),
  once         integer not null check (once in (0, 1)),
  start_id     text, -- of the call that last started it, which may ask again
  command_hash text, -- of the command that it last started with; null: a person has settled it since
  started_at   integer,
  finished_at  integer,
  complete_by  integer, -- null: when its run must be over
  exit_code    integer,
  signal       integer,
  note         text,
  output_head  blob,
  output_tail  blob,
  output_bytes integer, -- all that it said, of which head and tail may be a part
  primary key (key, period, name),
  constraint step_running_was_started check
    (state <> 'running' or token > 0 and attempt > 0 and start_id is not null and started_at is not null
      and finished_at is null)
);
create trigger step_token_never_falls before update on step when new.token < old.token
begin select raise(abort, 'this token is older than the last one of its step'); end;

-- Of the list of steps that the run was started with; null: one command.
alter table run add column steps_hash text;
