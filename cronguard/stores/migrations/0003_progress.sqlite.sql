-- What a command says while it runs, and when it must be over: in the lease, as in the fleet's ledger.
alter table lease add column complete_by integer; -- null: never
alter table lease add column extend_max integer not null default 0; -- microseconds
alter table lease add column extended_for integer not null default 0; -- microseconds
alter table lease add column extension_id text; -- of the last call that extended it, which may ask again
alter table lease add column progress text;
alter table lease add column progress_note text check (length(progress_note) <= 1000);
alter table lease add column progressed_at integer;

-- What is left of it when the lease is gone.
alter table run add column extended_for integer not null default 0; -- microseconds
alter table run add column progress text;
alter table run add column progress_note text;
alter table run add column progressed_at integer;

-- One more word. SQLite cannot change a CHECK where it stands: the table is made anew, and its rows move over.
alter table attempt rename to attempt_before;
drop index attempt_of_run;
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
    ('succeeded', 'failed', 'start_failed', 'timed_out', 'stalled', 'interrupted', 'lost')),
  exit_code    integer,
  signal       integer,
  note         text,
  output_head  blob,
  output_tail  blob,
  output_bytes integer, -- all that it said, of which head and tail may be a part
  primary key (key, token),
  constraint attempt_ended check ((outcome is null) = (finished_at is null))
);
insert into attempt
       (key, token, period, attempt, holder, host, pid, requested_by, started_at, finished_at, outcome,
        exit_code, signal, note, output_head, output_tail, output_bytes)
select key, token, period, attempt, holder, host, pid, requested_by, started_at, finished_at, outcome,
       exit_code, signal, note, output_head, output_tail, output_bytes
  from attempt_before;
drop table attempt_before;
create index attempt_of_run on attempt (key, period);
