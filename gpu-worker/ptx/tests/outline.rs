//! Kernels cut out of images: each cut is an image that has its kernels as the whole image has them.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use proptest::prelude::*;
use ptx::{ModuleInfo, Outline, ParsedModule};

const HEAD: &str =
    "//\n// made by nobody\n//\n.version 8.0\n.target sm_80, debug\n.address_size 64\n";

/// Cuts a kernel out of a text. Returns the names in the cut, and the cut.
fn cut(text: &str, kernel: &str) -> (Vec<String>, String) {
    let outline = Outline::of(text).expect("an outline");
    let place = outline.find(kernel).expect("the kernel is there");
    let (kernels, image) = outline.cut(text, place).expect("a cut");
    let names = kernels
        .iter()
        .map(|at| outline.name(text, *at).expect("a name").to_owned());
    (names.collect(), image)
}

#[test]
fn a_cut_has_what_the_kernel_needs_and_nothing_else() {
    let text = format!(
        "{HEAD}
.file 1 \"a {{ brace.cu\"
.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
.global .align 1 .b8 $str[4] = {{37, 100, 10, 0}};
.visible .global .align 4 .u32 counter;
.const .align 4 .b8 table[8] = {{1, 2, 3, 4, 5, 6, 7, 8}};
.extern .shared .align 16 .b8 dynamic[];
.func (.param .b32 r) helper (.param .b32 x)
{{
    // a comment with a brace }} in it
    .reg .b32 %r<2>;
    ld.param.u32 %r0, [x];
    st.param.u32 [r], %r0;
    ret;
}}
.visible .entry alone (.param .u64 p) {{ ret; }}
.visible .entry printing () {{ .reg .b64 %d; mov.u64 %d, $str; mov.u64 %d, dynamic; ret; }}
.visible .entry also_printing () {{ .reg .b64 %d; mov.u64 %d, $str; ret; }}
.visible .entry counting () {{ .reg .b64 %d; mov.u64 %d, counter; ret; }}
.visible .entry calling ()
{{
    .reg .b32 %r;
    {{ .param .b32 a; .param .b32 b; st.param.b32 [a], 1; call (b), helper, (a); }}
    ret;
}}
.weak .entry counting_too () {{ .reg .b64 %d; mov.u64 %d, counter; mov.u64 %d, table; ret; }}
.section .debug_str {{ .b8 125 }}
"
    );
    let (names, image) = cut(&text, "alone");
    assert_eq!(names, ["alone"]);
    for other in [
        "printing",
        "helper",
        "counter",
        "$str",
        "debug_str",
        "dynamic",
    ] {
        assert!(!image.contains(other), "{image}");
    }
    let (names, image) = cut(&text, "printing");
    assert_eq!(names, ["printing"], "a text of the compiler's is no state");
    assert!(
        image.contains("$str[4]") && image.contains("dynamic"),
        "{image}"
    );
    assert_eq!(cut(&text, "calling").0, ["calling"]);
    assert!(cut(&text, "calling").1.contains("ld.param.u32 %r0"));
    // Both kernels use one variable, so they share one cut.
    assert_eq!(cut(&text, "counting").0, ["counting", "counting_too"]);
    assert_eq!(cut(&text, "counting").1, cut(&text, "counting_too").1);
    let outline = Outline::of(&text).expect("an outline");
    assert_eq!(outline.len(), 6);
    let (kernels, image) = outline.cut_with(&text, "table").expect("a cut");
    assert_eq!((kernels.len(), image), (2, cut(&text, "counting").1));
    for name in ["alone", "printing", "counting", "calling"] {
        let (_, image) = cut(&text, name);
        ModuleInfo::parse(image.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{image}"));
    }
}

#[test]
fn lines_keep_their_numbers() {
    let mut text = HEAD.to_owned();
    for kernel in 0..20 {
        let _ = write!(text, ".visible .entry k{kernel} ()\n{{\n    ret;\n}}\n\n");
    }
    for kernel in [0, 7, 19] {
        let (_, image) = cut(&text, &format!("k{kernel}"));
        let whole = ParsedModule::parse(&text).expect("it parses");
        let part = ParsedModule::parse(&image).expect("it parses");
        assert_eq!(part.functions.len(), 1);
        let line = part.functions[0].position.line;
        assert_eq!(line, whole.functions[kernel].position.line);
        assert_eq!(line as usize, 7 + 5 * kernel);
    }
}

#[test]
fn what_is_no_module_is_refused_with_its_place() {
    for text in [
        "hello",
        ".version 8.0\n.entry k () {",
        "/* never",
        ".func ();",
        ".global .u32 a, b;",
    ] {
        assert!(Outline::of(text).is_err(), "{text}");
    }
    let error = Outline::of(".version 8.0\n  }").expect_err("no directive");
    assert_eq!((error.line, error.column), (2, 3));
}

/// A module of kernels, functions and variables that name each other by the lists.
fn module(kernels: &[(Vec<usize>, Vec<usize>)], functions: &[(Vec<usize>, Vec<usize>)]) -> String {
    let mut text = HEAD.to_owned();
    for variable in 0..4 {
        let _ = writeln!(text, ".visible .global .align 8 .u64 v{variable};");
    }
    let body = |(calls, names): &(Vec<usize>, Vec<usize>), most: usize| {
        let mut body = ".reg .b64 %d;".to_owned();
        for variable in names {
            let _ = write!(body, " mov.u64 %d, v{variable};");
        }
        for function in calls.iter().filter(|function| **function < most) {
            let _ = write!(body, " call f{function};");
        }
        body + " ret;"
    };
    // A function calls those before it.
    for (at, function) in functions.iter().enumerate() {
        let _ = writeln!(text, ".func f{at} ()\n{{ {} }}", body(function, at));
    }
    for (at, kernel) in kernels.iter().enumerate() {
        let body = body(kernel, functions.len());
        let _ = writeln!(
            text,
            ".visible .entry k{at} (.param .u32 a{at})\n{{ {body} }}"
        );
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cuts_are_images_and_share_no_variable(
        kernels in prop::collection::vec(
            (prop::collection::vec(0_usize..5, 0..3), prop::collection::vec(0_usize..4, 0..2)), 1..8),
        functions in prop::collection::vec(
            (prop::collection::vec(0_usize..5, 0..2), prop::collection::vec(0_usize..4, 0..2)), 5..6),
    ) {
        let text = module(&kernels, &functions);
        let whole = ModuleInfo::parse(text.as_bytes()).expect("it parses");
        let mut cuts: Vec<(BTreeSet<String>, ModuleInfo)> = Vec::new();
        for kernel in 0..kernels.len() {
            let (names, image) = cut(&text, &format!("k{kernel}"));
            let info = ModuleInfo::parse(image.as_bytes()).expect("a cut parses");
            let own: Vec<_> = info.entries.iter().map(|entry| entry.name.clone()).collect();
            prop_assert_eq!(&own, &names);
            let name = format!("k{kernel}");
            prop_assert!(names.contains(&name), "the kernel itself");
            for entry in &info.entries {
                prop_assert_eq!(Some(entry), whole.entry(&entry.name));
            }
            cuts.push((names.into_iter().collect(), info));
        }
        for (names, info) in &cuts {
            for (others, other) in &cuts {
                if names == others {
                    prop_assert_eq!(info, other);
                    continue;
                }
                prop_assert!(names.is_disjoint(others), "{names:?} and {others:?}");
                for variable in &info.globals {
                    prop_assert!(!other.globals.contains(variable), "{}", variable.name);
                }
            }
        }
    }

    #[test]
    fn any_text_ends(text in "[.a-z{}()\"/#*;, \n0-9=]{0,200}") {
        let _ = Outline::of(&text);
        let _ = Outline::of(&format!("{HEAD}{text}"));
    }
}

#[test]
fn a_cut_with_lines_of_the_source_has_its_files() {
    let text = format!(
        "{HEAD}.file 1 \"a.cu\"\n.entry one()\n{{\nret;\n}}\n.entry two()\n{{\n.loc 2 8 1\nret;\n}}\n.file 2 \"b.cu\"\n"
    );
    let (_, one) = cut(&text, "one");
    assert!(!one.contains(".file"), "{one}");
    let (_, two) = cut(&text, "two");
    let module = ParsedModule::parse(&two).expect("a module");
    let wanted = ParsedModule::parse(&text).expect("a module");
    let line = 1 + text[..text.find(".loc").expect("a line")].lines().count() as u32;
    assert_eq!(module.lines.find(line), Some(("b.cu", 8)), "{two}");
    assert_eq!(wanted.lines.find(line), Some(("b.cu", 8)));
}
