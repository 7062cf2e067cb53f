-- What the SQLite ledger does about effects: the same names as in postgres_effects.sql, where this store needs them.
-- One subject a statement: the file is locked anyway, and nothing goes over a wire.

-- name: hold_run
select token from run
 where key = :key and period = :period and token = :token and holder = :holder and state = 'running'

-- name: add_effects
insert into effect
       (kind, period, subject, state, effect_token, idempotent, claim_id, claimed_at, send_by, key, token, by_once)
values (:kind, :period, :subject, :state, :effect_token, :idempotent, :claim_id, :claimed_at, :send_by, :key, :token,
        :by_once)
on conflict (kind, period, subject) do nothing

-- name: claimable_effects
-- Candidates; who may be claimed is decided where rules are.
select * from effect
 where kind = :kind and period = :period and subject = :subject
   and (state = 'released' or claim_id = :claim_id
        or state in ('sending', 'unknown') and send_by < :claimed_at)

-- name: find_effects
select * from effect where kind = :kind and period = :period and subject = :subject

-- name: overdue_effects
select * from effect
 where state = 'sending' and send_by < :now
 order by send_by limit :limit

-- name: unreported_effects
select * from effect
 where state = 'unknown' and reported_at is null
 order by kind, period, subject limit :limit

-- name: abandoned_effects
select * from effect
 where state = 'sending' and send_by < :now or state = 'unknown' and reported_at is null
 order by kind, period, subject limit :limit

-- name: change_effects
update effect
   set state = :state, idempotent = :idempotent, claim_id = :claim_id, claimed_at = :claimed_at, send_by = :send_by,
       key = :key, token = :token, finished_at = :finished_at, note = :note, resolved_by = :resolved_by,
       reason = :reason, reported_at = :reported_at, by_once = :by_once
 where kind = :kind and period = :period and subject = :subject

-- name: list_effects
select * from effect
 where kind = :kind and (:period is null or period = :period) and (:state is null or state = :state)
   and (:state is not 'sending' or send_by >= :now)
 order by kind desc, period desc, subject desc
 limit :limit

-- name: count_effects
select count(*) as count from effect
 where kind = :kind and (:period is null or period = :period) and (:state is null or state = :state)
   and (:state is not 'sending' or send_by >= :now)

-- name: unknown_effects
-- Each by an index of its own: the few that somebody should look at.
select *
  from (select * from effect where state = 'unknown'
         union all
        select * from effect where state = 'sending' and send_by < :now) found
 where (:kind is null or kind = :kind) and (:period is null or period = :period)
 order by kind desc, period desc, subject desc
 limit :limit

-- name: count_unknown
select count(*) as count
  from (select kind, period from effect where state = 'unknown'
         union all
        select kind, period from effect where state = 'sending' and send_by < :now) found
 where (:kind is null or kind = :kind) and (:period is null or period = :period)

-- name: kind_there
select kind from effect where kind = :kind limit 1
