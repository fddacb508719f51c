"""The profiler's interface: steps and transitions, windows, metadata, ids, exports."""

from __future__ import annotations

import copy
import gzip
import importlib.util
import itertools
import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import kinetoscope
from kinetoscope import ProfilerAction, ProfilerActivity, profile, schedule
from kinetoscope.record import torch_private

CPU = [ProfilerActivity.CPU]
NONE, WARMUP, RECORD, SAVE, STOPPED = ProfilerAction


def calls(prof: Any) -> int:
    """How many of :func:`work`'s calls the profiler holds."""
    return sum(event.name == "work" for event in prof.events())


def work() -> None:
    with kinetoscope.record_function("work"):
        torch.ones(2)


# steps


def expected(actions: list[ProfilerAction]) -> tuple[list[int], int | None]:
    """Windows that the handler sees (calls in each) and calls in the last window, worked out step by step.

    ``actions`` has one item more than there are steps: the action of the step that the last ``step()`` opens and in which
    nothing runs.
    """
    seen: list[int] = []
    last: int | None = None
    window = 0
    recording = False
    for step, action in enumerate(actions[:-1]):
        recording = recording or action in (RECORD, SAVE)
        window += recording
        following = actions[step + 1]
        ends = action is SAVE or (recording and following in (NONE, WARMUP))
        if ends:
            last = window
            if action is SAVE:
                seen.append(window)
            window, recording = 0, False
    if window:
        last = window
        seen.append(window)
    return seen, last


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", [NONE, WARMUP, RECORD, SAVE], ids=lambda action: action.name)
def test_every_sequence_of_actions(first: ProfilerAction) -> None:
    for rest in itertools.product((NONE, WARMUP, RECORD, SAVE), repeat=3):
        actions = [first, *rest]
        seen: list[int] = []
        prof = profile(activities=CPU, schedule=actions.__getitem__, on_trace_ready=lambda p, seen=seen: seen.append(calls(p)))
        with prof:
            for _ in range(3):
                work()
                prof.step()
        windows, last = expected(actions)
        assert seen == windows, actions
        if last is not None:
            assert calls(prof) == last, actions
        assert not torch_private.profiler_active()


def test_incorrect_schedules_warn() -> None:
    for pair in ((WARMUP, NONE), (RECORD, NONE), (RECORD, WARMUP)):
        said = f"Incorrect schedule: {pair[0].name} followed by {pair[1].name}"
        with profile(activities=CPU, schedule=pair.__getitem__) as prof, pytest.warns(UserWarning, match=said):
            prof.step()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("cycle", "last", "accumulated"), [((0, 5, 0), 5, 100), ((1, 5, 0), 3, 83), ((1, 5, 10), 5, 50)])
def test_the_last_window_that_recorded_a_step_is_kept(cycle: tuple[int, int, int], last: int, accumulated: int) -> None:
    warmup, active, repeat = cycle
    for accumulate, count in ((False, last), (True, accumulated)):
        plan = schedule(wait=0, warmup=warmup, active=active, repeat=repeat)
        with profile(activities=CPU, schedule=plan, acc_events=accumulate) as prof:
            for _ in range(100):
                work()
                prof.step()
        assert calls(prof) == count
        assert next(row.count for row in prof.key_averages() if row.key == "work") == count


@pytest.mark.filterwarnings("ignore")
def test_an_empty_window_of_the_final_step_does_not_call_the_handler() -> None:
    seen: list[int] = []
    with profile(activities=CPU, schedule=lambda step: SAVE, on_trace_ready=lambda p: seen.append(calls(p))) as prof:
        for _ in range(3):
            work()
            prof.step()
    assert seen == [1, 1, 1]
    with profile(activities=CPU, schedule=lambda step: SAVE, on_trace_ready=lambda p: seen.append(calls(p))) as prof:
        prof.step()
        work()
    assert seen[3:] == [0, 1], "what runs after the last step() is recorded and seen"


