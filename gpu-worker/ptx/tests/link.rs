//! Linking: texts that must give an error, and the place of the error.

use ptx::{LinkImage, ParsedModule, link};

const HEAD: &str = ".version 8.3\n.target sm_80\n.address_size 64\n";

fn linked(texts: &[&str]) -> Result<String, String> {
    let texts: Vec<String> = texts.iter().map(|text| format!("{HEAD}{text}")).collect();
    let names = ["first", "second", "third"];
    let images: Vec<_> = names
        .iter()
        .zip(&texts)
        .map(|(name, text)| LinkImage {
            name,
            image: text.as_bytes(),
        })
        .collect();
    link(&images).map_err(|error| error.to_string())
}

#[test]
fn errors_name_image_line_and_column() {
    for (texts, wanted) in [
        (
            vec![
                ".visible .func f() { ret; }",
                "\n.visible .func f() { ret; }",
            ],
            "image `second`, line 5, column 16: `f` is defined twice: here and in image `first`, line 4, column 16",
        ),
        (
            vec![".visible .global .u32 x = 1;", ".visible .global .u32 x;"],
            "image `second`, line 4, column 23: `x` is defined twice",
        ),
        (
            vec![".extern .func f();\n.entry k() { call f; ret; }"],
            "image `first`, line 4, column 15: `f` is used here and defined in no image",
        ),
        (
            vec![".extern .global .u32 x;\n.global .u64 p = x;", ""],
            "image `first`, line 4, column 22: `x` is used here and defined in no image",
        ),
        (
            vec![
                ".extern .func f(.param .b32 a);",
                ".visible .func f() { ret; }",
            ],
            "image `first`, line 4, column 15: `f` is declared with other parameters",
        ),
        (
            vec![".extern .global .u32 f;", ".visible .func f() { ret; }"],
            "image `first`, line 4, column 22: `f` is declared as what its definition is not",
        ),
        (
            vec![".extern .const .u32 x;", ".visible .global .u32 x;"],
            "image `first`, line 4, column 21: `x` is declared in another space",
        ),
        (
            vec![".extern .global .u32 x[3];", ".visible .global .u32 x[4];"],
            "image `first`, line 4, column 22: `x` is declared with another size",
        ),
        (
            vec![
                ".extern .global .b8 x[];\n.func f() { .reg .b32 %r; ld.global.u32 %r, x[1]; ret; }",
                ".visible .global .u32 x[4];",
            ],
            "image `first`, line 4, column 21: `x` is declared with elements of another size",
        ),
        (
            vec!["", ".bogus"],
            "image `second`, line 4, column 1: `.bogus`",
        ),
    ] {
        let error = linked(&texts).expect_err(wanted);
        assert!(error.starts_with(wanted), "{error}\n{wanted}");
    }
    let narrow = LinkImage {
        name: "narrow",
        image: b".version 8.0\n.target sm_80\n.address_size 32\n",
    };
    let wide = LinkImage {
        name: "wide",
        image: HEAD.as_bytes(),
    };
    assert!(link(&[wide, narrow]).is_err());
}

#[test]
fn what_is_unused_or_provided_may_be_missing() {
    let text = linked(&[
        ".extern .func f();\n.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);",
        ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);",
    ])
    .expect("links");
    assert_eq!(text.matches("vprintf").count(), 1);
    assert!(!text.contains("f()"));
}

#[test]
fn weak_and_common_give_way() {
    let text = linked(&[
        ".weak .global .u32 x = 1;\n.common .global .align 4 .u32 c[2];\n.weak .func f() { trap; }",
        ".weak .global .u32 x = 2;\n.common .global .align 8 .u32 c[4];\n.visible .func f() { ret; }",
    ])
    .expect("links");
    assert!(
        text.contains("x = 1;") && !text.contains("x = 2;"),
        "{text}"
    );
    assert!(
        text.contains(".common .global .align 8 .u32 c[4];"),
        "{text}"
    );
    assert!(text.contains("ret;") && !text.contains("trap;"), "{text}");
    let module = ParsedModule::parse(&text).expect("PTX again");
    assert_eq!(
        module.functions.iter().filter(|f| f.body.is_some()).count(),
        1
    );
}

/// Variables come before variables with initial values that name them; cycles do not loop for ever.
#[test]
fn variables_are_ordered_by_their_initial_values() {
    let text = linked(&[
        ".extern .global .u64 b;\n.visible .global .u64 a[2] = {1, generic(b)+8};",
        ".visible .global .u64 b = 0xFF00(c);\n.visible .global .u64 c = b-4;",
    ])
    .or_else(|_| {
        linked(&[
            ".extern .global .u64 b;\n.visible .global .u64 a[2] = {1, generic(b)+8};",
            ".extern .global .u64 c;\n.visible .global .u64 b = c;",
            ".extern .global .u64 b;\n.visible .global .u64 c = b-4;",
        ])
    })
    .expect("links");
    let at = |needle: &str| {
        text.find(needle)
            .unwrap_or_else(|| panic!("{needle}: {text}"))
    };
    assert!(at("b = ") < at("a[2] = "), "{text}");
    assert!(ParsedModule::parse(&text).is_ok());
}

