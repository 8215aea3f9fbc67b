//! The picture: header, lanes, tables, and a line of keys.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Clear, Paragraph, Row, Table, TableState};

use crate::lanes::Lanes;
use crate::room::{Pane, Room};
use crate::rows::{GpuRow, TenantRow};
use warploom_cli::admin::SessionRow;
use warploom_cli::commands::tenant::size as short_bytes;
use warploom_cli::target::duration as short_time;

/// Colours of tenants: told apart by most eyes, on dark and on light.
const COLOURS: [Color; 8] = [
    Color::Indexed(68),
    Color::Indexed(173),
    Color::Indexed(71),
    Color::Indexed(134),
    Color::Indexed(178),
    Color::Indexed(37),
    Color::Indexed(168),
    Color::Indexed(102),
];
/// Cells of what ran a quarter of their time, half, three quarters, all.
const BLOCKS: [char; 4] = ['░', '▒', '▓', '█'];
/// Columns of a lane's head.
const HEAD: u16 = 30;
/// Rows of lanes at most.
const LANES: usize = 8;

const HELP: &str = "\
  Tab     tenants, sessions, devices
  ↑ ↓     select a row (k, j)
  s       sort by name, busy, queue, memory
  /       filter by a text; Esc clears it
  e       end the selected session
  d       drain the selected device's worker, or undo it
  p       suspend the selected tenant, or resume it
  q       quit";

/// How it is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    /// Whether there are colours.
    pub(crate) colours: bool,
}

impl Look {
    fn of(self, tenant: &str) -> Style {
        // Any spread will do, the same each time.
        let sum = tenant
            .bytes()
            .fold(7_u32, |sum, byte| sum.wrapping_mul(31) ^ u32::from(byte));
        match self.colours {
            true => Style::new().fg(COLOURS[sum as usize % COLOURS.len()]),
            false => Style::new(),
        }
    }

    fn warned(self) -> Style {
        match self.colours {
            true => Style::new().fg(Color::Red),
            false => Style::new().add_modifier(Modifier::BOLD),
        }
    }
}

/// Draws all of it.
pub(crate) fn draw(frame: &mut Frame<'_>, room: &Room, lanes: &Lanes, now_ms: u64, look: Look) {
    let gpus = room.gpus();
    let shown = gpus.len().clamp(1, LANES) as u16;
    let [head, weave, table, keys] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(shown + 2),
        Constraint::Min(4),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(header(room, look), head);
    draw_lanes(frame, weave, &gpus, lanes, now_ms, look);
    match room.pane {
        Pane::Tenants => draw_tenants(frame, table, room, look),
        Pane::Sessions => draw_sessions(frame, table, room, look),
        Pane::Devices => draw_devices(frame, table, room, &gpus),
    }
    frame.render_widget(footer(room, look), keys);
    if room.help {
        let area = frame.area();
        let [area] = Layout::vertical([Constraint::Length(10)]).areas(area);
        frame.render_widget(Clear, area);
        let block = Block::bordered().title(" keys ");
        frame.render_widget(Paragraph::new(HELP).block(block), area);
    }
}

fn header<'r>(room: &'r Room, look: Look) -> Paragraph<'r> {
    let Some(sample) = &room.sample else {
        return Paragraph::new("no leader answers yet");
    };
    let cluster = sample.cluster();
    let mut first = vec![
        Span::raw("warploom ").add_modifier(Modifier::BOLD),
        Span::raw(format!(
            "leader {} epoch {}, position {}",
            cluster.leader, cluster.epoch, cluster.global
        )),
    ];
    if cluster.held {
        first.push(Span::styled("  grants are held", look.warned()));
    }
    let alarms = cluster.alarms.join("; ");
    let second = match (alarms.is_empty(), room.message.is_empty()) {
        (false, _) => Line::styled(format!("alarm: {alarms}"), look.warned()),
        (true, false) => Line::raw(room.message.clone()),
        (true, true) => Line::raw(""),
    };
    Paragraph::new(vec![Line::from(first), second])
}

