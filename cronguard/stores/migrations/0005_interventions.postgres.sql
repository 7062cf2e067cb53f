-- Append only: one row a word of a person's about a key or one of its periods: what, who, why, when.
create table cronguard.intervention (
  id      bigint generated always as identity primary key,
  key     text collate "C" not null,
  period  text collate "C", -- null: about the key as a whole
  verb    text collate "C" not null check (verb in ('reset', 'cancel', 'stop', 'pause', 'resume')),
  said_by text not null,
  reason  text,
  said_at timestamptz not null
);
create index intervention_of_key on cronguard.intervention (key, id);

-- The newest period of a key, for status; read backwards, the oldest, for prune.
create index run_of_time on cronguard.run (key, period_start desc nulls last);

-- The last failure of a key, without walking all the successes since. Few rows, so hardly any writes.
create index run_failures on cronguard.run (key, finished_at desc nulls last)
  where state in ('failed', 'timed_out', 'dead', 'missed');

-- Who keeps leases may step in. Granted here: nobody has to think of it at an upgrade.
do $$
declare found record;
begin
  for found in
    select distinct a.grantee::regrole::text as role
      from pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl) a
     where c.oid = 'cronguard.lease'::regclass and a.privilege_type = 'UPDATE' and a.grantee not in (0, c.relowner)
  loop
    execute 'grant select, insert on cronguard.intervention to ' || found.role;
  end loop;
end $$;