def test_steps_are_marked_in_trace_and_table() -> None:
    with profile(activities=CPU, schedule=schedule(wait=1, warmup=1, active=2, repeat=1)) as prof:
        for _ in range(4):
            work()
            prof.step()
    assert prof.trace.metadata.steps == [2, 3]
    names = set(prof.trace.events["name"].to_list())
    assert {"ProfilerStep#2", "ProfilerStep#3"} <= names
    assert "ProfilerStep*" in prof.key_averages().table()
    assert prof.step_num == 4
    assert prof.current_action is NONE


def test_without_a_schedule_no_step_is_marked() -> None:
    with profile(activities=CPU) as prof:
        work()
        prof.step()
        work()
    assert calls(prof) == 2
    assert not any(event.name.startswith("ProfilerStep") for event in prof.events())


def test_torchs_own_actions_and_schedules_are_understood() -> None:
    from torch.profiler import schedule as torch_schedule

    with profile(activities=CPU, schedule=torch_schedule(wait=1, warmup=1, active=1)) as prof:
        for _ in range(3):
            work()
            prof.step()
    assert calls(prof) == 1


def test_a_schedule_of_the_users_own_cannot_say_stopped() -> None:
    with pytest.raises(ValueError, match="DEVICE_STOPPED"):
        profile(activities=CPU, schedule=lambda step: STOPPED)
    with profile(activities=CPU, schedule=[RECORD, STOPPED].__getitem__) as prof:
        with pytest.raises(ValueError, match="DEVICE_STOPPED"):
            prof.step()
        assert (prof.step_num, prof.current_action) == (0, RECORD)


@pytest.mark.filterwarnings("ignore:The device stopped")
def test_a_device_that_stops_early_sits_out_its_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = False
    monkeypatch.setattr(torch_private, "is_kineto_stopped", lambda: stopped)
    seen: list[int] = []
    plan = [WARMUP, RECORD, RECORD, SAVE, WARMUP, RECORD, SAVE, NONE]
    prof = profile(activities=CPU, schedule=plan.__getitem__, on_trace_ready=lambda p: seen.append(calls(p)))
    prof.use_device = "cuda"
    actions = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prof.start()
        for step in range(7):
            stopped = step == 1
            work()
            prof.step()
            actions.append(prof.current_action)
        prof.stop()
    assert actions == [RECORD, STOPPED, STOPPED, WARMUP, RECORD, SAVE, NONE]
    assert seen == [1, 2]


# what is recorded


def test_the_worker_threads_operators_and_memory_are_there() -> None:
    import threading

    # Kineto follows threads only where it is told to before they are made, or records all.
    config = torch_private.ExperimentalConfig
    try:
        everything = config(profile_all_threads=True)
    except TypeError:
        pytest.skip("this torch cannot record all threads")
    begin, over = threading.Event(), threading.Event()

    def run() -> None:
        begin.wait(20)
        torch.ones(7).cos()
        over.set()

    early = threading.Thread(target=run)
    early.start()
    with profile(activities=CPU, experimental_config=everything) as prof:
        begin.set()
        over.wait(20)
        late = threading.Thread(target=lambda: torch.ones(7).sin())
        late.start()
        late.join()
    early.join()
    names = {event.name: event.thread for event in prof.events()}
    assert {"aten::cos", "aten::sin"} <= set(names)
    assert names["aten::cos"] != names["aten::sin"]


def test_use_cuda_is_deprecated_and_still_works() -> None:
    with pytest.warns(FutureWarning, match="use_cuda"):
        prof = profile(activities=CPU, use_cuda=True)
    assert prof.activities == {ProfilerActivity.CPU, ProfilerActivity.CUDA}
    with pytest.warns(FutureWarning, match="use_cuda"), pytest.raises(AssertionError, match="nothing to record"):
        profile(activities=[ProfilerActivity.CUDA], use_cuda=False)


def test_no_activity_is_an_error() -> None:
    with pytest.raises(AssertionError, match="No valid profiler activities"):
        profile(activities=[])
    with pytest.raises(ValueError, match="more than once"):
        profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CPU])
    with pytest.raises(ValueError, match="non-negative"):
        profile(activities=CPU, post_processing_timeout_s=-1.0)


