//! Colours, and their substitutes in a terminal without them.

use ratatui::style::{Color, Modifier, Style};

/// Colours of tenants: distinguishable for most people, on dark and on light backgrounds.
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

/// The style of the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    /// True if colours are used.
    pub(crate) colours: bool,
}

impl Look {
    /// A tenant's colour.
    pub(crate) fn of(self, tenant: &str) -> Style {
        // Any hash will do, as long as it is stable.
        let sum = tenant
            .bytes()
            .fold(7_u32, |sum, byte| sum.wrapping_mul(31) ^ u32::from(byte));
        match self.colours {
            true => Style::new().fg(COLOURS[sum as usize % COLOURS.len()]),
            false => Style::new(),
        }
    }

    /// The style of a warning.
    pub(crate) fn warned(self) -> Style {
        match self.colours {
            true => Style::new().fg(Color::Red),
            false => Style::new().add_modifier(Modifier::BOLD),
        }
    }
}
