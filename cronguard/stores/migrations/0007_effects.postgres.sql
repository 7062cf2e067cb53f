-- What is done to the outside, once for each kind, period and subject: claimed before it is done.
create table cronguard.effect (
  kind         text collate "C" not null check (octet_length(kind) between 1 and 255),
  period       text collate "C" not null check (octet_length(period) between 1 and 255),
  subject      text collate "C" not null check (octet_length(subject) between 1 and 1000),
  state        text collate "C" not null check (state in
    ('sending', 'sent', 'released', 'unknown')),
  effect_token uuid not null, -- for the provider: the same on each try
  idempotent   boolean not null, -- the provider is given it, and does nothing twice under it
  claim_id     uuid not null, -- of the call that claimed it, which may ask again
  claimed_at   timestamptz not null,
  send_by      timestamptz not null,
  key          text collate "C", -- null: claimed outside of any run
  token        bigint,
  finished_at  timestamptz,
  note         text, -- what its sender said when it was done, such as the provider's own number
  resolved_by  text, -- the person who looked, where nobody else knew
  reason       text,
  reported_at  timestamptz, -- when a supervisor told of one that is unknown
  by_once      boolean not null default false, -- one process claimed it, and waits for the end of what it started
  primary key (kind, period, subject),
  constraint effect_of_a_run check ((key is null) = (token is null)),
  constraint effect_finished check ((state = 'sending') = (finished_at is null))
);
-- They hold few rows: what is on its way, what somebody should look at, and what nobody has been told of yet.
create index effect_on_its_way on cronguard.effect (send_by) where state = 'sending';
create index effect_to_be_resolved on cronguard.effect (kind, period, subject) where state = 'unknown';
create index effect_to_be_told on cronguard.effect (kind, period, subject) where state = 'unknown' and reported_at is null;

-- One row a live attempt that gives signs of life by SQL, until its worker has taken them over into the lease.
create table cronguard.sign (
  key           text collate "C" not null,
  token         bigint not null,
  progressed_at timestamptz not null,
  note          text check (length(note) <= 1000),
  primary key (key, token)
) with (fillfactor = 50);

-- Who keeps leases may read signs of life, and write effects. Granted here, since a beat that is refused would lose its
-- run: nobody has to think of it at an upgrade.
do $$
declare found record;
begin
  for found in
    select distinct a.grantee::regrole::text as role
      from pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl) a
     where c.oid = 'cronguard.lease'::regclass and a.privilege_type = 'UPDATE' and a.grantee not in (0, c.relowner)
  loop
    execute 'grant select on cronguard.sign to ' || found.role;
    execute 'grant select, insert, update on cronguard.effect to ' || found.role;
  end loop;
end $$;

-- For jobs in any language, to be called in their own transactions.
--
-- Security definer, since a caller must be able to lock a run and to write an effect without any right to the tables:
-- to lock a row takes the right to update it, and whoever may write the ledger itself may write anything into it. So
-- each of them does one thing, under its caller's token where that matters; and each has its search_path pinned, the
-- caller's temporary objects last, so that nothing of the caller's is ever called or written in their stead. Functions
-- that only call those are invoker's, and pinned likewise.

-- The fence. The run's row is held until the caller's transaction ends: a recovery that comes meanwhile waits, so
-- what was asserted is still so when the transaction commits. FOR KEY SHARE would not hold it.
create function cronguard.assert_token(key text, token bigint) returns void
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform from cronguard.run r
    where r.key = assert_token.key and r.token = assert_token.token and r.state = 'running'
      for share;
  if not found then
    raise exception 'token % of % has no live run: it is over, or lost', assert_token.token, assert_token.key
      using errcode = 'CG002';
  end if;
end $$;

-- The period of the live run that has this token.
create function cronguard.period(key text, token bigint) returns text
    language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare found_period text;
begin
  select r.period into found_period from cronguard.run r
    where r.key = period.key and r.token = period.token and r.state = 'running';
  if found_period is null then
    raise exception 'token % of % has no live run: it is over, or lost', period.token, period.key
      using errcode = 'CG002';
  end if;
  return found_period;
end $$;

-- Those of the subjects that are the caller's to be done. The rules are those of domain/effect.py, and a test compares
-- them. In the order of the index, so that claimers of one list do not wait for each other in a circle.
create function cronguard.claim_effects(
    kind text, subjects text[], period text default null, key text default null, token bigint default null,
    send_within interval default '15 minutes', idempotent boolean default false) returns setof text
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare clock timestamptz; call uuid := gen_random_uuid(); of_period text := claim_effects.period;
  -- What the command line refuses, and what a constraint would: by such a name nobody could list or resolve it.
  odd constant text := E'^$|^ | $|[\\u0001-\\u001f\\u007f-\\u00a0\\u00ad\\u061c\\u1680\\u180e\\u2000-\\u200f'
    '\\u2028-\\u202f\\u205f-\\u206f\\u3000\\ue000-\\uf8ff\\ufeff\\ufff0-\\ufffb]';
  wrong constant text := case
    when (claim_effects.key is null) <> (claim_effects.token is null) then
      'a run is named by its key and its token, neither without the other'
    when claim_effects.key is null and of_period is null then
      'outside of a run the period must be named'
    when claim_effects.kind is null or claim_effects.kind ~ odd or octet_length(claim_effects.kind) > 255 then
      'the kind must be 1 to 255 bytes, without control characters and without blanks around it'
    when of_period ~ odd or octet_length(of_period) > 255 then
      'the period must be 1 to 255 bytes, without control characters and without blanks around it'
    when of_period in ('current', 'previous') then
      of_period || ' is no period of an effect; name it, such as 2026-11-30'
    when exists (
        select from unnest(claim_effects.subjects) s where (octet_length(s) between 1 and 1000) is not true) then
      'each subject must be 1 to 1000 bytes'
    when (claim_effects.send_within between '1 microsecond' and '3660 days') is not true then
      'send_within must be more than nothing, and at most ten years'
    when claim_effects.idempotent is null then
      'idempotent must be true or false'
  end;
