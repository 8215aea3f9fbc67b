//! Fatbins: containers of one program for several architectures, as machine code and as PTX.
//!
//! A header of 16 bytes (magic, version and its own size as 16 bit, bytes that follow as 64 bit),
//! then entries: a header that says its own size, then the payload. Of an entry's header the
//! kind (16 bit) stands at 0, its size at 4, the payload's at 8 (64 bit), that of what is
//! compressed in it at 16, the architecture at 28, flags at 40 (64 bit), the size before the
//! compression at 56 (64 bit). All is little-endian.

use std::borrow::Cow;
use std::fmt;
use std::io::Read;

/// How a container begins.
pub(crate) const MAGIC: u32 = 0xba55_ed50;
/// How the structure begins that points to one.
pub(crate) const WRAPPER: u32 = 0x4662_43b1;

/// Bytes of a container's header.
pub(crate) const HEADER: usize = 16;
/// Bytes of an entry's header up to its flags' end: the least there is.
const ENTRY: usize = 48;
/// `kind` of PTX, and of machine code.
const PTX: u16 = 1;
const ELF: u16 = 2;
/// `flags` of what is compressed.
const LZ4: u64 = 0x2000;
const ZSTD: u64 = 0x8000;
/// Most bytes of an image.
const LARGEST: u64 = 256 << 20;

/// Why there is nothing to load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is no fatbin, or a broken one.
    Malformed(&'static str),
    /// It has no PTX for the device.
    NoPtx(String),
}

/// What an image is to run on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    /// Ten times the major compute capability, plus the minor.
    pub(crate) capability: u32,
    /// Whether PTX for a newer architecture will do: the CPU device knows no difference.
    pub(crate) newer: bool,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(why) => f.write_str(why),
            Self::NoPtx(what) => f.write_str(what),
        }
    }
}

/// One program of a container.
#[derive(Debug, Clone)]
pub(crate) struct Entry<'a> {
    kind: u16,
    architecture: u32,
    flags: u64,
    /// Bytes of the payload that count, 0 for all.
    compressed: u32,
    /// Bytes before the compression.
    size: u64,
    payload: Cow<'a, [u8]>,
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    field(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    field(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    field(bytes, at).map(u64::from_le_bytes)
}

/// Bytes of the container that begins so.
pub(crate) fn length(header: &[u8; HEADER]) -> Option<usize> {
    if u32_at(header, 0)? != MAGIC {
        return None;
    }
    let own = u64::from(u16_at(header, 6)?);
    let bytes = u64_at(header, 8)?.checked_add(own)?;
    let fits = own as usize >= HEADER && bytes <= isize::MAX as u64;
    fits.then_some(bytes as usize)
}

/// The entry at the start of `bytes`, and what follows it.
fn entry(bytes: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let own = u32_at(bytes, 4)? as usize;
    let payload = usize::try_from(u64_at(bytes, 8)?).ok()?;
    if own < ENTRY {
        return None;
    }
    let (payload, rest) = bytes.get(own..)?.split_at_checked(payload)?;
    let head = &bytes[..own];
    let entry = Entry {
        kind: u16_at(head, 0)?,
        architecture: u32_at(head, 28)?,
        flags: u64_at(head, 40)?,
        compressed: u32_at(head, 16)?,
        size: u64_at(head, 56).unwrap_or(0),
        payload: Cow::Borrowed(payload),
    };
    Some((entry, rest))
}

/// The entries of a container.
fn entries(container: &[u8]) -> Result<Vec<Entry<'_>>, Refusal> {
    let broken = || Refusal::Malformed("the fatbin's header is broken");
    let header = container.first_chunk::<HEADER>().ok_or_else(broken)?;
    let length = length(header).ok_or_else(broken)?;
    let own = usize::from(u16_at(header, 6).ok_or_else(broken)?);
    let mut rest = container.get(own..length).ok_or_else(broken)?;
    let mut found = Vec::new();
    while !rest.is_empty() {
        let cut = || Refusal::Malformed("an entry of the fatbin does not lie in it");
        let (entry, after) = entry(rest).ok_or_else(cut)?;
        found.push(entry);
        rest = after;
    }
    Ok(found)
}

