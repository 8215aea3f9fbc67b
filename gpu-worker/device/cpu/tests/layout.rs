//! Offsets of variables in shared memory and in the session's memory. They are compared with rules
//! that are applied to the text here, and with an assembler's sizes (`tests/corpus/shared.txt`).

mod launch;

use device_cpu::{EngineConfig, Grid, Instance, Memory, Program};
use launch::{BASE, launch};
use ptx::{ModuleInfo, ParsedModule};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// A variable declared by a line of text.
#[derive(Clone, Debug)]
struct Declared {
    name: String,
    align: u64,
    /// 0 for an unsized array.
    bytes: u64,
}

/// The declaration of a space in a line, if there is one.
fn declared(line: &str, space: &str) -> Option<Declared> {
    let (head, _) = line.split_once([';', '=']).unwrap_or((line, ""));
    let mut words = head.split_whitespace().peekable();
    while words
        .next_if(|it| [".visible", ".extern", ".weak"].contains(it))
        .is_some()
    {}
    words.next_if_eq(&space)?;
    let mut align = None;
    if words.next_if_eq(&".align").is_some() {
        align = words.next()?.parse().ok();
    }
    let element: u64 = match words
        .next()?
        .trim_start_matches(|it: char| !it.is_ascii_digit())
    {
        "8" => 1,
        "16" => 2,
        "32" => 4,
        "64" => 8,
        other => panic!("{line}: {other}"),
    };
    let rest = words.next()?;
    let (name, sizes) = rest.split_once('[').unwrap_or((rest, "1]"));
    let sizes = sizes.trim_end_matches(']').split("][");
    let count = sizes.map(|size| size.parse().unwrap_or(0)).product::<u64>();
    Some(Declared {
        name: name.to_owned(),
        align: align.unwrap_or(element),
        bytes: element * count,
    })
}

/// The declarations of a module's scope, one for each name, and those in the body of each entry.
/// The corpus has one per line.
fn scan(text: &str, space: &str) -> (Vec<Declared>, BTreeMap<String, Vec<Declared>>) {
    let (mut module, mut bodies): (Vec<Declared>, BTreeMap<_, Vec<_>>) = Default::default();
    let (mut within, mut depth) = (None, 0_usize);
    for line in text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default().trim())
    {
        if depth == 0
            && let Some((_, entry)) = line.split_once(".entry ")
        {
            let name = entry.split(['(', ' ']).next().unwrap_or_default();
            within = Some(name.to_owned());
        } else if depth == 0 && line.contains(".func") {
            within = None;
        }
        match (declared(line, space), &within) {
            (Some(new), _) if depth == 0 => {
                if module.iter().all(|known| known.name != new.name) {
                    module.push(new);
                }
            }
            (Some(new), Some(entry)) => bodies.entry(entry.clone()).or_default().push(new),
            (Some(new), None) => panic!("{} is a function's own", new.name),
            (None, _) => {}
        }
        let braces = |brace| line.matches(brace).count();
        // An initial value has braces, too, but both on one line.
        depth = depth + braces('{') - braces('}');
    }
    (module, bodies)
}

