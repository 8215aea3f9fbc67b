//! Outlines of images: the items and their places, without parsing; and images of a few kernels cut out of a
//! large one.
//!
//! Libraries bring thousands of kernels in one image, of which a program uses a handful. An outline finds the
//! module's items (variables, functions, kernels) by their heads and closing braces, at the speed of a scan.
//! A *cut* is an image of its own with one kernel and the functions and variables of the module that it
//! needs. Variables are state: all kernels that can reach a variable are in the same cut, so that there is
//! one instance of it.

mod scan;

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use memchr::memmem;

use crate::lex::{Lexer, Token};
use crate::{Position, PtxError};
use scan::{Item, Kind, Scan, is_word};

/// The items of an image.
#[derive(Debug)]
pub struct Outline {
    items: Vec<Item>,
    /// Items by name: a function may be declared before it is defined.
    places: HashMap<Box<str>, Vec<usize>>,
    /// The entries with a body, in order.
    entries: Vec<usize>,
    heads: Vec<usize>,
    files: Vec<usize>,
}

/// Maximum number of names searched for one by one; a cut that would need more is the whole image.
const NAMES: usize = 256;

impl Outline {
    /// Finds the items of an image.
    ///
    /// # Errors
    /// If a comment, a text or a body is never closed, or if text at module level is no directive. The parser
    /// reports more about such an error.
    pub fn of(text: &str) -> Result<Self, PtxError> {
        let mut scan = Scan::new(text);
        let mut outline = Self {
            items: Vec::new(),
            places: HashMap::new(),
            entries: Vec::new(),
            heads: Vec::new(),
            files: Vec::new(),
        };
        while let Some(item) = scan.item()? {
            let index = outline.items.len();
            if item.kind == Kind::Head {
                outline.heads.push(index);
            } else if item.kind == Kind::File {
                outline.files.push(index);
            } else if item.kind != Kind::Note {
                let name = &text[item.name.clone()];
                match outline.places.get_mut(name) {
                    Some(places) => places.push(index),
                    None => {
                        outline.places.insert(name.into(), vec![index]);
                    }
                }
            }
            if item.kind == Kind::Entry && text.as_bytes()[item.span.end - 1] == b'}' {
                outline.entries.push(index);
            }
            outline.items.push(item);
        }
        Ok(outline)
    }

