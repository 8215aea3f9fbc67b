"""Waits, launches, kernels, events, copies, allocations, modules and graphs of one tenant."""

import json
import re

CLUSTERS = True

#: The sections of driver/micro.c, in the order of their value, with the figures of each.
SECTIONS = {
    "waits": ("wait_us", "wait_stream_us", "d2h_4b_us"),
    "launches": ("launches_1", "launches_2", "launches_4", "launches_8", "launch_call_ns"),
    "kernels": ("kernels_1000_13us_ms", "kernels_1000_5us_ms", "kernels_1000_50us_ms", "kernels_200_200us_ms"),
    "pinned": tuple(f"{way}_pinned_{size}" for way in ("h2d", "d2h")
                    for size in ("4k", "64k", "1m", "16m", "256m", "1g")),
    "pageable": tuple(f"{way}_pageable_{size}" for way in ("h2d", "d2h")
                      for size in ("4k", "64k", "1m", "16m", "256m", "1g")),
    "events": ("event_record_ns", "event_elapsed_us", "event_query_us"),
    "overlap": ("overlap_h2d", "overlap_d2h"),
    "allocations": ("alloc_free_us", "alloc_async_us", "alloc_host_us"),
    "modules": ("module_load_small_ms", "module_load_large_ms"),
    "graphs": ("graph_100_us", "graph_1000_us"),
}


def row_of(figure):
    """The row that compares a figure with its baseline."""
    if re.match(r"[hd]2[hd]_pin|[hd]2[hd]_pag", figure):
        return figure
    if figure == "launches_1":
        return "launches_ratio"
    return re.sub(r"_(us|ms|ns)$", "", figure) + "_ratio"


def run(step):
    """Runs the program in each mode in turns, section by section."""
    for section, figures in SECTIONS.items():
        rows = {it: row_of(it) for it in figures}
        if not any(step.wants(it) for it in (*rows.values(), *figures)):
            continue
        modes = ["native", *step.ours()]
        told, failed = {it: [] for it in modes}, {}
        for _ in step.turns():
            for mode in modes:
                if mode not in failed:
                    figures_of, why = _turn(step, mode, section)
                    told[mode].append(figures_of)
                    if why:
                        failed[mode] = f"{mode}: {why}"
        for figure, row in rows.items():
            _tell(step, figure, row, told, failed)


def _turn(step, mode, section):
    """One run of the program: its figures, and why it failed."""
    limit = min(step.left() - 1, 40)
    ran = step.place(mode).run([step.program("micro"), section, step.scale], limit)
    figures = {}
    for line in ran.out.splitlines():
        try:
            it = json.loads(line)
            figures[it["name"]] = it["value"]
        except (json.JSONDecodeError, KeyError, TypeError):
            continue
    return figures, ran.failed


def _tell(step, figure, row, told, failed):
    native = [it.get(figure) for it in told["native"]]
    for mode in step.ours():
        values = [it.get(figure) for it in told[mode]]
        complete = all(it is not None for it in (*native, *values))
        reason = None if complete else failed.get(mode) or failed.get("native") or "the program told no figure"
        absolute = [it for it in values if it is not None]
        if step.wants(row, mode):
            config = f"{figure} {sorted(absolute)[len(absolute) // 2]:.6g}" if absolute else figure
            step.tell(row, mode, values, native, config=config, reason=reason)
    for mode in ("native", *step.ours()):
        if step.wants(figure, mode):
            step.tell(figure, mode, [it.get(figure) for it in told[mode]],
                      reason=failed.get(mode) if not any(told[mode]) else None)
