//! Lines of the source that a module was compiled from: its `.file` and `.loc` notes.

/// Maximum bytes of a file's path; of a longer one the end is kept.
const PATH: usize = 1_024;

/// From here on in the module's text, instructions belong to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    /// Line of the module's text.
    from: u32,
    /// Number of the file; 0 for none.
    file: u32,
    /// Line in the file.
    line: u32,
}

/// The source lines of a module's instructions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceLines {
    files: Vec<(u32, Box<str>)>,
    /// Sorted by `from`.
    rows: Vec<Row>,
    /// True if lines of the text were out of order; there are no rows then.
    disordered: bool,
}

impl SourceLines {
    /// The file and its line that an instruction at this line of the module's text was compiled from.
    pub fn find(&self, ptx_line: u32) -> Option<(&str, u32)> {
        let next = self.rows.partition_point(|row| row.from <= ptx_line);
        let row = self.rows.get(next.checked_sub(1)?)?;
        let (_, file) = self.files.iter().find(|(number, _)| *number == row.file)?;
        Some((file, row.line))
    }

    /// The numbered files.
    pub(crate) fn files(&self) -> &[(u32, Box<str>)] {
        &self.files
    }

    /// Approximate bytes of memory.
    pub fn bytes(&self) -> usize {
        let files = self.files.iter().map(|(_, file)| file.len());
        let files = files.sum::<usize>() + self.files.len() * size_of::<(u32, Box<str>)>();
        files + self.rows.len() * size_of::<Row>()
    }

    /// Takes a note, with its name first, at a line of the module's text. Returns the bytes that it grew by.
    pub(crate) fn take(&mut self, at: u32, note: &str) -> usize {
        let rows = self.rows.len();
        if let Some(loc) = note.strip_prefix(".loc") {
            if let Some((file, line)) = located(loc) {
                self.push(Row {
                    from: at,
                    file,
                    line,
                });
            }
        } else if let Some(file) = note.strip_prefix(".file")
            && let Some(file) = named(file)
        {
            let bytes = size_of_val(&file) + file.1.len();
            self.files.push(file);
            return bytes;
        }
        self.rows.len().saturating_sub(rows) * size_of::<Row>()
    }

    /// Ends the reach of the last `.loc`: a function begins at this line of the module's text.
    pub(crate) fn part(&mut self, at: u32) {
        if self.rows.last().is_some_and(|row| row.file > 0) {
            self.push(Row {
                from: at,
                file: 0,
                line: 0,
            });
        }
    }

    fn push(&mut self, row: Row) {
        match self.rows.last_mut() {
            _ if self.disordered => {}
            Some(last) if last.from > row.from => {
                self.disordered = true;
                self.rows = Vec::new();
            }
            // Instructions of one line of text cannot be told apart.
            Some(last) if last.from == row.from && *last != row => {
                (last.file, last.line) = (0, 0);
            }
            Some(last) if (last.file, last.line) == (row.file, row.line) => {}
            _ => self.rows.push(row),
        }
    }
}

/// The number of the file and its line in ` 1 12 3, function_name …`.
pub(crate) fn located(loc: &str) -> Option<(u32, u32)> {
    let mut numbers = loc.split(|c: char| !c.is_ascii_digit());
    let mut numbers = numbers.by_ref().filter(|number| !number.is_empty());
    let (file, line) = (numbers.next()?, numbers.next()?);
    let file = file.parse().ok().filter(|file| *file > 0)?;
    Some((file, line.parse().ok()?))
}

/// The number and the path in ` 1 "path", 1700000000, 123` or ` 1 "folder" "name"`.
fn named(file: &str) -> Option<(u32, Box<str>)> {
    let mut parts = file.split('"');
    let number = parts.next()?.trim().parse().ok()?;
    let first = parts.next()?;
    // A text between two others is what separates them.
    let path = match (parts.next(), parts.next()) {
        (Some(between), Some(name)) if between.trim().is_empty() => match name.starts_with('/') {
            true => name.to_owned(),
            false => format!("{first}/{name}"),
        },
        _ => first.to_owned(),
    };
    // A linked module has the path as a text again: no escapes.
    let path = path.replace(['\\', '"'], "/");
    let from = path.len().saturating_sub(PATH);
    let from = (from..=path.len()).find(|at| path.is_char_boundary(*at))?;
    Some((number, path[from..].into()))
}

#[cfg(test)]
mod tests {
    use crate::ParsedModule;

    fn lines(text: &str) -> Vec<Option<(String, u32)>> {
        let text = format!(".version 8.0\n.target sm_80\n.address_size 64\n{text}\n");
        let module = ParsedModule::parse(&text).expect("a module");
        let last = text.lines().count() as u32;
        let found = (4..=last).map(|line| module.lines.find(line));
        found
            .map(|it| it.map(|(file, line)| (file.to_owned(), line)))
            .collect()
    }

    fn at(file: &str, line: u32) -> Option<(String, u32)> {
        Some((file.into(), line))
    }

    #[test]
    fn an_instruction_has_the_last_line_before_it_in_its_function() {
        let text = [
            ".entry f()\n{\n.loc 1 7 3\nret;",
            ".loc 2 9 1, function_name $L__info_string0, inlined_at 1 7 3",
            "ret;\nret; }\n.entry g()\n{\nret;\n.loc 1 12\nret; }",
            ".file 1 \"a.cu\", 17, 4\n.file\t2 \"b\" \"c.h\"",
        ]
        .join("\n");
        let (a, b) = (at("a.cu", 7), at("b/c.h", 9));
        let wanted = [
            None,
            None,
            a.clone(),
            a,
            b.clone(),
            b.clone(),
            b,
            None,
            None,
            None,
        ];
        let found = lines(&text);
        assert_eq!(found[..10], wanted);
        assert_eq!(found[10..12], [at("a.cu", 12), at("a.cu", 12)]);
    }

    #[test]
    fn odd_notes_are_passed_over() {
        let text = ".file 1 \"a.cu\"\n.entry f()\n{\n.loc 0 1 1\nret;\n.loc 99999999999 1 1\n.loc 3 1 1\nret; }";
        assert!(lines(text).iter().all(Option::is_none));
    }

    #[test]
    fn text_with_lines_out_of_order_has_no_source() {
        let text =
            ".file 1 \"a.cu\"\n.entry f()\n{\n.loc 1 1 1\nret;\n//#line 2\n.loc 1 5 1\nret; }";
        assert!(lines(text).iter().all(Option::is_none));
    }

    #[test]
    fn equal_lines_take_no_room() {
        let text = ".version 8.0\n.target sm_80\n.entry f()\n{\n".to_owned()
            + &".loc 1 5 1\nret;\n".repeat(100)
            + "}";
        let module = ParsedModule::parse(&text).expect("a module");
        assert_eq!(module.lines.bytes(), 12);
    }
}
