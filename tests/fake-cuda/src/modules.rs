//! Modules, as far as they are known without machine code: their functions, parameters and variables.

use std::collections::BTreeMap;

use ptx::{EntryInfo, Init, ModuleInfo, ParsedModule};

use crate::codes::{INVALID_IMAGE, INVALID_PTX};
use crate::memory::Memory;

/// The first line of a linked image. The text that was linked follows.
const LINKED: &[u8] = b"// linked\n";

/// First bytes of machine code.
const ELF: &[u8] = b"\x7fELF";

/// Variables of the conformance suite's machine code that do not begin with zeros: the values of others in
/// machine code are not read.
const BEGINNINGS: [(&str, u32); 2] = [("added", 5), ("factor", 3)];

/// A loaded module.
#[derive(Debug)]
pub(crate) struct LoadedModule {
    pub(crate) entries: Vec<EntryInfo>,
    /// Address and bytes of each variable, by its name.
    pub(crate) variables: BTreeMap<String, (u64, u64)>,
}

/// A link in the making.
#[derive(Debug, Default)]
pub(crate) struct Link {
    pub(crate) texts: Vec<Vec<u8>>,
    /// The image, once the link is complete.
    pub(crate) linked: Vec<u8>,
    /// Address and bytes of the program's log of errors.
    pub(crate) log: (u64, u64),
}

/// A function of a loaded module.
#[derive(Debug, Clone)]
pub(crate) struct LoadedFunction {
    pub(crate) module: u64,
    pub(crate) entry: EntryInfo,
    /// Bytes of dynamic shared memory that it may have.
    pub(crate) dynamic: u64,
    pub(crate) large_clusters: bool,
}

/// True if an image was linked by this driver.
pub(crate) fn is_linked(image: &[u8]) -> bool {
    image.starts_with(LINKED)
}

/// True if an image is machine code.
pub(crate) fn is_machine_code(image: &[u8]) -> bool {
    image.starts_with(ELF)
}

/// Letters of types, and of other parts of opcodes that are followed by a number.
const LETTERS: &[u8] = b"bsufvxemnktp";

/// True if a part of an opcode looks like a type that does not exist, as `q32`.
fn is_no_type(part: &str) -> bool {
    let (letter, bits) = part.split_at_checked(1).unwrap_or_default();
    let unknown = letter
        .bytes()
        .any(|it| it.is_ascii_lowercase() && !LETTERS.contains(&it));
    unknown && ["8", "16", "32", "64"].contains(&bits)
}

/// Checks a text as far as this driver does: its form, and the names of types.
fn check(text: &[u8]) -> Result<(), String> {
    ModuleInfo::parse(text).map_err(|error| error.to_string())?;
    let words = std::str::from_utf8(text)
        .unwrap_or_default()
        .split_whitespace();
    let opcodes = words.filter(|word| word.starts_with(|it: char| it.is_ascii_lowercase()));
    match opcodes
        .flat_map(|it| it.split('.'))
        .find(|part| is_no_type(part))
    {
        Some(part) => Err(format!("no type {part}")),
        None => Ok(()),
    }
}

/// Links texts: checks them, and keeps them. The result ends in a zero byte.
pub(crate) fn link(texts: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    let mut linked = LINKED.to_vec();
    for text in texts {
        check(text)?;
        linked.extend_from_slice(text);
    }
    linked.push(0);
    Ok(linked)
}

/// Initial bytes of the variables of a text.
fn beginnings(text: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let Ok(parsed) = ParsedModule::parse_bytes(text) else {
        return BTreeMap::new();
    };
    let variables = parsed.variables.iter().map(|variable| {
        let width = variable.scalar.size() as usize;
        let bits = variable.init.iter().map(|init| match init {
            Init::Bits(bits) => *bits,
            Init::Symbol { .. } => 0,
        });
        let bytes = bits.flat_map(|bits| bits.to_le_bytes().into_iter().take(width));
        (variable.name.to_owned(), bytes.collect())
    });
    variables.collect()
}

/// Loads an image without its terminator; its variables get memory.
pub(crate) fn load(image: &[u8], memory: &mut Memory) -> Result<LoadedModule, u32> {
    let machine_code = is_machine_code(image);
    let wrong = if machine_code {
        INVALID_IMAGE
    } else {
        INVALID_PTX
    };
    let info = ModuleInfo::parse(image).map_err(|_| wrong)?;
    let texts = match machine_code {
        true => {
            let known =
                BEGINNINGS.map(|(name, value)| (name.to_owned(), value.to_le_bytes().into()));
            BTreeMap::from(known)
        }
        false => beginnings(image),
    };
    let mut variables = BTreeMap::new();
    for global in info.globals.iter().filter(|global| !global.external) {
        let address = memory.alloc_own(global.size)?;
        if let Some(bytes) = texts.get(&global.name) {
            memory.write(address, bytes)?;
        }
        variables.insert(global.name.clone(), (address, global.size));
    }
    Ok(LoadedModule {
        entries: info.entries,
        variables,
    })
}

impl LoadedModule {
    /// Frees its variables.
    pub(crate) fn unload(&self, memory: &mut Memory) {
        for (address, _) in self.variables.values() {
            memory.free_own(*address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = ".version 7.0\n.target sm_75\n.address_size 64\n\
        .visible .global .align 8 .u64 counter = 5;\n\
        .visible .global .align 1 .b8 name[3] = {97, 98, 99};\n\
        .visible .entry work(.param .u64 data, .param .u32 n)\n{\n\tret;\n}\n";

    #[test]
    fn a_linked_text_is_loaded_with_functions_and_variables() {
        let linked = link(&[TEXT.as_bytes().to_vec()]).expect("a good text");
        assert!(is_linked(&linked) && linked.ends_with(&[0]));
        let mut memory = Memory::new(1 << 30);
        let module = load(&linked[..linked.len() - 1], &mut memory).expect("it loads");
        assert_eq!(module.entries[0].name, "work");
        assert_eq!(module.entries[0].param_bytes, 12);
        let (counter, bytes) = module.variables["counter"];
        assert_eq!(memory.read(counter, bytes), Ok(5_u64.to_le_bytes().into()));
        let (name, bytes) = module.variables["name"];
        assert_eq!(memory.read(name, bytes), Ok(b"abc".into()));
        module.unload(&mut memory);
        assert!(memory.read(name, bytes).is_err());
    }

    #[test]
    fn what_is_no_image_is_refused() {
        let mut memory = Memory::new(1 << 30);
        assert!(link(&[b"nonsense".to_vec()]).is_err());
        let typed = TEXT.replace("ret;", "mad.lo.q32 %r1, %r1, %r1, %r1;");
        assert_eq!(link(&[typed.into_bytes()]), Err("no type q32".to_owned()));
        let text = load(b"nonsense", &mut memory).map(|_| ());
        assert_eq!(text, Err(INVALID_PTX));
        let code = load(b"\x7fELF nonsense", &mut memory).map(|_| ());
        assert_eq!(code, Err(INVALID_IMAGE));
    }
}
