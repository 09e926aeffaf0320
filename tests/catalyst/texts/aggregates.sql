-- first
select k, first(a), first(s), first(e) ignore nulls from r group by k
-- last
select k, last(a), last(s), last(e) ignore nulls from r group by k
-- any_value
select k, any_value(s), any_value(a) ignore nulls, first(s) filter (where b) from r group by k
-- max_by_pairs
select k, max_by(s, a), max_by(e, a), min_by(s, a), min_by(e, a) from r group by k
-- max_by_several
select k, max_by(s, e, 2), min_by(s, e, 3) from r group by k
-- percentile
select k, percentile(a, 0.5), percentile(i, 0.9), percentile(d, 0.25), percentile(e, 0), percentile(f, 1) from r group by k
-- percentile_array
select k, percentile(a, array(0.1, 0.5, 0.99)), percentile(e, array(0.3)) from r group by k
-- percentile_frequency
select k, percentile(e, 0.3, i * i) from r group by k
-- percentile_distinct
select k, percentile(distinct a, 0.4) from r group by k
-- median
select k, median(a), median(e), median(d) from r group by k
-- percentile_cont
select k, percentile_cont(0.3) within group (order by e), percentile_cont(0.3) within group (order by e desc) from r group by k
-- percentile_disc
select k, percentile_disc(0.3) within group (order by e), percentile_disc(0.3) within group (order by a desc), percentile_disc(0) within group (order by i) from r group by k
-- mode
select k, mode(a), mode(s), mode(e) from r group by k
-- mode_ordered
select k, mode() within group (order by a), mode() within group (order by s desc), mode(e, true) from r group by k
-- listagg
select k, listagg(s), string_agg(s, '-'), listagg(distinct s, ',') from r group by k
-- listagg_ordered
select k, listagg(s, ',') within group (order by a desc, s), string_agg(s, '+') within group (order by e nulls last, s desc) from r group by k
-- bits
select k, bit_and(a), bit_or(a), bit_xor(a), bit_and(i), bit_or(h), bit_xor(i) from r group by k
-- booleans
select k, bool_and(b), bool_or(b), every(b), some(b), any(b), count_if(b), count_if(a > 2) from r group by k
-- tries
select k, try_sum(a), try_avg(a), try_sum(d), try_avg(e), sum(h), avg(i) from r group by k
-- arrays
select k, array_agg(a), collect_list(s), collect_set(e), collect_list(distinct i) from r group by k
-- regression
select k, regr_count(e, f), regr_avgx(e, f), regr_avgy(e, f), regr_sxx(e, f), regr_syy(e, f), regr_sxy(e, f) from r group by k
-- line
select k, regr_slope(e, f), regr_intercept(e, f), regr_r2(e, f) from r group by k
-- covariance
select k, covar_pop(e, f), covar_samp(e, f), covar_pop(distinct e, f) from r group by k
-- correlation
select k, corr(e, f) from r group by k
-- moments
select k, skewness(e), kurtosis(e), skewness(a), kurtosis(i) from r group by k
-- filtered
select k, covar_pop(e, f) filter (where b), median(a) filter (where b), mode(s) filter (where not b), listagg(s) filter (where b) from r group by k
-- spreads
select k, stddev(e), stddev_pop(e), variance(e), var_pop(e), var_samp(i), std(a) from r group by k
-- first_total
select first(a), first(s), first(e) ignore nulls from r where k > 1
-- median_total
select median(a), median(e), median(d) from r where k > 1
-- listagg_total
select listagg(s), string_agg(s, '-'), listagg(distinct s, ',') from r where k > 1
-- covariance_total
select covar_pop(e, f), covar_samp(e, f), covar_pop(distinct e, f) from r where k > 1
-- bits_total
select bit_and(a), bit_or(a), bit_xor(a), bit_and(i), bit_or(h), bit_xor(i) from r where k > 1
-- mode_ordered_total
select mode() within group (order by a), mode() within group (order by s desc), mode(e, true) from r where k > 1
-- moments_of_join
select q.k, corr(r.e, q.e), median(r.a) from r join q on r.k = q.k group by q.k
-- median_over_groups
select n, median(m) from (select k, count(*) as n, sum(a) as m from r group by k) group by n
