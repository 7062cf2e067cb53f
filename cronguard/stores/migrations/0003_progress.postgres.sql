-- What a command says while it runs, and when it must be over: in the lease, which beats read and nothing indexes.
alter table cronguard.lease
  add column complete_by   timestamptz, -- null: never
  add column extend_max    interval not null default '0',
  add column extended_for  interval not null default '0',
  add column extension_id  uuid, -- of the last call that extended it, which may ask again
  add column progress      text,
  add column progress_note text check (length(progress_note) <= 1000),
  add column progressed_at timestamptz;

-- What is left of it when the lease is gone.
alter table cronguard.run
  add column extended_for  interval not null default '0',
  add column progress      text,
  add column progress_note text,
  add column progressed_at timestamptz;

-- One more word. The rows there are passed the shorter list: they need no second look.
alter table cronguard.attempt
  drop constraint attempt_outcome_check,
  add constraint attempt_outcome_check check (outcome in
    ('succeeded', 'failed', 'start_failed', 'timed_out', 'stalled', 'interrupted', 'lost')) not valid;
