//! The length of a cubin, found from its own headers.

use object::LittleEndian;
use object::elf::{EM_CUDA, FileHeader64, PT_NULL, SHT_NOBITS, SHT_NULL};
use object::read::elf::FileHeader;

type Header = FileHeader64<LittleEndian>;
const LE: LittleEndian = LittleEndian;

/// The first bytes of an ELF file.
pub(crate) const MAGIC: &[u8] = b"\x7fELF";

/// Bytes of a file's header, of a section's and of a program's.
const HEADER: u64 = 64;
const SECTION: u64 = 64;
const SEGMENT: u64 = 56;

/// Returns the minimum length of a cubin with these first bytes. It is the exact length once it is no more
/// than the bytes given. If only a pointer is known, ask again with that many bytes. `None` if this is no
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
        // Its first section may have the number of sections.
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
