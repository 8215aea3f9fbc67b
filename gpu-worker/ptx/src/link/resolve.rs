//! Resolution of names: the effective definition of each name, and renamed names.

use super::image::LinkImage;
use super::{adapt, declaration};
use crate::lex::{Lexer, Token};
use crate::{
    FunctionKind, Init, Linkage, ParsedFunction, ParsedModule, ParsedVariable, Position, PtxError,
    Space,
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// An error and the image that has it.
pub(super) type Wrong = (usize, PtxError);

/// Functions that the device provides if a module only declares them.
const PROVIDED: [&str; 4] = ["vprintf", "malloc", "free", "__assertfail"];

/// A symbol's place: image, and index among its functions or variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Place {
    Function(usize, usize),
    Variable(usize, usize),
}

impl Place {
    fn image(self) -> usize {
        match self {
            Self::Function(image, _) | Self::Variable(image, _) => image,
        }
    }
}

/// Precedence of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    Declared,
    Common,
    Weak,
    Strong,
}

/// One appearance of a name that other images see.
#[derive(Clone, Copy)]
struct Seen {
    place: Place,
    strength: Strength,
    position: Position,
}

/// The outcome for all names.
#[derive(Default)]
pub(super) struct Resolution {
    /// Functions and variables that go into the result.
    pub(super) kept: HashSet<Place>,
    /// Functions that are declared only, and provided by the device.
    pub(super) provided: BTreeMap<String, Place>,
    /// New names for internal names of each image.
    pub(super) renamed: Vec<HashMap<String, String>>,
    /// Declarations that differ from their definitions only in having a result or not, each with its
    /// definition.
    pub(super) adapted: Vec<(Place, Place)>,
    /// Alignment and bytes of variables that several images declare together.
    pub(super) grown: HashMap<Place, (u64, u64)>,
}

/// True for unsized shared memory, which every image may declare.
fn is_dynamic(variable: &ParsedVariable<'_>) -> bool {
    variable.space == Space::Shared && variable.size() == Some(0)
}

/// Names that code and initial values of an image mention.
fn mentioned<'a>(module: &ParsedModule<'a>) -> HashSet<&'a str> {
    let mut names = HashSet::new();
    for function in module
        .functions
        .iter()
        .filter(|function| function.body.is_some())
    {
        let mut lexer = Lexer::new(function.text);
        while let Ok((token, _)) = lexer.next()
            && token != Token::End
        {
            if let Token::Word(word) = token {
                names.insert(word);
            }
        }
    }
    for init in module.variables.iter().flat_map(|variable| &variable.init) {
        if let Init::Symbol { name, .. } = init {
            names.insert(*name);
        }
    }
    names.extend(module.aliases.iter().map(|(_, target)| *target));
    names
}

/// Returns the precedence of a function's appearance for other images; `None` if the function is internal.
fn function_strength(function: &ParsedFunction<'_>, defined: bool) -> Option<Strength> {
    let entry = function.kind == FunctionKind::Entry;
    match (function.linkage, function.body.is_some()) {
        (Linkage::Extern, _) => Some(Strength::Declared),
        // A declaration before the definition in the same image has no precedence of its own.
        (_, false) if defined => None,
        (_, false) => Some(Strength::Declared),
        (Linkage::Weak, _) => Some(Strength::Weak),
        (Linkage::Internal, _) if !entry => None,
        _ => Some(Strength::Strong),
    }
}

fn variable_strength(variable: &ParsedVariable<'_>) -> Option<Strength> {
    match variable.linkage {
        Linkage::Internal => None,
        Linkage::Extern => Some(Strength::Declared),
        Linkage::Common => Some(Strength::Common),
        Linkage::Weak => Some(Strength::Weak),
        Linkage::Visible => Some(Strength::Strong),
    }
}