def test_collection_can_be_turned_off_and_on() -> None:
    with profile(activities=CPU) as prof:
        torch.ones(2).cos()
        prof.toggle_collection_dynamic(False, CPU)
        torch.ones(2).sin()
        prof.toggle_collection_dynamic(True, CPU)
        torch.ones(2).tan()
    names = {event.name for event in prof.events()}
    assert {"aten::cos", "aten::tan"} <= names
    assert "aten::sin" not in names


def test_a_time_limit_gives_what_could_be_read(caplog: pytest.LogCaptureFixture) -> None:
    with profile(activities=CPU, post_processing_timeout_s=0.0) as prof:
        work()
    assert len(prof.events()) == 0
    (record,) = (one for one in caplog.records if "timed out" in one.message)
    # Where torch says it, and in its words: programs look for them.
    assert (record.name, record.levelname) == ("torch.autograd.profiler", "WARNING")
    assert record.message == (
        "Profiler _parse_kineto_results timed out after 0.000 seconds, returning partial results with 0 events"
    )
    assert any(prof.trace.events["name"] == "work"), "the limit is for the tables; the trace is whole"


# ids, statistics, the engine's object


def test_each_window_has_its_own_id() -> None:
    numbers = iter(range(100))
    ids: list[str | None] = []

    def note(prof: Any) -> None:
        ids.append(prof.get_trace_id())
        assert prof.trace.metadata.trace_id == prof.get_trace_id()

    with profile(activities=CPU, schedule=schedule(wait=0, warmup=1, active=1), on_trace_ready=note,
                 custom_trace_id_callback=lambda: f"id-{next(numbers)}") as prof:  # fmt: skip
        assert prof.get_trace_id() == "id-0"
        for step in range(6):
            work()
            prof.step()
            if step == 3:
                prof.set_custom_trace_id_callback(lambda: "by another")
    assert ids == ["id-0", "id-1", "id-2"] or ids == ["id-0", "id-1", "by another"]
    assert profile(activities=CPU).get_trace_id() is None


def test_what_programs_reach_for_is_torchs() -> None:
    with profile(activities=CPU, record_shapes=True, with_stack=True, profile_memory=True) as prof:
        assert torch.autograd.profiler._is_profiler_enabled
        torch.ones(3).add(1)
    assert not torch.autograd.profiler._is_profiler_enabled
    engine = prof.profiler
    assert isinstance(engine, torch.autograd.profiler.profile)
    assert engine is not None
    assert len(engine.kineto_results.events()) > 0
    assert engine.kineto_results.trace_start_ns() > 0
    assert len(engine.kineto_results.experimental_event_tree()) > 0
    assert engine.function_events is prof.events()
    assert engine.self_cpu_time_total == prof.events().self_cpu_time_total
    assert engine.table() == prof.events().table()
    assert "aten::add" in engine.table()
    assert isinstance(prof.events(), torch.autograd.profiler_util.EventList)
    assert isinstance(prof.events()[0], torch.autograd.profiler_util.FunctionEvent)
    assert isinstance(prof.key_averages()[0], torch.autograd.profiler_util.FunctionEventAvg)
    parsed = engine._parse_kineto_results(engine.kineto_results)
    assert [event.name for event in parsed] == [event.name for event in prof.events()]
    stats = engine._stats
    assert stats.number_of_events == len(prof.events())
    assert stats.profiler_disable_call_duration_us > 0
    assert stats.profiling_window_duration_sec > 0


def test_lists_of_events_can_be_pickled_and_copied() -> None:
    with profile(activities=CPU, record_shapes=True) as prof:
        x = torch.ones(20, 20, requires_grad=True)
        (x @ x).sum().backward()
    events, averages = prof.events(), prof.key_averages(group_by_input_shape=True)
    for duplicate in (lambda one: pickle.loads(pickle.dumps(one)), copy.deepcopy, copy.copy):
        same = duplicate(events)
        assert type(same) is type(events)
        assert [event.name for event in same] == [event.name for event in events]
        assert [event.self_cpu_time_total for event in same] == [event.self_cpu_time_total for event in events]
        for one, other in zip(same, events, strict=True):
            assert [child.id for child in one.cpu_children] == [child.id for child in other.cpu_children]
            assert (one.cpu_parent and one.cpu_parent.id) == (other.cpu_parent and other.cpu_parent.id)
        assert same.table() == events.table()
        assert same.key_averages().table() == events.key_averages().table()
        assert duplicate(averages).table(sort_by="count") == averages.table(sort_by="count")


