//! Conversion of tokens to the tree: module level.

mod body;
mod expression;
mod variable;

use std::cell::RefCell;
use std::rc::Rc;

use crate::lex::{Lexer, Token};
use crate::{
    FunctionKind, Linkage, ParsedFunction, ParsedModule, ParsedVariable, Position, PtxError,
    SourceLines, Space,
};

/// Tuning hints of a function's head: a name and numbers, without effect here.
const HINTS: [&str; 6] = [
    "maxnctapersm",
    "noreturn",
    "maxclusterrank",
    "explicitcluster",
    "abi_preserve",
    "abi_preserve_control",
];

/// The parser: a lexer and one token of look-ahead.
#[derive(Clone)]
pub(crate) struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token<'a>,
    position: Position,
    /// End of the token before.
    end: usize,
    /// Called with the bytes that the tree takes; returns true to go on.
    watch: &'a dyn Fn(u64) -> bool,
    /// Lines of the source, from the notes so far.
    lines: Rc<RefCell<SourceLines>>,
}

/// The form of a token in an error message.
fn spelt(token: Token<'_>) -> String {
    match token {
        Token::Word(word) => format!("`{word}`"),
        Token::Dot(word) => format!("`.{word}`"),
        Token::Integer(value) | Token::Unsigned(value) => format!("number {value}"),
        Token::Single(_) | Token::Double(_) => "a float".into(),
        Token::Text(_) => "a string".into(),
        Token::Punct(byte) => format!("`{}`", char::from(byte)),
        Token::End => "the end of the text".into(),
    }
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, watch: &'a dyn Fn(u64) -> bool) -> Result<Self, PtxError> {
        let mut lexer = Lexer::new(text);
        let (token, position) = lexer.next()?;
        Ok(Self {
            lexer,
            token,
            position,
            end: 0,
            watch,
            lines: Rc::default(),
        })
    }

    /// Notes that the tree has grown by these bytes.
    fn grown(&self, bytes: usize) -> Result<(), PtxError> {
        if (self.watch)(bytes as u64) {
            return Ok(());
        }
        Err(PtxError::new(self.position, "parsing was given up"))
    }

    fn advance(&mut self) -> Result<Token<'a>, PtxError> {
        self.end = self.lexer.span().1;
        let (next, position) = self.lexer.next()?;
        self.position = position;
        Ok(std::mem::replace(&mut self.token, next))
    }

    fn fail<T>(&self, expected: &str) -> Result<T, PtxError> {
        let message = format!("expected {expected}, found {}", spelt(self.token));
        Err(PtxError::new(self.position, message))
    }

    fn accept(&mut self, punct: u8) -> Result<bool, PtxError> {
        let found = self.token == Token::Punct(punct);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, punct: u8, after: &str) -> Result<(), PtxError> {
        if self.accept(punct)? {
            return Ok(());
        }
        self.fail(&format!("`{}` {after}", char::from(punct)))
    }

    fn word(&mut self, what: &str) -> Result<&'a str, PtxError> {
        match self.token {
            Token::Word(word) => {
                self.advance()?;
                Ok(word)
            }
            _ => self.fail(what),
        }
    }

    fn integer(&mut self, what: &str) -> Result<u64, PtxError> {
        match self.token {
            Token::Integer(value) | Token::Unsigned(value) => {
                self.advance()?;
                Ok(value)
            }
            _ => self.fail(what),
        }
    }

    fn small(&mut self, what: &str) -> Result<u32, PtxError> {
        let position = self.position;
        let value = self.integer(what)?;
        u32::try_from(value)
            .map_err(|_| PtxError::new(position, format!("{what}: {value} is too large")))
    }

    /// Skips to the end of the next `;`, or over one balanced `{ … }` if that comes first.
    fn skip_statement(&mut self) -> Result<(), PtxError> {
        let mut depth = 0_u64;
        loop {
            match self.advance()? {
                Token::End => return self.fail("`;`"),
                Token::Punct(b'{') => depth += 1,
                Token::Punct(b'}') if depth <= 1 => return Ok(()),
                Token::Punct(b'}') => depth -= 1,
                Token::Punct(b';') if depth == 0 => return Ok(()),
                _ => {}
            }
        }
    }

    /// Takes a note for debuggers, `.loc` or `.file`; the current token is its name.
    fn note(&mut self) -> Result<(), PtxError> {
        let (line, (start, _)) = (self.position.line, self.lexer.span());
        self.lexer.skip_note()?;
        let note = self.lexer.slice(start, self.lexer.span().1);
        let bytes = self.lines.borrow_mut().take(line, note);
        self.grown(bytes)?;
        self.advance()?;
        self.accept(b';')?;
        Ok(())
    }

    /// Skips to the end of the line; the current token is its first.
    fn skip_line(&mut self) -> Result<(), PtxError> {
        self.lexer.skip_line();
        self.advance()?;
        self.accept(b';')?;
        Ok(())
    }

    fn list(&mut self) -> Result<Vec<&'a str>, PtxError> {
        let mut names = vec![self.word("a name")?];
        while self.accept(b',')? {
            self.grown(size_of::<&str>())?;
            names.push(self.word("a name")?);
        }
        Ok(names)
    }

    fn module(&mut self) -> Result<ParsedModule<'a>, PtxError> {
        let mut module = ParsedModule {
            address_size: 64,
            ..ParsedModule::default()
        };
        let mut linkage = Linkage::Internal;
        let mut versioned = false;
        loop {
            self.grown(size_of::<ParsedFunction<'_>>())?;
            match self.token {
                Token::End if versioned => {
                    module.lines = self.lines.take();
                    return Ok(module);
                }
                Token::Punct(b';') => {
                    self.advance()?;
                }
                // `@@DWARF …`: debug sections as PTX 1 wrote them.
                Token::Punct(b'@') => self.skip_line()?,
                Token::Dot("loc" | "file") => self.note()?,
                Token::Dot("version") => {
                    self.advance()?;
                    module.version = self.version()?;
                    versioned = true;
                }
                Token::Dot(_) | Token::End if !versioned => {
                    return self.fail("`.version` at the start of a module");
                }
                Token::Dot(name) => self.module_directive(name, &mut module, &mut linkage)?,
                _ => return self.fail("a directive such as `.version`, `.entry` or `.global`"),
            }
        }
    }

    /// Parses a directive of module scope; `linkage` is that of the next function or variable.
    fn module_directive(
        &mut self,
        name: &'a str,
        module: &mut ParsedModule<'a>,
        linkage: &mut Linkage,
    ) -> Result<(), PtxError> {
        let position = self.position;
        let (start, _) = self.lexer.span();
        self.advance()?;
        match name {
            "target" => module.target = self.list()?,
            "address_size" => module.address_size = self.small("32 or 64")?,
            "visible" => *linkage = Linkage::Visible,
            "extern" => *linkage = Linkage::Extern,
            "weak" => *linkage = Linkage::Weak,
            "common" => *linkage = Linkage::Common,
            "entry" | "func" => {
                let kind = if name == "entry" {
                    FunctionKind::Entry
                } else {
                    FunctionKind::Func
                };
                let mut function = self.function(kind, std::mem::take(linkage))?;
                function.text = self.lexer.slice(start, self.end);
                module.functions.push(function);
            }
            "alias" => {
                let alias = self.word("the alias")?;
                self.expect(b',', "between an alias and its target")?;
                let target = self.word("the aliased function")?;
                module.aliases.push((alias, target));
                self.expect(b';', "after an alias")?;
            }
            "section" | "pragma" => self.skip_statement()?,
            _ => match Space::from_text(name) {
                Some(space) if !name.contains(':') => {
                    let linkage = std::mem::take(linkage);
                    self.variables(space, linkage, &mut module.variables)?;
                    self.expect(b';', "after a variable")?;
                }
                _ => {
                    let message = match name {
                        "tex" | "surf" | "sampler" => {
                            format!("`.{name}`: textures and surfaces are not supported")
                        }
                        _ => format!("`.{name}` is not a directive of module scope"),
                    };
                    return Err(PtxError::new(position, message));
                }
            },
        }
        Ok(())
    }

    /// Parses a version. `8.3` lexes as a float and `8` as an integer; the two numbers are kept apart.
    fn version(&mut self) -> Result<(u32, u32), PtxError> {
        match self.token {
            Token::Double(bits) => {
                let value = f64::from_bits(bits);
                if !(1.0..10.0).contains(&value) {
                    return self.fail("a version from 1.0 to 9.9");
                }
                self.advance()?;
                let tenths = (value * 10.0).round() as u32;
                Ok((tenths / 10, tenths % 10))
            }
            Token::Integer(1..=9) => Ok((self.small("a version")?, 0)),
            _ => self.fail("a version such as 8.3"),
        }
    }

    /// Parses `(.param …, .reg …)`; the opening parenthesis is current.
    fn formals(&mut self) -> Result<Vec<ParsedVariable<'a>>, PtxError> {
        let mut formals = Vec::new();
        self.expect(b'(', "before parameters")?;
        while !self.accept(b')')? {
            if !formals.is_empty() {
                self.expect(b',', "between parameters")?;
            }
            let space = match self.token {
                Token::Dot("param") => Space::Param,
                Token::Dot("reg") => Space::Reg,
                _ => return self.fail("`.param` or `.reg`"),
            };
            self.advance()?;
            let variable = self.formal(space)?;
            formals.push(variable);
        }
        Ok(formals)
    }

    fn function(
        &mut self,
        kind: FunctionKind,
        linkage: Linkage,
    ) -> Result<ParsedFunction<'a>, PtxError> {
        let mut returns = Vec::new();
        while self.token == Token::Dot("attribute") {
            self.advance()?;
            self.attribute()?;
        }
        if kind == FunctionKind::Func && self.token == Token::Punct(b'(') {
            returns = self.formals()?;
        }
        let position = self.position;
        self.lines.borrow_mut().part(position.line);
        let name = self.word("a function's name")?;
        let params = if self.token == Token::Punct(b'(') {
            self.formals()?
        } else {
            Vec::new()
        };
        let mut function = ParsedFunction {
            position,
            kind,
            linkage,
            name,
            returns,
            params,
            maxntid: None,
            reqntid: None,
            minnctapersm: None,
            maxnreg: None,
            body: None,
            text: "",
        };
        loop {
            match self.token {
                Token::Punct(b';') => {
                    self.advance()?;
                    return Ok(function);
                }
                Token::Punct(b'{') => {
                    self.advance()?;
                    function.body = Some(self.body()?);
                    return Ok(function);
                }
                Token::Dot("loc" | "file") => self.note()?,
                Token::Dot(name) => self.tuning(name, &mut function)?,
                _ => return self.fail("`{` or `;` after a function's head"),
            }
        }
    }

    /// Parses a directive of a function's head; the current token is its name.
    fn tuning(&mut self, name: &str, function: &mut ParsedFunction<'a>) -> Result<(), PtxError> {
        let position = self.position;
        match name {
            "maxntid" => function.maxntid = Some(self.dimensions()?),
            "reqntid" => function.reqntid = Some(self.dimensions()?),
            "minnctapersm" => {
                self.advance()?;
                function.minnctapersm = Some(self.small("a number of blocks")?);
            }
            "maxnreg" => {
                self.advance()?;
                function.maxnreg = Some(self.small("a number of registers")?);
            }
            "pragma" => {
                self.advance()?;
                self.skip_statement()?;
            }
            "reqnctapercluster" => {
                if self.dimensions()? != [1; 3] {
                    let message = "clusters of more than one block are not supported";
                    return Err(PtxError::new(position, message));
                }
            }
            _ if HINTS.contains(&name) => {
                self.advance()?;
                while matches!(self.token, Token::Integer(_) | Token::Punct(b',')) {
                    self.advance()?;
                }
            }
            _ => return self.fail("`{` or `;` after a function's head"),
        }
        Ok(())
    }

    fn dimensions(&mut self) -> Result<[u32; 3], PtxError> {
        self.advance()?;
        let mut dims = [1; 3];
        dims[0] = self.small("a block dimension")?;
        for dim in &mut dims[1..] {
            if !self.accept(b',')? {
                break;
            }
            *dim = self.small("a block dimension")?;
        }
        Ok(dims)
    }
}

