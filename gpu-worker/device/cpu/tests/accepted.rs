//! Forms that the assembler of CUDA 12.9 accepted for `sm_90a`. Each is built, or rejected with the
//! name of the missing feature; none is a syntax error.
//!
//! `forms.txt` has an instruction per line, or several, for a body with registers of every kind.
//! `modules.txt` has text at module scope, a module per line. Both were found by giving the
//! assembler every choice of modifiers that the ISA's pages name.

use device_cpu::Program;
use ptx::ModuleInfo;

const HEAD: &str = ".version 8.8\n.target sm_90a\n.address_size 64\n";

/// Registers of every kind, and other names that forms use.
const DECLARED: &str = ".reg .pred p,q,p2,q2; .reg .b8 c,c1;
    .reg .b16 h,h1,h2,h3,h4,h5,h6,h7; .reg .b32 r,r0,r1,r2,r3,r4,r5,r6,r7,r8,r9;
    .reg .b64 d,d0,d1,d2,d3,d4,d5,d6,d7; .reg .f32 f,f0,f1,f2,f3; .reg .f64 e,e0;
    .reg .b128 w,w0,w1,w2,w3,w4,w5,w6,w7;";

/// Words in the error of a text that needs another device, or other images.
const WORDS: [&str; 2] = ["not supported", "link the image"];

/// True if the text builds. Records errors without these words.
fn check(text: &str, line: &str, wrong: &mut Vec<String>) -> bool {
    let parsed = ModuleInfo::parse(text.as_bytes()).map_err(|error| error.to_string());
    let built = parsed.and_then(|_| Program::build(text).map_err(|error| error.to_string()));
    let Err(error) = built else {
        return true;
    };
    if !WORDS.iter().any(|words| error.contains(words)) {
        wrong.push(format!("{line}: {error}"));
    }
    false
}

/// Number of forms that build, number of all, and the forms with other errors.
fn all(list: &str, module: impl Fn(&str) -> String) -> (usize, usize, Vec<String>) {
    let mut wrong = Vec::new();
    let lines: Vec<&str> = list.lines().filter(|line| !line.is_empty()).collect();
    let run = lines
        .iter()
        .filter(|line| check(&module(line), line, &mut wrong))
        .count();
    (run, lines.len(), wrong)
}

#[test]
fn no_instruction_that_the_assembler_accepts_is_an_error_of_the_text() {
    let list = include_str!("accepted/forms.txt");
    let module = |form: &str| {
        format!(
            "{HEAD}.global .texref tx; .global .surfref sf; .global .u32 ga[8];
            .visible .entry k(.param .u64 out) {{ {DECLARED}\n{form}\nret; }}"
        )
    };
    let (run, count, wrong) = all(list, module);
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    println!("{run} of {count} run");
}

#[test]
fn no_module_that_the_assembler_accepts_is_an_error_of_the_text() {
    let list = include_str!("accepted/modules.txt");
    let (run, count, wrong) = all(list, |text| format!("{HEAD}{text}\n"));
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    println!("{run} of {count} run");
}
