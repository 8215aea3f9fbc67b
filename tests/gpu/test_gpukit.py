"""Tests of the session's parts that need neither a cluster nor a GPU."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE / "servers"))

import page  # noqa: E402
import recordings  # noqa: E402
from gpukit import archive, charts, mps, processes, results, rows, step  # noqa: E402
from gpukit.steps import conform  # noqa: E402


def result(metric="wait_ratio", mode="bus", **more):
    """A complete result."""
    return {"metric": metric, "mode": mode, "value": 2.0, "baseline": "native", "baseline_value": 10.0, "min": 1.0,
            "max": 3.0, "reps": 5, "reason": None, "again": False, "gpu": "G", "driver": "D", "config": "",
            "clocks": {"sm_mhz": 1}, "phase": 1, "unit": "ratio", "at": "2026-01-01T00:00:00Z", **more}


class TheRows(unittest.TestCase):
    """What counts as a row's result."""

    def setUp(self):
        self.rows = rows.Rows.load()
        self.row = next(it for it in self.rows.rows if it.name == "wait_ratio")

    def test_each_name_that_later_goals_use_is_there(self):
        names = {it.name for it in self.rows.rows}
        fixed = ["wait_us", "wait_ratio", "launches_ratio", "kernels_1000_13us_ratio", "h2d_pinned_256m",
                 "d2h_pinned_256m", "h2d_pageable_256m", "d2h_pageable_256m", "nvcc_passed", "cold_start_torch_ratio",
                 "jain_8", "share_error_75_25", "vram_ratio_8", "swap_ratio", "innocent_back_ms", "bit_mismatches"]
        fixed += [f"throughput_ratio_8_vs_{it}_{kind}" for it in ("slice", "mps") for kind in page.KINDS]
        fixed += [f"{it}_{near}" for it in ("urgent_p99_ratio", "best_effort_share") for near in page.NEIGHBOURS]
        fixed += [f"gemm_{it}_ratio" for it in ("bf16", "fp16", "tf32", "fp8")]
        fixed += [f"attention_{it}_ratio" for it in ("flash", "efficient", "cudnn", "math")]
        self.assertEqual([it for it in fixed if it not in names], [])

    def test_a_phase_fits_into_its_command(self):
        for phase in (1, 2, 3):
            needs = sum(self.rows.budget(it, {row.name for row in self.rows.of_step(it.name)})
                        for it in self.rows.steps if it.phase == phase)
            self.assertLess(needs, 510 - 4, f"phase {phase}")

    def test_a_row_without_value_and_reason_is_missing(self):
        for wrong in ({"value": None}, {"value": float("inf")}, {"value": float("nan")}, {"baseline_value": None},
                      {"min": None}, {"max": None}, {"gpu": ""}, {"driver": None}, {"clocks": None}, {"reps": None}):
            self.assertIsNotNone(rows.lacks(self.row, result(**wrong)), wrong)
        self.assertIsNotNone(rows.lacks(self.row, None))
        self.assertIsNone(rows.lacks(self.row, result()))
        self.assertIsNone(rows.lacks(self.row, result(value=None, reason="no nvcc")))

    def test_what_is_missing_is_named(self):
        names = [it.partition(" ")[0] for it in self.rows.missing([result()], ["mps"], [1])]
        self.assertNotIn("wait_ratio", names)
        self.assertIn("launches_ratio", names)

    def test_a_new_mode_is_one_entry(self):
        table = json.loads(rows.FILE.read_text())
        table["modes"]["near"] = {"how": "tenant", "settings": ["worker.near=on"]}
        more = rows.Rows(table)
        self.assertIn(("wait_ratio", "near"), more.keys(self.row))
        jain = next(it for it in more.rows if it.name == "jain_8")
        self.assertEqual(more.keys(jain, ["mps"]), [("jain_8", it) for it in ("slice", "threads", "bus", "near")])

    def test_a_row_that_cannot_be_is_refused(self):
        table = json.loads(rows.FILE.read_text())
        for wrong in ({"step": "nowhere"}, {"modes": ["nothing"]}, {"baseline": "nothing"}, {"better": "bigger"}):
            bad = {**table, "rows": [{**table["rows"][0], **wrong}]}
            with self.assertRaises(ValueError):
                rows.Rows(bad)
        with self.assertRaises(ValueError):
            rows.Rows({**table, "rows": table["rows"][:1] * 2})


