-- How a drill removes the keys that it has made, by name. No other key is ever given to these.

-- name: lacking_right
-- What would have to be granted, so that this role may delete from each of these; null: nothing.
select case when count(*) > 0 then
         format('grant delete on %s to %I', string_agg('cronguard.' || t.name, ', ' order by t.at), current_user)
       end as statement
  from unnest(array['lease', 'step', 'recovery', 'attempt', 'skip', 'run', 'job']) with ordinality as t (name, at)
 where not has_table_privilege('cronguard.' || t.name, 'delete')

-- name: erase_leases
delete from cronguard.lease where key = %(key)s

-- name: erase_steps
delete from cronguard.step where key = %(key)s

-- name: erase_requests
delete from cronguard.recovery where key = %(key)s

-- name: erase_attempts
delete from cronguard.attempt where key = %(key)s

-- name: erase_skips
delete from cronguard.skip where key = %(key)s

-- name: erase_runs
delete from cronguard.run where key = %(key)s

-- name: erase_job
delete from cronguard.job where key = %(key)s
