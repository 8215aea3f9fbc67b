//! Metadata of images that compilers made, as needed by a loader and a driver's function attributes.

use std::path::Path;

use ptx::{EntryInfo, ModuleInfo};

fn corpus(name: &str) -> ModuleInfo {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/ptx");
    let image = std::fs::read(folder.join(name)).expect("an image of the corpus");
    ModuleInfo::parse(&image).expect("it is PTX")
}

fn entry<'m>(info: &'m ModuleInfo, name: &str) -> &'m EntryInfo {
    info.entry(name).expect("an entry of the image")
}

#[test]
fn functions_say_what_their_threads_take() {
    let info = corpus("nvrtc/language.ptx");
    assert_eq!((info.version, &info.target[0][..]), ((8, 8), "sm_75"));
    let caches = entry(&info, "caches");
    let limits = (caches.maxntid, caches.reqntid, caches.minnctapersm);
    assert_eq!(limits, (Some([64, 1, 1]), None, Some(2)));
    // .b32 %r<24> and .b64 %rd<20>.
    assert_eq!((caches.registers, caches.local_bytes), (24 + 2 * 20, 0));
    let generic = entry(&info, "generic");
    assert_eq!((generic.local_bytes, generic.static_shared), (16, 256));
    // Predicates take none; %SP and %SPL take two each.
    assert_eq!(generic.registers, 4 + 32 + 2 * 31);
    let locals = entry(&info, "locals");
    assert_eq!((locals.local_bytes, locals.registers), (192, 255));
    let activations = corpus("triton/activations.ptx");
    let activations = entry(&activations, "activations");
    assert_eq!(activations.reqntid, Some([128, 1, 1]));
    assert_eq!(activations.local_bytes, 28);
}

#[test]
fn parameters_of_every_kind_have_their_places() {
    let info = corpus("nvrtc/language.ptx");
    let structures = entry(&info, "structures");
    let places = structures.params.iter().map(|it| (it.offset, it.size));
    let wanted = [(0, 88), (88, 8), (96, 1), (112, 16), (128, 8), (136, 8)];
    assert_eq!(places.collect::<Vec<_>>(), wanted);
    assert_eq!(structures.param_bytes, 144);
}

#[test]
fn variables_are_listed_as_they_stand() {
    let info = corpus("nvrtc/language.ptx");
    let listed = |it: &ptx::GlobalInfo| (it.name.clone(), it.size, it.align, it.constant);
    let named: Vec<_> = info.globals[3..7].iter().map(listed).collect();
    let wanted = [
        ("coefficients", 32, 4, true),
        ("primes", 40, 4, true),
        ("counter", 4, 4, false),
        ("message", 14, 1, false),
    ];
    assert_eq!(
        named,
        wanted.map(|(name, a, b, c)| (name.to_owned(), a, b, c))
    );
}

#[test]
fn what_is_declared_and_defined_is_one_variable() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n
        .extern .global .align 4 .b8 late[];
        .const .b32 other;
        .visible .global .align 4 .b8 late[12];
        .visible .entry bounded() .maxnreg 40 { .reg .b64 %rd<99>; .reg .b128 %q<2>; ret; }
        .visible .entry wide() { .reg .v4 .f32 %v; .reg .b128 %q<2>; .reg .pred %p<7>; ret; }";
    let info = ModuleInfo::parse(text.as_bytes()).expect("PTX");
    let found: Vec<_> = info
        .globals
        .iter()
        .map(|it| (&it.name[..], it.size, it.external))
        .collect();
    assert_eq!(found, [("late", 12, false), ("other", 4, false)]);
    assert_eq!(entry(&info, "bounded").registers, 40);
    assert_eq!(entry(&info, "wide").registers, 4 + 2 * 4);
}

#[test]
fn a_target_above_the_device_is_named() {
    let above = |target: &str, compute| {
        let text = format!(".version 8.0\n.target {target}\n.address_size 64\n");
        let info = ModuleInfo::parse(text.as_bytes()).expect("it is PTX");
        info.target_above(compute).map(str::to_owned)
    };
    assert_eq!(above("sm_90a", (8, 0)), Some("sm_90a".into()));
    assert_eq!(above("sm_100, debug", (9, 0)), Some("sm_100".into()));
    assert_eq!(above("compute_86", (8, 0)), Some("compute_86".into()));
    for (target, compute) in [("sm_80", (8, 0)), ("sm_75", (8, 0)), ("sm_100", (12, 0))] {
        assert_eq!(above(target, compute), None, "{target}");
    }
}
