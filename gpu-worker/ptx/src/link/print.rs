//! The linked image as text.

use super::adapt;
use super::declaration::declaration;
use super::resolve::{Place, Resolution, Wrong};
use crate::info::architecture;
use crate::lex::{Lexer, Token};
use crate::source_lines;
use crate::{FunctionKind, Init, Linkage, ParsedFunction, ParsedModule, ParsedVariable, Scalar};
use std::collections::HashMap;
use std::fmt::Write as _;

/// Writes the items that the resolution kept.
pub(super) struct Printer<'p, 'a> {
    modules: &'p [ParsedModule<'a>],
    resolution: &'p Resolution,
    out: String,
}

fn linkage(linkage: Linkage) -> &'static str {
    match linkage {
        Linkage::Internal => "",
        Linkage::Visible => ".visible ",
        Linkage::Extern => ".extern ",
        Linkage::Weak => ".weak ",
        Linkage::Common => ".common ",
    }
}

impl<'p, 'a> Printer<'p, 'a> {
    pub(super) fn new(modules: &'p [ParsedModule<'a>], resolution: &'p Resolution) -> Self {
        Self {
            modules,
            resolution,
            out: String::new(),
        }
    }

    pub(super) fn print(mut self) -> Result<String, Wrong> {
        self.head();
        self.prototypes();
        self.adapters();
        self.variables();
        for (image, module) in self.modules.iter().enumerate() {
            for (at, function) in module.functions.iter().enumerate() {
                if self.resolution.kept.contains(&Place::Function(image, at)) {
                    self.out.push_str(linkage(function.linkage));
                    self.code(image, function.text)
                        .map_err(|error| (image, error))?;
                    self.out.push('\n');
                }
            }
        }
        for (image, module) in self.modules.iter().enumerate() {
            for (alias, target) in &module.aliases {
                let (alias, target) = (self.name(image, alias), self.name(image, target));
                let line = format!(".alias {alias}, {target};\n");
                self.out.push_str(&line);
            }
        }
        self.files();
        Ok(self.out)
    }

    /// Writes the highest version and architecture of all images.
    fn head(&mut self) {
        let version = self.modules.iter().map(|module| module.version).max();
        let (major, minor) = version.unwrap_or((8, 0));
        let mut targets: Vec<&str> = Vec::new();
        let all = self.modules.iter().flat_map(|module| &module.target);
        let highest = all
            .clone()
            .filter(|target| architecture(target).is_some())
            .max_by_key(|target| (architecture(target), target.len()));
        targets.extend(highest);
        for option in all.filter(|target| architecture(target).is_none()) {
            if !targets.contains(option) && *option != "debug" {
                targets.push(option);
            }
        }
        let targets = targets.join(", ");
        let size = self
            .modules
            .first()
            .map_or(64, |module| module.address_size);
        let _ = writeln!(self.out, ".version {major}.{minor}");
        if !targets.is_empty() {
            let _ = writeln!(self.out, ".target {targets}");
        }
        let _ = writeln!(self.out, ".address_size {size}");
    }

    fn name<'n>(&'n self, image: usize, name: &'n str) -> &'n str {
        let renamed: &HashMap<String, String> = &self.resolution.renamed[image];
        renamed.get(name).map_or(name, String::as_str)
    }

    /// Declares every function first: variables and functions may name them before they are defined.
    fn prototypes(&mut self) {
        let provided = self.resolution.provided.values().copied();
        let mut places: Vec<Place> = provided.collect();
        for (image, module) in self.modules.iter().enumerate() {
            let all = (0..module.functions.len()).map(|at| Place::Function(image, at));
            places.extend(all.filter(|place| self.resolution.kept.contains(place)));
        }
        for place in places {
            let Place::Function(image, at) = place else {
                continue;
            };
            let function = &self.modules[image].functions[at];
            if function.kind == FunctionKind::Func {
                self.prototype(image, function);
            }
        }
    }

    /// Writes functions between calls and definitions that differ.
    fn adapters(&mut self) {
        for (declared, defined) in &self.resolution.adapted {
            let (Place::Function(image, at), Place::Function(other, to)) = (*declared, *defined)
            else {
                continue;
            };
            let declared = &self.modules[image].functions[at];
            let defined = &self.modules[other].functions[to];
            let name = self.name(image, declared.name);
            let target = self.name(other, defined.name);
            self.out += &adapt::text(declared, defined, name, target);
        }
    }

    fn prototype(&mut self, image: usize, function: &ParsedFunction<'a>) {
        let name = self.name(image, function.name).to_owned();
        let formals = |list: &[ParsedVariable<'a>]| {
            let one = |it: &ParsedVariable<'a>| declaration(it, it.name, (it.align, None));
            list.iter().map(one).collect::<Vec<_>>().join(", ")
        };
        let returns = match &function.returns[..] {
            [] => String::new(),
            list => format!("({}) ", formals(list)),
        };
        let (linkage, params) = (linkage(function.linkage), formals(&function.params));
        let _ = writeln!(self.out, "{linkage}.func {returns}{name}({params});");
    }

    /// Writes variables; those that an initial value names come before the variable with that value.
    fn variables(&mut self) {
        let mut by_name: HashMap<String, Place> = HashMap::new();
        let mut all = Vec::new();
        for (image, module) in self.modules.iter().enumerate() {
            for (at, variable) in module.variables.iter().enumerate() {
                let place = Place::Variable(image, at);
                if self.resolution.kept.contains(&place) {
                    by_name.insert(self.name(image, variable.name).to_owned(), place);
                    all.push(place);
                }
            }
        }
        let mut done = std::collections::HashSet::new();
        for start in all {
            // Depth first without recursion; a cycle of names is broken at its end.
            let mut path = vec![(start, 0)];
            while let Some((place, next)) = path.last_mut() {
                let Place::Variable(image, at) = *place else {
                    break;
                };
                let variable = &self.modules[image].variables[at];
                if *next == 0 && !done.insert(*place) {
                    path.pop();
                    continue;
                }
                let init = variable.init.get(*next);
                *next += 1;
                match init {
                    Some(Init::Symbol { name, .. }) => {
                        if let Some(&needed) = by_name.get(self.name(image, name))
                            && !done.contains(&needed)
                        {
                            path.push((needed, 0));
                        }
                    }
                    Some(Init::Bits(_)) => {}
                    None => {
                        self.variable(image, at);
                        path.pop();
                    }
                }
            }
        }
    }

    fn variable(&mut self, image: usize, at: usize) {
        let variable = &self.modules[image].variables[at];
        let name = self.name(image, variable.name).to_owned();
        let grown = self.resolution.grown.get(&Place::Variable(image, at));
        let extent = grown.map_or((variable.align, None), |(align, bytes)| {
            (*align, (*bytes > 0).then_some(*bytes))
        });
        let declared = declaration(variable, &name, extent);
        let _ = write!(self.out, "{}{declared}", linkage(variable.linkage));
        if !variable.init.is_empty() {
            let values: Vec<String> = variable
                .init
                .iter()
                .map(|init| self.value(image, variable.scalar, init))
                .collect();
            let mut dims: Vec<u64> = variable.dims.clone();
            if variable.lanes > 1 {
                dims.push(u64::from(variable.lanes));
            }
            self.out.push_str(" = ");
            self.out.push_str(&nested(&values, &dims));
        }
        self.out.push_str(";\n");
    }

    fn value(&self, image: usize, scalar: Scalar, init: &Init<'a>) -> String {
        match init {
            Init::Bits(bits) => match scalar {
                Scalar::F32 => format!("0f{:08x}", *bits as u32),
                Scalar::F64 => format!("0d{bits:016x}"),
                _ => {
                    let unused = 64 - 8 * scalar.size().min(8) as u32;
                    (bits << unused >> unused).to_string()
                }
            },
            Init::Symbol {
                name,
                offset,
                generic,
                mask,
            } => {
                let name = self.name(image, name);
                let mut text = if *generic {
                    format!("generic({name})")
                } else {
                    name.to_owned()
                };
                if *offset != 0 {
                    let _ = write!(text, "{offset:+}");
                }
                match mask {
                    Some(mask) => format!("{mask:#x}({text})"),
                    None => text,
                }
            }
        }
    }

    /// Writes a `.loc` with the linked image's number of its file; other notes are left out.
    fn located(&mut self, image: usize, note: &str) {
        let located = note.strip_prefix(".loc").and_then(source_lines::located);
        let Some((file, line)) = located else {
            return;
        };
        let before = &self.modules[..image];
        let before: usize = before.iter().map(|it| it.lines.files().len()).sum();
        let files = self.modules[image].lines.files();
        if let Some(at) = files.iter().position(|(number, _)| *number == file) {
            let _ = write!(self.out, ".loc {} {line} 0", before + at + 1);
        }
    }

    /// Writes the source files of all images.
    fn files(&mut self) {
        let all = self.modules.iter().flat_map(|it| it.lines.files());
        for (at, (_, file)) in all.enumerate() {
            let _ = writeln!(self.out, ".file {} \"{file}\"", at + 1);
        }
    }

    /// Writes a function's text with its image's new names. Of notes for debuggers it keeps lines of the source.
    fn code(&mut self, image: usize, text: &str) -> Result<(), crate::PtxError> {
        let mut lexer = Lexer::new(text);
        let (mut copied, mut opens) = (0, true);
        loop {
            let (token, _) = lexer.next()?;
            let (start, end) = lexer.span();
            match token {
                Token::End => break,
                Token::Dot("loc" | "file") => {
                    self.out.push_str(&text[copied..start]);
                    lexer.skip_note()?;
                    copied = lexer.span().1;
                    self.located(image, &text[start..copied]);
                    continue;
                }
                Token::Word(word) => {
                    // `v.x` names an element of `v`.
                    let name = word.split('.').next().unwrap_or(word);
                    let new = self.name(image, name);
                    // The first word of a statement is an opcode unless it is a label.
                    let label = text[end..].trim_start().starts_with(':');
                    if new != name && (!opens || label) {
                        let new = new.to_owned();
                        self.out.push_str(&text[copied..start]);
                        self.out.push_str(&new);
                        copied = start + name.len();
                    }
                }
                _ => {}
            }
            opens = matches!(token, Token::Punct(b';' | b'{' | b'}' | b':'));
        }
        self.out.push_str(&text[copied..]);
        Ok(())
    }
}

/// Returns values in the braces of their dimensions.
fn nested(values: &[String], dims: &[u64]) -> String {
    let Some((_, inner)) = dims.split_first() else {
        return values.first().cloned().unwrap_or_default();
    };
    if inner.is_empty() {
        return format!("{{{}}}", values.join(", "));
    }
    let row = inner.iter().product::<u64>().max(1) as usize;
    let rows: Vec<String> = values.chunks(row).map(|row| nested(row, inner)).collect();
    format!("{{{}}}", rows.join(", "))
}
