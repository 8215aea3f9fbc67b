//! How long a cubin is, found from its own headers.

use object::LittleEndian;
use object::elf::{EM_CUDA, FileHeader64, PT_NULL, SHT_NOBITS, SHT_NULL};
use object::read::elf::FileHeader;

type Header = FileHeader64<LittleEndian>;
const LE: LittleEndian = LittleEndian;

/// How an ELF file begins.
pub(crate) const MAGIC: &[u8] = b"\x7fELF";

/// Bytes of a file's header, of a section's and of a program's.
const HEADER: u64 = 64;
const SECTION: u64 = 64;
const SEGMENT: u64 = 56;

/// How many bytes a cubin has at least that begins so. It is the whole one as soon as that is no more than
/// what is there; for one of which only a pointer is known, ask again with that many. `None` where it is no
/// machine code of a GPU.
#[must_use]
pub fn cubin_extent(first: &[u8]) -> Option<u64> {
    let available = first.len() as u64;
    if available < HEADER {
        return first.starts_with(MAGIC).then_some(HEADER);
    }
    let header = Header::parse(first).ok()?;
    if header.e_machine(LE) != EM_CUDA || !header.is_little_endian() {
        return None;
    }
    let (sections, segments) = (header.e_shoff.get(LE), header.e_phoff.get(LE));
    let mut end = HEADER;
    if sections != 0 {
        // Its first section may say how many there are.
        end = end.max(sections.checked_add(SECTION)?);
        if available < end {
            return Some(end);
        }
        let count = u64::from(header.shnum(LE, first).ok()?);
        end = end.max(sections.checked_add(count.checked_mul(SECTION)?)?);
    }
    if segments != 0 {
        let count = u64::from(header.phnum(LE, first).ok()?);
        end = end.max(segments.checked_add(count.checked_mul(SEGMENT)?)?);
    }
    if available < end {
        return Some(end);
    }
    for section in header.section_headers(LE, first).ok()? {
        let kind = section.sh_type.get(LE);
        if kind != SHT_NOBITS && kind != SHT_NULL {
            let bytes = section.sh_size.get(LE);
            end = end.max(section.sh_offset.get(LE).checked_add(bytes)?);
        }
    }
    for segment in header.program_headers(LE, first).ok()? {
        if segment.p_type.get(LE) != PT_NULL {
            let bytes = segment.p_filesz.get(LE);
            end = end.max(segment.p_offset.get(LE).checked_add(bytes)?);
        }
    }
    Some(end)
}
