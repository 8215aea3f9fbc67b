//! Conversion of text to tokens. The parser needs one token of look-ahead, so nothing is stored.

use crate::{Position, PtxError};
use std::num::IntErrorKind;

/// One token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Token<'a> {
    /// A name or dotted opcode: `%r1`, `%tid.x`, `ld.global.f32`, `$L_1`, `_`.
    Word(&'a str),
    /// `.name`, without the dot.
    Dot(&'a str),
    /// An integer.
    Integer(u64),
    /// An integer with the suffix `U`.
    Unsigned(u64),
    /// `0f` bits.
    Single(u32),
    /// `0d` bits or a decimal float.
    Double(u64),
    /// A quoted string, unescaped.
    Text(&'a str),
    /// One character of punctuation.
    Punct(u8),
    /// The end of the text.
    End,
}

/// Cuts tokens off a text.
#[derive(Clone)]
pub(crate) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    line_start: usize,
    /// Start of the last token.
    start: usize,
}

fn word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%') || byte >= 0x80
}

/// True if the digits continue with an exponent, as in `1e10`.
fn is_scaled(text: &str) -> bool {
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    mantissa.len() < text.len() && mantissa.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the number in `#line 7`, which may be in a comment, because NVIDIA's assembler takes no such note.
fn numbered(note: &str) -> Option<u32> {
    let note = note.strip_prefix("//").unwrap_or(note);
    note.strip_prefix("#line ")?.trim().parse().ok()
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            line: 1,
            line_start: 0,
            start: 0,
        }
    }

    /// Start and end of the last token.
    pub(crate) fn span(&self) -> (usize, usize) {
        (self.start, self.at)
    }

    /// A piece of the text.
    pub(crate) fn slice(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or_default()
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.text
            .as_bytes()
            .get(self.at + ahead)
            .copied()
            .unwrap_or(0)
    }

    /// True if a name follows the last token.
    pub(crate) fn names_next(&self) -> bool {
        let mut ahead = self.clone();
        matches!(ahead.next(), Ok((Token::Word(word), _)) if word != "WARP_SZ")
    }

    /// The byte right behind the last token, 0 at the end.
    pub(crate) fn following(&self) -> u8 {
        self.byte(0)
    }

    fn position(&self) -> Position {
        let column = u32::try_from(self.at - self.line_start + 1).unwrap_or(u32::MAX);
        Position {
            line: self.line,
            column,
        }
    }

    fn newline(&mut self) {
        self.line = self.line.saturating_add(1);
        self.line_start = self.at + 1;
    }

    /// Skips the rest of the current line: `.loc` and `.file` may lack a semicolon.
    pub(crate) fn skip_line(&mut self) {
        while self.at < self.text.len() && self.byte(0) != b'\n' {
            self.at += 1;
        }
    }

    /// Skips the rest of a `.loc` or `.file`, with its name as the last token: numbers, texts, and `,
    /// function_name label+4, inlined_at 1 2 3`. More may follow on the same line.
    pub(crate) fn skip_note(&mut self) -> Result<(), PtxError> {
        let mut ahead = self.clone();
        let mut before = Token::Dot("loc");
        loop {
            let (token, _) = ahead.next()?;
            let known = match (before, token) {
                (Token::Word("function_name"), Token::Word(_)) => true,
                (Token::Punct(b','), Token::Word(word)) => {
                    matches!(word, "function_name" | "inlined_at")
                }
                (_, Token::Word(_)) => false,
                (_, token) => matches!(
                    token,
                    Token::Integer(_) | Token::Text(_) | Token::Punct(b',' | b'+')
                ),
            };
            if !known {
                return Ok(());
            }
            before = token;
            *self = ahead.clone();
        }
    }

    fn skip_blank(&mut self) -> Result<(), PtxError> {
        loop {
            match self.byte(0) {
                b'\n' => self.newline(),
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c => {}
                // `# 1 "file.cu"`: a note of a preprocessor; `#line 7`: the next line's number.
                first @ (b'#' | b'/') if first == b'#' || self.byte(1) == b'/' => {
                    let start = self.at;
                    self.skip_line();
                    if let Some(line) = numbered(&self.text[start..self.at]) {
                        self.line = line.saturating_sub(1);
                    }
                    continue;
                }
                b'/' if self.byte(1) == b'*' => {
                    let start = self.position();
                    self.at += 2;
                    while !(self.byte(0) == b'*' && self.byte(1) == b'/') {
                        if self.at >= self.text.len() {
                            return Err(PtxError::new(start, "comment is never closed"));
                        }
                        if self.byte(0) == b'\n' {
                            self.newline();
                        }
                        self.at += 1;
                    }
                    self.at += 1;
                }
                _ => return Ok(()),
            }
            self.at += 1;
        }
    }

    /// Returns the next token and its start.
    pub(crate) fn next(&mut self) -> Result<(Token<'a>, Position), PtxError> {
        self.skip_blank()?;
        let position = self.position();
        self.start = self.at;
        if self.at >= self.text.len() {
            return Ok((Token::End, position));
        }
        let byte = self.byte(0);
        let token = if byte.is_ascii_digit() || byte == b'.' && self.byte(1).is_ascii_digit() {
            self.number(position)?
        } else if word_byte(byte) {
            Token::Word(self.word())
        } else if byte == b'.' && word_byte(self.byte(1)) {
            self.at += 1;
            let start = self.at;
            self.plain_word();
            Token::Dot(&self.text[start..self.at])
        } else if byte == b'"' {
            self.string(position)?
        } else {
            self.at += 1;
            Token::Punct(byte)
        };
        Ok((token, position))
    }

    /// Skips letters, digits and `::` inside.
    fn plain_word(&mut self) {
        loop {
            if word_byte(self.byte(0)) {
                self.at += 1;
            } else if self.byte(0) == b':' && self.byte(1) == b':' && word_byte(self.byte(2)) {
                self.at += 2;
            } else {
                return;
            }
        }
    }

    /// As `plain_word`, with dots: a whole opcode or `%tid.x`.
    fn word(&mut self) -> &'a str {
        let start = self.at;
        self.plain_word();
        while self.byte(0) == b'.' && word_byte(self.byte(1)) {
            self.at += 1;
            self.plain_word();
        }
        &self.text[start..self.at]
    }

    fn string(&mut self, start: Position) -> Result<Token<'a>, PtxError> {
        self.at += 1;
        let from = self.at;
        while self.byte(0) != b'"' {
            match self.byte(0) {
                b'\\' => self.at += 1,
                b'\n' => self.newline(),
                _ => {}
            }
            self.at += 1;
            if self.at >= self.text.len() {
                return Err(PtxError::new(start, "string is never closed"));
            }
        }
        let text = self.text.get(from..self.at).unwrap_or_default();
        self.at += 1;
        Ok(Token::Text(text))
    }

    fn number(&mut self, position: Position) -> Result<Token<'a>, PtxError> {
        let start = self.at;
        let wrong = |what: &str| Err(PtxError::new(position, format!("{what} is not a number")));
        if self.byte(0) == b'0' && matches!(self.byte(1), b'f' | b'F' | b'd' | b'D') {
            self.plain_word();
            let (all, digits) = (&self.text[start..self.at], &self.text[start + 2..self.at]);
            let single = all.as_bytes()[1].eq_ignore_ascii_case(&b'f');
            let wanted = if single { 8 } else { 16 };
            if digits.len() != wanted || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
                return wrong(all);
            }
            let bits = u64::from_str_radix(digits, 16).or_else(|_| wrong(all).map(|_| 0))?;
            return Ok(if single {
                Token::Single(bits as u32)
            } else {
                Token::Double(bits)
            });
        }
        self.plain_word();
        // `5.` is a float too.
        let fraction = self.byte(0) == b'.' && !word_byte(self.byte(1))
            || self.byte(0) == b'.' && self.byte(1).is_ascii_digit();
        if fraction || is_scaled(&self.text[start..self.at]) {
            self.at += usize::from(fraction);
            self.plain_word();
            if matches!(self.byte(0), b'+' | b'-')
                && matches!(self.text.as_bytes()[self.at - 1], b'e' | b'E')
            {
                self.at += 1;
                self.plain_word();
            }
            let text = &self.text[start..self.at];
            return match text.parse::<f64>() {
                Ok(value) => Ok(Token::Double(value.to_bits())),
                Err(_) => wrong(text),
            };
        }
        let text = &self.text[start..self.at];
        let digits = text.strip_suffix(['U', 'u']).unwrap_or(text);
        let (digits, radix) = match digits.as_bytes() {
            [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
            [b'0', b'b' | b'B', ..] => (&digits[2..], 2),
            [b'0', _, ..] => (&digits[1..], 8),
            _ => (digits, 10),
        };
        match u64::from_str_radix(digits, radix) {
            Ok(value) if text.ends_with(['U', 'u']) => Ok(Token::Unsigned(value)),
            Ok(value) => Ok(Token::Integer(value)),
            Err(error) if *error.kind() == IntErrorKind::PosOverflow => {
                let message = format!("{text} does not fit 64 bits");
                Err(PtxError::new(position, message))
            }
            Err(_) => wrong(text),
        }
    }
}