begin
  if wrong is not null then
    raise exception '%', wrong using errcode = 'CG004';
  end if;
  if claim_effects.key is not null then
    perform cronguard.assert_token(claim_effects.key, claim_effects.token);
    of_period := coalesce(of_period, cronguard.period(claim_effects.key, claim_effects.token));
  end if;
  clock := clock_timestamp();
  return query
    insert into cronguard.effect
           (kind, period, subject, state, effect_token, idempotent, claim_id, claimed_at, send_by, key, token)
    select claim_effects.kind, of_period, s.subject, 'sending', gen_random_uuid(), claim_effects.idempotent, call,
           clock, clock + claim_effects.send_within, claim_effects.key, claim_effects.token
      from (select distinct unnest(claim_effects.subjects) collate "C" as subject) s
     order by s.subject
    on conflict (kind, period, subject) do nothing
    returning subject;
  return query
    update cronguard.effect e
       set state = 'sending', idempotent = claim_effects.idempotent, claim_id = call, claimed_at = clock,
           send_by = clock + claim_effects.send_within, key = claim_effects.key, token = claim_effects.token,
           finished_at = null, note = null, resolved_by = null, reason = null, reported_at = null, by_once = false
     where e.kind = claim_effects.kind and e.period = of_period and e.subject = any (claim_effects.subjects)
       and (e.state = 'released'
            or e.idempotent and claim_effects.idempotent
               and (e.state = 'unknown' or e.state = 'sending' and e.send_by < clock))
    returning e.subject;
end $$;

create function cronguard.claim_effect(
    kind text, subject text, period text default null, key text default null, token bigint default null,
    send_within interval default '15 minutes', idempotent boolean default false) returns boolean
    language plpgsql security invoker set search_path = pg_catalog, pg_temp as $$
begin
  return exists (select from cronguard.claim_effects(
    claim_effect.kind, array[claim_effect.subject], claim_effect.period, claim_effect.key, claim_effect.token,
    claim_effect.send_within, claim_effect.idempotent));
end $$;

-- For an idempotent provider: the same on each try. Null: it was never claimed.
create function cronguard.effect_token(kind text, subject text, period text) returns uuid
    language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  return (select e.effect_token from cronguard.effect e
           where e.kind = effect_token.kind and e.period = effect_token.period and e.subject = effect_token.subject);
end $$;

-- It was done. Believed of whoever says it, however late. False: it was never claimed.
create function cronguard.confirm_effect(kind text, subject text, period text, note text default null) returns boolean
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  update cronguard.effect e
     set state = 'sent', note = coalesce(confirm_effect.note, e.note),
         finished_at = case when e.state = 'sent' then e.finished_at else clock_timestamp() end
   where e.kind = confirm_effect.kind and e.period = confirm_effect.period and e.subject = confirm_effect.subject;
  return found;
end $$;

-- It was certainly not done: it may be claimed again. False: it was sent, or it is not the caller's; or outside of a
-- run, where nothing tells one sender from another, cronguard once is about it, or its time is over.
create function cronguard.release_effect(
    kind text, subject text, period text, key text default null, token bigint default null) returns boolean
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  update cronguard.effect e
     set state = 'released',
         finished_at = case when e.state = 'released' then e.finished_at else clock_timestamp() end
   where e.kind = release_effect.kind and e.period = release_effect.period and e.subject = release_effect.subject
     and (e.state = 'released'
          or e.state in ('sending', 'unknown')
             and e.key is not distinct from release_effect.key and e.token is not distinct from release_effect.token
             and (e.key is not null or e.state = 'sending' and e.send_by >= clock_timestamp() and not e.by_once));
  return found;
end $$;

-- A sign of life, as cronguard beat gives it. It is seen at its commit, and by the worker at its next beat: written into
-- the lease itself, by a caller whose transaction goes on, it would keep the lease from being renewed. What is said at
-- too great a length is cut: it is no reason to undo the caller's transaction.
create function cronguard.beat(key text, token bigint, note text default null) returns boolean
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  perform from cronguard.lease l where l.key = beat.key and l.token = beat.token;
  if not found then
    return false;
  end if;
  delete from cronguard.sign s
    where s.key = beat.key and not exists (select from cronguard.lease l where l.key = s.key and l.token = s.token);
  insert into cronguard.sign as s (key, token, progressed_at, note)
    values (beat.key, beat.token, clock_timestamp(), left(beat.note, 1000))
    on conflict (key, token) do update
       set progressed_at = excluded.progressed_at, note = coalesce(excluded.note, s.note);
  return true;
end $$;

-- To nobody by itself: see cronguard init --print-sql --app-role.
revoke all on function cronguard.assert_token(text, bigint) from public;
revoke all on function cronguard.period(text, bigint) from public;
revoke all on function cronguard.claim_effects(text, text[], text, text, bigint, interval, boolean) from public;
revoke all on function cronguard.claim_effect(text, text, text, text, bigint, interval, boolean) from public;
revoke all on function cronguard.effect_token(text, text, text) from public;
revoke all on function cronguard.confirm_effect(text, text, text, text) from public;
revoke all on function cronguard.release_effect(text, text, text, text, bigint) from public;
revoke all on function cronguard.beat(text, bigint, text) from public;
