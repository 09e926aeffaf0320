-- same_column_twice
select a, a, k from r
-- shadowed_names
select x.a from (select a + 1 as a, k from r) x where x.a > 2
-- comma_join
select r.a, q.s, p.b from r, q, r as p where r.k = q.k and q.a = p.a and p.b > r.b
-- self_join
select x.a, y.b from r x join r y on x.k = y.k and x.a < y.b
-- join_never_meets_null
select r.k, q.a from r join q on r.k = q.k and r.s = q.s
-- join_null_safe
select r.k, q.a from r join q on r.k <=> q.k and r.a = q.a
-- join_without_condition
select r.a, q.a from r join q
-- left_with_own_condition
select r.k, r.a, q.a from r left join q on r.k = q.k and r.a > 1
-- left_with_other_condition
select r.k, r.a, q.a from r left join q on r.k = q.k and q.a > 1
-- left_with_own_condition_only
select r.k, r.a, q.a from r left join q on r.a > 1
-- left_with_inequality
select r.k, q.a from r left join q on r.a < q.a
-- left_without_rows
select r.k, q.a from r left join (select * from q where a > 1000) q on r.k = q.k
-- left_then_filter
select r.k, r.a from r left join q on r.k = q.k where q.k is null
-- left_chain
select r.k, q.a, p.b, o.s from r left join q on r.k = q.k left join r p on q.a = p.a left join q o on p.k = o.k
-- left_of_groups
select x.k, x.n, y.m from (select k, count(*) as n from r group by k) x left join (select k, max(a) as m from q group by k) y on x.k = y.k
-- left_with_subquery
select r.k, q.a from r left join q on r.k = q.k and q.a in (select a from r where b > 1)
-- right_join
select r.k, q.k, q.a from r right join q on r.k = q.k and r.a < q.a
-- full_join
select r.k, r.a, q.k, q.a from r full join q on r.k = q.k and r.a <= q.a
-- full_using
select k, r.a, q.a from r full join q using (k)
-- full_one_sided
select r.k, q.k from r full join q on r.k = q.k and r.a > 1 and q.a > 1
-- semi_join
select * from r left semi join q on r.k = q.k and r.a < q.a
-- anti_join
select * from r left anti join q on r.k = q.k and r.a < q.a
-- anti_with_own_condition
select k, a from r left anti join q on r.k = q.k and r.a > 1
-- total_of_nothing
select count(*), count(a), sum(a), avg(a), min(a), max(s), sum(d), avg(d), sum(e), stddev(e) from r where k > 1000
-- total_over_groups
select count(*), sum(n), max(n) from (select k, count(*) as n from r group by k)
-- total_in_join
select r.a, x.m from r, (select max(a) as m, count(*) as n from q) x where r.a < x.m
-- total_having
select sum(a) from r having count(*) > 3
-- having_without_group
select 1 as one from r having true
-- group_by_literal
select 'x' as x, count(*) from r where k > 1000 group by 1
-- group_by_null
select k, s, count(*), count(s), sum(a) from r group by k, s
-- group_expressions
select k + 1, max(a) - min(a), (k + 1) * 2 from r group by k + 1
-- group_double
select e, count(*) from r group by e
-- group_distinct
select k, count(distinct a), sum(distinct a), count(distinct s), avg(distinct e) from r group by k
-- group_filter_distinct
select k, count(distinct a) filter (where b > 1), sum(a) filter (where b > 1), count(*) filter (where b is null) from r group by k
-- group_spread
select k, stddev_samp(e), var_samp(e), stddev_pop(e), var_pop(e), count(e) from r group by k
-- group_decimals
select k, sum(d), avg(d), min(d), max(d) from r group by k
-- group_of_join
select q.s, sum(r.a), count(*), avg(r.e) from r join q on r.k = q.k group by q.s
-- group_of_group
select n, count(*) from (select k, count(*) as n from r group by k) group by n
-- having
select k, sum(a) from r group by k having count(*) > 1 and max(b) < 4
-- having_subquery
select k, sum(a) from r group by k having sum(a) > (select avg(a) from q)
-- having_correlated
select k, sum(a) from r group by k having exists (select 1 from q where q.k = r.k)
-- rollup_null
select k, s, sum(a), count(*), grouping(k), grouping(s) from r group by rollup (k, s)
-- cube_originals
select a, sum(a), count(a) from r group by cube (a)
-- grouping_sets_twice
select k, count(*) from r group by grouping sets ((k), (k))
-- grouping_sets_empty
select count(*), sum(a) from r where k > 1000 group by grouping sets (())
-- distinct_null
select distinct k, s from r
-- union_types
select k, a from r union all select a, k from q
-- union_distinct
select k, s from r union select k, s from q
-- union_three
select k from r union all select k from q union all select k + 1 from r
-- except_distinct
select k, s from r except select k, s from q
-- except_all
select k from r except all select k from q
-- intersect_distinct
select k, s from r intersect select k, s from q
-- intersect_all
select k from r intersect all select k from q
-- group_of_union
select k, count(*), sum(a) from (select k, a from r union all select k, a from q) group by k
-- in_subquery
select k, a from r where a in (select a from q)
-- in_correlated
select k, a from r where a in (select q.a from q where q.k = r.k)
-- in_pairs
select k, a from r where (k, a) in (select k, a from q)
-- not_in
select k, a from r where a not in (select a from q)
-- not_in_empty
select k, a from r where a not in (select a from q where k > 1000)
-- not_in_without_null
select k, a from r where a not in (select a from q where a is not null)
-- not_in_correlated
select k, a from r where a not in (select q.a from q where q.k = r.k)
-- not_in_pairs
select k, a from r where (k, a) not in (select k, a from q)
-- in_value
select k, a, a in (select a from q) as v from r
-- in_or
select k, a from r where a in (select a from q) or b > 2
-- not_exists
select k, a from r where not exists (select 1 from q where q.k = r.k and q.a <> r.a)
-- exists_or
select k, a from r where exists (select 1 from q where q.k = r.k) or a > 2
-- exists_value
select k, exists (select 1 from q where q.k = r.k) as v from r
-- exists_total
select k from r where exists (select max(a) from q where q.k = r.k)
-- exists_uncorrelated
select k from r where exists (select 1 from q where a > 2)
-- exists_two_keys
select k, a from r x where exists (select 1 from r y where y.k = x.k and y.a <> x.a) and not exists (select 1 from r z where z.k = x.k and z.a <> x.a and z.b > 1)
-- scalar_total
select k, (select max(a) from q) as m from r
-- scalar_count
select k, (select count(*) from q where q.k = r.k) as n from r
-- scalar_sum
select k, (select sum(q.a) from q where q.k = r.k) as m from r
-- scalar_expression
select k, a from r where a > (select 0.5 * avg(q.a) from q where q.k = r.k)
-- scalar_inequality
select k, (select count(*) from q where q.a < r.a) as n from r
-- scalar_having
select k, (select max(q.a) from q where q.k = r.k having count(*) > 1) as m from r
-- scalar_empty
select k, (select a from q where k > 1000) as m from r
-- scalar_several
select k, (select a from q) as m from r
-- scalar_limit
select k, (select max(a) from (select a from q order by a desc nulls last limit 2)) as m from r
-- scalar_in_group
select k, sum(a), (select count(*) from q) as n from r group by k
-- scalar_in_condition
select r.k, q.a from r join q on r.k = q.k and q.a = (select max(a) from q)
-- scalar_nested
select k from r where a > (select avg(q.a) from q where q.k = r.k and q.a < (select max(b) from r where b is not null))
-- lateral_total
select r.k, x.m, x.n from r, lateral (select max(q.a) as m, count(*) as n from q where q.k = r.k) x
-- lateral_rows
select r.k, x.a from r, lateral (select q.a from q where q.k = r.k and q.a > r.a) x
-- lateral_left
select r.k, x.a from r left join lateral (select q.a from q where q.k = r.k) x on true
-- lateral_group
select r.k, x.s, x.n from r, lateral (select s, count(*) as n from q where q.k = r.k group by s) x
-- lateral_limit
select r.k, x.a from r, lateral (select q.a from q where q.k = r.k order by q.a desc nulls last limit 1) x
-- cte_once
with x as (select k, sum(a) as t from r group by k) select * from x where t > 1
-- cte_twice
with x as (select k, sum(a) as t from r group by k) select x.k, y.t from x join x y on x.t = y.k
-- cte_twice_light
with x as (select k, a from r where a > 1) select x.k, y.a from x join x y on x.k = y.k
-- cte_in_subquery
with x as (select k, max(a) as m from r group by k) select k, a from q where a in (select m from x) or exists (select 1 from x where x.k = q.k and m > 2)
-- cte_nested
with x as (select a from r) select count(*) from (with x as (select k as a from q) select * from x) y join x on x.a = y.a
-- cte_chain
with x as (select k, count(*) as n from r group by k), y as (select n, count(*) as m from x group by n) select x.k, y.m from x join y on x.n = y.n
-- limit_top
select k, a, b from r order by a desc nulls last, b limit 3
-- limit_nulls_first
select k, a from r order by a nulls first, k nulls last limit 2
-- limit_hidden_key
select k from r order by a + b desc nulls last, k limit 3
-- limit_expression
select a from r order by a limit 1 + 1
-- limit_offset
select k, a from r order by a nulls last, k nulls last limit 3 offset 2
-- offset_alone
select k, a from r order by a nulls last, k nulls last offset 2
-- limit_zero
select a from r order by a limit 0
-- limit_of_groups
select k, sum(a) as t from r group by k order by t desc nulls last, k nulls last limit 2
-- group_of_limit
select count(*), sum(a) from (select a from r order by a nulls last limit 4)
-- join_of_limit
select q.k, x.a from q join (select k, a from r order by a nulls last, k nulls last limit 3) x on q.k = x.k
-- order_alone
select k, a from r order by a desc, k
-- pivot_sum
select * from (select k, s, a from r) pivot (sum(a) for s in ('x', 'y'))
-- pivot_two
select * from (select k, s, a, b from r) pivot (sum(a) as t, max(b) as m for s in ('x', 'y'))
-- unpivot
select * from (select k, a, b from r) unpivot (v for name in (a, b))
-- values
select v.x, count(*) from r join (values (1, 'p'), (2, 'q'), (null, 'n')) as v (y, x) on r.k = v.y group by v.x
-- one_row
select 1 as one, count(*) from r
-- constant_only_columns
select 1 from r where k = 1