    /// Number of kernels.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there is no kernel.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The name of a kernel, by its place among the kernels.
    #[must_use]
    pub fn name<'a>(&self, text: &'a str, entry: usize) -> Option<&'a str> {
        let item = &self.items[*self.entries.get(entry)?];
        text.get(item.name.clone())
    }

    /// The place of the kernel of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        let places = self.places.get(name)?;
        places
            .iter()
            .find_map(|item| self.entries.binary_search(item).ok())
    }

    /// True if a program can ask for a variable of this name.
    #[must_use]
    pub fn has_variable(&self, name: &str) -> bool {
        self.variable(name).is_some()
    }

    fn variable(&self, name: &str) -> Option<usize> {
        let mut places = self.places.get(name)?.iter().copied();
        let is_variable =
            |item: &usize| matches!(self.items[*item].kind, Kind::Variable | Kind::Literal);
        places.rfind(is_variable)
    }

    /// True if every cut is the image itself, because there is at most one kernel.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.entries.len() <= 1
    }

    /// Returns the kernels in the cut of this one, itself included, and the cut. Lines of the cut have the
    /// same numbers as in the image.
    ///
    /// # Errors
    /// If a body is not made of tokens.
    pub fn cut(&self, text: &str, entry: usize) -> Result<(Vec<usize>, String), PtxError> {
        self.around(text, self.entries[entry])
    }

    /// As [`Outline::cut`], around a variable.
    ///
    /// # Errors
    /// As [`Outline::cut`]; also if there is no such variable, with a text that says so.
    pub fn cut_with(&self, text: &str, name: &str) -> Result<(Vec<usize>, String), PtxError> {
        let none = || {
            PtxError::new(
                Position { line: 1, column: 1 },
                format!("no variable `{name}`"),
            )
        };
        self.around(text, self.variable(name).ok_or_else(none)?)
    }

    fn around(&self, text: &str, first: usize) -> Result<(Vec<usize>, String), PtxError> {
        let items = match self.reach(text, first)? {
            Some(items) => items,
            None => (0..self.items.len()).collect(),
        };
        let within = |index: &usize| items.contains(&self.entries[*index]);
        let entries = (0..self.entries.len()).filter(within).collect();
        Ok((entries, self.write(text, &items)))
    }

    /// Returns the items that an item needs in its cut; `None` for all.
    fn reach(&self, text: &str, first: usize) -> Result<Option<BTreeSet<usize>>, PtxError> {
        let (mut items, mut next, mut searched) = (BTreeSet::new(), vec![first], 0);
        while let Some(index) = next.pop() {
            // The declarations of a name come with its definition.
            let name = &text[self.items[index].name.clone()];
            let same = self.places.get(name).map_or(&[][..], Vec::as_slice);
            for index in same.iter().copied().chain([index]) {
                if !items.insert(index) {
                    continue;
                }
                next.extend(self.mentions(text, index)?);
                let shared = self.items[index].kind == Kind::Variable;
                // A caller of a function that holds state must be in the same cut.
                let holds = self.items[index].kind == Kind::Function && self.declares(text, index);
                if shared || holds {
                    searched += 1;
                    if searched > NAMES {
                        return Ok(None);
                    }
                    next.extend(self.users(text, index, &mut searched));
                }
            }
        }
        Ok((searched <= NAMES).then_some(items))
    }

    /// Returns the items that an item names.
    fn mentions(&self, text: &str, index: usize) -> Result<Vec<usize>, PtxError> {
        let span = &self.items[index].span;
        let mut lexer = Lexer::new(&text[span.clone()]);
        let mut found = Vec::new();
        loop {
            let word = match lexer.next()?.0 {
                Token::End => return Ok(found),
                Token::Word(word) => word,
                _ => continue,
            };
            if let Some(places) = self.places.get(word) {
                found.extend(places.iter().copied().filter(|place| *place != index));
            }
        }
    }

    /// Returns the entries and variables that name an item, directly or through functions.
    fn users(&self, text: &str, index: usize, searched: &mut usize) -> Vec<usize> {
        let (mut users, mut seen, mut next) = (Vec::new(), BTreeSet::new(), vec![index]);
        while let Some(index) = next.pop() {
            let name = &text[self.items[index].name.clone()];
            *searched += 1;
            if *searched > NAMES {
                break;
            }
            for user in self.named_by(text, name) {
                if user == index || !seen.insert(user) {
                    continue;
                }
                match self.items[user].kind {
                    Kind::Function => next.push(user),
                    Kind::Head | Kind::File | Kind::Note => {}
                    _ => users.push(user),
                }
            }
        }
        users
    }

    /// Returns the items with this name in their text.
    fn named_by<'a>(&'a self, text: &'a str, name: &'a str) -> impl Iterator<Item = usize> + 'a {
        let bytes = text.as_bytes();
        let whole = move |at: &usize| {
            let before = at.checked_sub(1).map_or(b' ', |at| bytes[at]);
            let after = bytes.get(at + name.len()).copied().unwrap_or(b' ');
            !is_word(before) && !is_word(after)
        };
        let hits = memmem::find_iter(bytes, name.as_bytes()).filter(whole);
        hits.filter_map(|at| {
            let index = self.items.partition_point(|item| item.span.end <= at);
            (self.items.get(index)?.span.start <= at).then_some(index)
        })
    }

    /// True if a function has variables of its own that outlive its calls.
    fn declares(&self, text: &str, index: usize) -> bool {
        let body = &text[self.items[index].span.clone()];
        [".global", ".const"].iter().any(|space| {
            let mut hits = memmem::find_iter(body.as_bytes(), space.as_bytes());
            // An instruction has its opcode right before the name.
            hits.any(|at| at > 0 && !is_word(body.as_bytes()[at - 1]) && at != 0)
        })
    }

    /// Returns the image with these items and the head.
    fn write(&self, text: &str, items: &BTreeSet<usize>) -> String {
        let has_lines = |item: &usize| {
            let text = text[self.items[*item].span.clone()].as_bytes();
            memmem::find(text, b".loc").is_some()
        };
        let files = match items.iter().any(has_lines) {
            true => self.files.as_slice(),
            false => &[],
        };
        let all = self.heads.iter().chain(items).chain(files);
        let all: BTreeSet<usize> = all.copied().collect();
        let (mut out, mut before) = (String::new(), None::<usize>);
        for index in all {
            let item = &self.items[index];
            // Only blanks and comments lie between two items that follow each other.
            match before {
                Some(before) if before + 1 == index => {
                    out.push_str(&text[self.items[before].span.end..item.span.end]);
                }
                _ => {
                    // Writing to a string does not fail.
                    let _ = write!(out, "\n//#line {}\n{}", item.line, &text[item.span.clone()]);
                }
            }
            before = Some(index);
        }
        out.push('\n');
        out
    }
}
