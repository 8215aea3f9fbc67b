//! The tables of tenants, sessions and devices: as many whole columns as fit.

use admin::SessionRow;
use admin::table::size as short_bytes;
use admin::target::duration as short_time;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Cell, Row, Table, TableState};

use crate::look::Look;
use crate::room::Room;
use crate::rows::{GpuRow, TenantRow};

/// Width of a time, `999.99 ms`, and of bytes, `1023.9 MiB`.
const TIME: u16 = 9;
const BYTES: u16 = 10;

/// A column: its name, its width, and its rank for removal. A name that ends with `>` aligns its
/// numbers to the right. If the columns do not fit, the lowest rank is removed first; rank 0 always
/// stays.
type Column = (&'static str, u16, u8);

/// Indices of the columns that fit, after removals by rank.
fn fitting(columns: &[Column], width: u16) -> Vec<usize> {
    let mut fit: Vec<usize> = (0..columns.len()).collect();
    let needed = |fit: &[usize]| -> usize {
        let widths = fit.iter().map(|at| usize::from(columns[*at].1) + 1);
        widths.sum::<usize>().saturating_sub(1)
    };
    while needed(&fit) > usize::from(width) {
        let turn = |at: &usize| columns[*at].2;
        let leaves = fit
            .iter()
            .copied()
            .filter(|at| turn(at) > 0)
            .min_by_key(turn);
        match leaves {
            Some(leaves) => fit.retain(|at| *at != leaves),
            None => break,
        }
    }
    fit
}

/// Draws a table with the selected row marked; the column `wide` takes the remaining width.
fn draw_table(
    frame: &mut Frame<'_>,
    area: Rect,
    room: &Room,
    (title, wide): (&str, &str),
    columns: &[Column],
    rows: Vec<Vec<Cell<'_>>>,
) {
    let filter = match room.filter.is_empty() && !room.typing {
        true => String::new(),
        false => format!(", with {:?}", room.filter),
    };
    let title = format!(" {title} ({}) by {}{filter} ", rows.len(), room.sort.name());
    let mut state = TableState::default();
    state.select((!rows.is_empty()).then_some(room.selected));
    let fit = fitting(columns, area.width);
    let widths = fit.iter().map(|at| match columns[*at] {
        (name, ..) if name == wide => Constraint::Fill(1),
        (_, width, _) => Constraint::Length(width),
    });
    let names = fit.iter().map(|at| number_or_text(columns[*at].0));
    let rows = rows.into_iter().map(|mut cells| {
        let shown = fit
            .iter()
            .filter_map(|at| cells.get_mut(*at).map(std::mem::take));
        Row::new(shown.collect::<Vec<_>>())
    });
    let table = Table::new(rows.collect::<Vec<_>>(), widths)
        .header(Row::new(names).style(Modifier::BOLD))
        .block(Block::new().borders(Borders::TOP).title(title))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_stateful_widget(table, area, &mut state);
}

/// The heading of a column, aligned to the right if its name ends with `>`.
fn number_or_text(name: &str) -> Cell<'static> {
    match name.strip_suffix('>') {
        Some(name) => number(name.to_owned()),
        None => Cell::from(name.to_owned()),
    }
}

fn number(text: String) -> Cell<'static> {
    Cell::from(Line::raw(text).alignment(Alignment::Right))
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

/// Draws the tenants.
pub(crate) fn draw_tenants(frame: &mut Frame<'_>, area: Rect, room: &Room, look: Look) {
    let head = [
        ("tenant", 12, 0),
        ("state", 9, 9),
        ("prio>", 4, 5),
        ("busy>", 5, 0),
        ("sessions>", 8, 10),
        ("queued>", 7, 6),
        ("p99>", TIME, 3),
        ("target>", TIME, 2),
        ("attained>", 8, 4),
        ("memory>", BYTES, 7),
        ("swapped>", BYTES, 1),
    ];
    let row = |row: TenantRow| {
        let late = row.attained.is_some_and(|attained| attained < 0.99);
        let attained = row
            .attained
            .map_or_else(|| "-".into(), |it| format!("{:.1} %", it * 100.0));
        let attained = number(attained);
        let attained = if late {
            attained.style(look.warned())
        } else {
            attained
        };
        let time = |ns: Option<u64>| number(ns.map_or_else(|| "-".into(), short_time));
        let name = format!("■ {}", row.tenant);
        vec![
            Cell::from(name).style(look.of(&row.tenant)),
            Cell::from(if row.suspended { "suspended" } else { "active" }),
            number(row.priority.to_string()),
            number(percent(row.busy)),
            number(row.sessions.to_string()),
            number(row.queued.to_string()),
            time(row.p99_ns),
            time(Some(row.target_ns).filter(|target| *target > 0)),
            attained,
            number(short_bytes(row.held)),
            number(short_bytes(row.swapped)),
        ]
    };
    let rows = room.tenants().into_iter().map(row).collect();
    draw_table(frame, area, room, ("tenants", "tenant"), &head, rows);
}

