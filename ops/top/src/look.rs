//! Colours, or what stands for them.

use ratatui::style::{Color, Modifier, Style};

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

/// How it is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    /// Whether there are colours.
    pub(crate) colours: bool,
}

impl Look {
    /// A tenant's colour.
    pub(crate) fn of(self, tenant: &str) -> Style {
        // Any spread will do, the same each time.
        let sum = tenant
            .bytes()
            .fold(7_u32, |sum, byte| sum.wrapping_mul(31) ^ u32::from(byte));
        match self.colours {
            true => Style::new().fg(COLOURS[sum as usize % COLOURS.len()]),
            false => Style::new(),
        }
    }

    /// What something wrong looks like.
    pub(crate) fn warned(self) -> Style {
        match self.colours {
            true => Style::new().fg(Color::Red),
            false => Style::new().add_modifier(Modifier::BOLD),
        }
    }
}