impl Entry<'_> {
    /// Itself, with bytes of its own.
    pub(crate) fn owned(self) -> Entry<'static> {
        Entry {
            payload: Cow::Owned(self.payload.into_owned()),
            ..self
        }
    }

    /// The text of an entry that is PTX.
    pub(crate) fn text(&self) -> Result<Vec<u8>, Refusal> {
        let count = match self.compressed {
            0 => self.payload.len(),
            count => self.payload.len().min(count as usize),
        };
        let packed = &self.payload[..count];
        let broken = || Refusal::Malformed("compressed PTX of the fatbin does not unpack");
        if self.flags & (LZ4 | ZSTD) != 0 && self.size > LARGEST {
            return Err(Refusal::Malformed("PTX of the fatbin is too large"));
        }
        let mut text = if self.flags & LZ4 != 0 {
            // No byte of input makes more than 255 of output.
            if self.size > packed.len() as u64 * 255 {
                return Err(broken());
            }
            lz4_flex::block::decompress(packed, self.size as usize).map_err(|_| broken())?
        } else if self.flags & ZSTD != 0 {
            let decoder = ruzstd::decoding::StreamingDecoder::new(packed);
            let mut text = Vec::new();
            let decoder = decoder.map_err(|_| broken())?;
            let read = decoder.take(self.size).read_to_end(&mut text);
            read.map_err(|_| broken())?;
            text
        } else {
            self.payload.to_vec()
        };
        let end = text.iter().position(|byte| *byte == 0);
        text.truncate(end.unwrap_or(text.len()));
        Ok(text)
    }
}

/// The PTX of a container that suits a device best: the newest that is not newer than it; where
/// newer ones will do, else the oldest. It is not unpacked yet.
pub(crate) fn choose(container: &[u8], target: Target) -> Result<Entry<'_>, Refusal> {
    let entries = entries(container)?;
    let texts = || entries.iter().filter(|entry| entry.kind == PTX);
    let newest = texts()
        .filter(|entry| entry.architecture <= target.capability)
        .max_by_key(|entry| entry.architecture);
    let oldest = || texts().min_by_key(|entry| entry.architecture);
    match newest.or_else(|| target.newer.then(oldest).flatten()) {
        Some(best) => Ok(best.clone()),
        None => Err(Refusal::NoPtx(contents(&entries))),
    }
}

/// The text of [`choose`].
pub(crate) fn ptx(container: &[u8], target: Target) -> Result<Vec<u8>, Refusal> {
    choose(container, target)?.text()
}

/// The PTX of every container found in an object file or a library of such.
pub(crate) fn all_ptx(file: &[u8], target: Target) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut rest = file;
    while let Some(at) = rest.windows(4).position(|it| it == MAGIC.to_le_bytes()) {
        rest = &rest[at..];
        let header = rest.first_chunk::<HEADER>().and_then(length);
        let container = header.and_then(|length| rest.get(..length));
        found.extend(container.and_then(|it| ptx(it, target).ok()));
        rest = &rest[container.map_or(4, <[u8]>::len)..];
    }
    found
}

