"""The summary of a session, rewritten after each step."""


def figure(value):
    """A number in three significant digits."""
    if value is None:
        return "-"
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.3g}"


def met(row, value):
    """True if the value reaches the goal, None without goal or value."""
    if row.goal is None or value is None:
        return None
    return value >= row.goal if row.better == "higher" else value <= row.goal


def markdown(rows, results, absent, phases):
    """One table a phase: each row that has a result, goals that were missed first."""
    told = {(it["metric"], it["mode"]): it for it in results}
    lines = ["# Session", ""]
    for phase in phases:
        table = []
        for row in rows.rows:
            for key in rows.keys(row, absent) if row.phase == phase else ():
                if result := told.get(key):
                    reached = met(row, result["value"])
                    table.append((reached is not False, row, key[1], result))
        table.sort(key=lambda it: it[0])
        lines += [f"## Phase {phase}", "", "| row | mode | value | unit | baseline | goal | note |",
                  "| --- | --- | ---: | --- | ---: | ---: | --- |"]
        for reached, row, mode, result in table:
            note = result["reason"] or result["config"]
            goal = "" if row.goal is None else f"{figure(row.goal)}{'' if reached else ' missed'}"
            lines.append(f"| {row.name} | {mode} | {figure(result['value'])} | {row.unit} | "
                         f"{figure(result['baseline_value'])} | {goal} | {str(note)[:120].replace('|', '/')} |")
        lines.append("")
    missing = rows.missing(results, absent, phases)
    lines += [f"{len(missing)} rows missing.", ""]
    return "\n".join(lines)
