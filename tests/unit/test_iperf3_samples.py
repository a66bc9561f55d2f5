"""Every iperf3 sample reads to its known values: real captures of versions 3.0 to 3.22, whole and broken."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from pytest_netperf.traffic.import_report import describe, import_files, render
from pytest_netperf.traffic.output import read_output
from pytest_netperf.traffic.result import Workload

SAMPLES = Path(__file__).parent / "samples" / "iperf3"

# file: trusted, received bit/s per direction (or None), retransmits, frame loss ratio, iperf3 version
EXPECTED: dict[str, tuple[bool, list[float | None] | None, object, object, str | None]] = {
    "cp01_tcp_omit3_39.json": (True, [1674679677], 1664, None, "3.9"),
    "cp02_tcp_omit3_highrtt_39.json": (True, [47758100], 356, None, "3.9"),
    "cp03_prefix_escape_recv0_39.json": (False, None, 0, None, "3.9"),
    "cp04_prefix_ctrlC_truncated_8192_39.json": (False, None, None, None, "3.9"),
    "cp05_prefix_ctrlC_interrupt_partial_36.json": (False, None, 0, None, "3.6"),
    "cp06_empty_end_no_error_39.json": (False, None, None, None, "3.9"),
    "cp07_truncated_in_end_39.json": (False, None, None, None, "3.9"),
    "cp08_two_documents_39.json": (False, [118245454], 0, None, "3.9"),
    "cp09_truncated_53_bytes_39.json": (False, None, None, None, None),
    "cp10_error_control_closed_36.json": (False, None, None, None, "3.6"),
    "cp11_only_error_line_crlf.txt": (False, None, None, None, None),
    "cp12_text_interrupted_crlf.txt": (False, None, 765, None, None),
    "cp13_escape_only.txt": (False, None, None, None, None),
    "cp14_empty.json": (False, None, None, None, None),
    "cp15_text_ok_crlf.txt": (True, [187e6], 0, None, None),
    "cp16_text_ok_crlf2.txt": (True, [169e6], 278, None, None),
    "cp17_tiny_last_interval_39.json": (True, [323488000], 0, None, "3.9"),
    "cp18_sent_over_2x_received_39.json": (True, [7412926], 0, None, "3.9"),
    "cp19_bytes_mode_36.json": (True, [142238119], 0, None, "3.6"),
    "cp20_received_128pct_of_sent_39.json": (True, [2693658], 0, None, "3.9"),
    "f01_3191_tcp_forward_client.json": (True, [8379198], 0, None, "3.19.1"),
    "f02_3191_tcp_forward_server.json": (True, [8379198], None, None, "3.19.1"),
    "f04_3191_udp_client.json": (True, [8015949], None, 0.0, "3.19.1"),
    "f06_321_tcp_omit_client.json": (True, [8386604], 0, None, "3.21"),
    "f07_321_tcp_reverse_server.json": (False, None, 0, None, "3.21"),
    "f09_321_udp_bidir_client.json": (True, [8001687, 8001687], [None, None], [0.0, 0.0], "3.21"),
    "f10_321_sctp_forward_client.json": (True, [8384265], None, None, "3.21"),
    "f12_322_tcp_bidir_server.json": (True, [8383427, None], [None, 0], [None, None], "3.22"),
    "f14_322_sctp_reverse_client.json": (True, [8379767], None, None, "3.22"),
    "i01_error_no_route_3011.json": (False, None, None, None, "3.0.11"),
    "i02_stream_error_busy.jsonl": (False, None, None, None, None),
    "i04_nan_interval_fragment.json": (False, None, None, None, None),
    "i06_trailing_error_line_fragment_39.txt": (False, None, None, None, None),
    "i07_server_reverse_recv0_fragment_316.txt": (False, None, 1, None, None),
    "i09_bidir_warning_prefix_312.json": (True, [909898726, 926151053], [11, 4], [None, None], None),
    "i11_darwin_reverse_fragment_3191.json": (False, None, None, None, "3.19.1"),
    "i12_udp_stream_fragment.json": (False, None, None, 0.0124497, None),
    "i14_interval_above_line_rate_fragment_37.json": (False, None, None, None, None),
    "i15_exponent_without_plus.json": (False, None, None, None, None),
    "i16_sender_false_zero_cwnd_fragment.json": (False, None, None, None, None),
    "i18_error_results_json_tail.txt": (False, None, None, None, None),
    "l01_322_stream_bidir_omit_stopped_client.jsonl": (False, [None, 50212708], [0, None], [None, None], "3.22"),
    "l02_322_stream_bidir_omit_stopped_server.jsonl": (False, None, [None, 0], [None, None], "3.22"),
    "m01_darwin_tcp_317.json": (True, [5925819], None, None, "3.17.1"),
    "m03_darwin_error_closed_317.json": (False, None, None, None, "3.17.1"),
    "o01_37_bidir_duplicate_keys.json": (True, [12664973214, 3850378017], [27, 14], [None, None], "3.7"),
    "o02_39_udp_only_sum.json": (False, None, None, 0.0, "3.9"),
    "o03_39_server_killed_no_error_key.json": (False, None, None, None, "3.9"),
    "o03_39_server_killed_no_error_key.stderr.txt": (False, None, None, None, None),
    "o05_312_verbose_prefix.json": (True, [17778742763], 5, None, "3.12"),
    "o05_312_verbose_prefix.stderr.txt": (False, None, None, None, None),
    "o06_321_sigint_rc0.json": (False, None, 35, None, "3.21"),
    "o07_3171_stream_ok.jsonl": (True, [16130020284], 26, None, "3.17.1"),
    "o09_321_stream_full_output.jsonl": (True, [16466453305], 8, None, "3.21"),
    "o10_312srv_321cli_udp_loss_reported_zero.json": (False, [1850627944], None, 0.07244, "3.21"),
    "o11_312_omit_interval07.json": (True, [16840493652], 29, None, "3.12"),
    "o12_321_bytes_mode_1MiB.json": (False, None, 0, None, "3.21"),
    "o15_316_p4.json": (True, [34972719457], 0, None, "3.16"),
    "p01_tcp_313.json": (True, [388736097], 159, None, "3.1.3"),
    "p02_udp_313.json": (False, None, None, 0.0, "3.1.3"),
    "p03_tcp_316_20s.json": (True, [88565099], 686, None, "3.1.6"),
    "p04_tcp_316b.json": (True, [25489248], 281, None, "3.1.6"),
    "r01_tcp_3011.json": (True, [934268000], 0, None, "3.0.11"),
    "r02_kgersen_sample.json": (True, [100549000], None, None, "3.0.7"),
    "r03_darwin_server_p2_corrupt_key_37.json": (True, [41963324], None, None, "3.7"),
    "r04_text_60s_no_header.txt": (True, [11.3e9], 322, None, None),
    "r05_text_p10_60s.txt": (True, [1.71e9], 1295, None, None),
    "r06_windows_udp_56pct.txt": (False, None, None, 0.55836, None),
    "r07_windows_tcp_p5_MBytes_flag.txt": (True, [4.67e9], None, None, None),
    "r08_goiperf_sample.json": (True, [13283900000], None, None, "3.1.3"),
    "t01_udp_reverse_omit_negative_312.txt": (False, [955e6], None, None, None),
    "t03_40g_single_core.txt": (True, [4.17e9], 0, None, None),
    "t04_both_addresses_local_38g.txt": (False, None, 0, None, None),
    "t05_fast_ethernet_late_receiver.txt": (True, [87.6e6], 0, None, None),
    "t06_server_udp_client_interrupted.txt": (False, None, None, 14 / 6999, None),
    "t07_mtu9000_zero_ctrlC.txt": (False, None, None, None, None),
    "t09_server_2g5_usb_tiny_tail.txt": (True, [1.97e9], None, None, None),
    "t11_10g_m2_pcie_bound.txt": (True, [6.03e9], 0, None, None),
    "t13_windows_313_25g.txt": (False, [7.86e9], None, None, None),
    "t14_freebsd143_bidir_asymmetric.txt": (False, [None, 247e6], [None, None], [None, None], None),
    "t15_opnsense_pi4_retr.txt": (True, [613e6], 196, None, None),
    "t18_timestamp_date_prefix_fragment_nrf.txt": (False, None, None, None, "3.9"),
    "t19_title_prefix_udp_fragment_315.txt": (False, None, None, None, "3.1.5"),
    "t21_reverse_zero_after_small_test_311.txt": (False, None, None, None, None),
    "t22_server_10g_empty_tail_311.txt": (True, [9.06e9], None, None, None),
    "t23_bidir_p2_sum_rows.txt": (True, [43.4e9, 58.4e9], [0, 0], [None, None], None),
    "t25_json_length_overflow_error.txt": (False, None, None, None, None),
    "t26_sum_receiver_zero_long.txt": (False, None, 17425, None, None),
    "t28_title_prefix_three_processes_fragment.txt": (False, None, None, None, None),
    "t29_10g_reverse_46900_retr_313.txt": (True, [9.02e9], 46900, None, None),
    "t30_interleaved_client_server_i225.txt": (False, [2.47e9], 0, None, None),
    "t32_udp_reverse_wrong_summary_fragment_31.txt": (False, [207e6], None, 0.795, None),
    "t34_server_side_mac_gigabit_fragment.txt": (False, [941e6], None, None, None),
    "t35_macos_311_text_no_retr.txt": (True, [300e6], None, None, None),
}


def test_every_sample_is_expected():
    assert {path.name for path in SAMPLES.iterdir()} == EXPECTED.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_a_sample_reads_to_its_known_values(name):
    trusted, rates, retransmits, loss, version = EXPECTED[name]
    entry = describe(name, read_output((SAMPLES / name).read_bytes()))
    # The reading of one excerpt without summary is a typical interval; everything else is to the last digit printed.
    tolerance = 0.02 if name.startswith("t32") else 1e-6
    assert entry["trusted"] is trusted, entry["reason"]
    assert (entry["throughput_bps"] is None) == (rates is None)
    if rates is not None:
        assert [rate and pytest.approx(rate, rel=tolerance) for rate in rates] == entry["throughput_bps"]
    assert entry["retransmits"] == retransmits
    assert entry["frame_loss_ratio"] == (pytest.approx(loss, rel=1e-3, abs=1e-9) if isinstance(loss, float) else loss)
    assert entry["iperf3_version"] == version
    assert entry["file"] == name
    assert entry["reason"].endswith(".")


def flow_of(name, index=0):
    return read_output((SAMPLES / name).read_bytes()).flows[index]


@pytest.mark.parametrize(
    ("name", "sent_bps"),
    [
        ("cp05_prefix_ctrlC_interrupt_partial_36.json", 160287232),
        ("cp12_text_interrupted_crlf.txt", 616e6),
        ("f07_321_tcp_reverse_server.json", 8379282),
        ("i07_server_reverse_recv0_fragment_316.txt", 938457466.79),
        ("i12_udp_stream_fragment.json", 1268954716.78),
        ("i16_sender_false_zero_cwnd_fragment.json", 11458677250),
        ("m01_darwin_tcp_317.json", 9402339),
        ("o02_39_udp_only_sum.json", 50066951),
        ("p02_udp_313.json", 1048482),
        ("r06_windows_udp_56pct.txt", 1.38e9),
        ("t04_both_addresses_local_38g.txt", 38.1e9),
        ("t26_sum_receiver_zero_long.txt", 491e6),
    ],
)
def test_a_sent_rate_is_kept_as_evidence(name, sent_bps):
    assert flow_of(name).sent_bps == pytest.approx(sent_bps, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "index", "rates"),
    [
        ("i04_nan_interval_fragment.json", 0, [66005.9]),
        ("i11_darwin_reverse_fragment_3191.json", 0, [170063657.8]),
        ("i14_interval_above_line_rate_fragment_37.json", 0, [603618573.7]),
        ("i15_exponent_without_plus.json", 0, [5924000]),
        ("t06_server_udp_client_interrupted.txt", 0, [68.0e6, 79.8e6, 78.6e6, 79.8e6, 80.0e6]),
        ("t14_freebsd143_bidir_asymmetric.txt", 0, [914e6, 933e6, 932e6, 932e6, 932e6, 932e6, 933e6]),
        ("t18_timestamp_date_prefix_fragment_nrf.txt", 0, [314e3, 310e3, 314e3, 315e3, 303e3]),
        ("t19_title_prefix_udp_fragment_315.txt", 0, [135e6] + [150e6] * 6),
    ],
)
def test_a_fragment_keeps_its_intervals(name, index, rates):
    intervals = flow_of(name, index).intervals
    assert [i.bytes * 8 / i.seconds for i in intervals] == [pytest.approx(rate, rel=1e-4) for rate in rates]


def test_a_tail_that_says_nothing_is_dropped():
    assert len(flow_of("cp17_tiny_last_interval_39.json").intervals) == 5
    assert len(flow_of("t09_server_2g5_usb_tiny_tail.txt").intervals) == 10
    assert len(flow_of("t22_server_10g_empty_tail_311.txt").intervals) == 10
    # 12 % of an interval stays.
    assert len(flow_of("r03_darwin_server_p2_corrupt_key_37.json").intervals) == 31


def test_the_interval_across_the_omit_edge_counts_from_the_edge():
    flow = flow_of("o11_312_omit_interval07.json")
    assert [i.omitted for i in flow.intervals] == [True, False, False, False]
    assert [round(i.start_s, 2) for i in flow.intervals] == [-1.0, 0.0, 0.7, 1.4]
    assert [round(i.seconds, 2) for i in flow.intervals] == [0.7, 0.7, 0.7, 0.6]
    # Nothing of the counted seconds is missing, and nothing of the omitted ones is among them.
    assert sum(i.bytes for i in flow.intervals if not i.omitted) == flow.sent_bytes
    assert sum(i.retransmits for i in flow.intervals if not i.omitted) == flow.retransmits


def test_the_last_interval_of_an_end_whose_peer_went_away_is_there_once():
    reading = read_output((SAMPLES / "o03_39_server_killed_no_error_key.json").read_bytes())
    (flow,) = reading.flows
    assert [round(i.start_s) for i in flow.intervals] == [0, 1]
    assert any("stood there twice" in note for note in reading.notes)


def test_the_sums_of_an_end_whose_peer_went_away_have_bytes_but_no_rate():
    # Its seconds end with the last whole interval, its bytes do not: 57.66 Mbit/s of the 50 that were offered.
    forward, reverse = read_output((SAMPLES / "l02_322_stream_bidir_omit_stopped_server.jsonl").read_bytes()).flows
    assert (forward.received_bytes, forward.received_seconds, forward.received_bps) == (14417920, None, None)
    assert (reverse.sent_bytes, reverse.sent_seconds, reverse.sent_bps) == (14417920, None, None)
    for flow in (forward, reverse):
        counted = [i for i in flow.intervals if not i.omitted]
        assert len(counted) == 4
        assert sum(i.bytes for i in counted) * 8 / sum(i.seconds for i in counted) == pytest.approx(50.3e6, rel=1e-3)


def test_an_edge_that_fits_the_interval_counts():
    intervals = flow_of("f06_321_tcp_omit_client.json").intervals
    assert [i.omitted for i in intervals] == [True, False]


def test_streams_are_summed_in_intervals():
    intervals = flow_of("o15_316_p4.json").intervals
    assert [i.bytes for i in intervals] == [4398514176]
    assert len(flow_of("r05_text_p10_60s.txt").intervals) == 60


def test_bidirectional_twins_are_kept_apart_in_intervals():
    forward, reverse = read_output((SAMPLES / "o01_37_bidir_duplicate_keys.json").read_bytes()).flows
    assert [i.bytes for i in forward.intervals] == [1739325440, 1490288640]
    assert [i.bytes for i in reverse.intervals] == [258342912, 723517440]
    assert (forward.intervals_from, reverse.intervals_from) == ("sender", "receiver")


def test_what_a_server_cannot_know_is_none():
    forward, reverse = read_output((SAMPLES / "f12_322_tcp_bidir_server.json").read_bytes()).flows
    assert forward.sent_bytes is None
    assert forward.retransmits is None
    assert reverse.received_bytes is None
    assert reverse.sent_bytes == 1048576


GOOD = (SAMPLES / "f01_3191_tcp_forward_client.json").read_text()
GOOD_LOAD = Workload(duration_s=1, streams=2)


def test_a_good_run_with_all_that_is_known_is_trusted():
    reading = read_output(GOOD, asked=GOOD_LOAD, exit_code=0, stderr="warning: something harmless\n")
    assert reading.trusted, reading.reason
    assert any("something harmless" in note for note in reading.notes)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"exit_code": 1}, "exit code 1"),
        ({"exit_code": -9}, "exit code -9"),
        ({"stderr": "iperf3: error - control socket has closed unexpectedly\n"}, "control socket has closed"),
        ({"stderr": "warning: x\nSegmentation fault\n"}, "Segmentation fault"),
        ({"asked": Workload(duration_s=10, streams=2)}, "of the 10 s asked for"),
        ({"asked": Workload(duration_s=1, streams=4)}, "2 streams, but 4"),
        ({"asked": Workload(duration_s=1, streams=2, direction="reverse")}, "forward run, but reverse"),
        ({"asked": Workload(duration_s=1, streams=2, direction="bidirectional")}, "but bidirectional"),
        ({"asked": Workload(duration_s=1, streams=2, protocol="udp")}, "tcp run, but udp"),
    ],
)
def test_what_is_known_beside_the_output_takes_part(given, words):
    reading = read_output(GOOD, **given)
    assert not reading.trusted
    assert words in reading.reason
    # The number stays for a person to see.
    assert reading.flows[0].received_bps == pytest.approx(8379198, rel=1e-6)


def test_what_iperf3_says_of_its_failure_comes_before_its_exit_code():
    reading = read_output((SAMPLES / "i02_stream_error_busy.jsonl").read_bytes(), exit_code=1)
    assert "the server is busy" in reading.reason
    assert any("exit code 1" in note for note in reading.notes)


def changed(change, text=GOOD):
    document = json.loads(text)
    change(document)
    return json.dumps(document)


def set_received(**values):
    return lambda document: document["end"]["sum_received"].update(values)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (set_received(bytes=0, bits_per_second=0), "no bytes"),
        (set_received(bytes=True), "not valid numbers"),
        (set_received(bytes=-5), "not valid numbers"),
        (set_received(bytes="1048576"), "not valid numbers"),
        (set_received(bytes=math.nan), "not valid numbers"),
        (set_received(bytes=2**70), "not valid numbers"),
        (set_received(seconds=0), "not valid numbers"),
        (set_received(seconds=math.inf), "not valid numbers"),
        (set_received(bits_per_second=math.nan), "not valid numbers"),
        (set_received(bits_per_second=16758396), "contradicts"),
        (set_received(bytes=2097152, bits_per_second=16758396.3), "More bytes were received than sent"),
        (lambda d: d["end"].pop("sum_received"), "no received rate"),
        (lambda d: d["end"].clear(), "end is empty"),
        (lambda d: d.update(error="interrupt - the client has terminated"), "let the run end by itself"),
        (lambda d: d["start"]["test_start"].update(duration=10), "of the 10 s asked for"),
        (lambda d: d["start"]["test_start"].update(duration=0), "0 is endless"),
        (lambda d: d["start"]["test_start"].update(duration=0, bytes=1048576), "-n or -k"),
        (lambda d: d["start"]["test_start"].update(reverse=1), "contradicts itself about the direction"),
        (lambda d: d["start"]["test_start"].update(reverse="no"), "in which direction"),
    ],
)
def test_one_wrong_thing_in_a_document_spoils_the_trust(change, words):
    reading = read_output(changed(change))
    assert not reading.trusted
    assert words in reading.reason


def test_a_rate_that_is_slightly_off_is_recomputed_with_a_note():
    reading = read_output(changed(set_received(bits_per_second=8379198 * 1.005)))
    assert reading.trusted
    assert reading.flows[0].received_bps == pytest.approx(8379198.16)
    assert any("recomputed" in note for note in reading.notes)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD + GOOD.replace("8379198", "9379198"), "2 documents"),
        (GOOD + '{"start": {', "cut off or damaged"),
        (GOOD + "\n}", "cut off or damaged"),
        (GOOD[:-40], "cut off or damaged"),
        (GOOD + "\niperf3: error - unable to send control message: Broken pipe\n", "Broken pipe"),
        ("^C" + GOOD, "Ctrl-C"),
        ((SAMPLES / "t03_40g_single_core.txt").read_text() + GOOD, "mixes JSON and the text report"),
        (GOOD.replace('"sum_received":', '"sum_received": {"bytes": 5}, "sum_received":'), "stand twice"),
        (GOOD.replace('"num_streams":', '"num_streams": 3, "num_streams":'), "stands twice"),
    ],
)
def test_more_or_less_than_one_document_spoils_the_trust(text, words):
    reading = read_output(text)
    assert not reading.trusted
    assert any(words in sentence for sentence in (reading.reason, *reading.notes))


def test_a_small_loss_in_flight_at_the_end_is_no_contradiction():
    name = "f04_3191_udp_client.json"
    text = (SAMPLES / name).read_text()
    reading = read_output(changed(set_received(bytes=1003200 - 1200 * 5, bits_per_second=7968008.0), text))
    assert reading.trusted, reading.reason
    assert reading.flows[0].frame_loss_ratio == 0


@pytest.mark.parametrize("lost", [-3, 900, "12", None])
def test_an_impossible_loss_is_refused(lost):
    text = (SAMPLES / "f04_3191_udp_client.json").read_text()
    reading = read_output(changed(set_received(lost_packets=lost), text))
    assert "lost UDP packets is impossible" in reading.reason


def test_a_servers_loss_is_checked_by_the_size_of_its_datagrams():
    def to_server(document):
        document["start"]["accepted_connection"] = document["start"].pop("connecting_to")
        for part in document["intervals"]:
            part["sum"]["sender"] = False
        document["end"]["sum_sent"]["bytes"] = 0
        document["end"]["sum_received"].update(bytes=903200, bits_per_second=903200 * 8 / 1.001204)

    reading = read_output(changed(to_server, (SAMPLES / "f04_3191_udp_client.json").read_text()))
    assert "contradicts the bytes, which say 9.97%" in reading.reason


def test_of_two_documents_that_disagree_no_number_is_offered():
    twice = GOOD + changed(set_received(bytes=1048000, bits_per_second=8374600))
    assert describe("x", read_output(twice))["throughput_bps"] is None


@pytest.mark.parametrize(
    "wrap",
    [
        lambda text: text.encode("utf-16"),
        lambda text: text.encode("utf-8-sig"),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: b"\xff\xfa\x80 debris\n" + text.encode(),
        lambda text: "user@bench:~$ " + text + "user@bench:~$ ",
    ],
)
def test_encodings_line_ends_and_prompts_do_not_matter(wrap):
    reading = read_output(wrap(GOOD))
    assert reading.trusted, reading.reason
    assert reading.flows[0].received_bps == pytest.approx(8379198, rel=1e-6)


@pytest.mark.parametrize(
    "keep",
    [slice(0, 2), slice(0, 3), slice(1, 4)],
    ids=["no end", "no end yet", "no start"],
)
def test_a_stream_of_events_needs_its_start_and_its_end(keep):
    lines = (SAMPLES / "o07_3171_stream_ok.jsonl").read_text().splitlines()[keep]
    reading = read_output("\n".join(lines))
    assert not reading.trusted
    assert reading.kind == "json-stream"
    assert "The stream of events has no" in reading.reason


def test_a_stream_of_two_runs_offers_no_number():
    lines = (SAMPLES / "o07_3171_stream_ok.jsonl").read_text()
    reading = read_output(lines + lines)
    assert "more than one run" in reading.reason
    assert describe("x", reading)["throughput_bps"] is None


def test_nesting_beyond_reason_is_refused():
    for text in ('{"a":' * 100_000, "[" * 100_000 + '{"a":1}', '{"a":' + "9" * 10_000 + "}"):
        assert not read_output(text).trusted


# Text reports made of the rows that iperf3 3.12 prints.

CLIENT = """\
Connecting to host 198.18.0.2, port 5201
[  5] local 198.18.0.1 port 38894 connected to 198.18.0.2 port 5201
[ ID] Interval           Transfer     Bitrate         Retr  Cwnd
[  5]   0.00-1.00   sec  95.4 MBytes   800 Mbits/sec    3    895 KBytes
[  5]   1.00-2.00   sec  95.4 MBytes   800 Mbits/sec    4    895 KBytes
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-2.00   sec   191 MBytes   800 Mbits/sec    7             sender
[  5]   0.00-2.00   sec   191 MBytes   799 Mbits/sec                  receiver

