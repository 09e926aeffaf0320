"""Where each trap of converting Spark's analysed plans is tried, by its number.

A value names texts of `texts/traps.sql` (which `test_trap_texts` judges), cases of
`tests/spark/test_traps.py` (in which the number stands), and tests as `module::name`.  Numbers that
begin with 5 are windows, which have tests of their own.
"""

from __future__ import annotations

from typing import Final

TRAPS: Final[dict[str, str]] = {
    # ground rules
    "0.1": "t0_1_replaced_functions, spark/plans/test_reader::test_exists_is_not_rewritten",
    "0.2": "t0_2_current_time, spark/plans/test_reader::test_the_current_time_stays",
    "0.3": "catalyst/test_traps::test_an_unknown_field_with_a_value_is_refused_by_name",
    "0.4": "t3_7_modes, catalyst/test_expressions::test_the_evaluation_mode_is_kept",
    "0.5": "spark/plans/test_reader::test_settings_are_captured",
    "0.6": "runtime/test_reading::test_partitions_and_deletions_are_followed_and_verified",
    "0.7": "spark/plans/test_reader::test_rows_of_leaves",
    "0.8": "t0_8_an_error_is_where_the_plan_has_it, "
    "catalyst/test_traps::test_a_scalar_sub_query_of_several_rows_is_a_failure",
    # leaves
    "1.1": "spark/test_leaves::test_tables_of_a_catalog_are_inputs",
    "1.1b": "catalyst/test_leaves::test_what_cannot_be_followed_is_refused_by_name",
    "1.2": "api/test_frames::test_the_answer_follows_files_and_deletions",
    "1.3": "catalyst/test_leaves::test_what_cannot_be_followed_is_refused_by_name",
    "1.4": "catalyst/test_leaves::test_what_cannot_be_followed_is_refused_by_name",
    "1.5": "spark, catalyst/test_leaves::test_local_rows_are_constants",
    "1.6": "t1_6_values",
    "1.7": "t1_7_range, catalyst/test_leaves::test_ranges_and_no_table_are_constants",
    "1.8": "spark",
    "1.9": "api/test_bad_use::test_a_streaming_frame",
    "1.10": "spark, spark/test_leaves::test_metadata_of_files_is_refused",
    "1.11": "t1_11_file_name",
    "1.12": "spark/test_traps::test_columns_that_files_get_later_are_not_in_the_answer",
    "1.13": "spark",
    "1.14": "api/test_bad_use::test_a_command_does_not_run",
    # wrappers
    "2.1": "t2_6_nested_with",
    "2.2": "spark",
    "2.3": "spark",
    "2.4": "spark",
    "2.5": "t2_5_shared_expression",
    "2.6": "t2_6_nested_with, catalyst/test_traps::"
    "test_ids_of_common_table_expressions_are_those_of_the_innermost_with",
    "2.7": "t2_7_recursive",
    "2.8": "t2_8_pipes",
    "2.9": "spark",
    "2.10": "spark",
    "2.11": "t2_11_identifier",
    "2.12": "spark",
    "2.13": "t2_13_lateral_alias",
    "2.14": "t2_14_hints, spark",
    # expressions
    "3.1": "t3_1_same_column_twice, spark",
    "3.2": "api/test_frames::test_files_do_not_take_two_columns_of_one_name",
    "3.3": "t3_3_case_of_names",
    "3.4": "t3_4_self_join, spark/test_leaves::test_leaves_over_one_directory_are_one_source",
    "3.5": "t3_5_between_and_nested_replacements, t0_1_replaced_functions",
    "3.6": "t3_6_common_expression, spark/plans/test_reader::"
    "test_common_expressions_are_computed_below",
    "3.7": "t3_7_modes, lower/test_spark_agreement::test_spark",
    "3.8": "catalyst/test_expressions::test_zones_that_are_not_known_are_refused",
    "3.9": "t3_9_decimals, lower/test_spark_products::test_a_narrow_product_is_the_reference",
    "3.10": "t3_10_zeros_and_nans, t3_10_distinct_zeros, t3_10_join_of_zeros",
    "3.11": "t3_11_collation",
    "3.12": "spark",
    "3.13": "t3_13_map_keys",
    "3.14": "t3_14_lambdas",
    "3.15": "t3_15_tables_of_sub_queries, "
    "catalyst/test_leaves::test_leaves_of_sub_queries_are_found",
    "3.16": "t3_16_outer_references_two_levels_up",
    "3.17": "t3_17_in_with_null, t3_17_null_safe, spark",
    "3.18": "catalyst/test_traps::test_session_windows_are_refused_wherever_they_are_named",
    "3.19": "t3_13_map_keys",
    # aggregates
    "4.1": "t4_1_result_over_a_key, spark/plans/test_reader::test_groups_are_by_columns",
    "4.2": "t4_2_total_of_nothing, t4_2_having_without_group, t4_2_empty_grouping_set",
    "4.3": "t4_3_rollup_of_nothing, t4_3_sets_of_nothing",
    "4.4": "t4_4_rollup_of_its_own_argument, t4_4_the_same_set_twice, t4_4_grouping_sets",
    "4.5": "t4_5_unpivot, t4_5_unpivot_with_nulls",
    "4.6": "t4_6_session_window",
    "4.7": "t4_7_tumbling_window",
    "4.8": "t4_8_filters_and_distinct",
    "4.9": "t4_9_sums_of_doubles",
    "4.10": "t4_10_sum_of_longs, "
    "catalyst/test_traps::test_a_sum_that_does_not_fit_wraps_or_is_null_or_fails",
    "4.11": "t4_11_decimal_sums",
    "4.12": "t4_12_min_and_max",
    "4.13": "t4_13_collect, t4_13_first, t4_13_listagg, "
    "catalyst/test_traps::test_what_spark_leaves_open_follows_the_canonical_order",
    "4.14": "t4_14_max_by, "
    "catalyst/test_traps::test_what_spark_leaves_open_follows_the_canonical_order",
    "4.15": "t4_15_median, t4_15_mode, t4_15_approximate",
    "4.16": "t4_16_listagg_in_order",
    "4.17": "spark, catalyst/test_traps::test_drop_duplicates_keeps_the_smallest_row_of_each_key",
    "4.18": "t4_18_distinct",
    "4.19": "t4_19_pivot, spark",
    "4.20": "t4_20_group_by_a_literal",
    "4.21": "api/test_bad_use::test_a_user_defined_function",
    "4.22": "t3_13_map_keys",
    # joins and sub-queries
    "6.1": "t6_1_semi_and_anti, spark, "
    "catalyst/test_traps::test_join_types_of_the_optimiser_are_refused",
    "6.2": "t6_2_using_full, t6_2_natural_left",
    "6.3": "t6_3_cross, t6_3_null_safe_join",
    "6.4": "t6_4_condition_on_one_side, t6_4_full_with_residual, t6_4_left_with_residual, "
    "t6_4_right_with_residual",
    "6.5": "t6_5_not_in, t6_5_not_in_correlated, t6_5_not_in_two_columns, t6_5_not_in_nothing, "
    "t6_5_not_in_an_inner_join, t6_5_not_in_an_inner_join_under_or, "
    "t6_5_not_in_a_left_join_of_the_left, t6_5_not_in_a_left_join_of_the_right, "
    "t6_5_not_in_a_full_join, t6_5_not_in_an_anti_join, t6_5_not_in_a_join_correlated",
    "6.6": "t6_6_in_as_a_value, t6_6_in_under_or, t6_6_in_inside_of_values, "
    "t6_6_in_compared_with_constants, t6_6_two_columns_as_values, t6_6_in_a_group, "
    "t6_6_in_a_join",
    "6.7": "t6_7_exists_uncorrelated",
    "6.8": "t6_8_count_bug, t6_8_several_rows",
    "6.9": "t6_9_scalar_of_nothing",
    "6.10": "t6_10_lateral, t6_10_lateral_rows, t6_10_lateral_limit",
    "6.11": "t6_11_generators, t6_11_inline_and_stack",
    "6.12": "catalyst/test_trap_texts::test_classes_that_are_refused_by_name",
    "6.13": "t3_11_collation, t3_10_join_of_zeros",
    "6.14": "t2_14_hints, spark",
    # set operations and order
    "7.1": "t7_1_union_by_position, spark",
    "7.2": "t7_2_except_all, t7_2_intersect_all, t7_2_distinct_set_operations",
    "7.3": "t7_3_order_in_a_sub_query, "
    "catalyst/test_traps::test_an_order_at_the_top_says_how_rows_are_shown",
    "7.4": "t7_4_order_limit_offset, t7_4_limit_of_an_order_with_ties, "
    "t7_4_limit_without_an_order, "
    "catalyst/test_traps::test_a_limit_without_an_order_takes_the_first_rows_in_canonical_order",
    "7.5": "t7_5_sample, spark",
    "7.6": "spark",
    # time and randomness
    "8.1": "t0_2_current_time, api/test_bad_use::test_the_current_time",
    "8.2": "catalyst/test_trap_texts::test_times_of_day_have_no_type",
    "8.3": "t8_3_word_for_now, "
    "catalyst/test_expressions::test_words_for_the_time_of_the_query_are_refused",
    "8.4": "t8_4_current_user",
    "8.5": "t8_5_random, spark",
    "8.6": "t8_6_ids, t1_11_file_name",
    "8.7": "spark",
    "8.8": "t8_8_intervals",
    "8.9": "spark/test_leaves::test_tables_of_a_catalog_are_inputs",
    # what happens before
    "9.1": "api/test_bad_use::test_a_command_does_not_run, "
    "spark/plans/test_reader::test_a_frame_of_a_command_is_refused",
    "9.2": "spark/test_traps::test_a_value_that_was_computed_before_is_frozen",
    "9.3": "spark",
    # functions of users
    "10.1": "api/test_bad_use::test_a_user_defined_function",
    "10.2": "api/test_bad_use::test_a_user_defined_function",
    "10.3": "api/test_bad_use::test_a_user_defined_function",
    "10.4": "api/test_bad_use::test_a_user_defined_function",
    "10.5": "api/test_bad_use::test_a_user_defined_function",
    "10.6": "catalyst/test_trap_texts::test_classes_that_are_refused_by_name",
    "10.7": "spark",
    "10.8": "spark",
    "10.9": "api/test_bad_use::test_a_streaming_frame",
    "10.10": "catalyst/test_trap_texts::test_functions_of_users_are_never_converted",
    "10.11": "spark",
    "10.12": "t10_12_variant",
    # fingerprints
    "11.1": "api/test_frames::test_starting_again_compares_what_the_query_means",
    "11.2": "api/test_frames::test_starting_again_compares_what_the_query_means",
}
LAST: Final = {0: 8, 1: 14, 2: 14, 3: 19, 4: 22, 6: 14, 7: 6, 8: 9, 9: 3, 10: 12, 11: 2}
"""The last number of each group."""
