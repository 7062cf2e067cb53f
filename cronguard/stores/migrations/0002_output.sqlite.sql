-- What is remembered of an attempt's output. Bytes, not text: a command may say anything. Null: not captured.
alter table attempt add column output_head blob;
alter table attempt add column output_tail blob;
alter table attempt add column output_bytes integer; -- all that it said, of which head and tail may be a part
