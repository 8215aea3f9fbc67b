//! A shared library with a name but no code.
//!
//! Programs that find a library of this name already loaded look into it, find nothing, and use
//! their fallback. Numba and cuda.core do so with nvJitLink: they then send PTX. Before that they
//! look for its functions in all loaded libraries, and would find those of the real library behind
//! this one.
//!
//! So this library defines these functions as absolute symbols of value zero: `dlsym` returns NULL
//! for them. They have their own version, so that libraries linked with the real one are not bound
//! to them. The library also declares the symbol version with its own name, for libraries that
//! require that version of it and find the symbols elsewhere.

/// Sizes in bytes of the ELF header, a program header, a symbol and an entry of the dynamic
/// section.
const HEADER: usize = 64;
const PROGRAM: usize = 56;
const SYMBOL: usize = 24;
const DYNAMIC: usize = 16;
/// Size in bytes of a version with its name.
const VERSION: usize = 28;
/// The version of the hidden symbols.
const OWN: &str = "WARPLOOM";
/// Section index of a symbol without a place in the file: `SHN_ABS`.
const ABSOLUTE: u16 = 0xfff1;
/// A function with global binding: `STB_GLOBAL`, `STT_FUNC`.
const FUNCTION: u8 = 1 << 4 | 2;

/// The string table: texts that each end with a zero byte.
struct Texts(Vec<u8>);

impl Texts {
    fn add(&mut self, text: &str) -> u32 {
        let at = self.0.len() as u32;
        self.0.extend(text.as_bytes());
        self.0.push(0);
        at
    }
}

/// Contents of the library, for x86-64 or AArch64 as this program is. `dlsym` returns NULL for the
/// `hidden` functions.
#[must_use]
pub(super) fn empty_library(soname: &str, hidden: &[&str]) -> Vec<u8> {
    let count = hidden.len() + 1;
    let mut texts = Texts(vec![0]);
    let (name, own) = (texts.add(soname), texts.add(OWN));
    let functions: Vec<u32> = hidden.iter().map(|name| texts.add(name)).collect();
    let hash = HEADER + 3 * PROGRAM;
    let symbols = (hash + 4 * (3 + count)).next_multiple_of(8);
    let names = symbols + SYMBOL * count;
    let versions = (names + texts.0.len()).next_multiple_of(8);
    let indices = versions + 3 * VERSION;
    let dynamic = (indices + 2 * count).next_multiple_of(8);
    let entries: [(u64, u64); 10] = [
        (4, hash as u64),               // DT_HASH
        (5, names as u64),              // DT_STRTAB
        (6, symbols as u64),            // DT_SYMTAB
        (10, texts.0.len() as u64),     // DT_STRSZ
        (11, SYMBOL as u64),            // DT_SYMENT
        (14, u64::from(name)),          // DT_SONAME
        (0x6fff_fff0, indices as u64),  // DT_VERSYM
        (0x6fff_fffc, versions as u64), // DT_VERDEF
        (0x6fff_fffd, 3),               // DT_VERDEFNUM
        (0, 0),                         // DT_NULL
    ];
    let size = dynamic + entries.len() * DYNAMIC;
    let mut file = Vec::with_capacity(size);
    header(&mut file);
    // Type, flags, offset, size. The segments are the whole file, its dynamic section, and a stack
    // that is not executable.
    program(&mut file, 1, 6, 0, size, 4096);
    program(&mut file, 2, 6, dynamic, entries.len() * DYNAMIC, 8);
    program(&mut file, 0x6474_e551, 6, 0, 0, 16);
    chain(&mut file, count as u32);
    file.resize(symbols, 0);
    symbol(&mut file, 0, 0, 0);
    for name in functions {
        symbol(&mut file, name, FUNCTION, ABSOLUTE);
    }
    file.extend(&texts.0);
    file.resize(versions, 0);
    // The versions: the file itself and the library's version, both with its soname, then the
    // version of the hidden symbols.
    version(&mut file, (soname, name), (1, 1), VERSION as u32);
    version(&mut file, (soname, name), (0, 2), VERSION as u32);
    version(&mut file, (OWN, own), (0, 3), 0);
    // The null symbol has no version.
    file.extend(0_u16.to_le_bytes());
    for _ in hidden {
        file.extend(3_u16.to_le_bytes());
    }
    file.resize(dynamic, 0);
    for (tag, value) in entries {
        file.extend(tag.to_le_bytes());
        file.extend(value.to_le_bytes());
    }
    file
}

