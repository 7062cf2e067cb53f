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
