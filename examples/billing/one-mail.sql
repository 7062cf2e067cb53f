-- One reminder, to :who. What the job writes besides is in the transaction of the claim: both are there, or neither.
-- claim_effect fails, and so the whole transaction, when another host has the run.
begin;
select cronguard.claim_effect('reminder', :'who', :'period', :'key', :'token', :'within') as mine \gset
insert into billing.reminded (name, period) select :'who', :'period' where :'mine';
commit;

-- Sent after the commit, and never inside of it: a commit that fails would take back the claim, not the e-mail.
\if :mine
  \set sent `python3 -IS send.py :'who' >&2 && echo yes || echo no`
  \if :sent
    select cronguard.confirm_effect('reminder', :'who', :'period');
  \endif
\endif
