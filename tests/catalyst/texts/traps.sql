-- t0_1_replaced_functions
select a, nvl(c, 'none') n, count_if(h) k, every(h) e, nullif(max(b), 1) m from r group by a, c
-- t0_2_current_time
select a, current_timestamp() from r
-- t0_8_an_error_is_where_the_plan_has_it
select a, case when b <> 0 then a / b end q from r
-- t1_6_values
select r.a, x.n from r join (values (1, 'one'), (2, null), (null, 'none')) x (k, n) on r.a <=> x.k
-- t1_7_range
select r.a, x.id from range(0, 10, 3) x left join r on r.a = x.id
-- t1_11_file_name
select a, input_file_name() from r
-- t2_5_shared_expression
with x as (select a, sum(b) b from r group by a) select one.a, other.b from x one join x other on one.b = other.a
-- t2_6_nested_with
with x as (select a from r) select a from x union all select a from (with x as (select b a from s) select a from x)
-- t2_7_recursive
with recursive x (n) as (select 1 union all select n + 1 from x where n < 4) select x.n, r.a from x join r on x.n = r.a
-- t2_8_pipes
from r |> where a > 0 |> aggregate sum(b) total group by c |> where total is not null
-- t2_11_identifier
select identifier('a') k from identifier('r')
-- t2_13_lateral_alias
select a + 1 x, x * 2 y from r
-- t2_14_hints
select /*+ broadcast(s) */ r.a from r join s on r.a = s.a
-- t3_1_same_column_twice
select a, a, a x from r
-- t3_3_case_of_names
select A, R.b from r where C is not null
-- t3_4_self_join
select x.a, y.b from r x join r y on x.a = y.b
-- t3_5_between_and_nested_replacements
select a, if(ifnull(b, 0) between 0 and 2, nvl2(c, upper(c), '-'), coalesce(nullif(c, 'x'), 'y')) t from r
-- t3_6_common_expression
select a, nullif(a + b, 2) n, (a + b) between 1 and 3 m from r
-- t3_7_modes
select a, try_cast(c as int) t, try_divide(a, b) d, try_add(a, 2147483647) s, cast(e as int) i from r
-- t3_9_decimals
select cast(d as decimal(38,18)) * cast(d as decimal(38,18)) p, d / 3 q, d * 1.5 x, d + 0.001 y from r
-- t3_10_zeros_and_nans
select e, count(*) n from r group by e
-- t3_10_distinct_zeros
select distinct e, -e m from r
-- t3_10_join_of_zeros
select x.a, y.a b from r x join r y on x.e = y.e
-- t3_11_collation
select c collate utf8_lcase k, count(*) n from r group by c collate utf8_lcase
-- t3_13_map_keys
select map('k', a) m, count(*) n from r group by map('k', a)
-- t3_14_lambdas
select id, transform(xs, (x, i) -> x + i + id) t, aggregate(xs, 0, (acc, x) -> acc + coalesce(x, 0)) s from v
-- t3_15_tables_of_sub_queries
select (select max(b) from s) m, exists (select 1 from v) e, a in (select id from v) i from r
-- t3_16_outer_references_two_levels_up
select a from r where exists (select 1 from s where s.a = r.a and exists (select 1 from v where v.id = s.b))
-- t3_17_in_with_null
select a, a in (1, null) i, a not in (1, null) n from r
-- t3_17_null_safe
select a, a <=> b s, not (a <=> null) t from r
-- t4_1_result_over_a_key
select a % 2 + 1 k, sum(b) + count(*) s from r group by a % 2
-- t4_2_total_of_nothing
select count(*) n, sum(a) s, min(c) m, avg(e) v, every(h) e from r
-- t4_2_having_without_group
select 1 x from r having count(*) >= 0
-- t4_2_empty_grouping_set
select count(*) n from r group by grouping sets (())
-- t4_3_rollup_of_nothing
select a, c, sum(b) s from r group by rollup (a, c)
-- t4_3_sets_of_nothing
select a, sum(b) s from r group by grouping sets ((a), ())
-- t4_4_rollup_of_its_own_argument
select a, sum(a) s, grouping(a) g, grouping_id() i from r group by cube (a, h)
-- t4_4_the_same_set_twice
select a, count(*) n from r group by grouping sets ((a), (a))
-- t4_5_unpivot
select * from (select a, b, d from s) unpivot (val for name in (a, b))
-- t4_5_unpivot_with_nulls
select * from (select c, a, b from s) unpivot include nulls (val for name in (a, b))
-- t4_6_session_window
select session_window(cast(f as timestamp), '10 minutes') w, count(*) n from r group by session_window(cast(f as timestamp), '10 minutes')
-- t4_7_tumbling_window
select window(cast(f as timestamp), '40 days').start w, count(*) n from r group by window(cast(f as timestamp), '40 days')
-- t4_8_filters_and_distinct
select a, count(distinct c) filter (where h) x, sum(distinct b) filter (where not h) y, count(distinct b, c) z, count(distinct e) u from r group by a
-- t4_9_sums_of_doubles
select c, sum(e) s, avg(e) v, stddev(a) d from r group by c
-- t4_10_sum_of_longs
select sum(b * 4611686018427387904) s from s
-- t4_11_decimal_sums
select c, sum(d) s, avg(d) v, avg(d * d) w from r group by c
-- t4_12_min_and_max
select c, min(e) l, max(e) m, min(f) n, max(h) x from r group by c
-- t4_13_collect
select a, size(collect_list(b)) n, sort_array(collect_set(c)) s from r group by a
-- t4_13_first
select a, first(c) x, any_value(b) y from r group by a
-- t4_13_listagg
select a, listagg(c, ',') l from r group by a
-- t4_14_max_by
select a, max_by(c, b) x, min_by(c, b) y from r group by a
-- t4_15_median
select c, median(a) m, percentile(b, 0.25) p from r group by c
-- t4_15_mode
select c, mode(a) m from r group by c
-- t4_15_approximate
select c, approx_count_distinct(a) n, percentile_approx(a, 0.5) p from r group by c
-- t4_16_listagg_in_order
select a, listagg(c, ',') within group (order by c) l from r group by a
-- t4_18_distinct
select distinct a, c, e from r
-- t4_19_pivot
select * from (select a, b, c from r) pivot (sum(b) for c in ('x' as px, null as pn))
-- t4_20_group_by_a_literal
select count(*) n from r group by 'x'
-- t6_1_semi_and_anti
select a, c from r left semi join s on r.a = s.a and r.b < s.b union all select a, c from r left anti join s on r.a = s.a or r.c = s.c
-- t6_2_using_full
select a, c, r.b, s.b sb from r full join s using (a, c)
-- t6_2_natural_left
select * from (select a, c from r) natural left join (select a, b from s)
-- t6_3_cross
select r.a, s.b from r cross join s
-- t6_3_null_safe_join
select r.a, s.b from r join s on r.a <=> s.a
-- t6_4_condition_on_one_side
select r.a, r.h, s.b from r left join s on r.a = s.a and r.h
-- t6_4_full_with_residual
select r.a, s.a sa, s.b from r full join s on r.a = s.a and r.b < s.b
-- t6_5_not_in
select a from r where a not in (select b from s)
-- t6_5_not_in_correlated
select a, c from r where a not in (select b from s where s.c = r.c)
-- t6_5_not_in_two_columns
select a, b from r where (a, b) not in (select a, b from s)
-- t6_5_not_in_nothing
select a from r where a not in (select b from s where false)
-- t6_6_in_as_a_value
select a, a in (select a from s) i, b not in (select b from s) n, exists (select 1 from s where s.a = r.a) e from r
-- t6_6_in_under_or
select a from r where a in (select a from s) or not exists (select 1 from s where s.c = r.c)
-- t6_6_in_inside_of_values
select a, (a in (select a from s)) is null i, coalesce(b in (select a from s), true) c, not (a in (select a from s) or h) n, not (a not in (select b from s)) m, not (a in (select b from s) and h) k, case when a not in (select b from s) then 'out' when b in (select b from s) then 'in' else 'none' end w, (a in (select a from s)) <=> null u from r
-- t6_6_in_compared_with_constants
select a, (a in (select a from s)) = false f, (b not in (select b from s)) = true t, false = (a not in (select b from s)) g, (a in (select a from s)) <> true d from r
-- t6_6_two_columns_as_values
select a, (a, b) in (select a, b from s) i, (a, b) not in (select a, b from s) n, not ((a, c) in (select a, c from s where b > 1) or d > 1) m from r
-- t6_6_in_a_group
select a in (select a from s) k, count(*) n, count_if(b not in (select b from s)) m from r group by a in (select a from s)
-- t6_6_in_a_join
select r.a, s.b from r left join s on r.a = s.a and r.b in (select id from v) or r.a in (select id from v)
-- t6_5_not_in_an_inner_join
select r.a, s.b from r join s on r.a = s.a and r.b not in (select id from v)
-- t6_5_not_in_an_inner_join_under_or
select r.a, s.b from r join s on r.a = s.a and (r.b not in (select id from v) or r.h)
-- t6_5_not_in_a_left_join_of_the_left
select r.a, s.b from r left join s on r.a = s.a and r.b not in (select id from v)
-- t6_5_not_in_a_left_join_of_the_right
select r.a, s.b from r left join s on r.a = s.a and s.b not in (select id from v)
-- t6_5_not_in_a_full_join
select r.a, s.b from r full join s on r.a = s.a and s.b not in (select id from v)
-- t6_5_not_in_an_anti_join
select r.a from r left anti join s on r.a = s.a and r.b not in (select id from v)
-- t6_5_not_in_a_join_correlated
select r.a, s.b from r join s on r.a = s.a and r.b not in (select id from v where v.st.x = r.a)
-- t6_7_exists_uncorrelated
select a from r where exists (select 1 from s where b > 2)
-- t6_8_count_bug
select a, (select count(*) from s where s.a = r.a) n, (select sum(b) from s where s.a = r.a) t, (select coalesce(max(b), -1) from s where s.a = r.a) c from r
-- t6_8_several_rows
select a, (select b from s where s.a = r.a) x from r
-- t6_9_scalar_of_nothing
select a, (select max(b) from s where b > 100) x, (select c from s where false) y from r
-- t6_10_lateral
select r.a, x.n, x.m from r, lateral (select count(*) n, max(b) m from s where s.a = r.a) x
-- t6_10_lateral_rows
select r.a, x.b from r left join lateral (select b from s where s.a < r.a) x on x.b > 0
-- t6_10_lateral_limit
select r.a, x.b from r, lateral (select b from s where s.a = r.a order by b limit 1) x
-- t6_11_generators
select id, x, p, y from v lateral view explode(xs) t1 as x lateral view outer posexplode(xs) t2 as p, y
-- t6_11_inline_and_stack
select id, z.* from v lateral view inline(array(st, named_struct('x', 0, 'y', 'z'))) z lateral view stack(2, 1, 'a', 2, 'b') w as n, m
-- t7_1_union_by_position
select a k, c from r union all select d, c from s
-- t7_2_except_all
select a, c from r except all select a, c from s
-- t7_2_intersect_all
select a from r intersect all select a from s
-- t7_2_distinct_set_operations
(select a, c from r intersect select a, c from s) union (select a, c from r except select a, c from s)
-- t7_3_order_in_a_sub_query
select a, count(*) n from (select * from r order by b desc) group by a
-- t7_4_order_limit_offset
select a, c from r order by b desc nulls last, a, c, d, e, f, h limit 1 + 1 offset 1
-- t7_4_limit_of_an_order_with_ties
select a from r order by a limit 3
-- t7_4_limit_without_an_order
select a from r limit 2
-- t7_5_sample
select a from r tablesample (50 percent)
-- t8_3_word_for_now
select a from r where f < cast('now' as timestamp)
-- t8_4_current_user
select a, current_user() u from r
-- t8_5_random
select a, rand() x, uuid() y from r
-- t8_6_ids
select a, monotonically_increasing_id() x, spark_partition_id() p from r
-- t8_8_intervals
select f + interval '1' month m, cast(f as timestamp) + interval '36' hour h from r
-- t10_12_variant
select a, parse_json('[1]') j from r
-- t6_4_left_with_residual
select r.a, r.b, s.b sb from r left join s on r.a = s.a and r.b < s.b
-- t6_4_right_with_residual
select r.a, s.a sa, s.b from r right join s on r.a = s.a and r.b < s.b
-- t4_4_grouping_sets
select a, c, sum(b) s, count(*) n from r group by grouping sets ((a, c), (a), ())