iperf Done.
"""
SERVER = """\
-----------------------------------------------------------
Server listening on 5201 (test #1)
-----------------------------------------------------------
Accepted connection from 198.18.0.1, port 38890
[  5] local 198.18.0.2 port 5201 connected to 198.18.0.1 port 38894
[ ID] Interval           Transfer     Bitrate
[  5]   0.00-1.00   sec  95.4 MBytes   800 Mbits/sec
[  5]   1.00-2.00   sec  95.4 MBytes   800 Mbits/sec
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate
[  5]   0.00-2.00   sec   191 MBytes   799 Mbits/sec                  receiver
"""
UDP_BIDIR_SERVER = """\
Accepted connection from 198.18.0.1, port 34010
[  5] local 198.18.0.2 port 21176 connected to 198.18.0.1 port 57394
[  6] local 198.18.0.2 port 21176 connected to 198.18.0.1 port 57395
[ ID][Role] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
[  5][RX-S]   0.00-1.00   sec  5.97 MBytes  50.1 Mbits/sec  0.036 ms  2/191 (1%)
[  6][TX-S]   0.00-1.00   sec  5.97 MBytes  50.1 Mbits/sec            191
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID][Role] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
[  5][RX-S]   0.00-1.00   sec  5.97 MBytes  50.1 Mbits/sec  0.003 ms  2/191 (1%)  receiver
[  6][TX-S]   0.00-1.00   sec  5.97 MBytes  50.1 Mbits/sec  0.000 ms  0/191 (0%)  sender
"""


def told(text):
    return describe("x", read_output(text))


@pytest.mark.parametrize(
    ("text", "rates", "retransmits"),
    [
        (CLIENT, [799e6], 7),
        (SERVER, [799e6], None),
        (CLIENT.replace("\n", "\r\n"), [799e6], 7),
        (CLIENT.replace("Bitrate", "Bandwidth"), [799e6], 7),
        ("\n".join(f"Mon Nov 30 20:53:57 2026 lab:  {line}" for line in CLIENT.splitlines()), [799e6], 7),
        ("\n".join(" ".join(line.split()) for line in CLIENT.splitlines()), [799e6], 7),
        (CLIENT.replace("799 Mbits/sec", "95.3 MBytes/sec"), [95.3 * 2**20 * 8], 7),
        (CLIENT.replace("799 Mbits/sec", "97600 KBytes/sec"), [97600 * 2**10 * 8], 7),
        (CLIENT.replace("799 Mbits/sec", "0.80 Gbits/sec"), [0.8e9], 7),
        (CLIENT.replace("iperf Done.", "Server output:\n" + SERVER + "\niperf Done."), [799e6], 7),
        (UDP_BIDIR_SERVER, [50.1e6, None], [None, None]),
    ],
)
def test_text_of_every_form_is_read(text, rates, retransmits):
    entry = told(text)
    assert entry["trusted"], entry["reason"]
    assert entry["throughput_bps"] == [rate and pytest.approx(rate) for rate in rates]
    assert entry["retransmits"] == retransmits


def test_text_that_reports_no_loss_while_bytes_are_missing_is_not_trusted():
    text = (
        "Connecting to host 198.18.0.2, port 5201\n"
        "[  5] local 198.18.0.1 port 38894 connected to 198.18.0.2 port 5201\n"
        "[  5]   0.00-10.00  sec  2.33 GBytes  2.00 Gbits/sec  0.000 ms  0/2080000 (0%)  sender\n"
        "[  5]   0.00-10.00  sec  1.86 GBytes  1.60 Gbits/sec  0.006 ms  0/2080000 (0%)  receiver\n"
    )
    entry = told(text)
    assert not entry["trusted"]
    assert "contradicts the bytes" in entry["reason"]
    assert entry["throughput_bps"] == [1.6e9]
    assert entry["frame_loss_ratio"] == pytest.approx(0.2017, rel=1e-2)


def test_a_verbose_text_says_what_was_asked_for():
    start = "Starting Test: protocol: TCP, 1 streams, 131072 byte blocks, omitting 1 seconds, {}, tos 0\n[ ID] Interval"
    whole = read_output(CLIENT.replace("[ ID] Interval", start.format("2 second test"), 1))
    assert whole.trusted
    assert (whole.duration_s, whole.omit_s, whole.streams, whole.protocol) == (2, 1, 1, "tcp")
    early = read_output(CLIENT.replace("[ ID] Interval", start.format("10 second test"), 1))
    assert "of the 10 s asked for" in early.reason
    by_bytes = read_output(CLIENT.replace("[ ID] Interval", start.format("209715200 bytes to send"), 1))
    assert "-n or -k" in by_bytes.reason


def test_text_loss_is_the_receivers():
    assert told(UDP_BIDIR_SERVER)["frame_loss_ratio"] == [pytest.approx(2 / 191), None]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (CLIENT + CLIENT.replace("799", "555"), "several iperf3 processes or runs"),
        (CLIENT.replace("iperf Done.", "Server output:\n" + SERVER + "\niperf Done.") * 2, "several iperf3 processes"),
        # The lines that say that a run begins were not copied.
        ("".join(CLIENT.splitlines(True)[2:]) * 2, "several iperf3 processes"),
        ("".join(CLIENT.splitlines(True)[2:]) + UDP_BIDIR_SERVER, "several iperf3 processes"),
        (CLIENT.replace("799 Mbits", "999 Mbits"), "contradict"),
        (CLIENT.replace("                  receiver", ""), "receiver is missing"),
        (CLIENT[: CLIENT.index("[  5]   0.00-2.00   sec   191 MBytes   799")], "no received rate"),
        (CLIENT.replace("iperf Done.", "iperf3: error - unable to receive results"), "unable to receive results"),
        (CLIENT.replace("[  5]   1.00", "^C[  5]   1.00"), "Ctrl-C"),
        (
            CLIENT.replace(
                "[ ID] Interval", "[  7] local 198.18.0.1 port 2 connected to 198.18.0.2 port 5201\n[ ID] Interval", 1
            ),
            "sum of all streams is missing",
        ),
        (CLIENT.replace("0.00-2.00 ", "0.00-0.20 ").replace("191 MB", "19.1 MB"), "too short"),
        (CLIENT.replace("191 MBytes   799 Mbits/sec", "0.00 Bytes  0.00 bits/sec"), "no bytes"),
    ],
)
def test_one_wrong_thing_in_a_text_spoils_the_trust(text, words):
    reading = read_output(text)
    assert not reading.trusted
    assert words in reading.reason


def test_client_and_server_on_one_terminal_are_not_trusted_but_read():
    lines = [line for pair in zip(CLIENT.splitlines(), SERVER.splitlines()[2:], strict=False) for line in pair]
    entry = told("\n".join(lines) + "\n")
    assert not entry["trusted"]
    assert entry["throughput_bps"] == [799e6]
    assert entry["retransmits"] == 7


# The report of `pytest-netperf import`


def test_import_of_good_files_exits_0():
    text, code = import_files([SAMPLES / "o01_37_bidir_duplicate_keys.json", SAMPLES / "cp15_text_ok_crlf.txt"], True)
    first, second = json.loads(text)
    assert code == 0
    assert first["throughput_bps"] == [pytest.approx(12664973214), pytest.approx(3850378017)]
    assert set(second) == {
        "file",
        "trusted",
        "reason",
        "throughput_bps",
        "retransmits",
        "frame_loss_ratio",
        "iperf3_version",
    }


def test_import_with_an_untrusted_file_exits_1():
    _, code = import_files([SAMPLES / "cp15_text_ok_crlf.txt", SAMPLES / "cp14_empty.json"], True)
    assert code == 1


def test_import_of_what_is_no_readable_file_exits_2(tmp_path):
    text, code = import_files([tmp_path / "absent.json", tmp_path, SAMPLES / "cp14_empty.json", "a\0b"], True)
    entries = json.loads(text)
    assert code == 2
    assert [entry["trusted"] for entry in entries] == [False] * 4
    assert "No such file" in entries[0]["reason"]
    assert "directory" in entries[1]["reason"]
    assert entries[0]["throughput_bps"] is None
    assert import_files([], True) == ("[]", 2)


def test_import_for_people_names_both_directions_and_the_reason():
    text, _ = import_files(
        [SAMPLES / "f12_322_tcp_bidir_server.json", SAMPLES / "o10_312srv_321cli_udp_loss_reported_zero.json"], False
    )
    assert "forward 8.383 Mbit/s, reverse unknown" in text
    assert "retransmits unknown / 0" in text
    assert "frame loss 7.2441%" in text
    assert "contradicts the bytes" in text
    assert "1 of 2 can be trusted." in text
    assert render([]) == "No file was given."


def test_only_the_receiver_says_what_came_out_of_order():
    """The sender's document has a zero there, which is no count."""
    text = (SAMPLES / "o10_312srv_321cli_udp_loss_reported_zero.json").read_text()
    assert read_output(text).flows[0].out_of_order is None
    document = json.loads(text)
    document["start"].pop("connecting_to", None)
    document["start"]["accepted_connection"] = {"host": "198.18.0.1", "port": 40000}
    for stream in document["end"]["streams"]:
        stream["udp"] |= {"sender": False, "out_of_order": 7}
    assert read_output(json.dumps(document)).flows[0].out_of_order == 7
    for stream in document["end"]["streams"]:
        del stream["udp"]["out_of_order"]
    assert read_output(json.dumps(document)).flows[0].out_of_order is None


def test_datagrams_that_arrived_twice_are_called_so():
    text = (SAMPLES / "o10_312srv_321cli_udp_loss_reported_zero.json").read_text()
    document = json.loads(text)
    document["end"]["sum_received"]["bytes"] = int(document["end"]["sum_sent"]["bytes"] * 1.1)
    document["end"]["sum_received"]["bits_per_second"] = (
        document["end"]["sum_received"]["bytes"] * 8 / document["end"]["sum_received"]["seconds"]
    )
    found = read_output(json.dumps(document))
    assert not found.trusted
    assert "some datagrams arrived twice" in found.reason