class TheResults(unittest.TestCase):
    """What is on the disk."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name) / "results.jsonl"
        self.addCleanup(self.folder.cleanup)

    def test_a_line_that_was_cut_off_costs_that_line_only(self):
        kept = results.Results(self.path)
        kept.add(result())
        kept.close()
        with self.path.open("a") as file:
            file.write('{"metric": "half')
        again = results.Results(self.path)
        again.add(result("launches_ratio"))
        again.close()
        self.assertEqual([it["metric"] for it in results.read(self.path)], ["wait_ratio", "launches_ratio"])

    def test_rows_that_were_had_are_copied_and_not_wanted(self):
        kept = results.Results(self.path, [result(), result("jain_8", "slice", value=None, reason="ended", again=True)])
        self.assertTrue(kept.has(("wait_ratio", "bus")))
        self.assertFalse(kept.has(("jain_8", "slice")))
        kept.add(result("jain_8", "slice"))
        self.assertTrue(kept.has(("jain_8", "slice")))
        kept.close()
        self.assertEqual(len(results.read(self.path)), 2)

    def test_a_row_that_was_not_reached_does_not_hide_one_that_was(self):
        later = result(value=None, reason="ended", again=True)
        kept = results.Results(self.path, [result(), later])
        self.assertEqual(kept.newest["wait_ratio", "bus"]["value"], 2.0)
        kept.close()


class AStep(unittest.TestCase):
    """How rows are told."""

    def setUp(self):
        plan = step.Plan(step="micro", wanted=[("wait_ratio", "bus"), ("jain_8", "bus")], rehearsal=True, scale=0.02,
                         until=time.monotonic() + 9, kit=".", work=".", out=".", absent=["mps"], states={},
                         command="test")
        self.told = []
        self.step = step.Step(plan, told=self)

    def write(self, line):
        self.told.append(json.loads(line))

    def flush(self):
        pass

    def test_a_ratio_is_taken_turn_by_turn(self):
        self.step.tell("wait_ratio", "bus", [20.0, 40.0, 33.0], [10.0, 20.0, 11.0])
        it = self.told[0]
        self.assertEqual((it["value"], it["min"], it["max"], it["reps"], it["baseline_value"]), (3.0, 2.0, 3.0, 3, 11.0))

    def test_what_is_not_finite_or_has_no_baseline_has_a_reason(self):
        for values, baseline in (([1.0], [0.0]), ([1.0], []), ([], [1.0]), ([float("inf")], [1.0])):
            self.step.tell("wait_ratio", "bus", values, baseline)
            self.assertIsNone(self.told[-1]["value"], (values, baseline))
            self.assertTrue(self.told[-1]["reason"])
        self.assertIsNone(rows.lacks(self.step.of["wait_ratio"], self.told[-1]))

    def test_the_rest_gets_a_reason(self):
        self.step.rest("no GPU")
        self.assertEqual([it["reason"] for it in self.told], ["no GPU"] * 2)


class Processes(unittest.TestCase):
    """Ends of programs."""

    def test_a_program_ends_at_its_limit_with_all_that_it_started(self):
        ran = processes.run([sys.executable, "-c", "import subprocess; subprocess.run(['sleep', '600'])"], 0.5)
        self.assertIsNone(ran.code)
        self.assertIn("took more than", ran.failed)

    def test_a_session_ends_whichever_groups_its_processes_are_in(self):
        text = "import subprocess, time; subprocess.Popen(['sleep', '600'], process_group=0); print(1, flush=True); time.sleep(600)"
        process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, start_new_session=True)
        process.stdout.readline()
        self.assertEqual(len(processes.members(process.pid)), 2)
        processes.end_session(process.pid)
        process.wait()
        process.stdout.close()
        self.assertEqual(processes.members(process.pid), [])

    def test_what_cannot_be_started_has_a_reason(self):
        self.assertIn("127", processes.run(["/nowhere/at-all"], 5).failed)


class Mps(unittest.TestCase):
    """The MPS daemon, with a control program that only keeps what it is told."""

    def test_it_is_started_in_a_folder_of_its_own_and_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            control = pathlib.Path(folder) / mps.CONTROL
            control.write_text('#!/bin/sh\nif [ "$1" = -f ]; then echo $$ >"$CUDA_MPS_PIPE_DIRECTORY/pid"; exec sleep 600; fi\n'
                               'read words\necho "$words" >>"$CUDA_MPS_PIPE_DIRECTORY/told"\n'
                               'case $words in quit*) kill $(cat "$CUDA_MPS_PIPE_DIRECTORY/pid");; esac\n')
            control.chmod(0o755)
            found = mps.control(folder)
            self.assertEqual(found, str(control))
            with mps.Daemon(found, pathlib.Path(folder) / "own") as daemon:
                pipes = pathlib.Path(daemon.variables["CUDA_MPS_PIPE_DIRECTORY"])
                self.assertEqual(pipes.parent.name, "own")
                until = time.monotonic() + 10
                while not (pipes / "pid").exists() and time.monotonic() < until:
                    time.sleep(0.01)
                process = daemon.process
            self.assertIsNotNone(process.poll())
            self.assertIn("quit", (pipes / "told").read_text())


class TheKit(unittest.TestCase):
    """What is packed is what is unpacked."""

    def test_files_come_back_with_their_modes_and_a_changed_one_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "run").write_text("#!/bin/sh\n")
            (folder / "run").chmod(0o755)
            digest, contents = archive.pack({"bin/run": folder / "run"}, folder / "kit.tar.xz", preset=0)
            unpacked, same = archive.unpack(folder / "kit.tar.xz", folder / "out")
            self.assertEqual((digest, list(contents)), (same, ["bin/run"]))
            self.assertTrue(os.access(unpacked / "bin/run", os.X_OK))


#: Stands in for `warploom`: natively one check fails and a function is absent, a tenant's area is lost half-way.
SUITE = """#!/bin/sh
for it; do [ "$before" = --only ] && area=$it; before=$it; done
say() { echo '{"area": "'$area'", "function": "'$1'", "check": "works", "verdict": "'$2'", "saw": "'$3'"}'; }
if [ "$1" = run ]; then
    say cuOne passed
    [ $area = events ] && { echo lost it >&2; kill -9 $$; }
    say cuTwo passed; say cuThree failed known
