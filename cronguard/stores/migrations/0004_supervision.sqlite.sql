-- What a supervisor must know of a key, written by whoever is granted a run of it.
alter table job add column claim_within integer; -- microseconds: how soon somebody should come for a run that waits
alter table job add column start_by text; -- as it was typed
alter table job add column expected_until integer; -- the ticks of its schedule up to here have been judged
alter table job add column expected_by integer; -- when the next one is missed, unless somebody runs it

-- Until when somebody should come for a run that waits, and when a supervisor told of one that ended badly.
alter table run add column claim_by integer;
alter table run add column reported_at integer;
update run set claim_by = (cast(strftime('%s', 'now') as integer) + 3600) * 1000000 where state = 'pending';

-- A pass reads candidates only, however many runs there are.
create index run_awaited on run (claim_by) where state = 'pending';
create index run_unreported on run (finished_at)
  where state in ('failed', 'timed_out', 'dead') and reported_at is null;

-- A run that was missed never started: it stands in the order of the others by when that was found.
drop index run_recent;
create index run_recent on run (key, coalesce(started_at, finished_at) desc);

-- One row a request that somebody run a run again: one for each run and token, whoever asks.
create table recovery (
  key          text not null,
  period       text not null,
  token        integer not null,
  cause        text not null check (cause in
    ('lease_over', 'cut_short', 'stopped', 'failed', 'timed_out')),
  requested_at integer not null,
  requested_by text not null, -- a host
  claim_by     integer not null,
  announced_at integer, -- by a supervisor, which may not be the one that asked
  taken_at     integer,
  missed_at    integer,
  primary key (key, period, token)
);
create index recovery_unannounced on recovery (key, period)
  where announced_at is null and taken_at is null and missed_at is null;

-- One row a host that supervises: its last pass, and the brake, which the next pass goes on from.
create table supervisor (
  host           text primary key,
  started_at     integer not null,
  finished_at    integer not null,
  mass_expiry_at integer -- since when most leases are over at once; null: they are not
);