/// The hash table of symbols: one bucket, as a single chain.
fn chain(file: &mut Vec<u8>, count: u32) {
    let first = u32::from(count > 1);
    for word in [1, count, first, 0] {
        file.extend(word.to_le_bytes());
    }
    for index in 1..count {
        let next = if index + 1 < count { index + 1 } else { 0 };
        file.extend(next.to_le_bytes());
    }
}

fn symbol(file: &mut Vec<u8>, name: u32, info: u8, section: u16) {
    file.extend(name.to_le_bytes());
    file.extend([info, 0]);
    file.extend(section.to_le_bytes());
    // Value and size.
    file.extend([0; 16]);
}

/// The definition of a version: the hash and offset of its name, flags, index, and the offset of
/// the next definition.
fn version(file: &mut Vec<u8>, (name, at): (&str, u32), (flags, index): (u16, u16), next: u32) {
    for half in [1, flags, index, 1] {
        file.extend(half.to_le_bytes());
    }
    for word in [elf_hash(name), 20, next] {
        file.extend(word.to_le_bytes());
    }
    file.extend(at.to_le_bytes());
    file.extend(0_u32.to_le_bytes());
}

/// The hash function for names in ELF files.
fn elf_hash(name: &str) -> u32 {
    name.bytes().fold(0_u32, |hash, byte| {
        let hash = (hash << 4).wrapping_add(u32::from(byte));
        let high = hash & 0xf000_0000;
        (hash ^ high >> 24) & !high
    })
}

fn header(file: &mut Vec<u8>) {
    let machine: u16 = if cfg!(target_arch = "aarch64") {
        183
    } else {
        62
    };
    file.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    file.extend(3_u16.to_le_bytes()); // a shared object
    file.extend(machine.to_le_bytes());
    file.extend(1_u32.to_le_bytes());
    file.extend(0_u64.to_le_bytes()); // no entry
    file.extend((HEADER as u64).to_le_bytes());
    file.extend(0_u64.to_le_bytes()); // no sections
    file.extend(0_u32.to_le_bytes());
    for half in [HEADER as u16, PROGRAM as u16, 3, 64, 0, 0] {
        file.extend(half.to_le_bytes());
    }
}

fn program(file: &mut Vec<u8>, kind: u32, flags: u32, at: usize, size: usize, align: u64) {
    file.extend(kind.to_le_bytes());
    file.extend(flags.to_le_bytes());
    for value in [at, at, at, size, size] {
        file.extend((value as u64).to_le_bytes());
    }
    file.extend(align.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "loads a library that runs nothing")]
    fn the_loader_takes_it_under_its_name() {
        let folder = test_cluster::TempDir::new().expect("a folder");
        let path = folder.path().join("some-file");
        let file = empty_library("libwarploomtest.so.7", &["warploomHidden", "getenv"]);
        std::fs::write(&path, file).expect("it is written");
        // SAFETY: the library has no code.
        let library = unsafe { libloading::Library::new(&path) }.expect("it loads");
        for name in ["warploomHidden", "getenv"] {
            // SAFETY: the symbol is not called.
            let found = unsafe { library.get::<Option<unsafe extern "C" fn()>>(name.as_bytes()) };
            // NULL, which the loader does not report as an error.
            assert!(found.is_ok_and(|it| it.is_none()), "{name} is hidden");
        }
        // SAFETY: as above.
        let found = unsafe { library.get::<unsafe extern "C" fn()>(b"nvJitLinkCreate") };
        assert!(found.is_err(), "there is nothing else");
        // It is found by name without a path, because it is loaded.
        // SAFETY: as above.
        let again = unsafe { libloading::Library::new("libwarploomtest.so.7") };
        assert!(again.is_ok());
    }
}
