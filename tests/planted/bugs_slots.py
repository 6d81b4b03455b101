"""Bugs of a worker's slots: limits of job types, shares of requesters, encoders, room on the disk."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

LIMITS = "tests/worker/test_type_limits.py"
UNITS = "tests/worker_units/test_type_limits.py"
SHARES = "tests/worker/test_requester_share.py"
ENCODERS = "tests/transcode/service/test_encoders.py"
DISK = "tests/transcode/service/test_disk.py"
SIZES = "tests/transcode/media/test_sizes.py"

SLOT_BUGS = (
    Bug(
        "a_worker_hoards_a_type_that_it_cannot_start",
        (Edit("TypeLimits.narrowed", "        if not self._limits or request.types is None:\n", "        if True:\n"),),
        f"{LIMITS}::test_a_full_type_stays_in_the_queue_while_other_types_run[sqlite]",
        "AssertionError",
    ),
    Bug(
        "two_lanes_claim_for_the_same_places_of_a_type",
        (Edit("TypeLimits.reserve", "            self._under_way.append(request)\n", ""),),
        f"{UNITS}::test_a_claim_under_way_holds_its_places",
        "AssertionError",
    ),
    Bug(
        "a_limited_type_is_claimed_ahead_into_the_ready_buffer",
        (
            Edit(
                "TypeLimits.narrowed",
                "tuple(name for name in request.prefetch_types if name not in room)",
                "request.prefetch_types",
            ),
            Edit("TypeLimits.narrowed", "types = least, 0, limited", "types = least, request.prefetch, limited"),
        ),
        f"{UNITS}::test_nothing_of_a_limited_type_is_claimed_ahead",
        "AssertionError",
    ),
    Bug(
        "a_limited_type_waits_until_the_line_of_others_is_worked_off",
        (
            Edit(
                "TypeLimits.narrowed", "            elif self._clock() >= self._look_at:\n", "            elif False:\n"
            ),
        ),
        f"{LIMITS}::test_a_limited_type_gets_its_turn_beside_a_long_line_of_others[sqlite]",
        "waited",
    ),
    Bug(
        "scarce_slots_go_to_limited_types_first",
        (Edit("TypeLimits.narrowed", "if limit <= least or not others:", "if not others:"),),
        f"{LIMITS}::test_scarce_slots_go_to_the_most_urgent_of_all_types[sqlite]",
        "AssertionError",
    ),
    Bug(
        "one_requester_holds_every_place_while_others_wait",
        (
            Edit(
                "RequesterShare.narrowed",
                "        if over:\n            return",
                "        if over and False:\n            return",
            ),
        ),
        f"{SHARES}::test_places_that_fall_free_go_to_a_requester_that_came_later[sqlite]",
        "waited",
    ),
    Bug(
        "a_lone_requester_gets_only_its_share",
        (
            Edit(
                "RequesterShare.answered",
                "            self._look_at = self._clock() +",
                "            self._count_at = self._clock() +",
            ),
        ),
        f"{SHARES}::test_a_lone_requester_fills_every_place[sqlite]",
        "waited",
    ),
    Bug(
        "the_first_claim_of_a_worker_gives_one_requester_all_places",
        (
            Edit(
                "RequesterShare.narrowed",
                "limit = min(limit, most - most_held - self._limits.coming(name))",
                "limit = request.limit",
            ),
        ),
        f"{SHARES}::test_a_second_requester_gets_half_of_the_places_before_a_longer_line[sqlite]",
        "waited",
    ),
    Bug(
        "long_jobs_of_one_requester_take_all_slots_of_a_worker",
        (
            Edit(
                "RequesterShare.narrowed",
                "over, limit = self._crowding(), request.limit",
                "over, limit = set[str](), request.limit",
            ),
        ),
        f"{SHARES}::test_the_slots_of_all_types_are_shared_too[sqlite]",
        "waited",
    ),
    Bug(
        "a_claim_for_others_brings_anybody",
        (Edit("takeable.sql", "(CAST(:other_than AS text[]) = '{}'", "(true"),),
        f"{SHARES}::test_a_claim_for_others_takes_the_most_urgent_of_them[postgres]",
        "AssertionError",
    ),
    Bug(
        "waiting_for_an_encoder_counts_against_the_timeout",
        (
            Edit(
                "Context.deadline",
                "        return self._deadline + time.monotonic() - self._clock_stopped_at\n",
                "        return self._deadline\n",
            ),
        ),
        f"{ENCODERS}::test_waiting_for_an_encoder_is_no_part_of_the_timeout[sqlite]",
        "AssertionError",
    ),
    Bug(
        "the_store_is_not_told_that_an_attempt_waits",
        (Edit("attempt/advance.sql", "j.started_at + :waited_us", "j.started_at + 0 * :waited_us"),),
        f"{ENCODERS}::test_waiting_for_an_encoder_is_no_part_of_the_timeout[sqlite]",
        "AssertionError",
    ),
    Bug(
        "the_clock_of_an_attempt_never_starts_again",
        (Edit("Context.clock_stopped", "self._deadline, self._clock_stopped_at = self.deadline, None", "pass"),),
        f"{ENCODERS}::test_the_work_itself_is_held_to_the_timeout_after_a_wait[sqlite]",
        "waited",
    ),
    Bug(
        "a_fetched_job_gets_the_encoder_before_a_more_urgent_one",
        (Edit("Encoders.turn", "if has_to_wait and await", "if not has_to_wait and await"),),
        f"{ENCODERS}::test_a_more_urgent_job_gets_the_encoder_before_one_that_waits_for_it[sqlite]",
        "waited",
    ),
    Bug(
        "a_worker_fetches_sources_that_it_cannot_encode",
        (Edit("Encoders.worker_limit", "return self.count + AHEAD", "return 100 * self.count"),),
        f"{ENCODERS}::test_a_worker_claims_one_transcode_more_than_it_can_encode[sqlite]",
        "AssertionError",
    ),
    Bug(
        "the_files_of_an_encode_are_looked_at_on_the_event_loop",
        (Edit("OutputSizes.check", "await asyncio.to_thread(self._walk)", "self._walk()"),),
        f"{SIZES}::test_the_files_of_an_encode_are_looked_at_in_a_thread",
        "AssertionError",
    ),
    Bug(
        "ten_outputs_may_each_fill_the_disk",
        (Edit("OutputSizes.check", "if sizes.total() > self._job_bytes:", "if False:"),),
        f"{SIZES}::test_all_outputs_of_a_job_count_together",
        "DID NOT RAISE",
    ),
    Bug(
        "a_source_is_encoded_into_any_number_of_segments",
        (Edit("encode", "    check_segments(prepared, limits.max_segments)\n", ""),),
        f"{SIZES}::test_a_source_that_makes_too_many_segments_is_refused_before_it_is_encoded",
        "Error",
    ),
    Bug(
        "a_request_may_ask_for_any_number_of_segments",
        (Edit("read_outputs", "    found.extend(_too_many_segments(outputs))\n", ""),),
        f"{SIZES}::test_a_request_for_too_many_segments_is_refused",
        "AssertionError",
    ),
    Bug(
        "a_full_disk_of_the_worker_is_charged_to_the_requester",
        (Edit("failure_for", ", unfit=error.code == DISK_FULL", ""),),
        f"{DISK}::test_a_job_without_room_waits_uncharged_and_runs_when_there_is_some",
        "AssertionError",
    ),
    Bug(
        "what_running_jobs_will_write_counts_as_free",
        (Edit("Reservation.lacking", "return max(0, self.need - sizes", "return min(0, self.need - sizes"),),
        f"{DISK}::test_what_running_jobs_were_promised_and_have_not_written_is_not_free",
        "DID NOT RAISE",
    ),
)
