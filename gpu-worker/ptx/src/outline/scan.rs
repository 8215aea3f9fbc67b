//! The scan of an image for its items: by heads, braces and semicolons, past comments and strings.

use std::ops::Range;

use memchr::memmem;

use crate::{Position, PtxError};

/// The kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Entry,
    Function,
    /// A variable with bytes that can change, or that a program can ask for.
    Variable,
    /// A text or table named by the compiler alone, or shared memory: each cut has its own.
    Literal,
    /// A part of every cut: version, target, pragmas.
    Head,
    /// A source file's name, in cuts of functions with lines of the source.
    File,
    /// A part of no cut: notes for debuggers.
    Note,
}

/// One item of a module.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) kind: Kind,
    pub(super) name: Range<usize>,
    pub(super) span: Range<usize>,
    /// The line on which it begins.
    pub(super) line: usize,
}

/// Prefixes of names that compilers give to texts and tables of their own.
const LITERALS: [&str; 4] = ["$str", "__unnamed_", "_$_str", "__const$"];

pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%' | b'.') || byte >= 0x80
}

/// A scan of an image.
pub(super) struct Scan<'a> {
    text: &'a str,
    at: usize,
    /// The line of the byte at `counted`, up to which lines are counted.
    line: usize,
    counted: usize,
}

