create table t (a integer primary key, b text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 100000) insert into t select i, hex(i * i) from n;
create index x on t (b);
select count(*), sum(a), max(b) from t where b > '4';