/// What a container has, in words.
fn contents(entries: &[Entry<'_>]) -> String {
    let names = entries.iter().filter_map(|entry| match entry.kind {
        PTX => Some(format!("PTX for sm_{}", entry.architecture)),
        ELF => Some(format!("machine code for sm_{}", entry.architecture)),
        _ => None,
    });
    let names: Vec<String> = names.collect();
    match names.is_empty() {
        true => "the fatbin has no program".into(),
        false => format!("the fatbin has {} only", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CPU: Target = Target {
        capability: 80,
        newer: true,
    };

    /// One entry as `fatbinary` lays it out.
    fn packed(kind: u16, architecture: u32, flags: u64, body: &[u8], size: usize) -> Vec<u8> {
        let padded = body.len().next_multiple_of(8);
        let mut bytes = vec![0; 64];
        bytes[0..2].copy_from_slice(&kind.to_le_bytes());
        bytes[2..4].copy_from_slice(&0x101_u16.to_le_bytes());
        bytes[4..8].copy_from_slice(&64_u32.to_le_bytes());
        bytes[8..16].copy_from_slice(&(padded as u64).to_le_bytes());
        if flags & (LZ4 | ZSTD) != 0 {
            bytes[16..20].copy_from_slice(&(body.len() as u32).to_le_bytes());
            bytes[56..64].copy_from_slice(&(size as u64).to_le_bytes());
        }
        bytes[28..32].copy_from_slice(&architecture.to_le_bytes());
        bytes[40..48].copy_from_slice(&flags.to_le_bytes());
        bytes.extend_from_slice(body);
        bytes.resize(64 + padded, 0);
        bytes
    }

    fn text_of(architecture: u32) -> Vec<u8> {
        let line = format!("\n// {}", "the same again ".repeat(40));
        format!(".version 8.0\n.target sm_{architecture}\n.address_size 64{line}\n\0").into_bytes()
    }

    fn plain(architecture: u32) -> Vec<u8> {
        let text = text_of(architecture);
        packed(PTX, architecture, 0x11, &text, text.len())
    }

    fn lz4(architecture: u32) -> Vec<u8> {
        let text = text_of(architecture);
        let body = lz4_flex::block::compress(&text);
        packed(PTX, architecture, 0x11 | LZ4, &body, text.len())
    }

    fn zstd(architecture: u32) -> Vec<u8> {
        use ruzstd::encoding::{CompressionLevel, compress_to_vec};
        let text = text_of(architecture);
        let body = compress_to_vec(&text[..], CompressionLevel::Fastest);
        packed(PTX, architecture, 0x11 | ZSTD, &body, text.len())
    }

    fn machine_code(architecture: u32) -> Vec<u8> {
        packed(ELF, architecture, 0x11, b"\x7fELF and more", 0)
    }

    fn container(entries: &[Vec<u8>]) -> Vec<u8> {
        let body = entries.concat();
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        bytes.extend_from_slice(&1_u16.to_le_bytes());
        bytes.extend_from_slice(&(HEADER as u16).to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
        bytes.extend(body);
        bytes
    }

    #[track_caller]
    fn chosen(entries: &[Vec<u8>], target: Target) -> u32 {
        let text = ptx(&container(entries), target).expect("PTX");
        let found = [50, 75, 80, 90, 100].into_iter().find(|architecture| {
            let whole = text_of(*architecture);
            text == whole[..whole.len() - 1]
        });
        found.expect("one of the texts, whole")
    }

    #[test]
    fn the_newest_that_is_not_too_new_is_taken_however_it_is_packed() {
        let all = [machine_code(80), plain(50), zstd(75), lz4(90), lz4(100)];
        assert_eq!(chosen(&all, CPU), 75);
        let of = |capability| Target {
            capability,
            newer: false,
        };
        assert_eq!(chosen(&all, of(70)), 50);
        assert_eq!(chosen(&all, of(90)), 90);
        assert_eq!(chosen(&all, of(120)), 100);
        assert_eq!(
            chosen(&[lz4(100), zstd(90)], CPU),
            90,
            "the oldest of newer ones"
        );
    }

    #[test]
    fn without_ptx_it_is_said_what_there_is() {
        let refused = |entries: &[Vec<u8>], target| ptx(&container(entries), target).unwrap_err();
        let code = [machine_code(75), machine_code(90)];
        let why = "the fatbin has machine code for sm_75, machine code for sm_90 only";
        assert_eq!(refused(&code, CPU), Refusal::NoPtx(why.into()));
        let gpu = Target {
            capability: 80,
            newer: false,
        };
        let why = "the fatbin has PTX for sm_90 only";
        assert_eq!(refused(&[zstd(90)], gpu), Refusal::NoPtx(why.into()));
        let why = "the fatbin has no program";
        assert_eq!(refused(&[], CPU), Refusal::NoPtx(why.into()));
    }

    #[test]
    fn containers_are_found_within_files() {
        let mut file = b"an object file ".to_vec();
        file.extend(container(&[machine_code(80), lz4(75)]));
        file.extend_from_slice(&MAGIC.to_le_bytes());
        file.extend_from_slice(b"that is none");
        file.extend(container(&[machine_code(80)]));
        file.extend(container(&[zstd(80)]));
        let texts = all_ptx(&file, CPU);
        assert_eq!(texts.len(), 2);
        assert!(text_of(75).starts_with(&texts[0]) && text_of(80).starts_with(&texts[1]));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_broken_is_refused(
            which in 0_usize..3,
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
            cut: prop::sample::Index,
        ) {
            let entry = [plain(80), lz4(80), zstd(80)][which].clone();
            let mut bytes = container(&[machine_code(75), entry]);
            let whole = bytes.len();
            for (at, value) in changes {
                bytes[at.index(whole)] ^= value;
            }
            let _ = ptx(&bytes, CPU);
            let _ = all_ptx(&bytes, CPU);
            bytes.truncate(cut.index(whole));
            let _ = ptx(&bytes, CPU);
            let _ = all_ptx(&bytes, CPU);
        }
    }
}