impl<'a> Scan<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            line: 1,
            counted: 0,
        }
    }

    fn byte(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn fail<T>(&self, at: usize, what: &str) -> Result<T, PtxError> {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        let clip = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let position = Position {
            line: clip(memchr::memchr_iter(b'\n', before).count() + 1),
            column: clip(before.len() - start + 1),
        };
        Err(PtxError::new(position, what))
    }

    /// Skips a comment, a text or a preprocessor's note that begins here. Returns true if one did.
    fn skipped(&mut self) -> Result<bool, PtxError> {
        let (start, bytes) = (self.at, self.text.as_bytes());
        let rest = &bytes[start..];
        let end: Option<usize> = match rest {
            [b'/', b'/', ..] | [b'#', ..] => {
                Some(memchr::memchr(b'\n', rest).unwrap_or(rest.len()))
            }
            [b'/', b'*', ..] => memmem::find(&rest[2..], b"*/").map(|at| at + 4),
            [b'"', ..] => {
                let mut at = 1_usize;
                loop {
                    match rest.get(at) {
                        None => break None,
                        Some(b'"') => break Some(at + 1),
                        Some(b'\\') => at += 2,
                        Some(_) => at += 1,
                    }
                }
            }
            _ => return Ok(false),
        };
        match end {
            Some(end) => {
                self.at = start + end.min(rest.len());
                Ok(true)
            }
            None => self.fail(start, "a comment or a string is never closed"),
        }
    }

    fn skip_blank(&mut self) -> Result<(), PtxError> {
        while self.at < self.text.len() {
            if self.byte().is_ascii_whitespace() || matches!(self.byte(), b';' | 0x0b) {
                self.at += 1;
            } else if self.byte() == b'"' || !self.skipped()? {
                break;
            }
        }
        Ok(())
    }

    fn word(&mut self) -> Range<usize> {
        let start = self.at;
        let plain = |byte: u8| byte != b'.' && is_word(byte);
        while plain(self.byte()) || self.text[self.at..].starts_with("::") {
            self.at += if self.byte() == b':' { 2 } else { 1 };
        }
        start..self.at
    }

    /// Returns the next item.
    pub(super) fn item(&mut self) -> Result<Option<Item>, PtxError> {
        self.skip_blank()?;
        let start = self.at;
        if start >= self.text.len() {
            return Ok(None);
        }
        let between = &self.text.as_bytes()[self.counted..start];
        self.line += memchr::memchr_iter(b'\n', between).count();
        self.counted = start;
        let (mut kind, mut visible) = (Kind::Head, false);
        loop {
            if self.byte() != b'.' {
                return self.fail(self.at, "expected a directive at module level");
            }
            self.at += 1;
            let word = self.word();
            match &self.text[word] {
                "visible" | "extern" | "weak" | "common" => visible = true,
                "entry" => kind = Kind::Entry,
                "func" => kind = Kind::Function,
                "global" | "const" => kind = Kind::Variable,
                // Shared memory does not outlive a block.
                "shared" => kind = Kind::Literal,
                "version" | "target" | "address_size" => {
                    return self.rest_of_line(start, Kind::Head).map(Some);
                }
                "file" => return self.rest_of_line(start, Kind::File).map(Some),
                "loc" => return self.rest_of_line(start, Kind::Note).map(Some),
                "section" => kind = Kind::Note,
                // An alias is a name of a function.
                "alias" => kind = Kind::Function,
                _ => {}
            }
            if kind != Kind::Head {
                break;
            }
            self.skip_blank()?;
            if self.byte() != b'.' {
                break;
            }
        }
        let name = match kind {
            Kind::Head | Kind::Note => start..start,
            Kind::Variable | Kind::Literal => self.variable_name()?,
            _ => self.function_name()?,
        };
        let of_variable = matches!(kind, Kind::Variable | Kind::Literal);
        self.close(start, of_variable)?;
        let literal = kind == Kind::Variable
            && !visible
            && LITERALS
                .iter()
                .any(|it| self.text[name.clone()].starts_with(it));
        let kind = if literal { Kind::Literal } else { kind };
        Ok(Some(Item {
            kind,
            name,
            span: start..self.at,
            line: self.line,
        }))
    }

    /// Returns the item of a directive that ends with its line.
    fn rest_of_line(&mut self, start: usize, kind: Kind) -> Result<Item, PtxError> {
        while self.at < self.text.len() && self.byte() != b'\n' {
            if !self.skipped()? {
                self.at += 1;
            }
        }
        Ok(Item {
            kind,
            name: start..start,
            span: start..self.at,
            line: self.line,
        })
    }

    /// Returns the name of a function, which follows its attributes and results.
    fn function_name(&mut self) -> Result<Range<usize>, PtxError> {
        loop {
            self.skip_blank()?;
            match self.byte() {
                b'(' => self.parenthesis()?,
                b'.' => {
                    self.at += 1;
                    self.word();
                }
                _ => break,
            }
        }
        let name = self.word();
        if name.is_empty() {
            return self.fail(self.at, "expected a function's name");
        }
        Ok(name)
    }

    /// Returns the name of a variable, which follows its type: the last word before its bounds, value or end.
    fn variable_name(&mut self) -> Result<Range<usize>, PtxError> {
        let mut name = self.at..self.at;
        loop {
            self.skip_blank_but_end()?;
            match self.byte() {
                b'.' => {
                    self.at += 1;
                    self.word();
                }
                b'(' => self.parenthesis()?,
                byte if byte != b'.' && is_word(byte) => name = self.word(),
                _ if name.is_empty() => {
                    return self.fail(self.at, "expected a variable's name");
                }
                _ => return Ok(name),
            }
        }
    }

    /// Skips blanks and comments, but no `;`.
    fn skip_blank_but_end(&mut self) -> Result<(), PtxError> {
        while self.byte().is_ascii_whitespace() || (self.byte() == b'/' && self.skipped()?) {
            if self.byte().is_ascii_whitespace() {
                self.at += 1;
            }
        }
        Ok(())
    }

    /// Skips `( … )`.
    fn parenthesis(&mut self) -> Result<(), PtxError> {
        let (start, mut depth) = (self.at, 0_u32);
        while self.at < self.text.len() {
            match self.byte() {
                b'(' => depth += 1,
                b')' => depth -= 1,
                _ if self.skipped()? => continue,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Ok(());
            }
        }
        self.fail(start, "`(` is never closed")
    }

    /// Moves behind the item's end: the brace that closes its body, or a `;` before one opens. The braces of
    /// a variable's value are followed by a `;`.
    fn close(&mut self, start: usize, of_variable: bool) -> Result<(), PtxError> {
        let bytes = self.text.as_bytes();
        let (mut depth, mut is_value) = (0_u32, false);
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b'{' => depth += 1,
                b'}' if depth == 0 => return self.fail(self.at, "`}` without `{`"),
                b'}' => {
                    depth -= 1;
                    if depth == 0 && !is_value {
                        self.at += 1;
                        return Ok(());
                    }
                }
                b'=' if depth == 0 => is_value = true,
                b',' if depth == 0 && of_variable => {
                    return self.fail(self.at, "several variables in one directive");
                }
                b';' if depth == 0 => {
                    self.at += 1;
                    return Ok(());
                }
                b'/' | b'"' | b'#' if self.skipped()? => continue,
                _ => {}
            }
            self.at += 1;
        }
        self.fail(start, "what begins here is never closed")
    }
}