fn draw_lanes(
    frame: &mut Frame<'_>,
    area: Rect,
    gpus: &[GpuRow],
    lanes: &Lanes,
    now_ms: u64,
    look: Look,
) {
    let block = Block::new().borders(Borders::TOP).title(" weave ");
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let width = inside.width.saturating_sub(HEAD) as usize;
    let lines = gpus.iter().take(LANES).map(|gpu| {
        let busy = gpu
            .busy
            .map_or_else(|| "  -".into(), |busy| format!("{:>3.0} %", busy * 100.0));
        let head = format!("gpu {:<3} {:<14.14} {busy} ", gpu.gpu, gpu.device);
        let mut spans = vec![Span::raw(format!("{head:<0$.0$}", HEAD as usize))];
        for cell in lanes.shown(gpu.gpu, now_ms, width) {
            spans.push(match cell {
                None => Span::raw("·"),
                Some(cell) if look.colours => {
                    let block = (cell.busy * 4.0).ceil().clamp(1.0, 4.0) as usize - 1;
                    Span::styled(BLOCKS[block].to_string(), look.of(&cell.tenant))
                }
                // Without colours a tenant is its first letter.
                Some(cell) => Span::raw(cell.tenant.chars().take(1).collect::<String>()),
            });
        }
        Line::from(spans)
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), inside);
}

/// A table with the selected row marked.
fn draw_table(
    frame: &mut Frame<'_>,
    area: Rect,
    room: &Room,
    title: &str,
    head: &[(&str, u16)],
    rows: Vec<Row<'_>>,
) {
    let filter = match room.filter.is_empty() && !room.typing {
        true => String::new(),
        false => format!(", with {:?}", room.filter),
    };
    let title = format!(" {title} ({}) by {}{filter} ", rows.len(), room.sort.name());
    let mut state = TableState::default();
    state.select((!rows.is_empty()).then_some(room.selected));
    // What is last takes what is left.
    let widths = head.iter().map(|(_, width)| match width {
        0 => Constraint::Fill(1),
        width => Constraint::Length(*width),
    });
    let names = head.iter().map(|(name, _)| number_or_text(name));
    let table = Table::new(rows, widths)
        .header(Row::new(names).add_modifier(Modifier::BOLD))
        .block(Block::new().borders(Borders::TOP).title(title))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_stateful_widget(table, area, &mut state);
}

/// A column's name; those of numbers end with `>` and stand to the right.
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

fn draw_tenants(frame: &mut Frame<'_>, area: Rect, room: &Room, look: Look) {
    let head = [
        ("tenant", 14),
        ("state", 9),
        ("prio>", 4),
        ("busy>", 5),
        ("sessions>", 8),
        ("queued>", 7),
        ("p99>", 8),
        ("target>", 8),
        ("attained>", 8),
        ("memory>", 9),
        ("swapped>", 0),
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
        Row::new([
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
        ])
    };
    let rows = room.tenants().into_iter().map(row).collect();
    draw_table(frame, area, room, "tenants", &head, rows);
}

fn draw_sessions(frame: &mut Frame<'_>, area: Rect, room: &Room, look: Look) {
    let head = [
        ("session", 16),
        ("tenant", 14),
        ("gpu>", 4),
        ("waits for", 10),
        ("queued>", 8),
        ("busy>", 6),
        ("memory>", 9),
        ("place", 8),
        ("program", 0),
    ];
    let row = |row: SessionRow| {
        let program = row.process.map_or_else(String::new, |process| {
            format!("{} {} on {}", process.name, process.pid, process.host)
        });
        let busy = row
            .busy_ppm
            .map_or_else(|| "-".into(), |ppm| percent(f64::from(ppm) / 1e6));
        Row::new([
            Cell::from(row.id.to_string()),
            Cell::from(row.tenant.to_string()).style(look.of(row.tenant.as_str())),
            number(row.gpu.to_string()),
            Cell::from(row.waits_for.name()),
            number(row.queued.to_string()),
            number(busy),
            number(row.held.map_or_else(|| "-".into(), short_bytes)),
            Cell::from(row.place.unwrap_or("-")),
            Cell::from(program),
        ])
    };
    let rows = room.sessions().into_iter().map(row).collect();
    draw_table(frame, area, room, "sessions", &head, rows);
}

