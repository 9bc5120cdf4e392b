"""A page receives what has changed, and nothing else."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from sweeper.dashboard.blocks import rows
from sweeper.dashboard.files import STATIC
from sweeper.dashboard.html import view_html
from sweeper.dashboard.packing import as_json
from sweeper.dashboard.page import COMPARISON, VIEWS, Page, PageState
from sweeper.dashboard.study import PublishedStudy
from sweeper.dashboard.views.comparison import comparison_view
from sweeper.results.baseline import Baseline
from sweeper.results.status import read_status, write_status
from sweeper.results.timeline import Span
from sweeper.rundir import RunDir
from tests.dashboard.small_tables import buckets_of, spans_of, trials_of
from tests.live_status import STATUS

NAMES = [*(view.name for view in VIEWS), COMPARISON[0]]
HARM = "<script>alert('1')</script> \"quoted\" \u2028{a|b} & more"


def known_of(payload: dict) -> PageState:
    """The state of a page that received `payload`."""
    through = (payload["tables"][name]["through"] for name in ("trials", "buckets", "spans"))
    return PageState(*through, [view["digest"] for view in payload["views"]])


def only_status(directory: Path) -> RunDir:
    """A run directory in which only the status has been published."""
    run_dir = RunDir(directory)
    run_dir.make()
    write_status(run_dir, STATUS)
    return run_dir


def test_all_views_come_in_their_order(study: PublishedStudy) -> None:
    payload = Page([study]).payload(0)
    assert [view["name"] for view in payload["views"]] == NAMES
    assert all(view["html"] for view in payload["views"])
    assert payload["tables"]["trials"]["n"] == payload["tables"]["trials"]["new"] == 120
    assert json.loads(as_json(payload))["state"] == "finished"


def test_an_up_to_date_page_receives_almost_nothing(study: PublishedStudy) -> None:
    page = Page([study])
    again = page.payload(0, known_of(page.payload(0)))
    assert all(set(view) == {"name", "digest"} for view in again["views"])
    assert [table["new"] for table in again["tables"].values()] == [0, 0, 0]
    assert len(as_json(again)) < 2000


def test_new_rows_come_without_the_old_ones(run_dir: RunDir, tmp_path: Path) -> None:
    shutil.copytree(run_dir.root, tmp_path / "copy")
    copy = RunDir(tmp_path / "copy")
    whole = parquet.read_table(copy.trials)
    before = whole.filter(pa.compute.less_equal(whole["last_round"], 5))
    parquet.write_table(before, copy.trials)
    page = Page([PublishedStudy(copy)])
    first = page.payload(0)
    parquet.write_table(whole, copy.trials)
    second = page.payload(0, known_of(first))
    told = [payload["tables"]["trials"] for payload in (first, second)]
    assert [table["new"] for table in told] == [len(before), len(whole) - len(before)]
    numbers = [n for table in told for n in table["columns"]["trial_number"]]
    assert sorted(numbers) == list(range(120))
    changed = {view["name"] for view in second["views"] if "html" in view}
    assert {"history", "parallel"} <= changed
    assert changed.isdisjoint({"curves", "execution", "importance"})


def test_the_remaining_time_of_a_running_study_counts_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    run_dir = only_status(tmp_path)
    write_status(run_dir, replace(STATUS, committed_at=990.0))
    page = Page([PublishedStudy(run_dir)])
    first = page.payload(0)
    assert "0:24 left" in first["views"][0]["html"]
    now[0] += 10.0
    second = page.payload(0, known_of(first))
    changed = {view["name"]: view["html"] for view in second["views"] if "html" in view}
    assert changed.keys() == {"status"}
    assert "0:14 left" in changed["status"]
    write_status(run_dir, replace(STATUS, committed_at=990.0, state="finished"))
    third = page.payload(0, known_of(second))
    now[0] += 10.0
    assert not any("html" in view for view in page.payload(0, known_of(third))["views"])


def test_a_page_recognises_a_study_that_was_started_from_scratch(
    run_dir: RunDir, tmp_path: Path
) -> None:
    shutil.copytree(run_dir.root, tmp_path / "copy")
    copy = RunDir(tmp_path / "copy")
    page = Page([PublishedStudy(copy)])
    first = page.payload(0)
    assert first["first_run"] == "made-up"
    for path in (copy.trials, copy.spans):  # as many rows, up to the same round
        table = parquet.read_table(path)
        place = table.schema.get_field_index("run_id")
        runs = pa.array(["another"] * len(table), table.schema.field(place).type)
        parquet.write_table(table.set_column(place, table.schema.field(place), runs), path)
    second = page.payload(0, known_of(first))
    assert second["tables"]["trials"]["new"] == 0
    assert second["first_run"] == "another"
    copy.spans.unlink()
    assert page.payload(0)["first_run"] == "another"
    assert "sent.first_run !== firstRun" in STATIC["page.js"].read_text()


def test_a_study_keeps_its_first_run_when_it_is_resumed() -> None:
    began = {"run_id": "a", "last_round": 2}
    later = {"run_id": "b", "last_round": 5}
    assert trials_of([later, began]).first_run == trials_of([began]).first_run == "a"
    assert trials_of([]).first_run is trials_of([{"value": 1.0}]).first_run is None
    spans = [[Span("program", "import", 0.0, 1.0)], [Span("program", "import", 5.0, 6.0)]]
    assert spans_of(spans).first_run == spans_of(spans[:1]).first_run == "run 1"


def test_axes_of_a_live_page_keep_no_bounds_that_they_are_not_given(study: PublishedStudy) -> None:
    script = STATIC["page.js"].read_text("utf-8")
    (replaced,) = re.findall(r"REPLACED = (\[.*?\])", script)
    (defaults,) = re.findall(r"DEFAULTS = \{(.*?)\}", script)
    assert re.findall(r"setOption\((.*?)\)", script) == ["drawn, { replaceMerge: REPLACED }"]
    keeping = {"legend", "dataZoom", "parallelAxis"}  # what the reader has chosen
    fixed = {"animation", "tooltip", "grid", "parallel"}  # always have the same keys
    charts = [
        chart["option"]
        for view in Page([study, study]).payload(0)["views"]
        for chart in view["charts"].values()
        if "option" in chart
    ]
    assert {key for option in charts for key in option} == keeping | fixed | {*json.loads(replaced)}
    axes = [axis for option in charts for axis in option.get("parallelAxis", ())]
    always = set.intersection(*map(set, axes)) | {"data", "scale"}  # or belong to the type
    optional = {"min", "max", "minInterval", "logBase"}
    assert {key for axis in axes for key in axis} - always <= optional
    assert set(re.findall(r"(\w+):", defaults)) == optional


def test_times_of_trials_do_not_change_if_an_earlier_one_ends_later(
    run_dir: RunDir, tmp_path: Path
) -> None:
    shutil.copytree(run_dir.root, tmp_path / "copy")
    copy = RunDir(tmp_path / "copy")
    whole = parquet.read_table(copy.trials)
    began = whole["started_at"]
    later = pa.compute.greater(began, pa.compute.min(began))
    page = Page([PublishedStudy(copy)])
    origins, times = set[float](), dict[int, set[float]]()
    for shown in (whole.filter(later), whole):
        parquet.write_table(shown, copy.trials)
        payload = page.payload(0)
        columns = payload["tables"]["trials"]["columns"]
        (grid,) = (view["charts"] for view in payload["views"] if view["name"] == "trials")
        origins.add(grid["table"]["began_at"])
        for number, time in zip(columns["trial_number"], columns["finished_at"], strict=True):
            times.setdefault(number, set()).add(time)
    assert len(times) == len(whole) > later.to_pylist().count(True)
    assert {len(known) for known in times.values()} == {1}
    assert len(origins) == 1


def test_a_study_without_published_files_is_shown(tmp_path: Path) -> None:
    payload = Page([PublishedStudy(only_status(tmp_path))]).payload(0)
    html = {view["name"]: view["html"] for view in payload["views"]}
    assert "No trial has ended yet." in html["trials"]
    assert "No trial has ended yet." in html["execution"]
    assert "17 running" in html["status"]
    assert payload["tables"]["trials"] == {"n": 0, "through": -1, "new": 0, "columns": {}}


def test_a_study_without_buckets_is_shown(run_dir: RunDir, tmp_path: Path) -> None:
    bare = RunDir(tmp_path)
    bare.make()
    write_status(bare, read_status(run_dir))
    parquet.write_table(parquet.read_table(run_dir.trials).slice(0, 0), bare.trials)
    parquet.write_table(parquet.read_table(run_dir.buckets).slice(0, 0), bare.buckets)
    views = {
        view["name"]: view["html"] for view in Page([PublishedStudy(bare)]).payload(0)["views"]
    }
    assert "No bucket is published yet." in views["execution"]
    assert "No trial has ended yet." in views["slices"]


def test_several_studies_are_compared(study: PublishedStudy, tmp_path: Path) -> None:
    other = PublishedStudy(only_status(tmp_path))
    page = Page([study, other])
    view = page.payload(1)["views"][-1]
    comparison = view["html"]
    assert "large" in comparison
    assert "digits" in comparison
    assert "<option>val_accuracy by time, the better half</option>" in comparison
    axes = [chart["option"]["yAxis"] for chart in view["charts"].values()]
    assert [("min" in axis, "max" in axis) for axis in axes] == 2 * [(False,) * 2] + 2 * [
        (True,) * 2
    ]
    assert "<option>large</option><option>digits</option>" in page.html()


def study_of(directory: Path, data: dict, file: str = "s.toml", **more: object) -> PublishedStudy:
    """A study with these settings of its data."""
    found = PublishedStudy(only_status(directory))
    found.trials = trials_of([{"value": 1.0, "params_lr": 1e-3}])
    said = {**found.trials.said, "settings": {"data": data, **more}, "study_file": file}
    found.trials = replace(found.trials, said=said)
    return found


CSV = {"source": "csv", "path": "med.csv", "target": ["med"], "separator": ",", "drop": []}
NPZ = {"source": "npz", "path": "d.npz", "x": "x", "y": None}
REST = ", test = 0.1, stratify = false, as_feature = false, train_on = train"  # of a split
PYTHON = {"source": "python", "function": "tab:load", "args": {"scale": 1.0}}


@pytest.mark.parametrize(
    ("first", "change", "differing", "shown"),
    [
        (CSV, {"target": ["log_med"]}, "data.target", ["med", "log_med"]),
        (CSV, {"weight": "w"}, "data.weight", ["", "w"]),
        (CSV, {"path": "b.csv"}, "data", ["csv med.csv", "csv b.csv"]),
        (CSV, {"separator": ";"}, "data.separator", [",", ";"]),
        (CSV, {"target_transform": "log"}, "data.target_transform", ["none", "log"]),
        (CSV, {"split": {"val": 0.5}}, "data.split", [f"val = 0.2{REST}", f"val = 0.5{REST}"]),
        (NPZ, {"y": "b"}, "data.y", ["", "b"]),
        (NPZ, {"x": "x2"}, "data.x", ["x", "x2"]),
        (PYTHON, {"args": {"scale": 9.0}}, "data.args", ["scale = 1.0", "scale = 9.0"]),
    ],
)
def test_studies_of_other_data_or_targets_are_not_compared_silently(
    first: dict, change: dict, differing: str, shown: list[str], tmp_path: Path
) -> None:
    pair = [study_of(tmp_path, first), study_of(tmp_path, {**first, **change})]
    warning, table, *_ = comparison_view(pair)
    said = f"These studies differ in {differing}, so their values are not comparable."
    assert (warning["text"], [row[1] for row in table["rows"]]) == (said, shown)
    assert comparison_view([pair[0], study_of(tmp_path, first)])[0]["kind"] == "rows"


@pytest.mark.parametrize(
    ("change", "differing", "shown"),
    [
        ({"study": {"folds": 5}}, "study.folds", ["", "5"]),
        ({"study": {"replicates": 3}}, "study.replicates", ["1", "3"]),
        ({"train": {"loss": "mae"}}, "train.loss", ["mse", "mae"]),
    ],
)
def test_studies_of_other_folds_replicates_or_losses_are_not_compared_silently(
    change: dict, differing: str, shown: list[str], tmp_path: Path
) -> None:
    usual = {"train": {"loss": "mse"}}
    pair = [study_of(tmp_path, CSV, **usual), study_of(tmp_path, CSV, **usual | change)]
    warning, table, *_ = comparison_view(pair)
    said = f"These studies differ in {differing}, so their values are not comparable."
    assert (warning["text"], [row[1] for row in table["rows"]]) == (said, shown)
    for one in pair:
        one.trials = replace(one.trials, said={**one.trials.said, "metric": "val_accuracy"})
    assert (comparison_view(pair)[0]["kind"] == "rows") is (differing == "train.loss")


def test_studies_with_other_features_of_the_same_rows_are_compared(tmp_path: Path) -> None:
    pair = [study_of(tmp_path, CSV), study_of(tmp_path, {**CSV, "drop": ["a", "b"]})]
    found, table, *_ = comparison_view(pair)
    assert found["text"] == "These studies differ in data.drop: their features are not the same."
    assert [row[1] for row in table["rows"]] == ["", "a, b"]


def test_a_setting_that_an_earlier_version_did_not_have_has_its_default(tmp_path: Path) -> None:
    now = {**CSV, "impute": "none", "split": {"val": 0.2, "test": 0.1, "train_on": "train"}}
    assert comparison_view([study_of(tmp_path, CSV), study_of(tmp_path, now)])[0]["kind"] == "rows"
    differing = {**now, "impute": "mean"}
    found, *_ = comparison_view([study_of(tmp_path, CSV), study_of(tmp_path, differing)])
    assert "differ in data.impute" in found["text"]


def test_data_of_the_same_settings_with_other_contents_is_not_compared_silently(
    tmp_path: Path,
) -> None:
    def of(digest: str | None, file: str, seed: int = 0) -> PublishedStudy:
        made = study_of(tmp_path, CSV, file, study={"seed": seed})
        made.baseline = None if digest is None else Baseline(digest)
        return made

    def texts(*studies: PublishedStudy) -> list[str]:
        return [block["text"] for block in comparison_view(studies) if block["kind"] == "note"]

    other = "Some of these studies have the same settings of the data, but other data, so their"
    unknown = (
        "These studies may have read different files: data.path is 'med.csv' in all, but "
        "their study files are in different directories."
    )
    assert texts(of("a", "p/s.toml"), of("a", "q/s.toml")) == []
    assert texts(of("a", "p/s.toml"), of("b", "p/s.toml"))[0].startswith(other)
    assert texts(of("a", "p/s.toml"), of("b", "p/s.toml", seed=1)) == []
    assert texts(of("a", "p/s.toml"), of("b", "q/s.toml", seed=1)) == [unknown]
    assert texts(of("a", "p/s.toml"), of(None, "q/s.toml")) == [unknown]


@pytest.mark.parametrize(
    ("left_out", "hint"),
    [([], " Give several run directories to compare them."), (["runs/b is damaged"], "")],
)
def test_a_comparison_says_which_studies_are_not_shown(
    study: PublishedStudy, left_out: list[str], hint: str
) -> None:
    assert [block["text"] for block in comparison_view([study], left_out)] == [
        *(f"A study is not shown: {why}" for why in left_out),
        f"One study is shown.{hint}",
    ]


def test_numbers_are_aligned_to_the_right_with_their_heading() -> None:
    told = [["a", 1.5, None, "12 %"], ["b", None, None, "-"]]
    html, _ = view_html("v", [rows("of it", ["name", "took", "peak", "share"], told)])
    right = ' class="number"'
    assert '<th scope="col">name</th>' in html
    for head in ("took", "peak", "share"):
        assert f'<th scope="col"{right}>{head}</th>' in html
    assert html.count(f"<td{right}>") == 6
    assert html.count("<td>") == 2


def test_text_of_users_is_escaped(tmp_path: Path) -> None:
    row = {"state": "FAIL", "reason": "error", "value": None, "params_lr": HARM}
    trials = trials_of([{**row, "error_type": HARM, "error_message": f"first\n{HARM}\nlast"}], {})
    for view in VIEWS:
        study = PublishedStudy(only_status(tmp_path))
        study.trials = trials
        html, charts = view_html(view.name, view.blocks(study))
        assert "<script" not in html.lower(), view.name
        assert '"quoted"' not in html, view.name
        assert as_json(charts)


def test_names_given_by_users_are_escaped(tmp_path: Path) -> None:
    best = {"trial_number": 0, "value": 1.0, "values": [1.0], "params": {HARM: HARM}}
    running = [{"bucket": 0, "place": HARM, "class_id": HARM, "class_name": HARM, "trials": [0]}]
    told = replace(STATUS, study=HARM, metric=HARM, best=best, running=running, host="elsewhere")
    run_dir = only_status(tmp_path)
    write_status(run_dir, told)
    study = PublishedStudy(run_dir)
    study.trials = trials_of([{f"params_{HARM}": 1.0, "value": 1.0}], {HARM: {}}, HARM)
    study.buckets = buckets_of([{"class_id": HARM, "class_name": HARM, "place": HARM}])
    page = Page([study, study])
    parts = [page.html(), *(view["html"] for view in page.payload(0)["views"])]
    for part in parts:
        assert HARM not in part
        assert "<script>alert" not in part
    assert sum("&lt;script&gt;alert" in part for part in parts) >= 5
