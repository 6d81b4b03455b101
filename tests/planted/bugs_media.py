"""Bugs in media work: what ffmpeg may touch, what counts as done, what is left behind, what survives."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_MEDIA = "tests/transcode/media"
_HOSTILE = f"{_MEDIA}/test_hostile.py::test_a_hostile_file_is_a_typed_error_and_touches_nothing"
_PROCESS = f"{_MEDIA}/test_process.py"

MEDIA_BUGS = (
    Bug(
        "a_source_may_name_other_files",
        (
            Edit(
                "input_options",
                '*("-protocol_whitelist", "fd", "-format_whitelist", ",".join(demuxers)),',
                '*("-protocol_whitelist", "fd,file", "-format_whitelist", "hls,wav"),',
            ),
        ),
        f"{_MEDIA}/test_hostile.py::test_a_script_is_refused_by_an_ffprobe_too[hls_file.m3u8]",
        ("DID NOT RAISE", "the file was opened"),
    ),
    Bug(
        "a_link_is_followed",
        (Edit("source.py:opened", " | os.O_NOFOLLOW", ""),),
        f"{_MEDIA}/test_hostile.py::test_only_a_plain_file_is_a_source[link]",
        "DID NOT RAISE",
    ),
    Bug(
        "errors_while_decoding_are_passed_over",
        (Edit("STRICT", 'STRICT = ("-xerror", "-err_detect", "explode")', "STRICT = ()"),),
        f"{_MEDIA}/test_fidelity.py::test_packets_that_cannot_be_decoded_fail_the_job[long.m4a]",
        "DID NOT RAISE",
    ),
    Bug(
        "exit_0_is_believed_whatever_came_out",
        (
            Edit(
                "check_length",
                "least - tolerance and span.exact:",
                "least - tolerance and not span.exact:",
            ),
        ),
        f"{_HOSTILE}[cut.mp3]",
        "DID NOT RAISE",
    ),
    Bug(
        "a_cut_ogg_is_taken_for_a_short_one",
        (Edit("is_cut", "return _is_cut_ogg(fd, size)", "return False"),),
        f"{_HOSTILE}[cut.opus]",
        "DID NOT RAISE",
    ),
    Bug(
        "a_standstill_is_not_seen",
        (Edit("process.py:_watched", "readers.moved_at > watch.stall_s:", "readers.moved_at > 9999:"),),
        f"{_PROCESS}::test_a_run_that_stands_still_is_killed",
        "Timeout",
    ),
    Bug(
        "partial_files_stay",
        (
            Edit(
                "_partial_folder",
                "        yield folder\n    finally:\n        shutil.rmtree(folder, ignore_errors=True)",
                "        yield folder\n    finally:\n        pass",
            ),
        ),
        f"{_PROCESS}::test_a_cancelled_encode_leaves_no_process_and_no_file",
        "assert listed(workdir) == []",
    ),
    Bug(
        "ffmpeg_outlives_its_worker",
        (Edit("die_with_parent", "libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)", "pass"),),
        f"{_PROCESS}::test_ffmpeg_dies_with_the_process_that_started_it",
        "assert not alive",
    ),
    Bug(
        "the_environment_leaks_into_ffmpeg",
        (Edit("_start", "            env=ENVIRONMENT,\n", ""),),
        f"{_PROCESS}::test_the_child_is_contained",
        "child.environ() == ENVIRONMENT",
    ),
    Bug(
        "files_may_grow_without_end",
        (Edit("set_limits", "        resource.RLIMIT_FSIZE: file_bytes,\n", ""),),
        f"{_PROCESS}::test_the_child_is_contained",
        "RLIMIT_FSIZE",
    ),
    Bug(
        "a_hundred_percent_is_said_before_anything_is_verified",
        (Edit("MOST_BEFORE_THE_END", "MOST_BEFORE_THE_END = 99.0", "MOST_BEFORE_THE_END = 100.0"),),
        f"{_PROCESS}::test_progress_is_by_the_time_of_the_media_over_all_passes",
        "a hundred is only said when all is verified",
    ),
    Bug(
        "lossless_means_16_bits",
        (Edit("chosen_bits", "(24 if (source.bits or 16) > 16 or is_dsd(source) else 16)", "16"),),
        f"{_MEDIA}/test_audio.py::test_lossless_to_lossless_keeps_every_sample[24]",
        "samples_md5",
    ),
    Bug(
        "the_edit_list_is_in_milliseconds",
        (Edit("container_options", '"-movie_timescale", str(rate), ', ""),),
        f"{_MEDIA}/test_audio.py::test_gapless_length_survives_lossy_coding[aac_256]",
        "_edit_list(path)",
    ),
    Bug(
        "ogg_loses_its_cover",
        (
            Edit(
                "COVERS_AS_TAGS",
                'COVERS_AS_TAGS = frozenset({"ogg", "opus"})',
                "COVERS_AS_TAGS: frozenset[str] = frozenset()",
            ),
        ),
        f"{_MEDIA}/test_tags.py::test_nothing_that_a_container_can_carry_is_lost[mp3.mp3]",
        "opus_96",
    ),
    Bug(
        "chapters_stay_where_they_were",
        (Edit("wanted_chapters", "max(0, each.start_ms - span.start_ms)", "max(0, each.start_ms)"),),
        f"{_MEDIA}/test_tags.py::test_chapters_outside_a_trim_are_left_out",
        "wanted_chapters",
    ),
    Bug(
        "a_limiter_is_not_made_up_for",
        (Edit("MOST_BOOST_DB", "MOST_BOOST_DB = 6.0", "MOST_BOOST_DB = 0.0"),),
        f"{_MEDIA}/test_loudness.py::test_every_output_meets_its_own_target_within_one_unit",
        "loud",
    ),
    Bug(
        "a_file_name_may_climb_out",
        (Edit("_name_problems", 'any(letter in "/\\\\" for letter in name)', "False"),),
        "tests/transcode/test_outputs.py::test_a_file_name_is_plain[a/b.mp3]",
        "invalid_filename",
    ),
    Bug(
        "a_cancel_is_heard_too_late",
        (Edit("encode", "            await asyncio.sleep(0)", "            pass"),),
        f"{_PROCESS}::test_a_cancel_at_the_last_word_of_an_encode_leaves_nothing",
        "assert listed(workdir) == []",
    ),
    Bug(
        "errors_of_the_disk_name_their_path",
        (Edit("encode", "raise error_for_system(error) from None", "raise"),),
        f"{_PROCESS}::test_a_folder_that_cannot_be_written_is_the_systems_fault",
        "FileNotFoundError",
    ),
)
