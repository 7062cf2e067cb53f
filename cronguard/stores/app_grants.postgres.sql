-- What an application's role may do with the ledger: call these functions, and nothing else.
grant usage on schema cronguard to app_role;
grant execute on function cronguard.assert_token(text, bigint) to app_role;
grant execute on function cronguard.period(text, bigint) to app_role;
grant execute on function cronguard.claim_effects(text, text[], text, text, bigint, interval, boolean) to app_role;
grant execute on function cronguard.claim_effect(text, text, text, text, bigint, interval, boolean) to app_role;
grant execute on function cronguard.effect_token(text, text, text) to app_role;
grant execute on function cronguard.confirm_effect(text, text, text, text) to app_role;
grant execute on function cronguard.release_effect(text, text, text, text, bigint) to app_role;
grant execute on function cronguard.beat(text, bigint, text) to app_role;
