-- strings
select k, overlay(s placing 'xy' from 2), overlay(s placing u from 1 for 2), levenshtein(s, u), levenshtein(s, u, 1), find_in_set(s, 'a,b,x'), octet_length(s), bit_length(s), space(i), elt(abs(i) % 2 + 1, s, u), typeof(s) from r
-- splits
select k, split(u, ','), split(u, '\\|'), split(u, ', '), split(s, 'x') from r
-- times
select k, dayname(t), monthname(t), from_unixtime(a), from_unixtime(a, 'yyyy/MM/dd'), make_timestamp(2024, 1 + abs(i) % 12, 28, 10, 20, 30.5), timestampadd(HOUR, i, m), timestampadd(QUARTER, i, m), timestampadd(DAY, i, m) from r
-- numbers
select k, bit_get(a, 3), getbit(i, 1), width_bucket(e, 0D, 10D, 5L), ceil(d, 1), floor(d, -1), ceil(i, -1), typeof(d), typeof(array(e)) from r
-- arrays
select k, array_insert(array(i, 2), 2, 5), array_insert(array(i, 2), -2, 5), array_append(array(i), 3), array_prepend(array(i), 4), array_insert(array(i), 4, 1) from r
-- over_groups
select k, levenshtein(max(s), min(s)), split(max(u), ','), dayname(max(t)), bit_get(sum(a), 2), array_append(sort_array(collect_list(i)), 0) from r group by k
-- over_definitions
with c as (select k, s as t, i from r where i > 0), e as (select t, k from c) select e.k, levenshtein(e.t, 'ab'), d.i, levenshtein(d.t, 'ab') from e join c d on e.k = d.k
