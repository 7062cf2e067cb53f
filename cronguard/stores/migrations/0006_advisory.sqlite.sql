-- The number of the kernel lock that its holder keeps besides the lease (--lock advisory).
alter table lease add column advisory_lock integer; -- null: the claim alone

-- What may wait to be run is a few of many.
create index run_waiting on run (key, period_start) where state in ('pending', 'running', 'missed');