def test_torchs_own_helpers_work_on_our_results() -> None:
    from torch.profiler import _memory_profiler, _utils

    with profile(activities=CPU, record_shapes=True, with_stack=True, profile_memory=True) as prof:
        x = torch.ones(20, 20, requires_grad=True)
        (x @ x).sum().backward()
    if hasattr(_utils, "BasicEvaluation"):  # torch 2.14 has none
        assert len(_utils.BasicEvaluation(prof.profiler).metrics) > 0
    if importlib.util.find_spec("torch.profiler._pattern_matcher"):  # torch 2.14 has none
        from torch.profiler import _pattern_matcher

        assert _pattern_matcher.ForLoopIndexingPattern(prof).matched_events() == []
    assert isinstance(prof._memory_profile(), _memory_profiler.MemoryProfile)
    with profile(activities=CPU) as poor:
        work()
    with pytest.raises(ValueError, match="record_shapes=True, profile_memory=True, with_stack=True required"):
        poor._memory_profile()


def test_events_of_a_trace_only_recording_are_refused(tmp_path: Path) -> None:
    try:
        config = torch_private.ExperimentalConfig(trace_only=True)
    except TypeError:
        pytest.skip("this torch has no trace_only")
    with profile(activities=CPU, experimental_config=config) as prof:
        work()
    with pytest.raises(RuntimeError, match="trace_only"):
        prof.events()
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    assert any(event["name"] == "work" for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"])


# metadata and exports


@pytest.mark.filterwarnings("ignore:The metadata")
def test_metadata_of_any_text_is_valid_json(tmp_path: Path) -> None:
    texts = {'back\\slash "quote"': 'C:\\dir\n"x"', "naïve": "☃\x00\x1f", "lone": "\ud800", "empty": ""}
    prof = profile(activities=CPU, record_shapes=True)
    prof.preset_metadata_json("preset", '{"a": [1, 2.5]}')
    with prof:
        work()
        for key, text in texts.items():
            prof.add_metadata(key, text)
        prof.add_metadata_json("number", "7")
        prof.add_metadata_json("broken", "{not json")
    prof.add_metadata("late", "after the end")
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    document = json.loads(path.read_bytes())
    assert document["preset"] == {"a": [1, 2.5]}
    assert document["number"] == 7
    assert document["broken"] == "{not json"
    assert document["late"] == "after the end"
    assert document["record_shapes"] == 1
    assert document['back\\slash "quote"'] == 'C:\\dir\n"x"'
    assert document["naïve"] == "☃\x00\x1f"
    with prof:
        work()
    prof.export_chrome_trace(str(path))
    document = json.loads(path.read_bytes())
    assert "number" not in document
    assert document["preset"] == {"a": [1, 2.5]}


def test_names_of_any_kind_survive_an_export(tmp_path: Path) -> None:
    names = ['q"uote', "back\\slash", "tab\there", "ünï", "日本", "\x01", "a/b", "new\nline", "</script>", "x" * 3000]
    with profile(activities=CPU, record_shapes=True) as prof:
        for name in names:
            with kinetoscope.record_function(name):
                torch.full((2,), float("nan"))
    for file in ("trace.json", "trace.json.gz", "trace.json"):
        prof.export_chrome_trace(str(tmp_path / file))
        content = (tmp_path / file).read_bytes()
        document = json.loads(gzip.decompress(content) if file.endswith(".gz") else content)
        found = [event["name"] for event in document["traceEvents"] if event.get("cat") == "user_annotation"]
        assert found == names
    assert {event.name for event in prof.events()} >= set(names)
    read = kinetoscope.read(tmp_path / "trace.json.gz")
    assert read.events.filter(read.events["category"] == "user_annotation")["name"].to_list() == names


def test_flows_join_forward_and_backward(tmp_path: Path) -> None:
    with profile(activities=CPU) as prof:
        torch.ones(3, requires_grad=True).square().sum().backward()
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_bytes())["traceEvents"]
    starts = {event["id"]: event for event in events if event["ph"] == "s" and event["cat"] == "fwdbwd"}
    ends = {event["id"]: event for event in events if event["ph"] == "f" and event["cat"] == "fwdbwd"}
    assert starts.keys() == ends.keys()
    assert len(starts) >= 2
    slices = [event for event in events if event["ph"] == "X" and event["cat"] == "cpu_op"]
    for number, start in starts.items():
        end = ends[number]
        assert end["ts"] > start["ts"]
        for place in (start, end):
            assert any(s["tid"] == place["tid"] and s["ts"] <= place["ts"] <= s["ts"] + s["dur"] for s in slices)