/// Draws the sessions.
pub(crate) fn draw_sessions(frame: &mut Frame<'_>, area: Rect, room: &Room, look: Look) {
    let head = [
        ("session", 16, 0),
        ("tenant", 14, 8),
        ("gpu>", 4, 4),
        ("waits for", 10, 9),
        ("queued>", 8, 2),
        ("busy>", 6, 6),
        ("memory>", BYTES, 5),
        ("place", 8, 1),
        ("program", 12, 3),
    ];
    let row = |row: SessionRow| {
        let program = row.process.map_or_else(String::new, |process| {
            format!("{} {} on {}", process.name, process.pid, process.host)
        });
        let busy = row
            .busy_ppm
            .map_or_else(|| "-".into(), |ppm| percent(f64::from(ppm) / 1e6));
        vec![
            Cell::from(row.id.to_string()),
            Cell::from(row.tenant.to_string()).style(look.of(row.tenant.as_str())),
            number(row.gpu.to_string()),
            Cell::from(row.waits_for.name()),
            number(row.queued.to_string()),
            number(busy),
            number(row.held.map_or_else(|| "-".into(), short_bytes)),
            Cell::from(row.place.unwrap_or("-")),
            Cell::from(program),
        ]
    };
    let rows = room.sessions().into_iter().map(row).collect();
    draw_table(frame, area, room, ("sessions", "program"), &head, rows);
}

/// Draws the devices.
pub(crate) fn draw_devices(frame: &mut Frame<'_>, area: Rect, room: &Room, gpus: &[GpuRow]) {
    let head = [
        ("gpu>", 4, 0),
        ("worker", 16, 7),
        ("device", 14, 4),
        ("state", 8, 0),
        ("busy>", 6, 6),
        ("sessions>", 8, 5),
        ("memory>", BYTES, 3),
        ("of>", BYTES, 1),
        ("outstanding>", 11, 2),
    ];
    let bytes = |bytes: Option<u64>| number(bytes.map_or_else(|| "-".into(), short_bytes));
    let row = |gpu: &GpuRow| {
        vec![
            number(gpu.gpu.to_string()),
            Cell::from(gpu.worker.clone()),
            Cell::from(gpu.device.clone()),
            Cell::from(gpu.state),
            number(gpu.busy.map_or_else(|| "-".into(), percent)),
            number(gpu.sessions.to_string()),
            bytes(gpu.held),
            bytes(gpu.capacity),
            number(short_time(gpu.outstanding_ns)),
        ]
    };
    let rows = gpus.iter().map(row).collect();
    draw_table(frame, area, room, ("devices", "device"), &head, rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_leave_in_their_turn_until_the_others_fit() {
        let columns = [("a", 4, 0), ("b", 4, 2), ("c", 4, 1), ("d", 4, 0)];
        assert_eq!(fitting(&columns, 19), [0, 1, 2, 3]);
        assert_eq!(fitting(&columns, 18), [0, 1, 3]);
        assert_eq!(fitting(&columns, 13), [0, 3]);
        assert_eq!(fitting(&columns, 0), [0, 3]);
        assert_eq!(fitting(&[], 0), [0; 0]);
    }

    #[test]
    fn figures_are_no_wider_than_their_columns() {
        let digits = (0..12).flat_map(|power| [1, 9, 73].map(|it| it * 10_u64.pow(power)));
        for ns in digits.chain((0..9).map(|power| 10_u64.pow(power + 3) - 1)) {
            assert!(short_time(ns).len() <= usize::from(TIME), "{ns}");
        }
        for bytes in (0..48).flat_map(|power| [1 << power, (1 << power) - 1]) {
            assert!(short_bytes(bytes).len() <= usize::from(BYTES), "{bytes}");
        }
    }
}