/// Places variables one behind the other, each at its alignment; also returns the end.
fn placed<'a>(list: impl Iterator<Item = &'a Declared>, begin: u64) -> (Vec<(&'a str, u64)>, u64) {
    let (mut places, mut end) = (Vec::new(), begin);
    for it in list.filter(|it| it.bytes > 0) {
        end = end.next_multiple_of(it.align);
        places.push((it.name.as_str(), end));
        end += it.bytes;
    }
    (places, end)
}

/// Alignment of the size of static memory; dynamic memory begins at its end.
fn unit(module: &[Declared]) -> u64 {
    let dynamic = module.iter().filter(|it| it.bytes == 0);
    dynamic.map(|it| it.align.max(16)).max().unwrap_or(1)
}

/// The addresses of a module's shared variables, as an additional kernel sees them.
fn seen(text: &str, names: &[&str], dynamic: u32) -> Vec<u32> {
    let mut probe = String::from(
        "\n.visible .entry seen_by_a_probe(.param .u64 out) { .reg .b64 %o; .reg .b32 %a; ld.param.u64 %o, [out];",
    );
    for (at, name) in names.iter().enumerate() {
        let _ = write!(
            probe,
            " mov.u32 %a, {name}; st.global.u32 [%o+{}], %a;",
            4 * at
        );
    }
    let (head, rest) = text.split_at(text.find(".address_size").expect("a head"));
    let (size, rest) = rest.split_at(rest.find('\n').expect("a line"));
    let text = format!("{head}{size}{probe} ret; }}{rest}");
    let program = Program::build(&text).unwrap_or_else(|error| panic!("{error}"));
    let grid = Grid {
        shared: dynamic,
        ..Grid::flat(1, 1)
    };
    launch(
        &program,
        EngineConfig::default(),
        grid,
        vec![0; 4 * names.len()],
        &[],
    )
    .unwrap_or_else(|error| panic!("{error}"))
}

/// All modules of the corpus and of the other kernels.
fn corpus() -> Vec<(String, String)> {
    let (mut folders, mut found) = (
        vec!["tests/corpus/ptx".into(), PathBuf::from("tests/kernels")],
        Vec::new(),
    );
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join(&folder)).expect("a folder") {
            let path = folder.join(entry.expect("an entry").file_name());
            if root().join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "ptx") {
                let text = std::fs::read_to_string(root().join(&path)).expect("a text");
                found.push((path.display().to_string(), text));
            }
        }
    }
    assert!(found.len() > 80, "{}", found.len());
    found
}

/// Static shared bytes by an assembler, by file and entry.
fn recorded() -> BTreeMap<(String, String), u64> {
    let text = std::fs::read_to_string(root().join("tests/corpus/shared.txt")).expect("the record");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let row = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        let bytes = words[2].parse().expect("a number");
        ((words[0].to_owned(), words[1].to_owned()), bytes)
    };
    lines.map(row).collect()
}

#[test]
fn shared_variables_of_the_corpus_lie_where_an_assembler_has_room_for_them() {
    let (recorded, mut compared, mut same) = (recorded(), 0, 0);
    for (path, text) in corpus()
        .iter()
        .filter(|(_, text)| text.contains(".shared "))
    {
        let (module, bodies) = scan(text, ".shared");
        let (places, end) = placed(module.iter(), 0);
        let names: Vec<_> = places.iter().map(|(name, _)| *name).collect();
        if !names.is_empty() {
            let wanted: Vec<_> = places.iter().map(|(_, at)| *at as u32).collect();
            assert_eq!(seen(text, &names, 0), wanted, "{path}");
        }
        let info =
            ModuleInfo::of(&ParsedModule::parse(text).expect("it is parsed")).expect("it fits");
        for entry in &info.entries {
            let own = bodies.get(&entry.name).map_or(&[][..], Vec::as_slice);
            let (_, end) = placed(own.iter(), end);
            let all = end.next_multiple_of(unit(&module));
            assert_eq!(u64::from(entry.static_shared), all, "{path} {}", entry.name);
            // An assembler omits variables that a kernel does not name.
            let Some(assembled) = recorded.get(&(path.clone(), entry.name.clone())) else {
                continue;
            };
            assert!(
                *assembled <= all,
                "{path} {}: {assembled} and {all}",
                entry.name
            );
            let names_all = module.iter().all(|it| it.bytes == 0);
            assert!(*assembled == all || !names_all, "{path} {}", entry.name);
            compared += 1;
            same += usize::from(*assembled == all);
        }
    }
    assert_eq!((compared, recorded.len()), (recorded.len(), recorded.len()));
    assert!(
        same * 10 > compared * 8,
        "{same} of {compared} are the assembler's"
    );
}