def test_stacks_need_no_private_flag(tmp_path: Path) -> None:
    def named_by_the_test() -> None:
        torch.ones(300, 300) @ torch.ones(300, 300)

    with profile(activities=CPU, with_stack=True) as prof:
        named_by_the_test()
    path = tmp_path / "stacks.txt"
    prof.export_stacks(str(path), "self_cpu_time_total")
    lines = path.read_text().splitlines()
    assert any("named_by_the_test" in line for line in lines)
    total = 0
    for line in lines:
        frames, value = line.rsplit(" ", 1)
        assert int(value) > 0
        assert all(frames.split(";"))
        total += int(value)
    # Calls that Kineto never saw return overlap others, whose self times then fall below zero; those have no line.
    assert 0 < total <= sum(max(event.self_cpu_time_total, 0) for event in prof.events())
    with pytest.raises(ValueError, match="self_cpu_time_total"):
        prof.export_stacks(str(path), "no such metric")
    with profile(activities=CPU) as without:
        work()
    with pytest.raises(AssertionError, match="with_stack=True"):
        without.export_stacks(str(path))


def test_averages_have_percentiles_and_frames() -> None:
    with profile(activities=CPU) as prof:
        for _ in range(5):
            work()
    row = next(row for row in prof.key_averages() if row.key == "work")
    durations = sorted(event.time_range.elapsed_us() for event in prof.events() if event.name == "work")
    assert (row.min, row.p50, row.max) == (durations[0], durations[2], durations[-1])
    assert row.p50 <= row.p95 <= row.p99 <= row.max
    frame = prof.key_averages().to_polars()
    assert dict(zip(frame["key"], frame["count"], strict=True))["work"] == 5
    assert prof.key_averages().to_pandas().loc[lambda f: f.key == "work", "p50"].item() == row.p50
    assert "<" in prof.key_averages()._repr_html_()


def test_an_unknown_sort_key_is_named_with_the_valid_ones() -> None:
    with profile(activities=CPU) as prof:
        work()
    with pytest.raises(ValueError, match="nonsense.*self_cpu_time_total"):
        prof.key_averages().table(sort_by="nonsense")


def test_a_trace_equals_its_profiler_and_survives_its_file(tmp_path: Path) -> None:
    with profile(activities=CPU, record_shapes=True, profile_memory=True) as prof:
        for _ in range(3):
            torch.ones(4, 4).mm(torch.ones(4, 4)).relu()
    trace = prof.trace
    trace.write(tmp_path / "trace.parquet")
    trace.write(tmp_path / "trace.json")
    for file in ("trace.parquet", "trace.json"):
        read = kinetoscope.read(tmp_path / file)
        ours = {row.key: row for row in prof.key_averages()}
        theirs = {row.key: row for row in read.key_averages()}
        assert ours.keys() == theirs.keys()
        for key, row in ours.items():
            assert theirs[key].count == row.count
            assert theirs[key].self_cpu_memory_usage == row.self_cpu_memory_usage
            assert theirs[key].self_cpu_time_total == pytest.approx(row.self_cpu_time_total)
    assert trace.metadata.options["record_shapes"] is True
    mm = trace.sql("select input_shapes from events where name = 'aten::mm'")
    assert set(mm["input_shapes"].to_list()) == {"[[4, 4], [4, 4]]"}