#[test]
fn names_that_images_keep_to_themselves_stay_apart() {
    let text = linked(&[
        ".global .u32 x = 1;\n.func f() { ret; }\n.entry k() { .reg .b64 a; mov.u64 a, x; f: call f; bra f; }",
        ".global .u32 x = 2;\n.func f() { trap; }\n.global .u64 x$image0 = x;",
    ])
    .expect("links");
    let module = ParsedModule::parse(&text).expect("PTX again");
    let mut names: Vec<_> = module.variables.iter().map(|v| v.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 3, "{text}");
    assert!(
        text.contains("x$image0_ = 1") && text.contains("x$image0 = x$image1"),
        "{text}"
    );
}

/// Compilers spell one signature in many ways.
#[test]
fn prototypes_may_differ_in_names_and_alignments() {
    let text = linked(&[
        ".extern .func (.param .b32 func_retval0) f(.param .align 8 .b8 f_param_0[8], .param .b32 f_param_1);
         .visible .entry k() { ret; }",
        ".visible .func (.param .b32 r) f(.param .b64 a, .param .align 4 .b32 b) { ret; }",
    ])
    .expect("links");
    assert!(ParsedModule::parse(&text).is_ok(), "{text}");
}

#[test]
fn barriers_of_a_grid_are_there_for_who_declares_them() {
    let uses = ".extern .func (.param .b64 func_retval0) cudaCGGetIntrinsicHandle(.param .b32 p);
        .extern .func (.param .b32 func_retval0) cudaCGSynchronize(.param .b64 p, .param .b32 q);
        .visible .entry k() { ret; }";
    let text = linked(&[uses, ".visible .entry l() { ret; }"]).expect("links");
    let module = ParsedModule::parse(&text).expect("PTX again");
    let bodies = module.functions.iter().filter(|it| it.body.is_some());
    assert_eq!(bodies.count(), 5, "{text}");
    // A program's own definition takes precedence.
    let own = ".visible .func (.param .b32 r) cudaCGSynchronize(.param .b64 a, .param .b32 b)
        { trap; ret; }";
    let text = linked(&[uses, own]).expect("links");
    assert!(text.contains("trap;"), "{text}");
    let without = linked(&[".visible .entry k() { ret; }"]).expect("links");
    assert!(!without.contains("cudaCG"), "{without}");
}

/// A module that declares a result which is not given finds zero; one that declares none does without.
#[test]
fn results_may_be_declared_by_one_side_only() {
    let text = linked(&[
        ".extern .func (.param .b64 func_retval0) f(.param .b32 p, .param .align 4 .b8 q[12]);
         .extern .func g();
         .visible .entry k() {
           .param .b64 r; .param .b32 a; .param .align 4 .b8 b[12];
           call (r), f, (a, b); call g; ret; }",
        ".visible .func f(.param .b32 x, .param .align 8 .b8 y[12]) { ret; }
         .visible .func (.param .align 8 .b8 z[16]) g() { ret; }",
        ".extern .func f(.param .b32 x, .param .align 4 .b8 y[12]);
         .visible .entry l() { .param .b32 a; .param .align 4 .b8 b[12]; call f, (a, b); ret; }",
    ])
    .expect("links");
    let module = ParsedModule::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert!(text.contains("call (r), f$image0, (a, b)"), "{text}");
    assert!(text.contains("call f, (to0, to1)"), "{text}");
    assert!(text.contains("call (from0), g;"), "{text}");
    let bodies = module.functions.iter().filter(|it| it.body.is_some());
    assert_eq!(bodies.count(), 6, "{text}");
}

/// Compilers declare a foreign array as bytes, whatever its elements are in the definition.
#[test]
fn elements_may_be_spelt_as_bytes() {
    let texts = [
        ".extern .global .align 8 .b8 table[];\n.extern .global .align 4 .b8 four[16];\n\
         .visible .entry k() { .reg .b64 %a; ld.global.u64 %a, [table+8]; mov.u64 %a, four; ret; }",
        ".visible .func f() { ret; }\n.visible .global .align 8 .u64 table[2] = {f, f};\n\
         .visible .global .align 4 .u32 four[4];",
    ];
    let linked = linked(&texts).expect("they fit");
    assert!(
        linked.contains("table[2]") && !linked.contains("table[]"),
        "{linked}"
    );
}

#[test]
fn lines_of_the_source_keep_their_files() {
    let first = ".file 1 \"a.cu\"\n.visible .func f()\n{\n.loc 1 7 3, function_name $L__x, inlined_at 1 2 3\nret;\n}";
    let second = ".extern .func f();\n.entry k()\n{\n.loc 2 9 1\ncall f;\n.loc 9 1 1\nret;\n}\n\
                  .file 1 \"unused.h\"\n.file 2 \"b.cu\"";
    let text = linked(&[first, second]).expect("they fit");
    let module = ParsedModule::parse(&text).expect("a module");
    let lines: Vec<_> = (1..).zip(text.lines()).collect();
    let at = |words: &str| {
        let (line, _) = lines.iter().rfind(|(_, it)| it.contains(words))?;
        module.lines.find(*line)
    };
    assert_eq!(at("call f"), Some(("b.cu", 9)), "{text}");
    let (line, _) = lines.iter().find(|(_, it)| *it == "ret;").expect("f");
    assert_eq!(module.lines.find(*line), Some(("a.cu", 7)), "{text}");
    assert!(!text.contains("$L__x"), "{text}");
}
