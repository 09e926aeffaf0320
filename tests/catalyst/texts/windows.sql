-- latest_row
select k, a, s from (select *, row_number() over (partition by k order by a desc, b, s, d, e, f, g) as n from r) where n = 1
-- first_rows
select k, a, n from (select *, row_number() over (partition by k order by a, b desc, s, d, e, f, g) as n from r) where n <= 2
-- first_rows_without_keys
select k, a, n from (select *, row_number() over (order by a, b, k, s, d, e, f, g) as n from r) where n < 4
-- first_ranks
select * from (select k, a, rank() over (partition by k order by a) as n from r) where n <= 2
-- first_rank
select * from (select k, a, s, rank() over (partition by k order by a desc nulls first) as n from r) where 1 = n
-- first_dense_ranks
select * from (select k, a, dense_rank() over (partition by k order by a desc) as n from r) where n < 3
-- ranks
select k, a, rank() over w as x, dense_rank() over w as y, percent_rank() over w as z, cume_dist() over w as c from r window w as (partition by k order by a, s desc)
-- numbers
select k, a, b, row_number() over w as x, ntile(3) over w as y from r window w as (partition by k order by a, b, s, d, e, f, g)
-- neighbours
select k, a, lag(a) over w as x, lead(a, 2, -1) over w as y, lag(s, 1, 'none') over w as z from r window w as (partition by k order by b, a, s, d, e, f, g)
-- neighbours_with_values
select k, a, lag(a, 2) ignore nulls over w as x, lead(a) ignore nulls over w as y from r window w as (partition by k order by b, a, s, d, e, f, g)
-- values
select k, first_value(a) over w as x, last_value(a) over w as y, nth_value(a, 2) over w as z from r window w as (partition by k order by b, a, s, d, e, f, g rows between 2 preceding and 1 following)
-- values_not_null
select k, first(a) ignore nulls over w as x, last(s, true) over w as y, nth_value(a, 2) ignore nulls over w as z from r window w as (partition by k order by b, a, s, d, e, f, g rows between unbounded preceding and current row)
-- values_of_partitions
select k, a, first_value(s) over w as x, last_value(a) over w as y from r window w as (partition by k order by b, a, s, d, e, f, g rows between unbounded preceding and unbounded following)
-- whole_partitions
select k, a, sum(a) over (partition by k) as x, count(*) over (partition by k) as y, avg(d) over (partition by k) as z, max(s) over (partition by k) as m from r
-- whole_table
select a, sum(a) over () as x, min(e) over () as y from r
-- running
select k, a, sum(a) over w as x, count(s) over w as y, avg(e) over w as z, min(d) over w as m, max(b) over w as n from r window w as (partition by k order by a)
-- running_rows
select k, a, sum(e) over w as x, count(*) over w as y, min(a) over w as m from r window w as (partition by k order by b, a, s, d, e, f, g rows unbounded preceding)
-- running_sums
select k, a, sum(a) over w as x, count(s) over w as y, avg(e) over w as z, sum(d) over w as u from r window w as (partition by k order by a)
-- rank_alone
select k, a, rank() over (partition by k order by a) as x from r
-- number_alone
select k, a, row_number() over (partition by k order by a, b, s, d, e, f, g) as x from r
-- moving
select k, sum(a) over w as x, avg(d) over w as y, count(*) over w as z, max(s) over w as m, stddev(e) over w as v from r window w as (partition by k order by b, a, s, d, e, f, g rows between 1 preceding and 1 following)
-- moving_ahead
select k, a, sum(a) over w as x, count(*) over w as y from r window w as (partition by k order by b, a, s, d, e, f, g rows between 1 following and 2 following)
-- rest_of_partition
select k, a, sum(b) over w as x, count(*) over w as y from r window w as (partition by k order by a, b, s, d, e, f, g rows between current row and unbounded following)
-- by_values
select k, a, sum(b) over w as x, count(*) over w as y from r window w as (partition by k order by a range between 1 preceding and 2 following)
-- by_values_descending
select k, a, sum(b) over w as x, count(*) over w as y from r window w as (partition by k order by a desc nulls first range between 1 preceding and current row)
-- by_decimals
select k, d, count(*) over w as y from r window w as (partition by k order by d range between 0.5 preceding and 1.5 following)
-- by_days
select k, f, count(*) over w as y from r window w as (order by f range between 1 preceding and 40 following)
-- by_hours
select k, g, count(*) over w as y from r window w as (order by g range between interval 1 hour preceding and current row)
-- filtered
select k, a, count(*) filter (where b > 1) over (partition by k order by a) as x, sum(a) filter (where s = 'x') over (partition by k) as y, avg(b) filter (where a < 3) over (partition by k order by a) as z from r
-- several_windows
select k, a, rank() over (partition by k order by a) as x, rank() over (partition by s order by b) as y, count(*) over (order by e) as z, sum(a) over (partition by k) as t from r
-- over_groups
select k, s, sum(a) as t, rank() over (partition by k order by sum(a) desc) as n, sum(sum(a)) over (partition by k) as u from r group by k, s
-- groups_over
select n, count(*) as c, max(a) as m from (select a, rank() over (partition by k order by a) as n from r) group by n
-- over_windows
select k, x, sum(x) over (partition by k order by x) as y from (select k, count(*) over (partition by k, s) as x from r)
-- in_a_join
select r.k, r.a, q.s, rank() over (partition by r.k order by q.a desc, r.a) as n from r join q on r.k = q.k
-- joined
select x.k, x.n, q.a from (select k, a, dense_rank() over (partition by k order by a) as n from r) x join q on x.n = q.a
-- qualified
select k, a, b from r qualify rank() over (partition by k order by b) <= 2
-- qualified_by_totals
select k, a from r where a is not null qualify a >= avg(a) over (partition by k)
-- in_expressions
select k, a - lag(a, 1, 0) over (partition by k order by a, b, s, d, e, f, g) as step, 100 * a / nullif(sum(a) over (partition by k), 0) as share from r
-- sessions
select k, g, sum(starts) over (partition by k order by g) as session from (select k, g, case when g <= lag(g) over (partition by k order by g) + interval 2 hours then 0 else 1 end as starts from r)
-- unused
select k from (select k, row_number() over (partition by k order by a, b, s, d, e, f, g) as n from r)
-- twice
select x.k, y.n from (select k, rank() over (order by a) as n from r) x join (select k, rank() over (order by a) as n from r) y on x.n = y.n
-- literals
select k, a, count(1) over (partition by 1 order by a) as x, max('v') over (order by k) as y from r
-- lists
select k, a, collect_list(s) over w as x, collect_list(a) filter (where b > 0) over w as y, collect_set(s) over (partition by k) as z from r window w as (partition by k order by a desc, b, s, d, e, f, g)
-- other_aggregates
select k, median(a) over (partition by k) as x, bool_or(a > 2) over (partition by k) as z, var_pop(e) over (partition by k) as v, corr(a, b) over (partition by k) as c from r