impl<'a> ParsedModule<'a> {
    /// Parses a whole module.
    ///
    /// # Errors
    /// Names the line and column of the first text that is not PTX.
    pub fn parse(text: &'a str) -> Result<Self, PtxError> {
        Self::parse_watched(text, &|_| true)
    }

    /// As [`ParsedModule::parse`]; `watch` is called every few tokens with the bytes that the growing tree
    /// takes, and returns true to go on.
    ///
    /// # Errors
    /// As [`ParsedModule::parse`], and if `watch` returns false.
    pub fn parse_watched(text: &'a str, watch: &'a dyn Fn(u64) -> bool) -> Result<Self, PtxError> {
        // Loaders pass C strings: text behind the first NUL is not part of the module.
        let text = text.split('\0').next().unwrap_or_default();
        Parser::new(text, watch)?.module()
    }

    /// As [`ParsedModule::parse`], for an image of bytes; trailing NULs are ignored.
    ///
    /// # Errors
    /// As [`ParsedModule::parse`]; also if the bytes are not UTF-8.
    pub fn parse_bytes(image: &'a [u8]) -> Result<Self, PtxError> {
        Self::parse_bytes_watched(image, &|_| true)
    }

    /// As [`ParsedModule::parse_watched`], for an image of bytes; trailing NULs are ignored.
    ///
    /// # Errors
    /// As [`ParsedModule::parse_watched`]; also if the bytes are not UTF-8.
    pub fn parse_bytes_watched(
        image: &'a [u8],
        watch: &'a dyn Fn(u64) -> bool,
    ) -> Result<Self, PtxError> {
        let end = image
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(image.len());
        let text = std::str::from_utf8(&image[..end]).map_err(|error| {
            let before = &image[..error.valid_up_to()];
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            let column = before
                .iter()
                .rev()
                .position(|byte| *byte == b'\n')
                .unwrap_or(before.len())
                + 1;
            let clip = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
            let position = Position {
                line: clip(line),
                column: clip(column),
            };
            PtxError::new(position, "not text: a module image must be PTX in UTF-8")
        })?;
        Self::parse_watched(text, watch)
    }
}