else
    echo a line of the driver; echo 7
    say cuOne failed 999; say cuTwo absent; say cuThree passed
fi
echo '{"metric": "conform_checks", "value": 3}'; exit 1
"""


class TheConformanceSuite(unittest.TestCase):
    """What `warploom conform` tells becomes rows, and stays beside them."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = pathlib.Path(self.folder.name)
        (self.out / "bin").mkdir()
        (self.out / "bin/warploom").write_text(SUITE)
        (self.out / "bin/warploom").chmod(0o755)
        page = self.out / conform.PAGE
        page.parent.mkdir(parents=True)
        page.write_text("| check | why |\n| --- | --- |\n| cuThree: works | not made yet |\n")
        self.told = {}

    def write(self, line):
        it = json.loads(line)
        self.told[it["metric"], it["mode"]] = it

    def flush(self):
        pass

    def run_step(self, wanted):
        plan = step.Plan(step="conform", wanted=wanted, rehearsal=True, scale=0.02, until=time.monotonic() + 60,
                         kit=self.folder.name, work=self.folder.name, out=self.folder.name, absent=["mps"],
                         states={"bus": "/nowhere"}, command="test")
        hands = step.Step(plan, told=self)
        hands.note = lambda text: None
        conform.run(hands)
        table = rows.Rows.load()
        of = {it.name: it for it in table.rows}
        lacking = [rows.lacks(of[it[0]], self.told.get(it)) for it in wanted]
        self.assertEqual([it for it in lacking if it], [])

    def test_failures_are_named_and_a_lost_area_is_one(self):
        self.run_step([(it, mode) for it in conform.ROWS for mode in ("native", "bus")] +
                      [("conform_differences", "bus")])
        value = {key: it["value"] for key, it in self.told.items()}
        self.assertEqual((value["conform_checks", "native"], value["conform_checks", "bus"]), (9, 7))
        self.assertEqual((value["conform_failures", "native"], value["conform_failures", "bus"]), (3, 1))
        self.assertIn("failed: cuOne: works;", self.told["conform_failures", "native"]["config"])
        self.assertEqual(self.told["conform_failures", "bus"]["config"],
                         "failed: events: the area is run. Documented: cuThree: works; cuThree: works")
        self.assertIn("lacks: cuTwo", self.told["conform_checks", "native"]["config"])
        differences = self.told["conform_differences", "bus"]
        self.assertEqual(differences["value"], 5)
        self.assertIn("not compared in full: events. cuOne: works (failed natively, passed as a tenant)", differences["config"])
        kept = (self.out / "conform-native.jsonl").read_text().splitlines()
        self.assertEqual([json.loads(it)["verdict"] for it in kept[:3]], ["failed", "absent", "passed"])
        self.assertIn("lost it", (self.out / "conform-bus.jsonl").read_text())

    def test_a_resumed_run_asks_both_drivers_only_for_what_compares_them(self):
        self.run_step([("conform_checks", "bus")])
        self.assertFalse((self.out / "conform-native.jsonl").exists())
        self.run_step([("conform_differences", "bus")])
        self.assertEqual(len((self.out / "conform-native.jsonl").read_text().splitlines()), 9)

    def test_a_driver_that_is_not_there_is_a_reason(self):
        (self.out / "bin/warploom").write_text("#!/bin/sh\necho libcuda.so.1 cannot be loaded >&2; exit 1\n")
        self.run_step([("conform_checks", "native"), ("conform_failures", "native"), ("conform_differences", "bus")])
        for it in self.told.values():
            self.assertIsNone(it["value"])
        self.assertIn("cannot be loaded", self.told["conform_failures", "native"]["reason"])

    def test_the_areas_are_those_of_the_suite(self):
        source = (HERE.parents[1] / "ops/conform/src/areas/mod.rs").read_text()
        self.assertEqual(tuple(re.findall(r'^ {4}\("([a-z-]+)", [a-z_:]+\),$', source, re.M)), conform.AREAS)
        self.assertLessEqual(set(conform.REHEARSED), set(conform.AREAS))

    def test_the_page_names_deviations(self):
        self.assertIn("cuMipmappedArrayGetLevel: each level is half of the one before",
                      conform.deviations(HERE.parents[1]))


