-- all_columns
select * from t
-- binary_groups
select w, count(*), min(k) from t group by w
-- binary_extremes
select k, min(w), max(w), count(distinct w) from t group by k
-- binary_functions
select k, hex(w), length(w), w || X'00ff', substring(w, 2, 1), md5(w), sha2(w, 256), crc32(w), base64(w), unhex(hex(w)), cast(hex(w) as binary), octet_length(w), bit_length(hex(w)) from t where w >= X'00'
-- binary_join
select a.k, b.k from t a join t b on a.w = b.w
-- binary_distinct
select distinct w from t union select X'ff'
-- binary_sets
select w from t where k > 0 intersect select w from t where k < 3
-- binary_starts
select k, startswith(w, X'61'), contains(w, X'00'), lpad(w, 3, X'2a'), decode(unhex('6162'), 'UTF-8'), encode('ab', 'UTF-16') from t
-- local_groups
select date_trunc('day', n), count(*), min(n), max(n) from t group by date_trunc('day', n)
-- local_parts
select k, year(n), month(n), hour(n), minute(n), second(n), cast(n as date), cast(n as string), cast(n as timestamp) from t
-- local_arithmetic
select k, n + interval '1' day, n - interval '1-2' year to month, n - timestamp_ntz'2024-01-01 00:00:00', timestampdiff(hour, timestamp_ntz'2024-01-01 00:00:00', n) from t
-- local_compare
select k from t where n > timestamp_ntz'2024-01-01 00:30:00' or n = date'2024-01-01'
-- local_of_text
select cast(concat('2024-01-0', cast(k as string), ' 10:20:30') as timestamp_ntz) from t where k > 0
-- local_window
select window(n, '1 hour').start, count(*) from t group by window(n, '1 hour')
-- map_values
select k, m['a'], element_at(m, 'b'), size(m), map_keys(m), map_values(m), map_entries(m), map_contains_key(m, 'a') from t
-- map_explode
select k, key, value from t lateral view outer explode(m) as key, value
-- map_pos_explode
select k, pos, key, value from t lateral view posexplode(m) as pos, key, value
-- map_sums
select key, sum(value), count(*) from t lateral view explode(m) as key, value group by key
-- map_functions
select k, map_filter(m, (x, v) -> v > 1), transform_values(m, (x, v) -> v + 1), transform_keys(m, (x, v) -> concat(x, '!')), map_concat(m, map('z', k)), map('p', k, 'q', 1) from t
-- map_makers
select k, map_from_arrays(array('a', 'b'), array(k, 2)), map_from_entries(array(struct('a', k))), str_to_map('a:1,b'), coalesce(m, map()) from t
-- map_errors
select map(k, 'x', 1, 'y') from t
-- map_carried
select a.k, b.m from t a left join t b on a.k = b.k and a.w = b.w
-- map_collected
select k, collect_list(m) from t group by k
-- map_cast
select k, cast(m as map<string, bigint>)['a'] + 1 from t
-- span_groups
select y, count(*) from t group by y
-- span_sums
select k, sum(y), avg(y), sum(d), avg(d), min(y), max(d), count(d) from t group by k
-- span_arithmetic
select k, y + interval '3' month, y - y, -y, y * 2, y * 1.5D, y * 2.5, y / 3, y / 2.5D, d + interval '1' hour, d * k, d * 0.5D, d / 7, d / 0.3, abs(y), abs(d), signum(y) from t
-- span_times
select k, date'2024-01-31' + y, n + d, n - d, n + y, timestamp'2024-01-31 10:00:00' + d, timestamp'2024-01-31 10:00:00' - y from t
-- span_differences
select k, n - timestamp_ntz'2024-01-01 00:00:00', cast(n as date) - date'2024-01-01', d > interval '1' day from t
-- span_parts
select k, extract(year from y), extract(month from y), extract(day from d), extract(hour from d), extract(minute from d), extract(second from d) from t
-- span_texts
select k, cast(y as string), cast(d as string) from t
-- span_casts
select k, cast(y as interval year), cast(d as interval hour to minute), cast(k as interval month), cast(k as interval minute), cast(cast(y as interval month) as int), cast(cast(d as interval minute) as bigint), cast(cast(d as interval second) as decimal(20, 6)) from t
-- span_made
select k, make_ym_interval(k, 3), make_dt_interval(k, 1, 2, 3.5) from t
-- span_order
select k, y, d from t order by y, d desc, k limit 3
-- map_group
select m, count(*) from t group by m
