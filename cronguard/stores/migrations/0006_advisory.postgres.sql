-- The number of the session lock that its holder keeps besides the lease (--lock advisory).
alter table cronguard.lease
  add column advisory_lock bigint; -- null: the claim alone

-- Whether nobody has this lock: then the session of its holder is gone. Seen from any session, and without taking it.
-- Anybody may ask: it says nothing that pg_locks does not.
create function cronguard.lock_is_free(number bigint) returns boolean
    language sql stable set search_path = pg_catalog, pg_temp as $$
  select not exists (
    select from pg_catalog.pg_locks k
     where k.locktype = 'advisory' and k.granted and k.objsubid = 1
       and k.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database())
       and k.classid::bigint = (number >> 32) & 4294967295 and k.objid::bigint = number & 4294967295)
$$;

-- What may wait to be run is a few of millions.
create index run_waiting on cronguard.run (key, period_start) where state in ('pending', 'running', 'missed');
