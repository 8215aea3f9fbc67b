//! Fatbins: containers of one program for several architectures, as machine code and as PTX.
//!
//! A container has a header of 16 bytes: magic, version and header size (16 bits each), and the
//! number of bytes that follow (64 bits). Entries follow, each with a header that gives its own
//! size, and a payload. The header of an entry has these fields:
//!
//! - at 0 the kind (16 bits), at 4 the header's size
//! - at 8 the payload's size (64 bits), at 16 the size of the compressed data in it
//! - at 28 the architecture, at 40 flags (64 bits)
//! - at 56 the size before compression (64 bits)
//!
//! All is little-endian.

use std::borrow::Cow;
use std::fmt;
use std::io::Read;

/// Magic number of a container.
pub(crate) const MAGIC: u32 = 0xba55_ed50;
/// Magic number of the structure that points to a container.
pub(crate) const WRAPPER: u32 = 0x4662_43b1;

/// Bytes of a container's header.
pub(crate) const HEADER: usize = 16;
/// Bytes of an entry's header up to the end of its flags: the minimum.
const ENTRY: usize = 48;
/// `kind` of PTX, and of machine code.
const PTX: u16 = 1;
const ELF: u16 = 2;
/// `flags` of compressed payloads.
const LZ4: u64 = 0x2000;
const ZSTD: u64 = 0x8000;
/// `flags` of machine code that uses features of one exact architecture: that for `sm_90a`.
const SPECIFIC: u64 = 0x10_0000;
/// Maximum bytes of an image.
const LARGEST: u64 = 256 << 20;

/// The reason why an image cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is not a fatbin, or it is broken.
    Malformed(&'static str),
    /// It has no PTX for the device.
    NoPtx(String),
}

/// The device that an image is to run on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    /// Ten times the major compute capability, plus the minor.
    pub(crate) capability: u32,
    /// True if PTX for a newer architecture is accepted: the CPU device runs any.
    pub(crate) newer: bool,
    /// True if machine code is accepted: the device is a GPU.
    pub(crate) code: bool,
    /// True if machine code may wait for its whole grid: the device's worker launches it that way.
    pub(crate) grids: bool,
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
    /// Bytes of the payload that are compressed data; 0 if the whole payload counts.
    compressed: u32,
    /// Bytes before compression.
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

/// Bytes of the container that begins with this header.
pub(crate) fn length(header: &[u8; HEADER]) -> Option<usize> {
    if u32_at(header, 0)? != MAGIC {
        return None;
    }
    let own = u64::from(u16_at(header, 6)?);
    let bytes = u64_at(header, 8)?.checked_add(own)?;
    let fits = own as usize >= HEADER && bytes <= isize::MAX as u64;
    fits.then_some(bytes as usize)
}

/// Splits off the entry at the start of `bytes`.
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
    /// Copies the payload.
    pub(crate) fn owned(self) -> Entry<'static> {
        Entry {
            payload: Cow::Owned(self.payload.into_owned()),
            ..self
        }
    }

    /// True if this is machine code that runs on a device: for the same major architecture, and a
    /// minor one that is not above the device's.
    fn runs_on(&self, target: Target) -> bool {
        self.kind == ELF
            && self.architecture / 10 == target.capability / 10
            && match self.flags & SPECIFIC {
                0 => self.architecture <= target.capability,
                _ => self.architecture == target.capability,
            }
    }

    /// The unpacked program: a text without the bytes behind its end, or machine code.
    pub(crate) fn image(&self) -> Result<Vec<u8>, Refusal> {
        let count = match self.compressed {
            0 => self.payload.len(),
            count => self.payload.len().min(count as usize),
        };
        let packed = &self.payload[..count];
        let broken = || Refusal::Malformed("a compressed program of the fatbin does not unpack");
        if self.flags & (LZ4 | ZSTD) != 0 && self.size > LARGEST {
            return Err(Refusal::Malformed("a program of the fatbin is too large"));
        }
        let mut image = if self.flags & LZ4 != 0 {
            // One byte of input makes at most 255 bytes of output.
            if self.size > packed.len() as u64 * 255 {
                return Err(broken());
            }
            lz4_flex::block::decompress(packed, self.size as usize).map_err(|_| broken())?
        } else if self.flags & ZSTD != 0 {
            let decoder = ruzstd::decoding::StreamingDecoder::new(packed);
            let mut image = Vec::new();
            let decoder = decoder.map_err(|_| broken())?;
            let read = decoder.take(self.size).read_to_end(&mut image);
            read.map_err(|_| broken())?;
            image
        } else {
            self.payload.to_vec()
        };
        if self.kind == PTX {
            let end = image.iter().position(|byte| *byte == 0);
            image.truncate(end.unwrap_or(image.len()));
        }
        Ok(image)
    }
}

/// The machine code of a container that suits a device best: the newest that runs there. It is
/// still packed.
pub(crate) fn machine_code(container: &[u8], target: Target) -> Result<Option<Entry<'_>>, Refusal> {
    if !target.code {
        return Ok(None);
    }
    let entries = entries(container)?.into_iter();
    let suited = entries.filter(|entry| entry.runs_on(target));
    Ok(suited.max_by_key(|entry| (entry.architecture, entry.flags & SPECIFIC)))
}

/// The PTX of a container that suits a device best: the newest that is not newer than the device.
/// If newer ones are accepted, the oldest of them otherwise. It is still packed.
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
    choose(container, target)?.image()
}

/// The PTX of every container found in an object file or library.
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

/// The contents of a container, in words.
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
pub(crate) mod tests;
