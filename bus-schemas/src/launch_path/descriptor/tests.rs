//! Descriptors written and read.

use super::*;

fn launch(attributes: LaunchAttributes) -> Op {
    Op::Launch(Launch {
        module: 1,
        function: 2,
        grid: [6, 4, 2],
        block: [128, 1, 1],
        shared: 9,
        attributes,
    })
}

fn written(op: &Op, payload: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_descriptor(op, 5, payload, &mut bytes);
    assert_eq!(bytes.len(), DESCRIPTOR_BYTES);
    bytes
}

#[test]
fn a_launch_keeps_its_attributes_and_a_plain_one_its_bytes() {
    let some = LaunchAttributes {
        cluster: [2, 4, 1],
        cooperative: true,
        non_portable: true,
        tensor_maps: true,
    };
    let each = [
        some,
        LaunchAttributes {
            cluster: [0; 3],
            ..some
        },
        LaunchAttributes {
            tensor_maps: true,
            ..LaunchAttributes::default()
        },
    ];
    for attributes in each {
        let op = launch(attributes);
        let bytes = written(&op, 128);
        assert_eq!(bytes[1], 1);
        assert_eq!(read_descriptor(&bytes), Ok((op, 5, 128)));
    }
    assert_eq!(written(&launch(some), 0)[44..], [2, 4, 1, 7]);
    // A plain launch is as in earlier builds, which ignored the bytes after it.
    let plain = launch(LaunchAttributes::default());
    let mut bytes = written(&plain, 0);
    assert_eq!((bytes[1], &bytes[44..]), (0, &[0; 4][..]));
    bytes[44..].copy_from_slice(&[9; 4]);
    assert_eq!(read_descriptor(&bytes), Ok((plain, 5, 0)));
}

#[test]
fn an_unknown_attribute_is_refused() {
    let mut bytes = written(&launch(LaunchAttributes::default()), 0);
    bytes[1] = 1;
    bytes[47] = 8;
    assert!(read_descriptor(&bytes).is_err());
}

#[test]
fn what_is_moved_or_mapped_is_whole_units_of_2_mib() {
    const UNIT: u64 = limits::MAP_ALIGN;
    for (to, from, bytes) in [
        (UNIT, 4 * UNIT, 2 * UNIT),
        (UNIT + 256, 0, UNIT),
        (UNIT, 256, UNIT),
        (UNIT, 0, 256),
        (UNIT, 0, 0),
    ] {
        let fits = (to | from | bytes) % UNIT == 0 && bytes > 0;
        let moves = [false, true].map(|keep| Op::Move {
            to,
            from,
            bytes,
            keep,
        });
        for op in moves.into_iter().chain([Op::Map { to, from, bytes }]) {
            let read = read_descriptor(&written(&op, 0));
            assert_eq!(read.ok(), fits.then_some((op, 5, 0)), "{op:?}");
            assert!(read_descriptor(&written(&op, 1)).is_err());
        }
    }
}

#[test]
fn a_tensor_map_has_a_recipe_and_an_aligned_place() {
    let op = Op::TensorMap { address: 1 << 44 };
    assert_eq!(read_descriptor(&written(&op, 128)), Ok((op, 5, 128)));
    assert!(read_descriptor(&written(&op, 127)).is_err());
    let askew = Op::TensorMap { address: 32 };
    assert!(read_descriptor(&written(&askew, 128)).is_err());
}
