//! Containers as compilers make them, and broken ones.

use proptest::prelude::*;

use super::*;

/// A device that runs PTX only.
pub(crate) const CPU: Target = Target {
    capability: 80,
    newer: true,
    code: false,
    grids: false,
};

/// A GPU of this capability.
pub(crate) fn gpu(capability: u32) -> Target {
    Target {
        capability,
        newer: false,
        code: true,
        grids: false,
    }
}

/// An entry in the layout of `fatbinary`.
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

/// An entry with this text.
pub(crate) fn text(architecture: u32, text: &str) -> Vec<u8> {
    packed(PTX, architecture, 0x11, format!("{text}\0").as_bytes(), 0)
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

fn code_of(architecture: u32) -> Vec<u8> {
    let line = "as ever as ever".repeat(20);
    format!("\x7fELF for {architecture}\0{line}\0").into_bytes()
}

pub(crate) fn code(architecture: u32) -> Vec<u8> {
    packed(ELF, architecture, 0x11, &code_of(architecture), 0)
}

/// A compressed entry for one exact architecture.
fn specific(architecture: u32) -> Vec<u8> {
    let text = code_of(architecture);
    let body = lz4_flex::block::compress(&text);
    packed(ELF, architecture, 0x11 | LZ4 | SPECIFIC, &body, text.len())
}

pub(crate) fn container(entries: &[Vec<u8>]) -> Vec<u8> {
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
    let all = [code(80), plain(50), zstd(75), lz4(90), lz4(100)];
    assert_eq!(chosen(&all, CPU), 75);
    assert_eq!(chosen(&all, gpu(70)), 50);
    assert_eq!(chosen(&all, gpu(90)), 90);
    assert_eq!(chosen(&all, gpu(120)), 100);
    assert_eq!(
        chosen(&[lz4(100), zstd(90)], CPU),
        90,
        "the oldest of newer ones"
    );
}

#[test]
fn a_gpu_takes_the_newest_machine_code_that_runs_there_whole() {
    let all = [
        code(80),
        lz4(80),
        code(86),
        code(75),
        specific(90),
        code(90),
        code(100),
    ];
    let taken = |entries: &[Vec<u8>], target| {
        let container = container(entries);
        let entry = machine_code(&container, target).expect("a fatbin")?;
        let image = entry.image().expect("it unpacks");
        let whole = code_of(entry.architecture);
        // Uncompressed code is padded.
        assert!(image.starts_with(&whole) && image.len() < whole.len() + 8);
        Some((entry.architecture, entry.flags & SPECIFIC != 0))
    };
    let of = |capability| taken(&all, gpu(capability));
    assert_eq!(of(80), Some((80, false)));
    assert_eq!(of(86), Some((86, false)));
    assert_eq!(of(89), Some((86, false)));
    assert_eq!(of(90), Some((90, true)));
    assert_eq!(of(100), Some((100, false)));
    assert_eq!([of(70), of(120)], [None, None], "of another major");
    assert_eq!(taken(&all, CPU), None);
    assert_eq!(taken(&[specific(100)], gpu(103)), None);
    assert_eq!(taken(&[code(89)], gpu(86)), None, "above it");
}

#[test]
fn without_ptx_it_is_said_what_there_is() {
    let refused = |entries: &[Vec<u8>], target| ptx(&container(entries), target).unwrap_err();
    let code = [code(75), code(90)];
    let why = "the fatbin has machine code for sm_75, machine code for sm_90 only";
    assert_eq!(refused(&code, CPU), Refusal::NoPtx(why.into()));
    let why = "the fatbin has PTX for sm_90 only";
    assert_eq!(refused(&[zstd(90)], gpu(80)), Refusal::NoPtx(why.into()));
    let why = "the fatbin has no program";
    assert_eq!(refused(&[], CPU), Refusal::NoPtx(why.into()));
}

#[test]
fn containers_are_found_within_files() {
    let mut file = b"an object file ".to_vec();
    file.extend(container(&[code(80), lz4(75)]));
    file.extend_from_slice(&MAGIC.to_le_bytes());
    file.extend_from_slice(b"that is none");
    file.extend(container(&[code(80)]));
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
        let mut bytes = container(&[code(75), entry]);
        let whole = bytes.len();
        for (at, value) in changes {
            bytes[at.index(whole)] ^= value;
        }
        let _ = ptx(&bytes, CPU);
        let _ = all_ptx(&bytes, CPU);
        let _ = machine_code(&bytes, gpu(75)).map(|entry| entry.map(|entry| entry.image()));
        bytes.truncate(cut.index(whole));
        let _ = ptx(&bytes, CPU);
        let _ = all_ptx(&bytes, CPU);
    }
}
