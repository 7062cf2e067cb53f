-- What is done to the outside, once for each kind, period and subject: claimed before it is done.
create table effect (
  kind         text not null check (length(cast(kind as blob)) between 1 and 255),
  period       text not null check (length(cast(period as blob)) between 1 and 255),
  subject      text not null check (length(cast(subject as blob)) between 1 and 1000),
  state        text not null check (state in
    ('sending', 'sent', 'released', 'unknown')),
  effect_token text not null, -- for the provider: the same on each try
  idempotent   integer not null, -- the provider is given it, and does nothing twice under it
  claim_id     text not null, -- of the call that claimed it, which may ask again
  claimed_at   integer not null,
  send_by      integer not null,
  key          text, -- null: claimed outside of any run
  token        integer,
  finished_at  integer,
  note         text, -- what its sender said when it was done, such as the provider's own number
  resolved_by  text, -- the person who looked, where nobody else knew
  reason       text,
  reported_at  integer, -- when a supervisor told of one that is unknown
  by_once      integer not null default 0, -- one process claimed it, and waits for the end of what it started
  primary key (kind, period, subject),
  constraint effect_of_a_run check ((key is null) = (token is null)),
  constraint effect_finished check ((state = 'sending') = (finished_at is null))
);
-- They hold few rows: what is on its way, what somebody should look at, and what nobody has been told of yet.
create index effect_on_its_way on effect (send_by) where state = 'sending';
create index effect_to_be_resolved on effect (kind, period, subject) where state = 'unknown';
create index effect_to_be_told on effect (kind, period, subject) where state = 'unknown' and reported_at is null;