fn draw_devices(frame: &mut Frame<'_>, area: Rect, room: &Room, gpus: &[GpuRow]) {
    let head = [
        ("gpu>", 4),
        ("worker", 16),
        ("device", 24),
        ("state", 8),
        ("busy>", 6),
        ("sessions>", 8),
        ("memory>", 9),
        ("of>", 9),
        ("outstanding>", 11),
    ];
    let bytes = |bytes: Option<u64>| number(bytes.map_or_else(|| "-".into(), short_bytes));
    let row = |gpu: &GpuRow| {
        Row::new([
            number(gpu.gpu.to_string()),
            Cell::from(gpu.worker.clone()),
            Cell::from(gpu.device.clone()),
            Cell::from(gpu.state),
            number(gpu.busy.map_or_else(|| "-".into(), percent)),
            number(gpu.sessions.to_string()),
            bytes(gpu.held),
            bytes(gpu.capacity),
            number(short_time(gpu.outstanding_ns)),
        ])
    };
    let rows = gpus.iter().map(row).collect();
    draw_table(frame, area, room, "devices", &head, rows);
}

fn footer(room: &Room, look: Look) -> Paragraph<'static> {
    if let Some(action) = &room.asked {
        return Paragraph::new(Line::styled(action.question(), look.warned()));
    }
    let keys = match (room.typing, room.pane) {
        (true, _) => format!("filter: {}_   Enter keeps it, Esc clears it", room.filter),
        (false, Pane::Tenants) => {
            "q quit  Tab sessions  s sort  / filter  p suspend or resume  ? keys".into()
        }
        (false, Pane::Sessions) => "q quit  Tab devices  s sort  / filter  e end  ? keys".into(),
        (false, Pane::Devices) => "q quit  Tab tenants  d drain or undo  ? keys".into(),
    };
    Paragraph::new(keys)
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::room::Key;
    use crate::rows::tests::sample;

    fn drawn(room: &Room, width: u16, height: u16) -> String {
        let mut lanes = Lanes::default();
        lanes.add(0, "chat", 10_000, 900_000_000);
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        let look = Look { colours: true };
        let draw = |frame: &mut Frame<'_>| draw(frame, room, &lanes, 10_000, look);
        terminal.draw(draw).expect("it is drawn");
        terminal.backend().to_string()
    }

    #[test]
    fn each_pane_shows_its_rows_and_what_keys_do() {
        let mut room = Room::default();
        assert!(drawn(&room, 100, 20).contains("no leader answers yet"));
        room.take(sample());
        let text = drawn(&room, 100, 20);
        for part in [
            "epoch 3",
            "gpu 0",
            "███",
            "chat",
            "train",
            "suspended",
            "q quit",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        room.key(Key::Tab);
        let text = drawn(&room, 100, 20);
        for part in ["000000000000002a", "order", "3.0 MiB", "25 %", "e end"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        room.key(Key::Tab);
        let text = drawn(&room, 100, 20);
        for part in ["a device", "live", "1.5 ms", "d drain"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        room.key(Key::Char('d'));
        assert!(drawn(&room, 100, 20).contains("Drain worker 00000000000000a1?"));
        room.key(Key::Char('n'));
        room.key(Key::Char('?'));
        assert!(drawn(&room, 100, 20).contains("suspend the selected tenant"));
    }

    #[test]
    fn whatever_the_terminal_is_it_is_drawn() {
        let mut room = Room::default();
        room.take(sample());
        for (width, height) in [(1, 1), (10, 3), (40, 8), (300, 100)] {
            for _ in 0..3 {
                drawn(&room, width, height);
                room.key(Key::Tab);
            }
        }
    }
}
