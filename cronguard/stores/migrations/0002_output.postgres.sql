-- What is remembered of an attempt's output. Bytes, not text: a command may say anything. Null: not captured.
alter table cronguard.attempt
  add column output_head  bytea,
  add column output_tail  bytea,
  add column output_bytes bigint; -- all that it said, of which head and tail may be a part
