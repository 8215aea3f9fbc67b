//! The picture: header, lanes, tables, and a line of keys.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph, Wrap};

use crate::lanes::Lanes;
use crate::look::Look;
use crate::room::{Pane, Room};
use crate::rows::GpuRow;
use crate::table::{draw_devices, draw_sessions, draw_tenants};

/// Cells of work that ran a quarter of their time, half, three quarters, all.
const BLOCKS: [char; 4] = ['░', '▒', '▓', '█'];
/// Width of a lane's heading.
const HEAD: u16 = 30;
/// Maximum number of lanes.
const LANES: usize = 8;

const HELP: &str = "\
\x20 Tab     tenants, sessions, devices
  ↑ ↓     select a row (k, j)
  s       sort by name, busy, queue, memory
  /       filter by a text; Esc clears it
  e       end the selected session
  d       drain the selected device's worker, or undo it
  p       suspend the selected tenant, or resume it
  q       quit";

/// Draws the whole picture.
pub(crate) fn draw(frame: &mut Frame<'_>, room: &Room, lanes: &Lanes, now_ms: u64, look: Look) {
    let gpus = room.gpus();
    let shown = gpus.len().clamp(1, LANES) as u16;
    // A question is always shown in full, even if other parts do not fit.
    let (keys, style) = footer(room, look);
    let lines = match room.asked {
        Some(_) => lines(&keys, frame.area().width),
        None => 1,
    };
    let keys = Paragraph::new(keys).style(style).wrap(Wrap { trim: true });
    let [rest, bottom] =
        Layout::vertical([Constraint::Min(0), Constraint::Length(lines)]).areas(frame.area());
    let [head, weave, table] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(shown + 2),
        Constraint::Min(4),
    ])
    .areas(rest);
    frame.render_widget(header(room, look), head);
    draw_lanes(frame, weave, &gpus, lanes, now_ms, look);
    match room.pane {
        Pane::Tenants => draw_tenants(frame, table, room, look),
        Pane::Sessions => draw_sessions(frame, table, room, look),
        Pane::Devices => draw_devices(frame, table, room, &gpus),
    }
    frame.render_widget(keys, bottom);
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
    let alarms = [cluster.lost, cluster.alarms].concat().join("; ");
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
                // Without colours a tenant is shown by its first letter.
                Some(cell) => Span::raw(cell.tenant.chars().take(1).collect::<String>()),
            });
        }
        Line::from(spans)
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), inside);
}

/// Number of rows that a text takes at this width, broken between words: at least one.
fn lines(text: &str, width: u16) -> u16 {
    let (width, mut lines, mut used) = (usize::from(width.max(1)), 1, 0);
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            (lines, used) = (lines + 1, 0);
        }
        used += length + usize::from(used > 0);
        // A word longer than a row continues in the next.
        lines += used.saturating_sub(1) / width;
        used -= used.saturating_sub(1) / width * width;
    }
    u16::try_from(lines).unwrap_or(u16::MAX)
}

/// The line of keys or the pending question, with its style.
fn footer(room: &Room, look: Look) -> (String, Style) {
    if let Some(action) = &room.asked {
        return (action.question(), look.warned());
    }
    let keys = match (room.typing, room.pane) {
        (true, _) => {
            let filter = &room.filter;
            return (
                format!("filter: {filter}_   Enter keeps it, Esc clears it"),
                Style::new(),
            );
        }
        (false, Pane::Tenants) => {
            "q quit  Tab sessions  s sort  / filter  p suspend or resume  ? keys"
        }
        (false, Pane::Sessions) => "q quit  Tab devices  s sort  / filter  e end  ? keys",
        (false, Pane::Devices) => "q quit  Tab tenants  d drain or undo  ? keys",
    };
    (keys.into(), Style::new())
}

#[cfg(test)]
mod tests {
    use bus_schemas::{Incarnation, LostWorker};
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
    fn a_lost_worker_is_named_in_the_head() {
        let mut lost = sample();
        lost.status.lost.push(LostWorker {
            incarnation: Incarnation(0xb2),
            gpu: Some(1),
            device: "cpu".into(),
            lost_for_ns: 5,
        });
        let mut room = Room::default();
        room.take(lost);
        let text = drawn(&room, 100, 20);
        let said = "alarm: worker of gpu 1 (00000000000000b2, cpu) is lost";
        assert!(text.contains(said), "{text}");
    }

    #[test]
    fn a_question_is_seen_to_its_end_at_any_width() {
        let mut room = Room::default();
        room.take(sample());
        room.key(Key::Tab);
        room.key(Key::Char('e'));
        for (width, height) in [(200, 60), (80, 24), (40, 12), (20, 6)] {
            let text = drawn(&room, width, height);
            assert!(text.contains("y/n"), "{width}: {text}");
            assert!(text.contains("End session"), "{width}: {text}");
        }
        assert_eq!(lines("", 10), 1);
        assert_eq!(lines("ab cd", 5), 1);
        assert_eq!(lines("ab cd e", 5), 2);
        assert_eq!(lines("abcdefghij kl", 5), 3);
        assert_eq!(lines("ab", 0), 2);
    }

    #[test]
    fn columns_are_whole_or_not_there() {
        let mut room = Room::default();
        room.take(sample());
        let shown = |room: &Room, width: u16, parts: &[&str], others: &[&str]| {
            let text = drawn(room, width, 20);
            for part in parts {
                assert!(text.contains(part), "{width}: {part}: {text}");
            }
            for part in others {
                assert!(!text.contains(part), "{width}: {part}: {text}");
            }
        };
        shown(&room, 120, &["sessions", "attained", "swapped"], &[]);
        shown(&room, 80, &["sessions", "p99", "memory"], &["swapped"]);
        shown(
            &room,
            40,
            &["chat", "active", "busy", "sessions"],
            &["memory"],
        );
        shown(&room, 20, &["train", "busy"], &["queued"]);
        assert!(drawn(&room, 20, 6).contains("chat"), "some rows are left");
        room.key(Key::Tab);
        shown(
            &room,
            80,
            &["000000000000002a", "waits for", "memory"],
            &["place"],
        );
        shown(&room, 40, &["000000000000002a", "waits for"], &["program"]);
        room.key(Key::Tab);
        shown(
            &room,
            80,
            &["00000000000000a1", "a device", "sessions"],
            &["outstanding"],
        );
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
