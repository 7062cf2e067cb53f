-- One row a named part of a run, so that the run can be gone on with where it was cut off.
create table cronguard.step (
  key          text collate "C" not null,
  period       text collate "C" not null,
  name         text collate "C" not null check (octet_length(name) between 1 and 255),
  ordinal      integer not null check (ordinal > 0),
  state        text collate "C" not null check (state in ('pending', 'running', 'succeeded', 'failed', 'unknown')),
  token        bigint not null, -- of the run's attempt under which it last started
  attempt      integer not null check (attempt >= 0),
  once         boolean not null,
  start_id     uuid, -- of the call that last started it, which may ask again
  command_hash text, -- of the command that it last started with; null: a person has settled it since
  started_at   timestamptz,
  finished_at  timestamptz,
  complete_by  timestamptz, -- null: when its run must be over
  exit_code    integer,
  signal       integer,
  note         text,
  output_head  bytea,
  output_tail  bytea,
  output_bytes bigint, -- all that it said, of which head and tail may be a part
  primary key (key, period, name),
  constraint step_running_was_started check
    (state <> 'running' or token > 0 and attempt > 0 and start_id is not null and started_at is not null
      and finished_at is null)
);
create trigger step_token_never_falls before update on cronguard.step
  for each row when (new.token < old.token) execute function cronguard.refuse_older_token();

-- Of the list of steps that the run was started with; null: one command.
alter table cronguard.run
  add column steps_hash text;

-- Who keeps leases may write steps. Granted here: nobody has to think of it at an upgrade.
do $$
declare found record;
begin
  for found in
    select distinct a.grantee::regrole::text as role
      from pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl) a
     where c.oid = 'cronguard.lease'::regclass and a.privilege_type = 'UPDATE' and a.grantee not in (0, c.relowner)
  loop
    execute 'grant select, insert, update, delete on cronguard.step to ' || found.role;
  end loop;
end $$;