#[test]
fn constant_and_global_variables_of_the_corpus_are_aligned_whole_and_apart() {
    let mut compared = 0;
    for (path, text) in corpus() {
        let listed = |space| scan(&text, space).0;
        let (constant, global) = (listed(".const"), listed(".global"));
        if constant.is_empty() && global.is_empty() {
            continue;
        }
        let program = Program::build(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut memory = Memory::new(BASE, 1 << 30, 1 << 30).expect("reserved");
        let instance = Instance::new(&program, &mut memory).expect("placed");
        let info =
            ModuleInfo::of(&ParsedModule::parse(&text).expect("it is parsed")).expect("it fits");
        let mut ends = BTreeMap::new();
        for (known, (address, bytes, writable)) in info.globals.iter().zip(instance.variables()) {
            let found = constant.iter().map(|it| (it, false));
            let mut found = found.chain(global.iter().map(|it| (it, true)));
            let Some((it, is_global)) = found.find(|(it, _)| it.name == known.name) else {
                continue;
            };
            assert_eq!(
                (bytes, writable),
                (it.bytes, is_global),
                "{path} {}",
                it.name
            );
            assert!(address.is_multiple_of(it.align), "{path} {}", it.name);
            assert!(
                (known.size, known.align) >= (bytes, it.align),
                "{path} {}",
                it.name
            );
            ends.insert(address, address + bytes);
            compared += 1;
        }
        let ends: Vec<_> = ends.into_iter().collect();
        assert!(ends.windows(2).all(|two| two[0].1 <= two[1].0), "{path}");
    }
    assert!(compared > 10, "{compared}");
}

const HEAD: &str = ".version 7.0\n.target sm_80\n.address_size 64\n";

/// Declarations, the examined names, their addresses, and the static bytes of a kernel. An
/// assembler (13.5.37, of CUDA 13.5) reserves the same bytes.
#[test]
fn declarations_take_the_room_that_an_assembler_gives_them() {
    type Case = (&'static str, &'static [&'static str], &'static [u32], u32);
    let cases: [Case; 9] = [
        (
            ".extern .shared .align 8 .b8 a[256];\n.extern .shared .align 8 .b8 b[128];\n",
            &["a", "b"],
            &[0, 256],
            384,
        ),
        (".extern .shared .align 8 .u32 a;\n", &["a"], &[0], 4),
        (
            ".extern .shared .align 4 .b8 a[64];\n.extern .shared .align 4 .b8 a[64];\n",
            &["a"],
            &[0],
            64,
        ),
        (
            ".extern .shared .align 4 .b8 a[64];\n.visible .shared .align 4 .b8 a[64];\n",
            &["a"],
            &[0],
            64,
        ),
        (
            ".extern .shared .align 4 .b8 a[64];\n.extern .shared .align 4 .b8 a[];\n",
            &["a"],
            &[0],
            64,
        ),
        (
            ".extern .shared .align 4 .b8 a[];\n.shared .align 4 .b8 c[20];\n",
            &["c", "a"],
            &[0, 32],
            32,
        ),
        (
            ".extern .shared .align 128 .b8 a[];\n.shared .align 4 .b8 c[20];\n",
            &["c", "a"],
            &[0, 128],
            128,
        ),
        (".shared .align 4 .b8 c[20];\n", &["c"], &[0], 20),
        (
            ".extern .shared .align 16 .b8 a[];\n.extern .shared .align 4 .b8 c[20];\n",
            &["c", "a"],
            &[0, 32],
            32,
        ),
    ];
    for (declarations, names, places, bytes) in cases {
        let text = format!("{HEAD}{declarations}.visible .entry k() {{ ret; }}\n");
        assert_eq!(seen(&text, names, 64), places, "{declarations}");
        let info =
            ModuleInfo::of(&ParsedModule::parse(&text).expect("it is parsed")).expect("it fits");
        assert_eq!(info.entries[0].static_shared, bytes, "{declarations}");
    }
}

#[test]
fn shared_arrays_with_a_size_hold_what_is_written_whatever_is_dynamic() {
    let text = format!(
        "{HEAD}.extern .shared .align 8 .b8 a[256];\n.extern .shared .align 8 .b8 b[128];\n\
        .visible .entry k(.param .u64 out) {{ .reg .b32 %r<4>; .reg .b64 %o; ld.param.u64 %o, [out];\n\
        mov.u32 %r0, a; mov.u32 %r1, b; st.shared.u32 [%r0], 7; st.shared.u32 [%r1], 9;\n\
        st.shared.u32 [%r1+124], 11; ld.shared.u32 %r2, [%r0]; st.global.u32 [%o], %r2;\n\
        ld.shared.u32 %r2, [%r1]; st.global.u32 [%o+4], %r2; ret; }}\n"
    );
    let program = Program::build(&text).unwrap_or_else(|error| panic!("{error}"));
    for shared in [0, 512] {
        let grid = Grid {
            shared,
            ..Grid::flat(1, 1)
        };
        let found: Vec<u32> = launch(&program, EngineConfig::default(), grid, vec![0; 8], &[])
            .unwrap_or_else(|error| panic!("{shared}: {error}"));
        assert_eq!(found, [7, 9], "{shared} dynamic bytes");
    }
}
