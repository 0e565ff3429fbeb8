"""What the conformance kit must say of each toy: the cases that are red, and no other."""

from __future__ import annotations

from django_statestore.backends.memory import MemoryBackend

from . import toys, toys_of_facets

SOUND: dict[type[MemoryBackend], tuple[str, ...]] = {
    MemoryBackend: ("KV", "Lock", "Queue", "Handoff", "Secret", "Race"),
    toys.Unplugged: ("Error",),
}
"""What is not broken, and the families that it must pass; test_memory shows the others."""

BROKEN: dict[type[MemoryBackend], dict[str, set[str]]] = {
    toys.CutsFractions: {
        "KV": {
            "test_a_fraction_of_a_second_is_no_eternity",
        },
    },
    toys.KeepsTheOldExpiry: {
        "KV": {
            "test_a_value_lives_for_its_ttl_and_no_longer",
            "test_set_replaces_value_and_expiry",
            "test_set_revives_an_expired_key",
        },
    },
    toys.BlocksOnTheDead: {
        "KV": {
            "test_add_stores_only_where_nothing_lives",
            "test_add_takes_an_expired_key_with_value_and_expiry",
            "test_an_expired_value_is_absent_whether_or_not_it_was_purged",
            "test_consume_gives_a_value_once",
        },
    },
    toys.FoldsKeys: {
        "KV": {
            "test_keys_that_look_alike_are_different",
        },
    },
    toys.JoinsNames: {
        "Listing": {
            "test_parts_that_are_cut_elsewhere_never_meet",
        },
    },
    toys.SeesBelow: {
        "Listing": {
            "test_a_namespace_is_matched_exactly",
        },
    },
    toys.MatchesPatterns: {
        "Listing": {
            "test_a_prefix_is_text_and_no_pattern",
        },
    },
    toys.ReadsJson: {
        "Value": {
            "test_a_value_comes_back_equal_and_of_the_same_type",
        },
    },
    toys.TakesEmptyForNothing: {
        "Queue": {
            "test_a_smaller_limit_than_what_is_there_refuses_without_evicting",
            "test_an_empty_value_is_an_item",
            "test_first_in_first_out_with_the_depth_after_each",
            "test_the_order_is_that_of_arrival_however_fast",
        },
        "Value": {
            "test_an_empty_value_is_a_value",
        },
    },
    toys.LooksThenConsumes: {
        "Race": {
            "test_of_many_that_consume_one_gets_the_value",
        },
    },
    toys.LooksThenMarks: {
        "Race": {
            "test_of_many_sightings_one_is_the_first",
        },
    },
    toys.LooksThenLocks: {
        "Race": {
            "test_of_many_that_acquire_one_has_the_lock",
        },
    },
    toys.LooksThenHandsOver: {
        "Race": {
            "test_of_many_that_take_a_state_one_gets_it",
        },
    },
    toys.SaysEmptyTooSoon: {
        "Race": {
            "test_each_item_goes_to_one_and_nobody_finds_the_queue_empty_too_soon",
        },
    },
    toys.RewritesTheList: {
        "Race": {
            "test_appends_at_once_have_each_a_length_of_its_own",
            "test_appends_at_once_never_leave_more_than_max_len",
        },
    },
    toys.TakesOutagesForMisses: {
        "Error": {
            "test_an_outage_is_an_error_and_never_a_miss",
            "test_an_outage_is_no_empty_listing",
        },
    },
    toys.ShowsItsDriversErrors: {
        "Error": {
            "test_an_outage_is_an_error_and_never_a_miss",
            "test_an_outage_is_no_empty_listing",
        },
    },
    toys.TellsWhatItCouldNotWrite: {
        "Error": {
            "test_an_outage_is_an_error_and_never_a_miss",
        },
    },
    toys.TellsIds: {
        "Secret": {
            "test_nothing_secret_is_logged_or_shown",
        },
    },
    toys.TellsValues: {
        "Secret": {
            "test_nothing_secret_is_logged_or_shown",
        },
    },
    toys_of_facets.ClearsTheListExpiry: {
        "List": {
            "test_an_append_without_ttl_keeps_the_expiry_of_the_whole_list",
            "test_trim_keeps_the_newest_and_the_expiry",
        },
    },
    toys_of_facets.TrimsToMinusZero: {
        "List": {
            "test_an_emptied_list_is_gone_and_its_expiry_too",
        },
    },
    toys_of_facets.StopsBeforeStop: {
        "List": {
            "test_ranges_count_from_the_oldest_that_is_left",
            "test_stop_is_inclusive_and_clipped",
        },
    },
    toys_of_facets.ReleasesForAnybody: {
        "Lock": {
            "test_a_stale_token_changes_nothing",
            "test_a_strange_token_or_key_changes_nothing",
            "test_namespaces_have_their_own_locks",
        },
    },
    toys_of_facets.RevivesLocks: {
        "Lock": {
            "test_a_released_lock_cannot_be_extended_or_released_again",
            "test_an_expired_lock_cannot_be_extended_or_released_even_when_nobody_took_it",
            "test_force_release_ends_the_lock_of_anybody",
        },
    },
    toys_of_facets.FencesStandStill: {
        "Lock": {
            "test_a_lock_ends_with_its_ttl_whether_or_not_it_was_purged",
            "test_fences_rise_over_release_expiry_force_release_and_clear",
            "test_force_release_ends_the_lock_of_anybody",
            "test_the_same_token_after_the_end_is_a_new_holder",
        },
        "Race": {
            "test_fences_rise_strictly_among_holders_that_take_turns",
            "test_of_many_that_acquire_one_has_the_lock",
        },
    },
    toys_of_facets.SlidesTheWindow: {
        "Dedup": {
            "test_the_window_is_fixed_from_the_first_sighting",
        },
    },
    toys_of_facets.ClaimsForEver: {
        "Dedup": {
            "test_a_claim_ends_with_its_lease_and_the_next_sighting_is_new",
            "test_a_claim_that_a_sighting_took_over_cannot_be_confirmed",
            "test_a_claim_that_was_taken_over_can_neither_be_confirmed_nor_forgotten",
            "test_a_pending_claim_does_not_outlast_its_lease_for_the_sake_of_the_window",
        },
    },
    toys_of_facets.LastInFirstOut: {
        "Queue": {
            "test_a_released_item_goes_back_to_its_place_after_its_delay",
            "test_a_smaller_limit_than_what_is_there_refuses_without_evicting",
            "test_an_expired_item_is_passed_over_wherever_it_stands",
            "test_an_item_whose_taker_died_comes_back_in_its_place",
            "test_drop_newest_leaves_the_queue_as_it_is",
            "test_drop_oldest_is_the_default_and_evicts_until_it_fits",
            "test_expired_items_neither_fill_the_queue_nor_count",
            "test_first_in_first_out_with_the_depth_after_each",
            "test_the_order_is_that_of_arrival_however_fast",
        },
    },
    toys_of_facets.EvictsOne: {
        "Queue": {
            "test_drop_oldest_is_the_default_and_evicts_until_it_fits",
        },
    },
    toys_of_facets.LosesTakenItems: {
        "Queue": {
            "test_an_item_whose_taker_died_comes_back_in_its_place",
        },
    },
    toys_of_facets.AcksForAnybody: {
        "Queue": {
            "test_a_released_item_goes_back_to_its_place_after_its_delay",
            "test_a_taken_item_is_hidden_until_it_is_acknowledged",
            "test_a_taken_item_that_is_evicted_cannot_be_acknowledged",
            "test_an_item_may_expire_while_it_is_taken",
            "test_an_item_whose_taker_died_comes_back_in_its_place",
            "test_delete_removes_all_items",
            "test_tokens_travel_as_plain_text",
        },
    },
    toys_of_facets.HandsOverTwice: {
        "Handoff": {
            "test_the_state_is_taken_once",
        },
    },
    toys_of_facets.FollowsTheEntry: {
        "Spool": {
            "test_a_reader_is_a_snapshot",
            "test_a_ref_is_plain_json_and_names_one_version",
        },
    },
    toys_of_facets.LosesTheLastChunk: {
        "Upload": {
            "test_a_binary_file_is_read_from_where_it_stands",
            "test_a_buffer_may_be_reused_between_items",
            "test_a_reader_can_be_spooled_again",
            "test_an_asynchronous_iterable",
            "test_an_iterable_of_bytes",
            "test_an_upload_outlives_a_purge_while_its_pieces_come_in_time",
            "test_what_is_being_written_is_not_seen",
        },
    },
    toys_of_facets.ShowsHalfAnUpload: {
        "Upload": {
            "test_a_cancelled_upload_leaves_the_old_entry",
            "test_a_file_that_fails_leaves_the_old_entry",
            "test_a_source_that_fails_leaves_the_old_entry",
            "test_an_asynchronous_source_that_fails_leaves_the_old_entry",
            "test_an_item_that_is_no_bytes_leaves_the_old_entry",
            "test_an_upload_of_a_dead_process_leaves_the_old_entry",
            "test_an_upload_that_pauses_too_long_is_purged_and_says_so",
            "test_what_is_being_written_is_not_seen",
        },
    },
    toys_of_facets.CommitsForAnybody: {
        "Durable": {
            "test_a_commit_keeps_the_lease_and_its_fence",
            "test_a_lapsed_lease_that_nobody_took_over_may_still_commit",
            "test_a_lease_that_another_took_over_writes_nothing",
            "test_a_lease_that_was_given_back_writes_nothing",
            "test_a_save_whose_lease_was_lost_raises_and_writes_nothing",
            "test_exclusive_in_async_code",
            "test_exclusive_saves_under_its_own_lease_and_gives_it_back",
            "test_saves_under_a_lease_need_that_lease",
        },
    },
    toys_of_facets.TaskFencesStandStill: {
        "Durable": {
            "test_a_lapsed_lease_is_in_nobodys_way",
            "test_a_lease_that_another_took_over_writes_nothing",
            "test_exclusive_saves_under_its_own_lease_and_gives_it_back",
            "test_fences_rise_over_release_lapse_and_purge",
            "test_one_has_the_lease_and_the_next_gets_none_at_once",
        },
    },
    toys_of_facets.ForgetsTheBudget: {
        "Durable": {
            "test_a_budget_may_go_with_a_later_save",
            "test_bounds_of_a_checkpoint_are_kept",
            "test_what_was_saved_is_loaded_field_by_field",
        },
    },
    toys_of_facets.SaysItJoins: {
        "Difference": {
            "test_a_write_goes_with_the_callers_transaction_or_stays_as_declared",
            "test_what_must_be_durable_is_refused_in_a_transaction_or_works_as_declared",
        },
    },
    toys_of_facets.SaysItLasts: {
        "Difference": {
            "test_what_is_kept_outlives_the_process_or_not_as_declared",
        },
    },
    toys_of_facets.Shares: {
        "Difference": {
            "test_what_is_kept_outlives_the_process_or_not_as_declared",
        },
    },
}
"""What is broken: the families that it is held to, and what is red in each."""

LUCK: dict[type[MemoryBackend], set[str]] = {
    toys.LooksThenLocks: {"test_fences_rise_strictly_among_holders_that_take_turns"},
}
"""Cases that a broken backend passes when its threads happen to miss each other."""
