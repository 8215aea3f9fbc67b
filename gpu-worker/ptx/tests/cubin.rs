//! The metadata of machine code: as the assembler reports it, and as the PTX source has it.

use std::path::Path;

use proptest::prelude::*;
use ptx::{EntryInfo, ModuleInfo, cubin_extent};

const FIXTURES: [(&str, &str); 3] = [
    ("shapes-sm_80.cubin", "shapes.ptx"),
    ("shapes-sm_100.cubin", "shapes.ptx"),
    ("wide-sm_90.cubin", "wide.ptx"),
];

fn file(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cubins");
    std::fs::read(folder.join(name)).expect("a fixture")
}

fn summary(name: &str) -> ModuleInfo {
    ModuleInfo::parse(&file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn entry<'m>(info: &'m ModuleInfo, name: &str) -> &'m EntryInfo {
    info.entry(name).expect("an entry of the image")
}

/// The facts that the text and the machine code have in common, by name.
fn common(info: &ModuleInfo) -> impl Ord + std::fmt::Debug + use<> {
    let entry = |it: &EntryInfo| {
        let params = it.params.iter().map(|param| (param.offset, param.size));
        let params: Vec<_> = params.collect();
        let limits = (it.maxntid, it.reqntid);
        (it.name.clone(), params, it.param_bytes, limits)
    };
    let mut entries: Vec<_> = info.entries.iter().map(entry).collect();
    let globals = info.globals.iter();
    let globals = globals.map(|it| (it.name.clone(), it.size, it.constant, it.external));
    let mut globals: Vec<_> = globals.collect();
    entries.sort();
    globals.sort();
    (entries, globals)
}

#[test]
fn machine_code_says_what_its_text_says() {
    for (cubin, text) in FIXTURES {
        assert_eq!(common(&summary(cubin)), common(&summary(text)), "{cubin}");
    }
}

#[test]
fn functions_have_what_the_assembler_reports() {
    for (cubin, registers) in [("shapes-sm_80.cubin", 8), ("shapes-sm_100.cubin", 10)] {
        let info = summary(cubin);
        let order = info.entries.iter().map(|entry| &entry.name[..]);
        // The order of the code, which the assembler reverses.
        assert_eq!(order.collect::<Vec<_>>(), ["exact", "bounded", "mixed"]);
        let of = |name| {
            let entry = entry(&info, name);
            (entry.registers, entry.static_shared, entry.local_bytes)
        };
        assert_eq!(of("exact"), (8, 0, 0), "{cubin}");
        assert_eq!(of("bounded"), (10, 192, 96), "{cubin}");
        assert_eq!(of("mixed"), (registers, 0, 0), "{cubin}");
    }
    let info = summary("wide-sm_90.cubin");
    let wide = entry(&info, "wide");
    assert_eq!((wide.registers, wide.param_bytes), (10, 4212));
}

#[test]
fn its_architecture_is_that_of_either_layout_of_the_flags() {
    let of = |name| {
        let info = summary(name);
        (info.target.clone(), info.architecture(), info.version)
    };
    assert_eq!(of(FIXTURES[0].0), (vec!["sm_80".into()], 80, (12, 9)));
    assert_eq!(of(FIXTURES[1].0), (vec!["sm_100".into()], 100, (13, 5)));
    assert_eq!(of(FIXTURES[2].0), (vec!["sm_90".into()], 90, (12, 9)));
}

#[test]
fn its_length_is_found_from_its_beginning() {
    for (name, _) in FIXTURES {
        let image = file(name);
        let mut behind = image.clone();
        behind.extend_from_slice(&[0x7f; 100]);
        let (mut known, mut asked) = (4, 0);
        while let Some(bytes) = cubin_extent(&behind[..known])
            && bytes > known as u64
        {
            known = usize::try_from(bytes).expect("a length");
            asked += 1;
        }
        assert_eq!((known, asked < 6), (image.len(), true), "{name}");
        assert_eq!(ModuleInfo::parse(&behind), ModuleInfo::parse(&image));
    }
    assert_eq!(cubin_extent(b".version 8.0"), None);
}

#[test]
fn what_is_no_machine_code_is_refused_without_a_line() {
    let why = |image: &[u8]| ModuleInfo::parse(image).expect_err("none").to_string();
    assert!(why(b"\x7fELF").starts_with("machine code: "));
    let mut image = file("shapes-sm_80.cubin");
    image.pop();
    assert_eq!(
        why(&image),
        "machine code: it ends before what it says it has"
    );
    // Machine code of x86-64.
    image[18] = 62;
    assert_eq!(why(&image), "an ELF file, but no machine code of a GPU");
}

#[test]
fn parameters_that_lie_in_one_another_are_refused() {
    let mut image = file("shapes-sm_80.cubin");
    // Parameter 1 of `bounded`, at 8: number, offset, an unknown word, size.
    let record = [1, 0, 8, 0, 0, 0xf0, 0x11, 0];
    let at = image.windows(8).position(|bytes| bytes == record);
    image[at.expect("its record") + 2] = 7;
    let why = ModuleInfo::parse(&image).expect_err("it does").to_string();
    let wanted = "machine code: kernel `bounded`: its parameters are not one behind the other";
    assert_eq!(why, wanted);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_changed_never_panics(
        which in 0_usize..3,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut: prop::sample::Index,
        headers: bool,
    ) {
        let mut image = file(FIXTURES[which].0);
        let whole = image.len();
        let table = u64::from_le_bytes(image[40..48].try_into().expect("eight bytes")) as usize;
        for (at, value) in changes {
            // The places with most of the facts: the file's header and those of its sections.
            let at = if headers { table + at.index(whole - table) } else { at.index(whole) };
            image[at] ^= value;
        }
        let info = ModuleInfo::parse(&image);
        if let Ok(info) = info {
            let bytes: usize = info.entries.iter().map(|entry| entry.name.len()).sum();
            prop_assert!(bytes <= 16 * whole);
        }
        image.truncate(cut.index(whole));
        let _ = ModuleInfo::parse(&image);
        let _ = cubin_extent(&image);
    }

    #[test]
    fn any_bytes_behind_a_header_never_panic(
        header in 16_usize..=64,
        bytes in prop::collection::vec(any::<u8>(), 0..2048),
    ) {
        let mut image = file(FIXTURES[0].0)[..header].to_vec();
        image.extend(bytes);
        let _ = ModuleInfo::parse(&image);
        let _ = cubin_extent(&image);
    }
}