class ThePage(unittest.TestCase):
    """The page says what the results say."""

    def test_the_committed_page_is_that_of_the_committed_results(self):
        ran = subprocess.run([sys.executable, "-B", HERE / "page.py", "--check"], capture_output=True, text=True,
                             check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)

    def test_missed_goals_come_first_and_charts_have_their_bars(self):
        told = [result("wait_us", "bus", unit="us", baseline=None), result("wait_ratio", value=9.0),
                result("throughput_alone_8_launch", "slice", phase=2), result("throughput_alone_8_launch", phase=2, value=6.0),
                result("urgent_p99_ratio_large", phase=2, value=1.2)]
        files = page.Page(rows.Rows.load(), told).files()
        text = files["gpu.md"]
        self.assertLess(text.index("`wait_ratio`"), text.index("`wait_us`"))
        self.assertIn("1.8 missed", text)
        self.assertEqual(len([it for it in files if it.endswith(".svg")]), 4)
        self.assertEqual(files["gpu/throughput-dark.svg"].count("<rect"), 2 + 2)

    def test_a_rehearsal_is_no_result(self):
        files = page.Page(rows.Rows.load(), [result(rehearsal=True)]).files()
        self.assertNotIn("`wait_ratio`", files["gpu.md"])

    def test_text_in_a_chart_is_escaped(self):
        self.assertIn("a &lt; b", charts.bars("a < b", [("x", [("y", 1.0)])], "light"))


