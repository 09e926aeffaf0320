-- projection
select a + b as s, a * d, -e, a / b, a div b, a % 2, upper(c), f + 1, g, h from t
-- comparisons
select * from t where a < b and not (c = 'x' or d <=> 1.5) and e <> 0 and c is not null and a in (1, 2, null)
-- between
select a from t where a between 1 and b and upper(c) between 'A' and 'M'
-- conditionals
select case when a > 1 then 'x' when a is null then 'n' end, if(h, a, b), coalesce(a, b, 0), nullif(a, b), nvl(c, 'z') from t
-- casts
select cast(a as string), cast(c as int), try_cast(c as date), cast(d as decimal(5,1)), cast(e as float), g::date, cast(f as timestamp) from t
-- try
select try_add(a, 1), try_divide(a, b), try_sum(d) over (partition by c), try_to_number(c, '99') from t
-- literals
select 1, 2L, 3.25, 4.5D, 1.5F, 7S, 8Y, 'text', X'00ff', true, null, date '2024-02-29', timestamp '2024-01-01 00:00:00', interval '1' month, interval '2' day, make_interval(0, 3, 0, 4)
-- nested_literals
select array(1, null), map('a', 1), named_struct('x', 1, 'y', 'z'), array(named_struct('p', 1))
-- nested_access
select s.x, xs[0], m['a'], ps.p, ps[0].q, element_at(xs, 1), size(xs), transform(xs, x -> x + id), filter(ps, p -> p.p > 1), exists(xs, x -> x is null), aggregate(xs, 0, (acc, x) -> acc + x) from v
-- group
select c, count(*), count(a), count(distinct b), sum(a), sum(d), avg(e), avg(d), min(f), max(g), stddev(e), bool_and(h), any_value(a), collect_list(a), collect_set(b), max_by(a, b) from t group by c
-- group_filter
select c, sum(a) filter (where h), count(*) filter (where a > 0), count_if(a > 1) from t group by c having sum(a) > 1
-- group_expression
select a % 2, upper(c), sum(b) + 1 from t group by a % 2, upper(c) having max(b) > 1 order by 1 desc nulls last
-- total
select count(*), sum(a), min(c), max(d) from t
-- rollup
select a, c, sum(b), grouping(a), grouping_id() from t group by rollup (a, c)
-- cube
select a, c, count(*) from t group by cube (a, c)
-- grouping_sets
select a, c, count(*) from t group by grouping sets ((a), (c), (a, c), ())
-- distinct
select distinct a, c from t
-- inner
select t.a, u.c from t join u on t.a = u.a and t.b > u.b
-- using
select * from t join u using (a)
-- left
select t.a, u.c from t left join u on t.a = u.a and t.b < u.b
-- right
select t.a, u.c from t right join u on t.a = u.a
-- full
select t.a, u.a, coalesce(t.c, u.c) from t full join u on t.a = u.a and t.c = u.c
-- cross
select t.a, u.a from t cross join u where t.a < u.b
-- semi
select * from t left semi join u on t.a = u.a and t.b <> u.b
-- anti
select * from t left anti join u on t.a = u.a
-- natural
select * from t natural join u
-- in
select a from t where a in (select a from u where u.c = t.c)
-- not_in
select a from t where a not in (select a from u)
-- not_in_correlated
select a from t where (a, b) not in (select a, b from u where u.c = t.c)
-- exists
select a from t where exists (select 1 from u where u.a = t.a and u.b > t.b)
-- not_exists
select a from t where not exists (select 1 from u where u.a = t.a)
-- in_as_value
select a, a in (select a from u) as i, exists (select 1 from u where u.b = t.b) as e from t
-- scalar
select a, (select max(b) from u) as m from t
-- scalar_correlated
select a, (select count(*) from u where u.a = t.a) as n, (select sum(d) from u where u.a = t.a) from t
-- scalar_filter
select a from t where b > (select avg(b) from u where u.c = t.c)
-- lateral
select t.a, x.m from t, lateral (select max(u.b) as m from u where u.a = t.a) x
-- union_all
select a, c from t union all select a, c from u
-- union
select a from t union select b from u
-- intersect
select a, c from t intersect select a, c from u
-- intersect_all
select a, c from t intersect all select a, c from u
-- except
select a, c from t except select a, c from u
-- except_all
select a, c from t except all select a, c from u
-- order_limit
select a, c from t order by a desc nulls last, c nulls first limit 3 offset 2
-- order
select a, c from t order by b
-- explode
select id, x from v lateral view explode(xs) w as x
-- explode_outer
select id, pos, x from v lateral view outer posexplode(xs) w as pos, x
-- inline
select id, p, q from v lateral view inline(ps) w
-- explode_map
select id, explode(m) from v
-- values
select * from values (1, 'a', date '2024-01-01'), (2, null, null) as x (i, s, d)
-- range
select id * 2 from range(3, 10, 2)
-- one_row
select 1 as one
-- cte
with x as (select a, sum(b) as s from t group by a), z as (select * from x where s > 1) select x.a, z.s from x join z on x.a = z.a
-- cte_nested
with x as (select a from t) select * from (with x as (select b as a from u) select * from x) y join x on x.a = y.a
-- recursive
with recursive r (n) as (select 1 union all select n + 1 from r where n < 5) select * from r
-- window_rank
select a, c, row_number() over (partition by c order by a), rank() over (partition by c order by b desc), sum(b) over (partition by c order by a rows between 1 preceding and current row), lag(a, 1, 0) over (order by a), avg(e) over (partition by c) from t
-- window_top
select * from (select a, c, row_number() over (partition by c order by b desc, a) as r from t) where r <= 3
-- pivot
select * from (select a, c, b from t) pivot (sum(b) for c in ('x', 'y'))
-- unpivot
select * from (select a, b, k from t) unpivot (val for name in (b, k))
-- pipe
from t |> where a > 1 |> aggregate sum(b) as s group by c |> order by s
-- like
select a from t where c like 'a%_b' and c not like '%x' and c rlike '^a' and c ilike 'A%' and c like any ('a%', 'b%')
-- strings
select concat(c, '-', c), substring(c, 2, 3), length(c), trim(c), replace(c, 'a', 'b'), split(c, ','), regexp_extract(c, '(a)(b)', 1), lpad(c, 5, '0'), c || 'x', left(c, 2), initcap(c) from t
-- dates
select year(f), month(f), extract(day from g), date_add(f, 1), datediff(f, date '2024-01-01'), add_months(f, 1), trunc(f, 'MM'), date_trunc('hour', g), to_date(c), f + interval 1 month, g - interval '1' hour, g - g, unix_timestamp(g) from t
-- numbers
select round(d, 1), floor(e), ceil(d), abs(a), sqrt(e), power(a, 2), greatest(a, b), least(d, e), bround(e), sign(a), a & 1, a | b, shiftleft(a, 2), pmod(a, 3) from t
-- current
select current_date(), current_timestamp(), now() from t
-- random
select rand(1), monotonically_increasing_id() from t
-- sample
select * from t tablesample (10 percent)
-- subquery_deep
select a from t where exists (select 1 from u where u.a = t.a and u.b in (select b from t t2 where t2.c = u.c and t2.k between 1 and 3))
-- views
select w.a, count(*) from (select * from t where h) w group by all
