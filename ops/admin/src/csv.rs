//! Comma-separated values as in RFC 4180, with line feeds: one writer and one reader for all such
//! files. Spreadsheets never take text for a formula.

use thiserror::Error;

/// A syntax error of a file, with its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CsvError {
    /// A quoted cell does not end.
    #[error("line {0}: a quote does not end")]
    Open(usize),
    /// More text follows a cell's closing quote.
    #[error("line {0}: text behind a closing quote")]
    Behind(usize),
}

/// A row of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvRow {
    /// The line on which it begins, from 1.
    pub line: usize,
    /// Its cells, unquoted.
    pub cells: Vec<String>,
}

/// Cells as a line, with its end.
pub fn line<T: AsRef<str>>(cells: impl IntoIterator<Item = T>) -> String {
    let cells: Vec<_> = cells.into_iter().map(|it| cell(it.as_ref())).collect();
    match &cells[..] {
        // An empty line would not be read as a row.
        [only] if only.is_empty() => "\"\"\n".into(),
        _ => cells.join(",") + "\n",
    }
}

fn cell(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r'])
        && text.len() > 1
        && text.parse::<f64>().is_err();
    let text = match formula {
        true => format!("'{text}"),
        false => text.to_owned(),
    };
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

/// Cells as `nvidia-smi` prints them. Its readers split at commas, so no cell is quoted or contains
/// a comma.
pub fn unquoted<T: AsRef<str>>(cells: impl IntoIterator<Item = T>) -> String {
    let plain = |text: &str| text.replace(',', ";").replace(['\n', '\r'], " ");
    let cells: Vec<_> = cells.into_iter().map(|it| plain(it.as_ref())).collect();
    cells.join(", ")
}

/// Parses rows; empty lines are skipped.
///
/// # Errors
/// [`CsvError`] if quotes do not match.
pub fn rows(text: &str) -> Result<Vec<CsvRow>, CsvError> {
    let mut reader = Reader {
        rest: text,
        line: 1,
    };
    let mut rows = Vec::new();
    while !reader.rest.is_empty() {
        let line = reader.line;
        if !reader.ends_line() {
            let cells = reader.cells()?;
            rows.push(CsvRow { line, cells });
        }
    }
    Ok(rows)
}

struct Reader<'t> {
    rest: &'t str,
    line: usize,
}

impl Reader<'_> {
    fn takes(&mut self, what: &str) -> bool {
        let behind = self.rest.strip_prefix(what);
        self.rest = behind.unwrap_or(self.rest);
        behind.is_some()
    }

    fn ends_line(&mut self) -> bool {
        let ends = self.takes("\r\n") || self.takes("\n");
        self.line += usize::from(ends);
        ends
    }

    fn cells(&mut self) -> Result<Vec<String>, CsvError> {
        let mut cells = vec![self.cell()?];
        while self.takes(",") {
            cells.push(self.cell()?);
        }
        match self.rest.is_empty() || self.ends_line() {
            true => Ok(cells),
            false => Err(CsvError::Behind(self.line)),
        }
    }

    fn cell(&mut self) -> Result<String, CsvError> {
        if self.takes("\"") {
            return self.quoted();
        }
        let end = self.rest.find([',', '\n']).unwrap_or(self.rest.len());
        let end = match self.rest[end..].starts_with('\n') && self.rest[..end].ends_with('\r') {
            true => end - 1,
            false => end,
        };
        let (cell, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(cell.to_owned())
    }

    /// Reads the rest of a cell after its opening quote.
    fn quoted(&mut self) -> Result<String, CsvError> {
        let (first, mut cell) = (self.line, String::new());
        loop {
            let (text, rest) = self.rest.split_once('"').ok_or(CsvError::Open(first))?;
            cell += text;
            self.line += text.matches('\n').count();
            self.rest = rest;
            match self.takes("\"") {
                true => cell.push('"'),
                false => return Ok(cell),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn cells_are_quoted_where_they_have_to_be_and_are_no_formulas() {
        assert_eq!(
            line(["copies, memory", "a\"b", "two\nlines", "plain", ""]),
            "\"copies, memory\",\"a\"\"b\",\"two\nlines\",plain,\n"
        );
        assert_eq!(
            line(["=1+1", "-2.5", "-", "@x,y"]),
            "'=1+1,-2.5,-,\"'@x,y\"\n"
        );
        assert_eq!(line([""]), "\"\"\n");
        assert_eq!(unquoted(["a, b", "c\nd"]), "a; b, c d");
    }

    #[test]
    fn a_reader_takes_either_line_end_and_says_the_line_of_what_is_wrong() {
        let read = rows("a,b\r\n\n\"x\ny\",\"\"\"\"\nlast,").unwrap();
        let cells: Vec<_> = read
            .iter()
            .map(|row| (row.line, row.cells.join("|")))
            .collect();
        let expected = [(1, "a|b"), (3, "x\ny|\""), (5, "last|")];
        assert_eq!(cells, expected.map(|(line, text)| (line, text.to_owned())));
        assert_eq!(rows("a\nb,\"c"), Err(CsvError::Open(2)));
        assert_eq!(rows("\"a\n\"b"), Err(CsvError::Behind(2)));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            // A first letter that does not begin a formula: such text is changed on purpose.
            table in prop::collection::vec(prop::collection::vec("|[a-z,\"\n\r \u{e9}][a-z,\"\n\r=+ ]{0,6}", 1..5), 0..6)
        ) {
            prop_assume!(!table.iter().flatten().any(|it| it.starts_with('\r')));
            let text: String = table.iter().map(line).collect();
            let read: Vec<_> = rows(&text).unwrap().into_iter().map(|row| row.cells).collect();
            prop_assert_eq!(read, table);
        }
    }
}
