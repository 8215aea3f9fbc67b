use std::io::Cursor;

use proptest::prelude::*;

use super::*;

fn extents(file: &[u8]) -> std::io::Result<Vec<Extent>> {
    read_extents(&mut Cursor::new(file), file.len() as u64)
}

fn extent(name: &str, offset: u64, bytes: u64) -> Extent {
    Extent {
        name: name.into(),
        offset,
        bytes,
    }
}

fn safetensors_file() -> Vec<u8> {
    let head = r#"{"__metadata__":{"format":"pt"},"b":{"dtype":"F16","shape":[3],"data_offsets":[8,14]},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}}"#;
    let mut file = (head.len() as u64).to_le_bytes().to_vec();
    file.extend(head.as_bytes());
    file.extend([7; 14]);
    file
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

fn gguf_file() -> Vec<u8> {
    let mut file = b"GGUF".to_vec();
    file.extend(3_u32.to_le_bytes());
    file.extend(2_u64.to_le_bytes());
    file.extend(3_u64.to_le_bytes());
    // A text, an array of texts, the alignment.
    file.extend(
        [
            text("general.name"),
            8_u32.to_le_bytes().into(),
            text("tiny"),
        ]
        .concat(),
    );
    file.extend(
        [
            text("tokens"),
            9_u32.to_le_bytes().into(),
            8_u32.to_le_bytes().into(),
        ]
        .concat(),
    );
    file.extend(2_u64.to_le_bytes());
    file.extend([text("x"), text("yy")].concat());
    file.extend([text("general.alignment"), 4_u32.to_le_bytes().into()].concat());
    file.extend(64_u32.to_le_bytes());
    // Two blocks of 32 at 4 bits, and three numbers.
    for (name, shape, of, offset) in [("q", &[32_u64, 2][..], 2_u32, 0_u64), ("f", &[3], 0, 64)] {
        file.extend(text(name));
        file.extend((shape.len() as u32).to_le_bytes());
        shape
            .iter()
            .for_each(|size| file.extend(size.to_le_bytes()));
        file.extend(of.to_le_bytes());
        file.extend(offset.to_le_bytes());
    }
    file.resize(file.len().next_multiple_of(64) + 64 + 12, 7);
    file
}

#[test]
fn tensors_are_found_where_they_lie() {
    let file = safetensors_file();
    let start = file.len() as u64 - 14;
    let mut found = extents(&file).unwrap();
    found.sort_by_key(|extent| extent.offset);
    assert_eq!(found, [extent("a", start, 8), extent("b", start + 8, 6)]);
    let file = gguf_file();
    let start = file.len() as u64 - 76;
    let found = extents(&file).unwrap();
    assert_eq!(found, [extent("q", start, 36), extent("f", start + 64, 12)]);
}

#[test]
fn a_file_that_the_formats_own_library_writes_is_read() {
    use ::safetensors::tensor::{Dtype, TensorView, serialize};
    let bytes: Vec<u8> = (0..96).collect();
    let view = |of, shape: &[usize], range: std::ops::Range<usize>| {
        TensorView::new(of, shape.to_vec(), &bytes[range]).unwrap()
    };
    let tensors = [
        ("wide", view(Dtype::BF16, &[2, 8], 0..32)),
        ("deep", view(Dtype::F64, &[8], 32..96)),
    ];
    let file = serialize(tensors, None).unwrap();
    for extent in extents(&file).unwrap() {
        let there = &file[extent.offset as usize..][..extent.bytes as usize];
        let wanted = match &*extent.name {
            "wide" => &bytes[..32],
            "deep" => &bytes[32..],
            other => panic!("{other}"),
        };
        assert_eq!(there, wanted, "{}", extent.name);
    }
}

#[test]
fn what_is_no_file_of_weights_is_refused_with_the_reason() {
    let why = |file: &[u8]| extents(file).unwrap_err().to_string();
    assert!(why(b"PK\x03\x04 and so on, a checkpoint").contains("neither"));
    let mut long = safetensors_file();
    long.push(0);
    assert!(why(&long).contains("not as long as the file"));
    let mut old = gguf_file();
    old[4] = 1;
    assert!(why(&old).contains("version 1"));
    let cut = gguf_file();
    assert!(why(&cut[..cut.len() - 1]).contains("behind the file's end"));
    let empty = extents(&[]).unwrap_err();
    assert_eq!(empty.kind(), ErrorKind::UnexpectedEof);
}

proptest! {
    /// With any contents, a file is read in bounded memory and without a panic, and all found
    /// tensors lie within it.
    #[test]
    fn damaged_files_do_no_harm(
        gguf: bool,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        end in any::<prop::sample::Index>(),
        cut: bool,
    ) {
        let mut file = if gguf { gguf_file() } else { safetensors_file() };
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        if cut {
            file.truncate(end.index(file.len()));
        }
        if let Ok(found) = extents(&file) {
            for extent in found {
                prop_assert!(extent.offset + extent.bytes <= file.len() as u64);
            }
        }
    }
}
