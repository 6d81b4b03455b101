"""Bugs in what is known of a source, when its sound and picture come, and what its outputs keep."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_MEDIA = "tests/transcode/media"
_PROBING = f"{_MEDIA}/test_probing.py"
_TIMING = f"{_MEDIA}/test_timing.py"
_FIDELITY = f"{_MEDIA}/test_fidelity.py"
_MEANINGS = f"{_MEDIA}/test_tag_meanings.py"
_LONG_TAGS = "tests/transcode/service/test_long_tags.py"
_BETWEEN = f"{_MEANINGS}::test_tags_keep_their_meaning_between_any_two_containers"
_CUT = f"{_TIMING}::test_a_source_that_breaks_off_is_called_truncated"

PROBING_BUGS = (
    Bug(
        "a_long_tag_is_cut",
        (
            Edit(
                "clean_tags",
                "cleaned.setdefault(name.lower(), value)",
                "cleaned.setdefault(name.lower(), value[:255])",
            ),
        ),
        f"{_PROBING}::test_900_chapters_and_lines_of_lyrics_are_all_there",
        "AssertionError",
    ),
    Bug(
        "a_description_is_read_on_the_loop",
        (
            Edit(
                "probe.py:describe",
                "return await asyncio.to_thread(_read, done, source, size)",
                "time.sleep(4)\n    return _read(done, source, size)",
            ),
        ),
        f"{_LONG_TAGS}::test_the_api_answers_while_a_long_tag_is_read_and_written[600000]",
        "the API did not answer",
    ),
    Bug(
        "a_process_with_credentials_can_be_dumped",
        (Edit("Transcoding.register", "        forbid_dumps()\n", ""),),
        f"{_LONG_TAGS}::test_a_process_that_holds_credentials_cannot_be_dumped",
        "AssertionError",
    ),
    Bug(
        "a_prober_has_no_limits",
        (Edit("ffmpeg/sandbox.py:main", "    set_limits(memory_bytes, file_bytes, cpu_seconds)\n", ""),),
        f"{_PROBING}::test_a_prober_has_the_limits_of_the_sandbox_before_it_starts",
        "AssertionError",
    ),
    Bug(
        "any_decoder_may_read_a_source",
        (Edit("input_options", '        *("-codec_whitelist", ALLOWED_DECODERS),\n', ""),),
        f"{_PROBING}::test_ffmpeg_itself_refuses_a_decoder_that_is_on_no_list",
        "DID NOT RAISE",
    ),
    Bug(
        "a_codec_on_no_list_is_an_invalid_argument",
        (Edit("prepared.py:prepare", "stream.codec not in DECODERS", "stream.codec in ()"),),
        f"{_PROBING}::test_a_codec_that_is_on_no_list_is_refused_before_any_work",
        "AssertionError",
    ),
    Bug(
        "the_first_stream_is_taken",
        (Edit("MediaInfo._played", "key=lambda stream: not stream.default,", "key=lambda stream: 0,"),),
        f"{_PROBING}::test_the_default_stream_is_taken_and_not_the_first",
        "AssertionError",
    ),
    Bug(
        "a_static_ffmpeg_loads_converters",
        (Edit("ENVIRONMENT", '    "GCONV_PATH": "/nonexistent",\n', ""),),
        f"{_PROBING}::test_an_mpeg_transport_stream_is_encoded",
        "MediaError",
    ),
    Bug(
        "an_old_ffmpeg_on_the_path_is_the_end",
        (
            Edit(
                "_newest_enough",
                "            refusals.append((candidate, error))\n            continue\n",
                "            raise\n",
            ),
        ),
        f"{_MEDIA}/test_tools.py::test_an_ffmpeg_that_is_too_old_is_passed_over_for_the_next",
        "is too old",
    ),
    Bug(
        "late_sound_is_heard_at_once",
        (Edit("cutting_filters", 'filters.append(f"adelay={span.sound_late_ms}:all=1")', "pass"),),
        f"{_TIMING}::test_a_trim_leaves_late_sound_in_its_place[mp4]",
        ("AssertionError", "the source ends before the length"),
    ),
    Bug(
        "late_sound_is_cut_off_sound",
        (
            Edit(
                "span.py:_ends",
                "stream.late_ms + stream.duration_ms for stream",
                "2 * stream.late_ms + stream.duration_ms for stream",
            ),
        ),
        f"{_TIMING}::test_sound_that_begins_late_stays_in_its_place[mp4]",
        "MediaError",
    ),
    Bug(
        "pixels_are_taken_for_square",
        (
            Edit(
                "MediaStream.shown_size",
                "round((self.width or 0) * self.pixel_shape), self.height or 0",
                "self.width or 0, self.height or 0",
            ),
        ),
        f"{_TIMING}::test_an_anamorphic_picture_is_shown_in_square_pixels",
        "AssertionError",
    ),
    Bug(
        "a_cut_flac_is_a_damaged_one",
        (Edit("_Encoding._one_pass", "if error.code == INVALID_DATA and await", "if error.code == '' and await"),),
        f"{_CUT}[cut.flac-0.65]",
        "AssertionError",
    ),
    Bug(
        "a_cut_mp4_is_no_media",
        (Edit("MP4_BOXES", 'frozenset({b"mdat", b"moov", b"moof"})', "frozenset({b'free'})"),),
        f"{_CUT}[plain.mp4-0.65]",
        "AssertionError",
    ),
    Bug(
        "a_cut_wav_is_a_short_one",
        (Edit("is_cut", 'each.kind == b"data" and size', 'each.kind == b"DATA" and size'),),
        f"{_CUT}[cut.wav-0.93]",
        "AssertionError",
    ),
    Bug(
        "comments_stay_where_no_player_looks",
        (Edit("_ID3_FRAMES", '"comment": b"COMM", ', ""),),
        f"{_BETWEEN}[flac]",
        "AssertionError",
    ),
    Bug(
        "an_mp4_has_no_freeform_tags",
        (Edit("_fill_atoms", "        os.pwrite(fd, atoms, at + found)\n", "        pass\n"),),
        f"{_BETWEEN}[flac]",
        "AssertionError",
    ),
    Bug(
        "several_artists_become_one",
        (Edit("_name_comments", "packet[at : at + len(name)] = real[name]", "pass"),),
        f"{_BETWEEN}[flac]",
        "AssertionError",
    ),
    Bug(
        "a_changed_page_keeps_its_checksum",
        (
            Edit(
                "_name_ogg_comments",
                'head[:22] + _ogg_checksum(unsummed + named).to_bytes(4, "little") + head[26:]',
                "head",
            ),
        ),
        f"{_MEANINGS}::test_pages_of_ogg_keep_their_checksums",
        ("AssertionError", "MediaError", "KeyError"),
    ),
    Bug(
        "a_gain_is_applied_twice",
        (Edit("_Encoding._encode", "each.tags = without_gains(each.tags)", "pass"),),
        f"{_MEANINGS}::test_gains_of_the_source_go_where_the_level_was_changed",
        "AssertionError",
    ),
    Bug(
        "alac_mixes_channels_without_a_word",
        (Edit("keeps_channels", 'if preset.codec.name != "alac" or', 'if preset.codec.name != "x" or'),),
        f"{_FIDELITY}::test_alac_refuses_channels_that_it_would_mix[7.1-8]",
        "DID NOT RAISE",
    ),
    Bug(
        "bits_are_cut_off_without_dither",
        (Edit("needs_dither", "bool(filters) or source.bits > bits", "bool(filters)"),),
        f"{_FIDELITY}::test_32_bits_become_24_with_dither",
        "AssertionError",
    ),
    Bug(
        "dsd_becomes_16_bits",
        (Edit("chosen_bits", "> 16 or is_dsd(source) else 16)", "> 16 else 16)"),),
        f"{_FIDELITY}::test_dsd_becomes_24_bits_at_a_rate_that_holds_its_sound",
        "AssertionError",
    ),
    Bug(
        "a_lower_rate_is_not_told",
        (Edit("prepared.py:_changes", 'return ["sample_rate_lowered"] if lowered else []', "return []"),),
        f"{_FIDELITY}::test_high_rates_are_kept",
        "AssertionError",
    ),
    Bug(
        "refused_settings_are_told_of_no_output",
        (Edit("_Encoding._one_pass", "await self._find_refused_settings()", "pass"),),
        f"{_FIDELITY}::test_settings_that_an_encoder_refuses_are_told_of_their_output[opus_160-settings0]",
        "AssertionError",
    ),
    Bug(
        "opus_does_not_take_side_channels",
        (Edit("sound_options", "    elif bits is None and channels > 2:", "    elif channels > 99:"),),
        f"{_FIDELITY}::test_six_channels_go_into_every_lossy_codec[5.1(side)-opus_160]",
        "MediaError",
    ),
)
