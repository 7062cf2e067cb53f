-- What a supervisor must know of a key, written by whoever is granted a run of it.
alter table cronguard.job
  add column claim_within   interval, -- how soon somebody should come for a run that waits
  add column start_by       text, -- as it was typed
  add column expected_until timestamptz, -- the ticks of its schedule up to here have been judged
  add column expected_by    timestamptz; -- when the next one is missed, unless somebody runs it

-- Until when somebody should come for a run that waits, and when a supervisor told of one that ended badly.
alter table cronguard.run
  add column claim_by    timestamptz,
  add column reported_at timestamptz;
update cronguard.run set claim_by = clock_timestamp() + interval '1 hour' where state = 'pending';

-- A pass reads candidates only, however many runs there are.
create index run_awaited on cronguard.run (claim_by) where state = 'pending';
create index run_unreported on cronguard.run (finished_at)
  where state in ('failed', 'timed_out', 'dead') and reported_at is null;

-- A run that was missed never started: it stands in the order of the others by when that was found.
drop index cronguard.run_recent;
create index run_recent on cronguard.run (key, coalesce(started_at, finished_at) desc nulls last);

-- One row a request that somebody run a run again: one for each run and token, whoever asks.
create table cronguard.recovery (
  key          text collate "C" not null,
  period       text collate "C" not null,
  token        bigint not null,
  cause        text collate "C" not null check (cause in
    ('lease_over', 'cut_short', 'stopped', 'failed', 'timed_out')),
  requested_at timestamptz not null,
  requested_by text not null, -- a host
  claim_by     timestamptz not null,
  announced_at timestamptz, -- by a supervisor, which may not be the one that asked
  taken_at     timestamptz,
  missed_at    timestamptz,
  primary key (key, period, token)
);
create index recovery_unannounced on cronguard.recovery (key, period)
  where announced_at is null and taken_at is null and missed_at is null;

-- One row a host that supervises: its last pass, and the brake, which the next pass goes on from.
create table cronguard.supervisor (
  host           text collate "C" primary key,
  started_at     timestamptz not null,
  finished_at    timestamptz not null,
  mass_expiry_at timestamptz -- since when most leases are over at once; null: they are not
);

-- Who keeps leases may request a recovery, and supervise. Granted here: nobody has to think of it at an upgrade.
do $$
declare found record;
begin
  for found in
    select distinct a.grantee::regrole::text as role
      from pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl) a
     where c.oid = 'cronguard.lease'::regclass and a.privilege_type = 'UPDATE' and a.grantee not in (0, c.relowner)
  loop
    execute 'grant select, insert, update on cronguard.recovery to ' || found.role;
    execute 'grant select, insert, update, delete on cronguard.supervisor to ' || found.role;
  end loop;
end $$;
