//! A shared library with a name and nothing in it.
//!
//! Programs that find a library of this name already loaded look into it, find nothing, and take
//! the way they take without it. Numba and cuda.core do so with nvJitLink: they then send PTX.
//! It says that it has the version of symbols that its name is, for those who need them of it and find
//! them elsewhere.

/// Bytes of the ELF header, a program header, a symbol and an entry of the dynamic section.
const HEADER: usize = 64;
const PROGRAM: usize = 56;
const SYMBOL: usize = 24;
const DYNAMIC: usize = 16;
/// And of a version with its name.
const VERSION: usize = 28;

/// The file: x86-64 or AArch64, as this program is.
#[must_use]
pub(super) fn empty_library(soname: &str) -> Vec<u8> {
    let hash = HEADER + 3 * PROGRAM;
    let symbols = (hash + 16_usize).next_multiple_of(8);
    let names = symbols + SYMBOL;
    let text = format!("\0{soname}\0");
    let versions = (names + text.len()).next_multiple_of(8);
    let indices = versions + 2 * VERSION;
    let dynamic = (indices + 2).next_multiple_of(8);
    let entries: [(u64, u64); 10] = [
        (4, hash as u64),               // DT_HASH
        (5, names as u64),              // DT_STRTAB
        (6, symbols as u64),            // DT_SYMTAB
        (10, text.len() as u64),        // DT_STRSZ
        (11, SYMBOL as u64),            // DT_SYMENT
        (14, 1),                        // DT_SONAME
        (0x6fff_fff0, indices as u64),  // DT_VERSYM
        (0x6fff_fffc, versions as u64), // DT_VERDEF
        (0x6fff_fffd, 2),               // DT_VERDEFNUM
        (0, 0),                         // DT_NULL
    ];
    let size = dynamic + entries.len() * DYNAMIC;
    let mut file = Vec::with_capacity(size);
    header(&mut file);
    // Type, flags, where, how much: the whole file, its dynamic section, and no executable stack.
    program(&mut file, 1, 6, 0, size, 4096);
    program(&mut file, 2, 6, dynamic, entries.len() * DYNAMIC, 8);
    program(&mut file, 0x6474_e551, 6, 0, 0, 16);
    // One bucket, one symbol: the one that is none.
    for word in [1_u32, 1, 0, 0] {
        file.extend(word.to_le_bytes());
    }
    file.resize(names, 0);
    file.extend(text.as_bytes());
    file.resize(versions, 0);
    // The file itself, and the version; both are called as the file is.
    version(&mut file, soname, (1, 1), VERSION as u32);
    version(&mut file, soname, (0, 2), 0);
    file.resize(dynamic, 0);
    for (tag, value) in entries {
        file.extend(tag.to_le_bytes());
        file.extend(value.to_le_bytes());
    }
    file
}

/// The definition of a version: flags and index, and where the next one lies.
fn version(file: &mut Vec<u8>, name: &str, (flags, index): (u16, u16), next: u32) {
    for half in [1, flags, index, 1] {
        file.extend(half.to_le_bytes());
    }
    for word in [elf_hash(name), 20, next] {
        file.extend(word.to_le_bytes());
    }
    // Its one name, at the place of the only text there is.
    file.extend(1_u32.to_le_bytes());
    file.extend(0_u32.to_le_bytes());
}

/// The hash of names that ELF files use.
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
        std::fs::write(&path, empty_library("libwarploomtest.so.7")).expect("it is written");
        // SAFETY: there is no code in it.
        let library = unsafe { libloading::Library::new(&path) }.expect("it loads");
        // SAFETY: nothing is called.
        let found = unsafe { library.get::<unsafe extern "C" fn()>(b"nvJitLinkCreate") };
        assert!(found.is_err(), "it is empty");
        // By its name it is found without a path, because it is loaded.
        // SAFETY: as above.
        let again = unsafe { libloading::Library::new("libwarploomtest.so.7") };
        assert!(again.is_ok());
    }
}
