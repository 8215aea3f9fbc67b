//! Machine code of GPUs: the same summary of a cubin as of PTX.
//!
//! A cubin is an ELF file of 64 bits. A kernel's code is in the section `.text.<kernel>`, and its parameters
//! and limits in `.nv.info.<kernel>`. Its shared memory is as long as `.nv.shared.<kernel>`. Variables are
//! symbols of `.nv.global…` and `.nv.constant3`. Kernels are listed in the order of their code.

mod extent;
mod record;

use std::collections::HashMap;

use object::elf::{
    EM_CUDA, FileHeader64, SHN_UNDEF, SHT_SYMTAB, STT_FUNC, STT_OBJECT, SectionHeader64, Sym64,
};
use object::read::elf::{FileHeader, SectionHeader, SectionTable, Sym, SymbolTable};
use object::{LittleEndian, SectionIndex};

use crate::{EntryInfo, GlobalInfo, ModuleInfo, Position, PtxError};
pub(crate) use extent::MAGIC;
pub use extent::cubin_extent;
use record::{Kernel, registers_and_frames};

type Header = FileHeader64<LittleEndian>;
const LE: LittleEndian = LittleEndian;

/// Bit in a symbol's `st_other` of a kernel, in contrast to a function that kernels call.
const KERNEL: u8 = 0x10;

/// The first version of the format with the new layout of the header's flags. Older machine code may have the
/// same architecture in their lowest byte.
const NEW_FLAGS: u8 = 8;

/// The first architecture on which a kernel's shared section begins with bytes of the system.
const RESERVES: u32 = 90;
const RESERVED: u64 = 1024;

/// Maximum number of times that an image's bytes may be read as names and descriptions. Sections may share
/// both, but those of a real image do so a few times at most.
const PASSES: usize = 16;

/// Returns an error in machine code, which has no lines.
fn wrong(message: impl Into<String>) -> PtxError {
    PtxError::new(Position::default(), message)
}

/// Returns an error of the ELF reader.
fn broken(error: object::Error) -> PtxError {
    wrong(format!("machine code: {error}"))
}

/// The parts of an image, and the number of bytes that may still be read.
struct Reader<'a> {
    image: &'a [u8],
    sections: SectionTable<'a, Header>,
    symbols: SymbolTable<'a, Header>,
    left: usize,
}

/// The sections of kernels, by kernel name.
#[derive(Default)]
struct Sections<'a> {
    infos: HashMap<&'a [u8], SectionIndex>,
    shared: HashMap<&'a [u8], u64>,
    /// Sections of variables; true if the variables are constant.
    variables: HashMap<usize, (bool, u64)>,
    /// Sections of code, in order.
    code: Vec<(SectionIndex, &'a [u8])>,
}