class TheRecordings(unittest.TestCase):
    """What tests without a GPU stand on."""

    def test_they_have_the_form_the_sources_and_the_keys_of_the_probe(self):
        self.assertEqual(recordings.wrong(), [])
        for recording in (recordings.costs(), recordings.driver()):
            self.assertEqual(bool(recordings.resting(recording)), bool(recordings.estimated(recording)))

    def test_a_measurement_takes_the_place_of_estimates(self):
        line = {"call": "cuInit", "config": "", "ns": 1, "waits": False, "beside_ns": 2, "beside_max_ns": 3}
        made = recordings.costs_from([json.dumps(line), "no line"], "G", "D", "2026-01-01")
        self.assertEqual((made["measured"], len(made["calls"]), recordings.resting(made)), ("2026-01-01", 1, ""))
        told = {"name": "G", "driver_version": 13000, "total_memory": 1, "attributes": {"1": 5}, "limits": {},
                "function_attributes": {}, "occupancies": [], "errors": [{"call": "a", "code": 1, "name": "E"}]}
        made = recordings.driver_from(told, release="D", date="2026-01-01")
        other = {tuple(it["key"]): it for it in recordings.differences(recordings.driver(), made)}
        self.assertEqual((other["attributes", "1"]["recorded"], other["attributes", "1"]["measured"]),
                         ({"value": 1024}, {"value": 5}))
        self.assertEqual(recordings.differences(made, made), [])

    def test_what_the_driver_refuses_keeps_its_estimate(self):
        before = recordings.costs()
        before["calls"][0] |= {"estimated": True, "source": "estimate"}
        line = {**before["calls"][0], "ns": None, "waits": None, "beside_ns": None, "reason": "cuX: refused"}
        kept = recordings.costs_from([line], "G", "D", "2026-01-01", before)["calls"][0]
        self.assertEqual((kept["ns"], kept["estimated"]), (before["calls"][0]["ns"], True))
        self.assertIn("not measured: cuX: refused", kept["source"])


class TheServers(unittest.TestCase):
    """The protocol of job servers, with a job that only counts."""

    def test_requests_are_answered_and_nonsense_leaves_the_server_usable(self):
        program = f"""import sys; sys.path.insert(0, {str(HERE / 'servers')!r})
from protocol import Job, Server
class Count(Job):
    def digest(self): return "00", None
def make(name):
    if name == "bad": raise ValueError("no such job")
    return Count()
print("a library's own line")
Server(make).serve()
"""
        asked = ['{"do": "prepare", "jobs": ["a", "b"]}', '{"do": "run", "seconds": 0.02}', "nonsense", '{"do": "fly"}',
                 '{"do": "prepare", "jobs": ["bad"]}', '{"do": "prepare", "jobs": ["a"]}', '{"do": "digest"}',
                 '{"do": "requests", "rate": 200, "seconds": 0.05, "seed": 1}', '{"do": "quit"}']
        ran = subprocess.run([sys.executable, "-B", "-c", program], input="\n".join(asked) + "\n", text=True,
                             capture_output=True, check=False, timeout=60)
        told = [json.loads(it) for it in ran.stdout.splitlines() if it.startswith("{")]
        self.assertEqual([it["ok"] for it in told], [True, True, False, False, False, True, True, True, True])
        self.assertEqual(len(told[1]["steps"]), 2)
        self.assertTrue(all(it >= 0 for it in told[7]["latency_ms"]))


if __name__ == "__main__":
    unittest.main()
