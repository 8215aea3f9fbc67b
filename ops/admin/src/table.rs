//! Tables that fit the width of their display: unchanged if they fit, else with long texts on
//! several lines, else row by row with a line for each column.

use std::io::IsTerminal;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Row, Table, Width};

/// Default width if stdout is no terminal and `COLUMNS` is not set.
pub const WIDTH: usize = 120;
/// Minimum width; smaller values are ignored.
const LEAST: usize = 20;

/// An empty table with these columns: their names separated by `|`. A `>` after the name marks a
/// column of numbers, which is aligned to the right.
#[must_use]
pub fn headed(columns: &str) -> Table {
    let names = || columns.split('|').map(str::trim);
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_header(names().map(|name| name.trim_end_matches('>')));
    for (index, name) in names().enumerate() {
        if let Some(column) = table.column_mut(index).filter(|_| name.ends_with('>')) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// The table as text that fits the terminal, else `COLUMNS`, else [`WIDTH`].
#[must_use]
pub fn fitted(table: &Table) -> String {
    fit(table, width(table))
}

fn width(table: &Table) -> usize {
    let terminal = std::io::stdout().is_terminal().then(|| table.width());
    let said = || std::env::var("COLUMNS").ok()?.parse().ok();
    let found = terminal.flatten().map(usize::from).or_else(said);
    found.unwrap_or(WIDTH).max(LEAST)
}

/// The table as text that fits this width.
#[must_use]
pub fn fit(table: &Table, width: usize) -> String {
    let rows = || table.header().into_iter().chain(table.row_iter());
    let columns = rows().map(Row::cell_count).max().unwrap_or(0);
    // A border before, between and after columns, and a space on both sides of each cell.
    let drawn = |widths: &[usize]| widths.iter().sum::<usize>() + 3 * columns + 1;
    let widest = |measure: fn(&str) -> usize| {
        let mut widths = vec![0; columns];
        for row in rows() {
            for (widest, cell) in widths.iter_mut().zip(row.cell_iter()) {
                *widest = (*widest).max(measure(&cell.content()));
            }
        }
        widths
    };
    if drawn(&widest(line)) <= width {
        return table.to_string();
    }
    let words = widest(word);
    if drawn(&words) <= width {
        let mut table = table.clone();
        table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(u16::try_from(width).unwrap_or(u16::MAX));
        for (index, word) in words.into_iter().enumerate() {
            if let Some(column) = table.column_mut(index) {
                let least = u16::try_from(word + 2).unwrap_or(u16::MAX);
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
            }
        }
        let text = table.to_string();
        if line(&text) <= width {
            return text;
        }
    }
    stacked(table, width)
}

/// The width of a text's widest line, without colours.
fn line(text: &str) -> usize {
    let shown = |line: &str| {
        let mut parts = line.split('\u{1b}');
        let first = parts.next().map_or(0, |part| part.chars().count());
        let behind = |part: &str| part.split_once('m').map_or(0, |(_, it)| it.chars().count());
        first + parts.map(behind).sum::<usize>()
    };
    text.lines().map(shown).max().unwrap_or(0)
}

/// The width of a text's widest word.
fn word(text: &str) -> usize {
    let words = text.split_whitespace().map(|word| word.chars().count());
    words.max().unwrap_or(0)
}

/// A block for each row, with a line for each column that is not empty.
fn stacked(table: &Table, width: usize) -> String {
    let contents =
        |row: &Row| -> Vec<String> { row.cell_iter().map(|cell| cell.content()).collect() };
    let names = table.header().map(contents).unwrap_or_default();
    let indent = names.iter().map(|name| line(name)).max().unwrap_or(0) + 2;
    let room = width.saturating_sub(indent).max(1);
    let mut blocks = Vec::new();
    for row in table.row_iter() {
        let mut block = String::new();
        for (index, content) in contents(row).iter().enumerate() {
            let name = names.get(index).map_or("", String::as_str);
            for (part, text) in folded(content, room).iter().enumerate() {
                let name = if part == 0 { name } else { "" };
                block += &format!("{name:<indent$}{text}\n");
            }
        }
        blocks.push(block);
    }
    blocks.join("\n").trim_end().to_owned()
}

/// A text in lines of at most `room` characters, broken between words if possible.
fn folded(text: &str, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let mut rest: Vec<char> = word.chars().collect();
        if let Some(last) = lines.last_mut()
            && last.chars().count() + 1 + rest.len() <= room
        {
            last.push(' ');
            last.push_str(word);
            continue;
        }
        while rest.len() > room {
            let tail = rest.split_off(room);
            lines.push(rest.into_iter().collect());
            rest = tail;
        }
        lines.push(rest.into_iter().collect());
    }
    lines
}

/// Bytes for people.
#[must_use]
pub fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes < 1 << 20 => format!("{bytes} B"),
        bytes if bytes < 1 << 30 => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
        bytes if bytes < 1 << 40 => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
        bytes => format!("{:.1} TiB", bytes as f64 / (1_u64 << 40) as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(header: &[&str], rows: &[&[&str]]) -> Table {
        let mut table = headed(&header.join("|"));
        for row in rows {
            table.add_row(row.to_vec());
        }
        table
    }

    #[test]
    fn whatever_the_width_it_fits_and_says_all() {
        let words = "a kernel that runs longer ends with E-KERNEL-WATCHDOG";
        let table = table(
            &["setting", "value", "what it does"],
            &[&["worker.watchdog", "30s", words], &["x", "", "y"]],
        );
        for width in 20..130 {
            let text = fit(&table, width);
            let widest = line(&text);
            assert!(widest <= width, "{width}: {widest}\n{text}");
            let all = text.replace(['│', '┆', '\n'], " ");
            let unfolded: String = all.split_whitespace().collect();
            for word in words.split_whitespace() {
                assert!(
                    unfolded.contains(word) || width < 60,
                    "{width}: {word}\n{text}"
                );
            }
            assert!(text.contains("watchdog") || width < 40, "{text}");
        }
        assert_eq!(fit(&table, 120), table.to_string());
    }

    #[test]
    fn many_columns_are_stacked_and_no_word_is_cut() {
        let header = [
            "gpu",
            "worker",
            "device",
            "granted",
            "accepted",
            "outstanding",
        ];
        let row = [
            "0",
            "99aabbccddeeff00",
            "cpu",
            "1234567",
            "1234567",
            "17.25 ms",
        ];
        let text = fit(&table(&header, &[&row, &row]), 40);
        assert!(text.contains("worker       99aabbccddeeff00\n"), "{text}");
        assert!(text.contains("outstanding  17.25 ms\n\ngpu"), "{text}");
    }

    #[test]
    fn a_word_wider_than_all_is_cut() {
        assert_eq!(folded("ab cdefgh i", 3), ["ab", "cde", "fgh", "i"]);
        assert_eq!(folded("", 3), [""; 0]);
    }
}
