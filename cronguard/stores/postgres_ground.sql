-- What `cronguard doctor` asks of a Postgres. Each statement is a transaction of its own: one that is refused, or that
-- an older server does not know, spoils no other. Catalogues are read by oid: a role without any right may read them.

-- name: ground_session
select quote_ident(current_user) as role, quote_ident(current_database()) as database,
       pg_backend_pid() as answered_by, split_part(current_setting('server_version'), ' ', 1) as version, pg_is_in_recovery() as in_recovery,
       current_setting('transaction_read_only') = 'on' as is_read_only

-- name: ground_schema
select c.oid is not null as is_there,
       coalesce(has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select'), false) as is_readable
  from (select 1) as always
  left join pg_catalog.pg_namespace n on n.nspname = 'cronguard'
  left join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = 'schema_version'

-- name: ground_parameters
select name, setting as value, unit, source
  from pg_catalog.pg_settings
 where name in ('statement_timeout', 'lock_timeout', 'transaction_timeout', 'idle_session_timeout',
                'idle_in_transaction_session_timeout', 'tcp_user_timeout', 'synchronous_commit', 'fsync',
                'synchronous_standby_names', 'default_transaction_isolation', 'default_transaction_read_only')

-- name: ground_rights
-- What grants.postgres.sql gives, and who needs it. A table that is not there yet is the schema's version's affair.
select needed_by, "right", "on" from (
  select 'run' as needed_by, 'usage' as "right", 'schema cronguard' as "on", 0 as place
    from pg_catalog.pg_namespace n where n.nspname = 'cronguard' and not has_schema_privilege(n.oid, 'usage')
  union all
  select w.needed_by, r.name, 'cronguard.' || c.relname, w.place * 10 + r.place
    from (values ('run', 1, 'schema_version', 'select'),
                 ('run', 2, 'job', 'select,insert,update'),
                 ('run', 3, 'run', 'select,insert,update'),
                 ('run', 4, 'attempt', 'select,insert,update'),
                 ('run', 5, 'lease', 'select,insert,update,delete'),
                 ('run', 6, 'step', 'select,insert,update,delete'),
                 ('run', 7, 'recovery', 'select,insert,update'),
                 ('run', 8, 'skip', 'select,insert'),
                 ('run', 9, 'sign', 'select'),
                 ('supervise', 10, 'supervisor', 'select,insert,update,delete'),
                 ('reset', 11, 'intervention', 'select,insert'),
                 ('once', 12, 'effect', 'select,insert,update'),
                 ('prune', 13, 'run', 'delete'),
                 ('prune', 14, 'attempt', 'delete'),
                 ('prune', 15, 'skip', 'delete'),
                 ('prune', 16, 'recovery', 'delete'),
                 ('drill', 17, 'job', 'delete')) w (needed_by, place, name, rights)
    join pg_catalog.pg_class c
      on c.relname = w.name and c.relnamespace = (select oid from pg_catalog.pg_namespace where nspname = 'cronguard')
   cross join unnest(string_to_array(w.rights, ',')) with ordinality r (name, place)
   where not has_table_privilege(c.oid, r.name)
  union all
  select 'init', 'ownership', 'schema cronguard', 1000
    from pg_catalog.pg_namespace n where n.nspname = 'cronguard' and not pg_has_role(n.nspowner, 'usage')
  union all
  select 'init', 'create', format('database %I', current_database()), 1000
   where not exists (select from pg_catalog.pg_namespace where nspname = 'cronguard')
     and not has_database_privilege(current_database(), 'create')
) missing
 order by place

-- name: ground_connections
-- Counted where every role may read it.
select current_setting('max_connections')::int as most,
       current_setting('superuser_reserved_connections')::int
         + coalesce(current_setting('reserved_connections', true)::int, 0) as reserved,
       (select sum(numbackends)::int from pg_catalog.pg_stat_database) as used,
       r.rolconnlimit as role_limit,
       (select count(*)::int from pg_catalog.pg_stat_activity a where a.usesysid = r.oid) as used_by_role
  from pg_catalog.pg_roles r where r.rolname = current_user

-- name: ground_standbys
-- Every role may read their names; whether one only takes a base backup, few may.
select coalesce(application_name, '') as name from pg_catalog.pg_stat_replication where state is distinct from 'backup'

-- name: ground_offsets
-- The clocks of a zone against UTC, in seconds, as this server's own zone data have them.
select extract(epoch from (i.at at time zone %(zone)s) - (i.at at time zone 'UTC'))::int as seconds
  from unnest(%(instants)s::timestamptz[]) with ordinality i (at, place)
 order by i.place
