-- What the Postgres ledger does about effects, by name; one statement for any number of them. Rules are not here.
-- Rows are locked in the order of the index, so that two claimers of one list do not wait for each other in a circle.

-- name: hold_run
-- FOR SHARE: a recovery of the run waits until this transaction is over. FOR KEY SHARE would not hold it.
select token from cronguard.run
 where key = %(key)s and period = %(period)s and token = %(token)s and holder::text = %(holder)s and state = 'running'
   for share

-- name: add_effects
insert into cronguard.effect
       (kind, period, subject, state, effect_token, idempotent, claim_id, claimed_at, send_by, key, token, by_once)
select %(kind)s, %(period)s, s.subject, %(state)s, gen_random_uuid(), %(idempotent)s, %(claim_id)s::uuid,
       %(claimed_at)s, %(send_by)s, %(key)s, %(token)s, %(by_once)s
  from (select unnest(%(subjects)s::text[]) collate "C" as subject) s
 order by s.subject
on conflict (kind, period, subject) do nothing
returning subject, effect_token

-- name: claimable_effects
-- Candidates: of a million that were sent long ago none is read. Who may be claimed is decided where rules are.
select * from cronguard.effect
 where kind = %(kind)s and period = %(period)s and subject = any (%(subjects)s::text[])
   and (state = 'released' or claim_id = %(claim_id)s::uuid
        or state in ('sending', 'unknown') and send_by < %(claimed_at)s)
 order by subject
   for update

-- name: find_effects
select * from cronguard.effect
 where kind = %(kind)s and period = %(period)s and subject = any (%(subjects)s::text[])
 order by subject
   for update

-- name: overdue_effects
select * from cronguard.effect
 where state = 'sending' and send_by < %(now)s
 order by send_by limit %(limit)s
   for update skip locked

-- name: unreported_effects
select * from cronguard.effect
 where state = 'unknown' and reported_at is null
 order by kind, period, subject limit %(limit)s
   for update skip locked

-- name: abandoned_effects
select * from cronguard.effect
 where state = 'sending' and send_by < coalesce(%(now)s::timestamptz, clock_timestamp())
    or state = 'unknown' and reported_at is null
 order by kind, period, subject limit %(limit)s

-- name: change_effects
update cronguard.effect e
   set state = c.state, idempotent = c.idempotent, claim_id = c.claim_id, claimed_at = c.claimed_at,
       send_by = c.send_by, key = c.key, token = c.token, finished_at = c.finished_at, note = c.note,
       resolved_by = c.resolved_by, reason = c.reason, reported_at = c.reported_at, by_once = c.by_once
  from unnest(%(kind)s::text[], %(period)s::text[], %(subject)s::text[], %(state)s::text[],
              %(idempotent)s::boolean[], %(claim_id)s::uuid[], %(claimed_at)s::timestamptz[],
              %(send_by)s::timestamptz[], %(key)s::text[], %(token)s::bigint[], %(finished_at)s::timestamptz[],
              %(note)s::text[], %(resolved_by)s::text[], %(reason)s::text[], %(reported_at)s::timestamptz[],
              %(by_once)s::boolean[])
       as c (kind, period, subject, state, idempotent, claim_id, claimed_at, send_by, key, token, finished_at,
             note, resolved_by, reason, reported_at, by_once)
 where e.kind = c.kind and e.period = c.period and e.subject = c.subject

-- name: list_effects
select * from cronguard.effect
 where kind = %(kind)s and (%(period)s::text is null or period = %(period)s)
   and (%(state)s::text is null or state = %(state)s)
   and (%(state)s::text is distinct from 'sending' or send_by >= %(now)s)
 order by kind desc, period desc, subject desc
 limit %(limit)s

-- name: count_effects
select count(*) as count from cronguard.effect
 where kind = %(kind)s and (%(period)s::text is null or period = %(period)s)
   and (%(state)s::text is null or state = %(state)s)
   and (%(state)s::text is distinct from 'sending' or send_by >= %(now)s)

-- name: unknown_effects
-- Each by an index of its own: the few that somebody should look at, among millions.
select *
  from (select * from cronguard.effect where state = 'unknown'
         union all
        select * from cronguard.effect where state = 'sending' and send_by < %(now)s) found
 where (%(kind)s::text is null or kind = %(kind)s) and (%(period)s::text is null or period = %(period)s)
 order by kind desc, period desc, subject desc
 limit %(limit)s

-- name: count_unknown
select count(*) as count
  from (select kind, period from cronguard.effect where state = 'unknown'
         union all
        select kind, period from cronguard.effect
         where state = 'sending' and send_by < (select coalesce(%(now)s::timestamptz, clock_timestamp()))) found
 where (%(kind)s::text is null or kind = %(kind)s) and (%(period)s::text is null or period = %(period)s)

-- name: kind_there
select kind from cronguard.effect where kind = %(kind)s limit 1