impl Resolution {
    pub(super) fn of(
        modules: &[ParsedModule<'_>],
        images: &[LinkImage<'_>],
    ) -> Result<Self, Wrong> {
        let mut seen: BTreeMap<&str, Vec<Seen>> = BTreeMap::new();
        let mut owners: HashMap<&str, HashSet<usize>> = HashMap::new();
        let mut resolution = Self::default();
        for (image, module) in modules.iter().enumerate() {
            if module.address_size != modules[0].address_size {
                let message = "the address size differs from that of the first image";
                return Err((
                    image,
                    PtxError::new(Position { line: 1, column: 1 }, message),
                ));
            }
            let defined: HashSet<&str> = module
                .functions
                .iter()
                .filter(|function| function.body.is_some())
                .map(|function| function.name)
                .collect();
            for (at, function) in module.functions.iter().enumerate() {
                owners.entry(function.name).or_default().insert(image);
                let place = Place::Function(image, at);
                let defined = defined.contains(function.name);
                match function_strength(function, defined) {
                    Some(strength) => seen.entry(function.name).or_default().push(Seen {
                        place,
                        strength,
                        position: function.position,
                    }),
                    None if function.body.is_some() => {
                        resolution.kept.insert(place);
                    }
                    None => {}
                }
            }
            for (at, variable) in module.variables.iter().enumerate() {
                owners.entry(variable.name).or_default().insert(image);
                let place = Place::Variable(image, at);
                match variable_strength(variable) {
                    Some(strength) => seen.entry(variable.name).or_default().push(Seen {
                        place,
                        strength,
                        position: variable.position,
                    }),
                    None => {
                        resolution.kept.insert(place);
                    }
                }
            }
        }
        let mentioned: Vec<HashSet<&str>> = modules.iter().map(mentioned).collect();
        for (name, seen) in &seen {
            resolution.choose(modules, images, &mentioned, (name, seen))?;
        }
        resolution.rename(modules, &owners);
        Ok(resolution)
    }

    /// Finds the one effective definition of a name.
    fn choose(
        &mut self,
        modules: &[ParsedModule<'_>],
        images: &[LinkImage<'_>],
        mentioned: &[HashSet<&str>],
        (name, seen): (&str, &[Seen]),
    ) -> Result<(), Wrong> {
        let strong: Vec<&Seen> = seen
            .iter()
            .filter(|seen| seen.strength == Strength::Strong)
            .collect();
        if let [first, second, ..] = strong[..] {
            let (image, at) = (images[first.place.image()].name, first.position);
            let message = format!(
                "`{name}` is defined twice: here and in image `{image}`, line {}, column {}",
                at.line, at.column
            );
            return Err((
                second.place.image(),
                PtxError::new(second.position, message),
            ));
        }
        // The definition with the highest precedence; among equals the first.
        let best = seen
            .iter()
            .rev()
            .max_by_key(|seen| seen.strength)
            .filter(|seen| seen.strength > Strength::Declared);
        let Some(best) = best else {
            return self.undefined(modules, mentioned, (name, seen));
        };
        let mut grown = extent(modules, best.place);
        for other in seen {
            if differs_in_result(modules, best.place, other.place) {
                self.adapted.push((other.place, best.place));
                continue;
            }
            fits(modules, name, best.place, other)?;
            if other.strength == Strength::Common && best.strength == Strength::Common {
                let (align, bytes) = extent(modules, other.place);
                grown = (grown.0.max(align), grown.1.max(bytes));
            }
        }
        if grown != extent(modules, best.place) {
            self.grown.insert(best.place, grown);
        }
        self.kept.insert(best.place);
        Ok(())
    }

    /// Handles a name without a definition: dynamic shared memory, a function of the device, unused, or
    /// wrong.
    fn undefined(
        &mut self,
        modules: &[ParsedModule<'_>],
        mentioned: &[HashSet<&str>],
        (name, seen): (&str, &[Seen]),
    ) -> Result<(), Wrong> {
        let first = seen[0];
        if let Place::Variable(image, at) = first.place
            && is_dynamic(&modules[image].variables[at])
        {
            let mut align = 1;
            for other in seen {
                fits(modules, name, first.place, other)?;
                align = align.max(extent(modules, other.place).0);
            }
            self.grown.insert(first.place, (align, 0));
            self.kept.insert(first.place);
            return Ok(());
        }
        if matches!(first.place, Place::Function(..)) && PROVIDED.contains(&name) {
            self.provided.insert(name.to_owned(), first.place);
            return Ok(());
        }
        let user = seen
            .iter()
            .find(|seen| mentioned[seen.place.image()].contains(name));
        match user {
            Some(user) => {
                let message = format!("`{name}` is used here and defined in no image");
                Err((user.place.image(), PtxError::new(user.position, message)))
            }
            None => Ok(()),
        }
    }

    /// Renames internal names of an image that other images have too.
    fn rename(&mut self, modules: &[ParsedModule<'_>], owners: &HashMap<&str, HashSet<usize>>) {
        let mut taken: HashSet<String> = HashSet::new();
        for (image, module) in modules.iter().enumerate() {
            let functions = module
                .functions
                .iter()
                .filter(|it| it.linkage == Linkage::Internal && it.kind == FunctionKind::Func)
                .map(|function| function.name);
            let variables = module
                .variables
                .iter()
                .filter(|it| it.linkage == Linkage::Internal)
                .map(|variable| variable.name);
            let mut renamed = HashMap::new();
            for name in functions.chain(variables) {
                if owners.get(name).is_none_or(|images| images.len() < 2) {
                    continue;
                }
                let mut new = format!("{name}$image{image}");
                while owners.contains_key(new.as_str()) || taken.contains(&new) {
                    new.push('_');
                }
                taken.insert(new.clone());
                renamed.insert(name.to_owned(), new);
            }
            self.renamed.push(renamed);
        }
        for (declared, _) in &self.adapted {
            let Place::Function(image, at) = *declared else {
                continue;
            };
            let name = modules[image].functions[at].name;
            let mut new = format!("{name}$image{image}");
            while owners.contains_key(new.as_str()) || taken.contains(&new) {
                new.push('_');
            }
            taken.insert(new.clone());
            self.renamed[image].insert(name.to_owned(), new);
        }
    }
}

/// Alignment and bytes of a variable; zeros for a function.
fn extent(modules: &[ParsedModule<'_>], place: Place) -> (u64, u64) {
    match place {
        Place::Variable(image, at) => {
            let variable = &modules[image].variables[at];
            (variable.align, variable.size().unwrap_or(0))
        }
        Place::Function(..) => (0, 0),
    }
}

/// Returns the shape of parameters or results, as a call sees it. Names, types and alignments are spelt in
/// many ways; only the places of the bytes must agree.
fn shape(list: &[ParsedVariable<'_>]) -> Vec<(Option<u64>, bool)> {
    let one = |it: &ParsedVariable<'_>| (it.size(), it.space == Space::Reg);
    list.iter().map(one).collect()
}

/// True if a function of another image is declared like its definition except for a result.
fn differs_in_result(modules: &[ParsedModule<'_>], best: Place, other: Place) -> bool {
    let (Place::Function(a, x), Place::Function(b, y)) = (best, other) else {
        return false;
    };
    let (defined, declared) = (&modules[a].functions[x], &modules[b].functions[y]);
    a != b
        && declared.body.is_none()
        && defined.kind == FunctionKind::Func
        && shape(&declared.params) == shape(&defined.params)
        && adapt::is_possible(declared, defined)
}

/// Checks that a declaration matches the definition.
fn fits(modules: &[ParsedModule<'_>], name: &str, best: Place, other: &Seen) -> Result<(), Wrong> {
    let wrong = match (best, other.place) {
        (Place::Function(a, x), Place::Function(b, y)) => {
            let (a, b) = (&modules[a].functions[x], &modules[b].functions[y]);
            let same = a.kind == b.kind
                && shape(&a.params) == shape(&b.params)
                && shape(&a.returns) == shape(&b.returns);
            (!same).then_some("with other parameters or results than its definition has")
        }
        (Place::Variable(a, x), Place::Variable(b, y)) => {
            let (a, b) = (&modules[a].variables[x], &modules[b].variables[y]);
            let open = a.size() == Some(0) || b.size() == Some(0) || a.linkage == Linkage::Common;
            if a.space != b.space {
                Some("in another space than its definition")
            } else if !open && a.size() != b.size() {
                Some("with another size than its definition has")
            } else if a.scalar.size() != b.scalar.size()
                && declaration::counts_elements(&modules[other.place.image()], name)
            {
                Some("with elements of another size than its definition has")
            } else {
                None
            }
        }
        _ => Some("as what its definition is not: one is a function, one a variable"),
    };
    match wrong {
        None => Ok(()),
        Some(how) => {
            let message = format!("`{name}` is declared {how}");
            Err((other.place.image(), PtxError::new(other.position, message)))
        }
    }
}