impl<'a> Reader<'a> {
    fn spend<T: AsRef<[u8]> + ?Sized>(&mut self, read: &'a T) -> Result<&'a T, PtxError> {
        let left = self.left.checked_sub(read.as_ref().len() + 1);
        self.left = left.ok_or_else(|| wrong("machine code: its sections share their bytes"))?;
        Ok(read)
    }

    fn data(&mut self, section: &'a SectionHeader64<LittleEndian>) -> Result<&'a [u8], PtxError> {
        let data = section.data(LE, self.image).map_err(broken)?;
        self.spend(data)
    }

    fn name(&mut self, symbol: &Sym64<LittleEndian>) -> Result<&'a [u8], PtxError> {
        let name = symbol.name(LE, self.symbols.strings()).map_err(broken)?;
        self.spend(name)
    }

    /// Returns the sections by purpose, and the records of the section for all kernels.
    fn sort(&mut self) -> Result<(Sections<'a>, &'a [u8]), PtxError> {
        let (mut sorted, mut of_all) = (Sections::default(), &[][..]);
        let sections = self.sections;
        for (index, section) in sections.enumerate() {
            let name = sections.section_name(LE, section).map_err(broken)?;
            let name = self.spend(name)?;
            if let Some(kernel) = name.strip_prefix(b".text.") {
                sorted.code.push((index, kernel));
            } else if let Some(kernel) = name.strip_prefix(b".nv.info.") {
                sorted.infos.entry(kernel).or_insert(index);
            } else if let Some(kernel) = name.strip_prefix(b".nv.shared.") {
                sorted.shared.insert(kernel, section.sh_size.get(LE));
            } else if name == b".nv.info" {
                of_all = self.data(section)?;
            } else if name.starts_with(b".nv.global") || name == b".nv.constant3" {
                let constant = name == b".nv.constant3";
                let align = section.sh_addralign.get(LE);
                sorted.variables.insert(index.0, (constant, align));
            }
        }
        Ok((sorted, of_all))
    }

    /// Returns each kernel's place in the symbol table, by the section of its code.
    fn kernels(&self) -> HashMap<usize, (usize, &'a Sym64<LittleEndian>)> {
        let mut kernels = HashMap::new();
        for (index, symbol) in self.symbols.enumerate() {
            let is_kernel = symbol.st_type() == STT_FUNC && symbol.st_other().0 & KERNEL != 0;
            if is_kernel && let Ok(Some(section)) = self.symbols.symbol_section(LE, symbol, index) {
                kernels.entry(section.0).or_insert((index.0, symbol));
            }
        }
        kernels
    }

    fn entries(&mut self, info: &mut ModuleInfo) -> Result<Sections<'a>, PtxError> {
        let (sorted, of_all) = self.sort()?;
        let kernels = self.kernels();
        let (registers, frames) =
            registers_and_frames(of_all).map_err(|why| wrong(format!("machine code: {why}")))?;
        let reserved = if info.architecture() >= RESERVES {
            RESERVED
        } else {
            0
        };
        for (section, named) in &sorted.code {
            let (Some((index, symbol)), Some(of_kernel)) =
                (kernels.get(&section.0), sorted.infos.get(named))
            else {
                continue;
            };
            if self.name(symbol)? != *named {
                continue;
            }
            let name = std::str::from_utf8(named);
            let name = name.map_err(|_| wrong("machine code: a kernel's name is no text"))?;
            let described = self.sections.section(*of_kernel).map_err(broken)?;
            let kernel = Kernel::read(self.data(described)?)
                .map_err(|why| wrong(format!("machine code: kernel `{name}`: {why}")))?;
            let shared = sorted.shared.get(named).copied().unwrap_or(0);
            let shared = u32::try_from(shared.saturating_sub(reserved));
            let shared = shared.map_err(|_| wrong("machine code: too much shared memory"))?;
            let of = |rows: &HashMap<usize, u32>| rows.get(index).copied().unwrap_or(0);
            if info.version == (0, 0) {
                info.version = kernel.version;
            }
            info.entries.push(EntryInfo {
                name: name.to_owned(),
                params: kernel.params,
                param_bytes: kernel.param_bytes,
                static_shared: shared,
                maxntid: kernel.maxntid,
                reqntid: kernel.reqntid,
                minnctapersm: None,
                local_bytes: of(&frames).into(),
                registers: of(&registers).min(255),
            });
        }
        Ok(sorted)
    }

    fn globals(&mut self, sorted: &Sections<'_>) -> Result<Vec<GlobalInfo>, PtxError> {
        let mut globals = Vec::new();
        let symbols = self.symbols;
        for (index, symbol) in symbols.enumerate() {
            if symbol.st_type() != STT_OBJECT || symbol.st_shndx(LE) == SHN_UNDEF {
                continue;
            }
            let Ok(Some(section)) = symbols.symbol_section(LE, symbol, index) else {
                continue;
            };
            let Some((constant, align)) = sorted.variables.get(&section.0) else {
                continue;
            };
            let name = std::str::from_utf8(self.name(symbol)?);
            let name = name.map_err(|_| wrong("machine code: a variable's name is no text"))?;
            let place = symbol.st_value.get(LE) | align;
            globals.push(GlobalInfo {
                name: name.to_owned(),
                size: symbol.st_size.get(LE),
                align: 1 << place.trailing_zeros().min(12),
                constant: *constant,
                external: false,
                managed: None,
            });
        }
        Ok(globals)
    }
}

/// Summarises a cubin. It does not have the alignment of parameters and variables; those returned are ones
/// that their places have.
///
/// # Errors
/// If it is no cubin, or is inconsistent.
pub(crate) fn summary(image: &[u8]) -> Result<ModuleInfo, PtxError> {
    let header = Header::parse(image).map_err(broken)?;
    if header.e_machine(LE) != EM_CUDA {
        return Err(wrong("an ELF file, but no machine code of a GPU"));
    }
    match cubin_extent(image) {
        Some(bytes) if bytes <= image.len() as u64 => {}
        _ => return Err(wrong("machine code: it ends before what it says it has")),
    }
    let sections = header.sections(LE, image).map_err(broken)?;
    let symbols = sections.symbols(LE, image, SHT_SYMTAB).map_err(broken)?;
    let flags = header.e_flags.get(LE).0;
    let architecture = match header.e_ident.abi_version >= NEW_FLAGS {
        true => flags >> 8 & 0xff,
        false => flags & 0xff,
    };
    let mut info = ModuleInfo {
        target: vec![format!("sm_{architecture}")],
        ..ModuleInfo::default()
    };
    let mut reader = Reader {
        image,
        sections,
        symbols,
        left: image.len().saturating_mul(PASSES),
    };
    let sorted = reader.entries(&mut info)?;
    info.globals = reader.globals(&sorted)?;
    Ok(info)
}
