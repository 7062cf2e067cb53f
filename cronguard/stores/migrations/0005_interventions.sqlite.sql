-- Append only: one row a word of a person's about a key or one of its periods: what, who, why, when.
create table intervention (
  id      integer primary key,
  key     text not null,
  period  text, -- null: about the key as a whole
  verb    text not null check (verb in ('reset', 'cancel', 'stop', 'pause', 'resume')),
  said_by text not null,
  reason  text,
  said_at integer not null
);
create index intervention_of_key on intervention (key, id);

-- The newest period of a key, for status; read backwards, the oldest, for prune.
create index run_of_time on run (key, period_start desc);

-- The last failure of a key, without walking all the successes since.
create index run_failures on run (key, finished_at desc) where state in ('failed', 'timed_out', 'dead', 'missed');
